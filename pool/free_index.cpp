#include "pool/free_index.h"

#include <algorithm>
#include <bit>

namespace cistern::pool {

FreeIndex::FreeIndex(size_t unit) noexcept : shift_(std::countr_zero(unit)) {}

size_t FreeIndex::bin_of(size_t bytes) const noexcept {
    // Units below 16 have a bin each; above, the four bits after the leading one choose among 16 bins per doubling.
    const size_t units = bytes >> shift_;
    constexpr size_t per_doubling = size_t{1} << per_doubling_bits;
    if (units < per_doubling) return units;
    const auto order = static_cast<size_t>(std::bit_width(units)) - 1 - per_doubling_bits;
    return std::min((order << per_doubling_bits) + (units >> order), bins - 1);
}

void FreeIndex::insert(Block* block) noexcept {
    const size_t bin = bin_of(block->bytes);
    block->previous_in_bin = nullptr;
    block->next_in_bin = head_[bin];
    if (head_[bin]) head_[bin]->previous_in_bin = block;
    head_[bin] = block;
    occupied_[bin / 64] |= uint64_t{1} << bin % 64;
}

void FreeIndex::erase(Block* block) noexcept {
    const size_t bin = bin_of(block->bytes);
    if (block->next_in_bin) block->next_in_bin->previous_in_bin = block->previous_in_bin;
    if (block->previous_in_bin)
        block->previous_in_bin->next_in_bin = block->next_in_bin;
    else
        head_[bin] = block->next_in_bin;
    if (!head_[bin]) occupied_[bin / 64] &= ~(uint64_t{1} << bin % 64);
    block->next_in_bin = block->previous_in_bin = nullptr;
}

Block* FreeIndex::best_in(size_t bin, size_t bytes) const noexcept {
    Block* best = nullptr;
    int looked = 0;
    for (Block* b = head_[bin]; b && (looked < search_limit || !best); b = b->next_in_bin, ++looked) {
        if (b->bytes < bytes) continue;
        if (!best || b->bytes < best->bytes || (b->bytes == best->bytes && b->start < best->start)) best = b;
    }
    return best;
}

size_t FreeIndex::next_bin(size_t bin) const noexcept {
    for (size_t word = bin / 64; word < occupied_.size(); ++word) {
        const uint64_t from = word == bin / 64 ? ~uint64_t{0} << bin % 64 : ~uint64_t{0};
        if (const uint64_t bits = occupied_[word] & from)
            return word * 64 + static_cast<size_t>(std::countr_zero(bits));
    }
    return bins;
}

Block* FreeIndex::find(size_t bytes) const noexcept {
    for (size_t bin = next_bin(bin_of(bytes)); bin < bins; bin = next_bin(bin + 1))
        if (Block* block = best_in(bin, bytes)) return block;
    return nullptr;
}

} // namespace cistern::pool
