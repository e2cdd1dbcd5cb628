#pragma once
// Memory of one context pool: an address reservation, two arenas in it (small blocks never share a handle with large
// ones), slabs on the small one, and the driver calls that give memory to them and take it away.
//
//   reservation  | small arena: slabs of <= 1 MiB blocks |            large arena: blocks above 1 MiB            |
//
// Locks: `growth_` serialises everything that maps or unmaps; it is held over VMM calls, which were never seen to wait for
// the device. The pool's lock (given at construction) guards the bookkeeping and is never held over a driver call.
// Order: growth_ before the pool's lock.

#include "pool/arena.h"
#include "pool/driver.h"
#include "pool/slab.h"
#include "pool/spin_lock.h"

#include <memory>
#include <mutex>

namespace cistern::pool {

class DeviceMemory {
public:
    /// Largest handle, where the card has plenty of room: 1 GiB still grows faster than cudaMalloc. A partly used handle
    /// can neither be moved nor given back, so what one can strand is also bounded by these shares of the whole card and
    /// of what is left of it: near the limit the pool works with single pages.
    static constexpr size_t largest_chunk = size_t{1} << 30;
    static constexpr size_t share_of_card = 64;
    static constexpr size_t share_of_rest = 16;
    /// A growth adds at least an eighth of what is mapped, within these bounds, so that growths get rarer with size.
    static constexpr size_t smallest_step = size_t{2} << 20;
    static constexpr size_t largest_step = size_t{64} << 20;
    /// Reservations are aligned to this and are multiples of it: the address map has one entry for each.
    static constexpr size_t reservation_unit = size_t{1} << 36;
    static constexpr size_t large_unit = size_t{64} << 10;
    /// The address map ends here; the driver gives user addresses below.
    static constexpr Address mappable_end = Address{1} << 47;

    /// Reserves addresses. Null if the device or driver has no usable VMM, or the host has no memory.
    static std::unique_ptr<DeviceMemory> open(CUdevice device, size_t total, SpinLock& pool_lock);
    ~DeviceMemory();
    DeviceMemory(const DeviceMemory&) = delete;
    DeviceMemory& operator=(const DeviceMemory&) = delete;

    Address base() const noexcept { return base_; }
    size_t reserved_bytes() const noexcept { return reserved_; }

    // --- With the pool's lock held.
    /// A ready block of at least `bytes` (> 0), now used; 0 if there is none. `*rounded`: bytes that the block takes.
    Address take(size_t bytes, size_t* rounded);
    /// Used block that starts exactly there becomes pending. False if there is none.
    bool set_pending(Address address, size_t* rounded) noexcept;
    /// A pending block becomes ready.
    void set_ready(Address address);
    /// Used block that contains the address.
    bool find(Address address, Address* start, size_t* requested) const noexcept;
    size_t mapped_bytes() const noexcept { return small_.mapped_bytes() + large_.mapped_bytes(); }

    // --- Without the pool's lock. VMM calls; no waits for the device.
    /// Adds memory until a block of `bytes` is ready and takes it (or takes one that became ready meanwhile).
    /// `squeeze`: exactly what is missing, and every free chunk is used for it. On failure nothing has changed but that
    /// free chunks may have been given back.
    CUresult grow(size_t bytes, bool squeeze, Address* address, size_t* rounded);
    /// mapped_bytes with the lock taken.
    size_t mapped_now() noexcept;

    /// Memory on its way between pools and driver is counted nowhere for a moment. Whoever finds too little looks again
    /// if other threads had some on its way meanwhile: their count has changed, or one is at it.
    struct Transits {
        uint64_t of_others; ///< growths and trims that other threads have ended
        bool going_on;
    };
    static Transits transits() noexcept;

    /// Gives wholly free chunks back to the driver; returns their bytes.
    size_t trim();
    /// Existing and later memory becomes accessible to these devices; a device that refuses is left out.
    void extend_access(driver::DeviceMask devices);
    /// After the context has ended: unmaps and gives back everything, whatever its state. The object is dead then.
    void release_all() noexcept;

private:
    DeviceMemory(CUdevice device, size_t total, Address base, size_t reserved, size_t granularity, SpinLock& pool_lock);
    Arena& arena_for(size_t bytes) noexcept { return bytes <= size_class::largest ? small_ : large_; }
    CUresult fill(const Growth& growth, size_t limit, std::vector<Chunk>& chunks, Arena& arena);
    CUresult move_chunks(const Growth& growth, std::vector<Chunk>& chunks, Arena& arena);
    CUresult create_chunks(Address start, size_t bytes, size_t limit, std::vector<Chunk>& chunks);
    CUresult give_access(Address start, size_t bytes);
    void undo(const std::vector<Chunk>& chunks) noexcept;
    size_t step(const Arena& arena, bool squeeze) const noexcept;
    size_t chunk_limit(bool squeeze) noexcept;
    size_t trim(Arena& arena);
    void mapped_more(size_t bytes) noexcept;
    void mapped_less(size_t bytes) noexcept;

    CUdevice device_;
    size_t total_;
    Address base_;
    size_t reserved_;
    size_t granularity_;
    SpinLock& lock_;
    std::mutex growth_;
    driver::DeviceMask access_; ///< guarded by growth_
    bool unmap_works_ = true;   ///< guarded by growth_; a driver that refuses to unmap gets no moves and no trims
    Arena small_;
    Arena large_;
    SlabSet slabs_;
};

} // namespace cistern::pool
