#include "pool/device_memory.h"

#include "config/log.h"
#include "pool/counters.h"
#include "pool/rounding.h"

#include <algorithm>
#include <atomic>
#include <bit>

namespace cistern::pool {
namespace {

std::atomic<uint64_t> transits_begun{0};
std::atomic<uint64_t> transits_ended{0};
thread_local uint64_t own_transits = 0;

class InTransit {
public:
    InTransit() noexcept { transits_begun.fetch_add(1); }
    ~InTransit() {
        ++own_transits;
        transits_ended.fetch_add(1);
    }
    InTransit(const InTransit&) = delete;
    InTransit& operator=(const InTransit&) = delete;
};

} // namespace

std::unique_ptr<DeviceMemory> DeviceMemory::open(CUdevice device, size_t total, SpinLock& pool_lock) {
    const size_t granularity = driver::granularity(device);
    if (device >= 64 || granularity == 0 || total == 0 || reservation_unit % granularity != 0) return nullptr;
    // Four times the card: the large arena can be fragmented by live blocks and still find a hole for the rest.
    for (size_t bytes = round_up(4 * total, reservation_unit);; bytes = round_up(bytes / 2, reservation_unit)) {
        CUdeviceptr base = 0;
        if (driver::reserve(&base, bytes, reservation_unit) == CUDA_SUCCESS) {
            try {
                if (base % reservation_unit == 0 && base + bytes <= mappable_end)
                    return std::unique_ptr<DeviceMemory>(
                        new DeviceMemory(device, total, base, bytes, std::max(granularity, smallest_step), pool_lock));
            } catch (const std::bad_alloc&) { // as if the device had no virtual memory
            }
            driver::free_reservation(base, bytes);
            return nullptr;
        }
        if (bytes == reservation_unit) return nullptr;
    }
}

DeviceMemory::DeviceMemory(CUdevice device, size_t total, Address base, size_t reserved, size_t granularity,
                           SpinLock& pool_lock)
    : device_(device), total_(total), base_(base), reserved_(reserved), granularity_(granularity), lock_(pool_lock),
      access_(driver::DeviceMask{1} << device), small_(base, reserved / 4, smallest_step, granularity),
      large_(base + reserved / 4, reserved - reserved / 4, large_unit, granularity), slabs_(base, reserved / 4) {}

DeviceMemory::~DeviceMemory() = default;

Address DeviceMemory::take(size_t bytes, size_t* rounded) {
    if (bytes > size_class::largest) {
        Block* block = large_.take(bytes);
        if (!block) return 0;
        block->requested = bytes;
        *rounded = block->bytes;
        return block->start;
    }
    const int c = size_class::of(bytes);
    *rounded = size_class::bytes(c);
    if (const Address slot = slabs_.take(c, bytes)) return slot;
    Block* block = small_.take(size_class::slab_bytes(c));
    while (!block) { // before growing: slabs of other classes that nobody uses
        Block* unused = slabs_.remove_empty();
        if (!unused) return 0;
        small_.put(unused);
        block = small_.take(size_class::slab_bytes(c));
    }
    slabs_.add(c, block);
    return slabs_.take(c, bytes);
}

bool DeviceMemory::set_pending(Address address, size_t* rounded) noexcept {
    if (address < base_ + reserved_ / 4) return slabs_.set_pending(address, rounded);
    Block* block = large_.at(address);
    if (!block || block->state != BlockState::used) return false;
    block->state = BlockState::pending;
    *rounded = block->bytes;
    return true;
}

void DeviceMemory::set_ready(Address address) {
    if (address >= base_ + reserved_ / 4) return large_.put(large_.at(address));
    slabs_.set_ready(address);
}

bool DeviceMemory::find(Address address, Address* start, size_t* requested) const noexcept {
    if (address < base_ + reserved_ / 4) return slabs_.find(address, start, requested);
    const Block* block = large_.containing(address);
    if (!block || block->state != BlockState::used || address >= block->start + block->requested) return false;
    *start = block->start;
    *requested = block->requested;
    return true;
}

size_t DeviceMemory::step(const Arena& arena, bool squeeze) const noexcept {
    if (squeeze) return 0;
    const std::lock_guard lock(lock_);
    return std::clamp(arena.mapped_bytes() / 8, smallest_step, largest_step);
}

size_t DeviceMemory::chunk_limit(bool squeeze) noexcept {
    size_t rest = total_ - std::min(total_, mapped_now());
    size_t free = 0;
    if (squeeze && driver::free_memory(&free) == CUDA_SUCCESS) rest = free;
    const size_t by_card = std::clamp(std::bit_floor(total_ / share_of_card), granularity_, largest_chunk);
    return std::clamp(std::bit_floor(rest / share_of_rest), granularity_, by_card);
}

CUresult DeviceMemory::grow(size_t bytes, bool squeeze, Address* address, size_t* rounded) {
    const std::lock_guard growing(growth_);
    Arena& arena = arena_for(bytes);
    const size_t need = &arena == &large_ ? bytes : size_class::slab_bytes(size_class::of(bytes));
    const size_t at_least = step(arena, squeeze);
    const size_t limit = chunk_limit(squeeze);
    Growth growth;
    {
        const std::lock_guard lock(lock_);
        if ((*address = take(bytes, rounded)) != 0) return CUDA_SUCCESS;
        const Moves wanted = squeeze ? Moves::all : Moves::if_enough;
        if (!arena.plan_growth(need, at_least, unmap_works_ ? wanted : Moves::none, growth))
            return CUDA_ERROR_OUT_OF_MEMORY;
    }
    const InTransit moving;
    std::vector<Chunk> chunks;
    CUresult result = fill(growth, limit, chunks, arena);
    {
        const std::lock_guard lock(lock_);
        if (result == CUDA_SUCCESS) {
            arena.commit(growth, chunks);
            *address = take(bytes, rounded);
        } else {
            arena.cancel(growth);
        }
    }
    if (result != CUDA_SUCCESS) return result;
    count(counters().growths);
    log::write(log::Level::debug, "grew device %d by %zu MiB for %zu bytes, %zu chunks moved", device_,
               growth.create >> 20, bytes, growth.moved.size());
    return *address ? CUDA_SUCCESS : CUDA_ERROR_OUT_OF_MEMORY;
}

CUresult DeviceMemory::fill(const Growth& growth, size_t limit, std::vector<Chunk>& chunks, Arena& arena) {
    CUresult result = move_chunks(growth, chunks, arena);
    size_t moved = 0;
    for (const Chunk& chunk : chunks) moved += chunk.bytes;
    if (result == CUDA_SUCCESS) result = create_chunks(growth.start + moved, growth.create, limit, chunks);
    if (result == CUDA_SUCCESS) result = give_access(growth.start, growth.bytes);
    if (result != CUDA_SUCCESS) undo(chunks);
    return result;
}

CUresult DeviceMemory::move_chunks(const Growth& growth, std::vector<Chunk>& chunks, Arena& arena) {
    Address at = growth.start;
    CUresult result = CUDA_SUCCESS;
    for (const Chunk& chunk : growth.moved) {
        // The chunk is ready memory, so nothing uses it: unmapping does not wait and need not.
        if (driver::unmap(chunk.start, chunk.bytes) != CUDA_SUCCESS) {
            unmap_works_ = false;
            result = CUDA_ERROR_NOT_SUPPORTED;
            const std::lock_guard lock(lock_);
            arena.restore(chunk);
            continue;
        }
        {
            const std::lock_guard lock(lock_);
            arena.unmapped(chunk);
        }
        if (result == CUDA_SUCCESS) result = driver::map(at, chunk.bytes, chunk.handle);
        if (result != CUDA_SUCCESS) {
            driver::release(chunk.handle);
            mapped_less(chunk.bytes);
            continue;
        }
        count(counters().moves);
        chunks.push_back({at, chunk.bytes, chunk.handle});
        at += chunk.bytes;
    }
    return result;
}

CUresult DeviceMemory::create_chunks(Address start, size_t bytes, size_t limit, std::vector<Chunk>& chunks) {
    while (bytes > 0) {
        Chunk chunk{start, std::min(bytes, limit), 0};
        chunks.reserve(chunks.size() + 1);
        CUresult result = driver::create(&chunk.handle, device_, chunk.bytes);
        if (result != CUDA_SUCCESS) return result;
        result = driver::map(chunk.start, chunk.bytes, chunk.handle);
        if (result != CUDA_SUCCESS) {
            driver::release(chunk.handle);
            return result;
        }
        chunks.push_back(chunk);
        mapped_more(chunk.bytes);
        start += chunk.bytes;
        bytes -= chunk.bytes;
    }
    return CUDA_SUCCESS;
}

CUresult DeviceMemory::give_access(Address start, size_t bytes) {
    const CUresult result = driver::set_access(start, bytes, access_);
    const driver::DeviceMask own = driver::DeviceMask{1} << device_;
    if (result == CUDA_SUCCESS || access_ == own) return result;
    // A peer refuses: the allocation must not fail for it, and the other peers must not lose theirs.
    for (driver::DeviceMask rest = access_ & ~own; rest != 0; rest &= rest - 1)
        (void)driver::set_access(start, bytes, rest & (~rest + 1));
    return driver::set_access(start, bytes, own);
}

void DeviceMemory::undo(const std::vector<Chunk>& chunks) noexcept {
    for (const Chunk& chunk : chunks) {
        driver::unmap(chunk.start, chunk.bytes);
        driver::release(chunk.handle);
        mapped_less(chunk.bytes);
    }
}

size_t DeviceMemory::trim() {
    const std::lock_guard growing(growth_);
    if (!unmap_works_) return 0;
    const InTransit moving;
    {
        const std::lock_guard lock(lock_);
        while (Block* block = slabs_.remove_empty()) small_.put(block);
    }
    return trim(small_) + trim(large_);
}

size_t DeviceMemory::trim(Arena& arena) {
    std::vector<Chunk> chunks;
    {
        const std::lock_guard lock(lock_);
        chunks = arena.detach_free_chunks();
    }
    if (chunks.empty()) return 0;
    size_t bytes = 0;
    for (const Chunk& chunk : chunks) {
        const bool unmapped = driver::unmap(chunk.start, chunk.bytes) == CUDA_SUCCESS;
        if (unmapped) {
            driver::release(chunk.handle);
            mapped_less(chunk.bytes);
            bytes += chunk.bytes;
        }
        unmap_works_ = unmap_works_ && unmapped;
        const std::lock_guard lock(lock_);
        if (unmapped)
            arena.unmapped(chunk);
        else
            arena.restore(chunk);
    }
    count(counters().trimmed_bytes, bytes);
    return bytes;
}

void DeviceMemory::extend_access(driver::DeviceMask devices) {
    const std::lock_guard growing(growth_);
    devices &= ~access_;
    if (!devices) return;
    std::vector<Chunk> chunks;
    {
        const std::lock_guard lock(lock_);
        for (const Arena* arena : {&small_, &large_})
            for (const auto& [start, chunk] : arena->chunks()) chunks.push_back(chunk);
    }
    access_ |= devices;
    for (const Chunk& chunk : chunks) (void)give_access(chunk.start, chunk.bytes);
}

void DeviceMemory::release_all() noexcept {
    for (const Arena* arena : {&small_, &large_})
        for (const auto& [start, chunk] : arena->chunks()) {
            driver::unmap(start, chunk.bytes);
            driver::release(chunk.handle);
            mapped_less(chunk.bytes);
        }
    driver::free_reservation(base_, reserved_);
}

DeviceMemory::Transits DeviceMemory::transits() noexcept {
    const uint64_t ended = transits_ended.load();
    return {ended - own_transits, transits_begun.load() != ended};
}

size_t DeviceMemory::mapped_now() noexcept {
    const std::lock_guard lock(lock_);
    return mapped_bytes();
}

void DeviceMemory::mapped_more(size_t bytes) noexcept {
    gauge_add(counters().mapped_bytes, counters().mapped_bytes_peak, bytes);
}

void DeviceMemory::mapped_less(size_t bytes) noexcept { gauge_sub(counters().mapped_bytes, bytes); }

} // namespace cistern::pool
