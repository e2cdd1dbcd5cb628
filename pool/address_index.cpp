#include "pool/address_index.h"

#include <bit>

namespace cistern::pool {

size_t AddressIndex::lay_out(size_t units, size_t (&offset)[levels]) noexcept {
    size_t words = 0;
    for (size_t& o : offset) {
        o = words;
        units = (units + 63) / 64;
        words += units;
    }
    return words;
}

AddressIndex::AddressIndex(Address base, size_t bytes, size_t unit)
    : base_(base), units_(bytes / unit), shift_(std::countr_zero(unit)), blocks_(units_), offset_{},
      bits_(lay_out(units_, offset_)) {}

void AddressIndex::insert(Block* block) noexcept {
    size_t i = unit_of(block->start);
    blocks_[i] = block;
    for (size_t o : offset_) {
        bits_[o + i / 64] |= uint64_t{1} << i % 64;
        i /= 64;
    }
}

void AddressIndex::erase(const Block* block) noexcept {
    size_t i = unit_of(block->start);
    blocks_[i] = nullptr;
    for (size_t o : offset_) {
        uint64_t& word = bits_[o + i / 64];
        word &= ~(uint64_t{1} << i % 64);
        if (word != 0) return;
        i /= 64;
    }
}

Block* AddressIndex::at(Address start) const noexcept {
    const size_t i = unit_of(start);
    if (start < base_ || i >= units_) return nullptr;
    Block* block = blocks_[i];
    return block && block->start == start ? block : nullptr;
}

Block* AddressIndex::at_or_before(Address address) const noexcept {
    if (address < base_ || unit_of(address) >= units_) return nullptr;
    // Climb until a word has a bit at or below the position, then descend along the highest bits.
    size_t i = unit_of(address) + 1;
    for (int level = 0; level < levels; ++level) {
        const size_t rest = i % 64;
        const uint64_t below = rest ? bits_[offset_[level] + i / 64] & ((uint64_t{1} << rest) - 1) : 0;
        if (below) {
            i = i / 64 * 64 + static_cast<size_t>(std::bit_width(below)) - 1;
            while (level-- > 0) i = i * 64 + static_cast<size_t>(std::bit_width(bits_[offset_[level] + i])) - 1;
            return blocks_[i];
        }
        i /= 64;
    }
    return nullptr;
}

} // namespace cistern::pool
