#pragma once
// Ready blocks by size: two-level segregated lists (16 bins per power of two) with a bitmap of non-empty bins.

#include "pool/block.h"

#include <array>

namespace cistern::pool {

/// Not thread-safe: the caller holds the pool's lock.
class FreeIndex {
public:
    explicit FreeIndex(size_t unit) noexcept;
    void insert(Block* block) noexcept;
    void erase(Block* block) noexcept;
    /// The smallest ready block of at least `bytes`, the lower address among equals; null if none. Looks at no more
    /// than `search_limit` blocks of a bin once one fits, so the fit is best among those. The block stays in the index.
    Block* find(size_t bytes) const noexcept;

private:
    static constexpr int per_doubling_bits = 4;
    static constexpr size_t bins = size_t{40} << per_doubling_bits;
    static constexpr int search_limit = 64;
    size_t bin_of(size_t bytes) const noexcept;
    Block* best_in(size_t bin, size_t bytes) const noexcept;
    size_t next_bin(size_t bin) const noexcept;

    int shift_;
    std::array<Block*, bins> head_{};
    std::array<uint64_t, bins / 64> occupied_{};
};

} // namespace cistern::pool
