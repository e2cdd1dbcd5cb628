#include "pool/registry.h"

#include <array>

namespace cistern::pool::registry {
namespace {

struct Node : ContextPool {
    using ContextPool::ContextPool;
    std::atomic<Node*> next{nullptr};
    Node* next_ended = nullptr;
};

/// A green context's handle and whether it still is one. Nodes are never freed.
struct Green {
    CUcontext context;
    std::atomic<bool> live{true};
    Green* next = nullptr;
};

// Lists are only pushed to and unlinked from under the mutex; readers follow next pointers without it. An unlinked node
// keeps its next pointer and its memory, so a reader on it goes on unharmed.
std::mutex changing;
std::atomic<Node*> pools{nullptr};
Node* ended = nullptr; ///< pools of contexts that are gone, guarded by changing
std::atomic<Green*> greens{nullptr};
std::atomic<driver::DeviceMask> devices{0};

/// Bumped when a handle may have changed its meaning: invalidates the per-thread memory below.
std::atomic<uint64_t> generation{1};
struct LastSeen {
    CUcontext context;
    ContextPool* pool;
    uint64_t generation;
};
thread_local LastSeen last_seen{};

// One entry per 64 GiB of the 47-bit user address space; reservations are whole entries.
constexpr int entry_bits = 36;
constexpr size_t entries = DeviceMemory::mappable_end >> entry_bits;
static_assert(DeviceMemory::reservation_unit == size_t{1} << entry_bits);
std::array<std::atomic<ContextPool*>, entries> address_map{};

ContextPool* create(CUcontext context) {
    CUdevice device = 0;
    {
        const driver::Current current(context);
        if (!current || driver::current_device(&device) != CUDA_SUCCESS) return nullptr;
    }
    const bool primary = driver::primary_context(device) == context;
    context_on_device(device);
    const std::lock_guard lock(changing);
    if (ContextPool* known = find(context)) return known;
    auto* node = new Node(context, device, primary);
    node->next.store(pools.load());
    pools.store(node);
    return node;
}

/// Handle whose pool serves `context`: its own, or the primary's if it is a green one. Null if that is not to be had.
CUcontext serving(CUcontext context) {
    if (!is_green(context)) return context;
    CUdevice device = 0;
    const driver::Current current(context);
    if (!current || driver::current_device(&device) != CUDA_SUCCESS) return nullptr;
    return driver::primary_context(device);
}

} // namespace

ContextPool* first() noexcept { return pools.load(std::memory_order_acquire); }

ContextPool* next(ContextPool* pool) noexcept { return static_cast<Node*>(pool)->next.load(std::memory_order_acquire); }

ContextPool* find(CUcontext context) noexcept {
    for (ContextPool* pool = first(); pool; pool = next(pool))
        if (pool->context() == context && !pool->gone()) return pool;
    return nullptr;
}

ContextPool* find_or_create(CUcontext context) {
    const uint64_t now = generation.load(std::memory_order_acquire);
    if (last_seen.context == context && last_seen.generation == now) return last_seen.pool;
    const CUcontext handle = serving(context);
    ContextPool* pool = handle ? find(handle) : nullptr;
    if (!pool && handle) pool = create(handle);
    if (pool) last_seen = {context, pool, now};
    return pool;
}

ContextPool* find_primary(CUdevice device) noexcept {
    for (ContextPool* pool = first(); pool; pool = next(pool))
        if (pool->primary() && pool->device() == device && !pool->gone()) return pool;
    return nullptr;
}

ContextPool* owner_of(Address address) noexcept {
    const Address entry = address >> entry_bits;
    return entry < entries ? address_map[entry].load(std::memory_order_acquire) : nullptr;
}

void claim_addresses(Address base, size_t bytes, ContextPool* pool) noexcept {
    const size_t first_entry = base >> entry_bits;
    for (size_t i = 0; i < bytes >> entry_bits && first_entry + i < entries; ++i)
        address_map[first_entry + i].store(pool, std::memory_order_release);
}

void note_green(CUcontext context) {
    const std::lock_guard lock(changing);
    if (is_green(context)) return; // another look at the same one
    auto* green = new Green{context, {true}, greens.load()};
    greens.store(green);
    generation.fetch_add(1);
}

bool is_green(CUcontext context) noexcept {
    for (Green* green = greens.load(std::memory_order_acquire); green; green = green->next)
        if (green->context == context && green->live.load(std::memory_order_relaxed)) return true;
    return false;
}

void forget_green(CUcontext context) noexcept {
    for (Green* green = greens.load(std::memory_order_acquire); green; green = green->next)
        if (green->context == context && green->live.exchange(false)) generation.fetch_add(1);
}

void forget(ContextPool* pool) noexcept {
    const std::lock_guard lock(changing);
    std::atomic<Node*>* link = &pools;
    while (Node* node = link->load()) {
        if (node != pool) {
            link = &node->next;
            continue;
        }
        link->store(node->next.load());
        node->next_ended = ended;
        ended = node;
    }
    generation.fetch_add(1);
}

driver::DeviceMask peers_with_contexts(CUdevice owner) noexcept {
    driver::DeviceMask peers = 0;
    for (CUdevice device = 0; device < 64; ++device) {
        const driver::DeviceMask bit = driver::DeviceMask{1} << device;
        if (device != owner && (devices.load() & bit) && driver::can_access_peer(device, owner)) peers |= bit;
    }
    return peers;
}

void context_on_device(CUdevice device) {
    if (device < 0 || device >= 64) return;
    const driver::DeviceMask bit = driver::DeviceMask{1} << device;
    if (devices.load() & bit) return;
    devices.fetch_or(bit);
    for_each([&](ContextPool& pool) {
        if (pool.device() != device && driver::can_access_peer(device, pool.device())) pool.extend_access(bit);
    });
}

} // namespace cistern::pool::registry
