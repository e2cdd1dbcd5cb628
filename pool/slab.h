#pragma once
// Small blocks: equal slots cut from a block of the slab arena, states in bitmaps on the host.
//
// A slot is used (program), pending (freed, neither bit set) or ready. Only ready slots are handed out, and a slab goes
// back to its arena only when every slot is ready.

#include "pool/block.h"
#include "pool/host_memory.h"
#include "pool/size_class.h"

#include <array>

namespace cistern::pool {

struct Slab {
    static constexpr size_t most_slots = (size_t{2} << 20) / size_class::alignment;

    Block* block = nullptr; ///< in the slab arena
    int size_class = 0;
    uint32_t slot_bytes = 0;
    uint32_t slots = 0;
    uint32_t ready = 0;
    uint32_t hint = 0;    ///< words of ready_bits before this one are empty
    Slab* next = nullptr; ///< list of slabs of the class that have ready slots
    Slab* previous = nullptr;
    Slab* next_of_all = nullptr; ///< list of every slab of the set
    Slab* previous_of_all = nullptr;
    std::array<uint64_t, most_slots / 64> used_bits{};
    std::array<uint64_t, most_slots / 64> ready_bits{};
    std::array<uint32_t, most_slots> requested{};

    Address start() const noexcept { return block->start; }
};

/// All slabs of a pool. Not thread-safe: the caller holds the pool's lock.
class SlabSet {
public:
    /// Slabs lie in [base, base + bytes) and start at multiples of 2 MiB.
    SlabSet(Address base, size_t bytes);
    ~SlabSet();
    SlabSet(const SlabSet&) = delete;
    SlabSet& operator=(const SlabSet&) = delete;

    /// A ready slot, now used; 0 if the class has none.
    Address take(int size_class, size_t requested) noexcept;
    /// Makes a used block of size_class::slab_bytes a slab; all its slots are ready.
    void add(int size_class, Block* block);

    /// Slot state changes by exact start address. False if no used slot starts there.
    bool set_pending(Address slot, size_t* bytes) noexcept;
    /// A pending slot becomes ready. A slab that is wholly ready stays: the next class that needs memory takes it.
    void set_ready(Address slot) noexcept;
    /// Used slot that contains the address: start and requested bytes. False otherwise.
    bool find(Address address, Address* start, size_t* requested) const noexcept;
    /// Removes a wholly ready slab and returns its block; null if there is none.
    Block* remove_empty();

private:
    Slab* slab_at(Address address) const noexcept;
    void link(Slab* slab) noexcept;
    void unlink(Slab* slab) noexcept;
    Block* remove(Slab* slab);

    Address base_;
    size_t units_;
    LazyArray<Slab*> slabs_; ///< by 2 MiB unit, every unit that a slab covers
    Slab* all_ = nullptr;
    std::array<Slab*, size_class::count> with_ready_{};
    std::array<uint32_t, size_class::count> empty_{}; ///< wholly ready slabs
};

} // namespace cistern::pool
