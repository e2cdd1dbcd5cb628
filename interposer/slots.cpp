#include "interposer/slots.h"

#include "interposer/hooks.h"

#include <algorithm>
#include <array>
#include <dlfcn.h>
#include <iterator>

namespace cistern::interposer {
namespace {

constexpr SlotInfo infos[slot_count] = {
#define X(name, base, since, until, stream, ...) {"cu" #name, base, since, until, StreamKind::stream},
    CISTERN_HOOKS(X)
#undef X
};

using AnyFunction = void (*)();

const AnyFunction hooks[slot_count] = {
#define X(name, ...) reinterpret_cast<AnyFunction>(&hook_##name),
    CISTERN_HOOKS(X)
#undef X
};

constinit SlotState states[slot_count];
constinit Doors door_counts;

constinit std::atomic<Dlsym> real{nullptr};
constinit std::atomic<Dlsym> following{nullptr};
constinit std::atomic<void*> driver_handle{nullptr};

constexpr uint32_t hash_of(const char* name) noexcept {
    uint32_t h = 2166136261U;
    for (; *name != '\0'; ++name) {
        h = (h ^ static_cast<unsigned char>(*name)) * 16777619U;
    }
    return h ^ (h >> 15);
}

constexpr size_t index_size = 256;

/// Open addressing by exported name; an entry is slot + 1, 0 is empty.
constexpr std::array<unsigned char, index_size> make_index() noexcept {
    std::array<unsigned char, index_size> index{};
    for (size_t s = 0; s < slot_count; ++s) {
        size_t at = hash_of(infos[s].exported) % index_size;
        while (index[at] != 0) {
            at = (at + 1) % index_size;
        }
        index[at] = static_cast<unsigned char>(s + 1);
    }
    return index;
}
constexpr std::array<unsigned char, index_size> export_index = make_index();

bool same(const char* a, const char* b) noexcept {
    while (*a != '\0' && *a == *b) {
        ++a;
        ++b;
    }
    return *a == *b;
}

/// dlsym's own version symbols: 2.34 moved it from libdl to libc and gave it a new version on old architectures. dlvsym takes
/// nothing but a symbol of that version, so hooks of others are passed by.
Dlsym find_real_dlsym() noexcept {
#if defined(__x86_64__)
    static constexpr const char* versions[] = {"GLIBC_2.2.5", "GLIBC_2.34"};
#elif defined(__aarch64__)
    static constexpr const char* versions[] = {"GLIBC_2.17", "GLIBC_2.34"};
#else
#error "no dlsym stub for this architecture"
#endif
    for (const char* version : versions) {
        if (void* found = dlvsym(RTLD_NEXT, "dlsym", version)) {
            return reinterpret_cast<Dlsym>(found);
        }
    }
    return nullptr;
}

/// The caller of the real dlsym decides what RTLD_NEXT means, so this call must not become a jump.
__attribute__((noinline)) void* symbol_after_us(const char* name) noexcept {
    const Dlsym lookup = real_dlsym();
    void* found = lookup == nullptr ? nullptr : lookup(RTLD_NEXT, name);
    asm volatile("" : "+r"(found) : : "memory");
    return found;
}

/// Wrappers and mocks export a few names of the driver; a driver, or a tool's shim of one, has these in one object.
bool is_driver(void* handle, Dlsym lookup) noexcept {
    const void* object = nullptr;
    for (const char* name : {"cuInit", "cuDriverGetVersion", "cuMemAlloc_v2", "cuMemFree_v2", "cuCtxSynchronize"}) {
        Dl_info where;
        void* function = lookup(handle, name);
        if (function == nullptr || dladdr(function, &where) == 0) {
            return false;
        }
        if (object != nullptr && object != where.dli_fbase) {
            return false;
        }
        object = where.dli_fbase;
    }
    return true;
}

void* open_driver(void* hint) noexcept {
    constexpr int pin = RTLD_NOW | RTLD_NOLOAD | RTLD_NODELETE;
    if (void* handle = dlopen("libcuda.so.1", pin)) {
        return handle;
    }
    Dl_info where;
    if (hint != nullptr && dladdr(hint, &where) != 0 && where.dli_fname != nullptr) {
        return dlopen(where.dli_fname, pin);
    }
    return nullptr;
}

/// The function for the n-th call on the way to the driver: `next`, then the others that were seen, then the driver's own.
/// Null when the call has been to all of them and still comes back.
void* candidate(const SlotState& s, size_t n) noexcept {
    void* const first = s.next.load(std::memory_order_acquire);
    void* const driver = s.driver.load(std::memory_order_acquire);
    bool driver_listed = driver == nullptr || driver == first;
    if (n == 0) {
        return first;
    }
    for (const auto& place : s.seen) {
        void* other = place.load(std::memory_order_acquire);
        if (other == nullptr || other == first) {
            continue;
        }
        driver_listed = driver_listed || other == driver;
        if (--n == 0) {
            return other;
        }
    }
    return n == 1 && !driver_listed ? driver : nullptr;
}

/// First use of an export without a look-up before it: a program that is linked with the driver. What follows us in
/// the program's own search order comes first, then the driver where a library brought it in out of that order.
void resolve_export(Slot slot) noexcept {
    void* found = symbol_after_us(info(slot).exported);
    bind_driver(found);
    if (found == nullptr) {
        found = state(slot).driver.load(std::memory_order_acquire);
    }
    if (found != nullptr) {
        learn(slot, found);
        door_counts.direct_calls.fetch_add(1, std::memory_order_relaxed);
    }
}

} // namespace

constinit thread_local Activity activity{};

const SlotInfo& info(Slot slot) noexcept { return infos[static_cast<size_t>(slot)]; }
SlotState& state(Slot slot) noexcept { return states[static_cast<size_t>(slot)]; }
Doors& doors() noexcept { return door_counts; }
void* hook_address(Slot slot) noexcept { return reinterpret_cast<void*>(hooks[static_cast<size_t>(slot)]); }

Slot slot_of_export(const char* name) noexcept {
    for (size_t at = hash_of(name) % index_size; export_index[at] != 0; at = (at + 1) % index_size) {
        const size_t s = export_index[at] - 1U;
        if (same(infos[s].exported, name)) {
            return static_cast<Slot>(s);
        }
    }
    return Slot::count_;
}

void learn(Slot slot, void* function) noexcept {
    if (function == nullptr || function == hook_address(slot)) {
        return;
    }
    SlotState& s = state(slot);
    for (auto& place : s.seen) {
        void* expected = nullptr;
        if (place.compare_exchange_strong(expected, function, std::memory_order_acq_rel) || expected == function) {
            break;
        }
    }
    void* first = nullptr;
    const bool kept = s.next.compare_exchange_strong(first, function, std::memory_order_acq_rel);
    void* driver = s.driver.load(std::memory_order_acquire);
    if ((!kept && first != function) || (driver != nullptr && driver != function)) {
        s.chained.store(true, std::memory_order_release);
    }
}

bool has_seen(Slot slot, const void* function) noexcept {
    const SlotState& s = state(slot);
    if (s.driver.load(std::memory_order_acquire) == function) {
        return true;
    }
    return std::any_of(std::begin(s.seen), std::end(s.seen),
                       [=](const auto& place) { return place.load(std::memory_order_acquire) == function; });
}

Dlsym real_dlsym() noexcept {
    Dlsym found = real.load(std::memory_order_acquire);
    if (found == nullptr) {
        found = find_real_dlsym();
        real.store(found, std::memory_order_release);
    }
    return found;
}

Dlsym next_dlsym() noexcept {
    Dlsym found = following.load(std::memory_order_acquire);
    if (found == nullptr) {
        found = reinterpret_cast<Dlsym>(symbol_after_us("dlsym"));
        following.store(found, std::memory_order_release);
    }
    return found;
}

bool bind_driver(void* hint) noexcept {
    if (driver_handle.load(std::memory_order_acquire) != nullptr) {
        return true;
    }
    const Dlsym lookup = real_dlsym();
    void* handle = lookup == nullptr ? nullptr : open_driver(hint);
    if (handle == nullptr || !is_driver(handle, lookup)) {
        return false;
    }
    for (size_t s = 0; s < slot_count; ++s) {
        void* function = lookup(handle, infos[s].exported);
        if (function != nullptr && function != hook_address(static_cast<Slot>(s))) {
            states[s].driver.store(function, std::memory_order_release);
        }
    }
    driver_handle.store(handle, std::memory_order_release);
    // Leaves no message of our own failed look-ups behind for dlerror.
    return lookup(handle, "cuInit") != nullptr;
}

bool is_of_a_driver(Slot slot, void* handle, void* function) noexcept {
    if (handle == driver_handle.load(std::memory_order_acquire) || has_seen(slot, function)) {
        return true;
    }
    Dl_info where;
    if (dladdr(function, &where) == 0 || where.dli_fname == nullptr) {
        return false;
    }
    void* object = dlopen(where.dli_fname, RTLD_NOW | RTLD_NOLOAD);
    const bool yes = object != nullptr && is_driver(object, real_dlsym());
    if (object != nullptr) {
        dlclose(object);
    }
    return yes;
}

void* driver_symbol(const char* exported_name) noexcept {
    void* handle = driver_handle.load(std::memory_order_acquire);
    return handle == nullptr ? nullptr : real_dlsym()(handle, exported_name);
}

Target::Target(Slot slot) noexcept
    : function_(state(slot).next.load(std::memory_order_acquire)), depth_(activity.depth[static_cast<size_t>(slot)]) {
    const SlotState& s = state(slot);
    if (function_ == nullptr) {
        resolve_export(slot);
        function_ = s.next.load(std::memory_order_acquire);
    }
    if (depth_ != 0 && s.chained.load(std::memory_order_acquire)) {
        function_ = candidate(s, depth_);
    }
    ++depth_;
}

Target::~Target() { --depth_; }

CUresult Target::missing() noexcept {
    return driver_handle.load(std::memory_order_acquire) == nullptr ? CUDA_ERROR_NO_DEVICE : CUDA_ERROR_NOT_FOUND;
}

} // namespace cistern::interposer
