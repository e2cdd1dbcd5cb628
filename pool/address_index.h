#pragma once
// Address to block inside one arena: the block that starts at a unit, and the last block that starts at or before one.

#include "pool/block.h"
#include "pool/host_memory.h"

namespace cistern::pool {

/// Not thread-safe: the caller holds the pool's lock.
class AddressIndex {
public:
    /// Covers [base, base + bytes) in units of `unit` bytes (a power of two); block starts are multiples of it.
    AddressIndex(Address base, size_t bytes, size_t unit);

    void insert(Block* block) noexcept;
    void erase(const Block* block) noexcept;
    /// Block that starts exactly there, or null. Any address is allowed.
    Block* at(Address start) const noexcept;
    /// Block with the greatest start <= address, or null.
    Block* at_or_before(Address address) const noexcept;

private:
    static constexpr int levels = 5; ///< 64^5 units: enough for 70 TiB in 64 KiB units
    size_t unit_of(Address a) const noexcept { return (a - base_) >> shift_; }

    Address base_;
    size_t units_;
    int shift_;
    LazyArray<Block*> blocks_;
    /// bits_[k] has one bit per 64^k units: some block starts inside. Level k starts at offset_[k].
    size_t offset_[levels];
    LazyArray<uint64_t> bits_;

    static size_t lay_out(size_t units, size_t (&offset)[levels]) noexcept;
};

} // namespace cistern::pool
