#include "pool/slab.h"

#include <bit>

namespace cistern::pool {
namespace {

constexpr size_t slab_unit = size_t{2} << 20;

uint64_t slot_bit(uint32_t slot) { return uint64_t{1} << slot % 64; }

} // namespace

SlabSet::SlabSet(Address base, size_t bytes) : base_(base), units_(bytes / slab_unit), slabs_(units_) {}

SlabSet::~SlabSet() {
    while (Slab* slab = all_) {
        all_ = slab->next_of_all;
        delete slab;
    }
}

Slab* SlabSet::slab_at(Address address) const noexcept {
    const size_t i = (address - base_) / slab_unit;
    return address >= base_ && i < units_ ? slabs_[i] : nullptr;
}

void SlabSet::link(Slab* slab) noexcept {
    Slab*& head = with_ready_[static_cast<size_t>(slab->size_class)];
    slab->previous = nullptr;
    slab->next = head;
    if (head) head->previous = slab;
    head = slab;
}

void SlabSet::unlink(Slab* slab) noexcept {
    if (slab->next) slab->next->previous = slab->previous;
    if (slab->previous)
        slab->previous->next = slab->next;
    else
        with_ready_[static_cast<size_t>(slab->size_class)] = slab->next;
}

void SlabSet::add(int size_class, Block* block) {
    auto* slab = new Slab;
    slab->block = block;
    slab->size_class = size_class;
    slab->slot_bytes = static_cast<uint32_t>(size_class::bytes(size_class));
    slab->slots = slab->ready = static_cast<uint32_t>(block->bytes / slab->slot_bytes);
    for (uint32_t slot = 0; slot < slab->slots; ++slot) slab->ready_bits[slot / 64] |= slot_bit(slot);
    const size_t first = (block->start - base_) / slab_unit;
    for (size_t i = 0; i < block->bytes / slab_unit; ++i) slabs_[first + i] = slab;
    slab->next_of_all = all_;
    if (all_) all_->previous_of_all = slab;
    all_ = slab;
    link(slab);
    ++empty_[static_cast<size_t>(size_class)];
}

Address SlabSet::take(int size_class, size_t requested) noexcept {
    Slab* slab = with_ready_[static_cast<size_t>(size_class)];
    if (!slab) return 0;
    while (slab->ready_bits[slab->hint] == 0) ++slab->hint;
    const uint32_t slot = slab->hint * 64 + static_cast<uint32_t>(std::countr_zero(slab->ready_bits[slab->hint]));
    slab->ready_bits[slot / 64] &= ~slot_bit(slot);
    slab->used_bits[slot / 64] |= slot_bit(slot);
    slab->requested[slot] = static_cast<uint32_t>(requested);
    if (slab->ready-- == slab->slots) --empty_[static_cast<size_t>(size_class)];
    if (slab->ready == 0) unlink(slab);
    return slab->start() + Address{slot} * slab->slot_bytes;
}

bool SlabSet::set_pending(Address address, size_t* bytes) noexcept {
    Slab* slab = slab_at(address);
    if (!slab) return false;
    const auto offset = static_cast<uint32_t>(address - slab->start());
    const uint32_t slot = offset / slab->slot_bytes;
    if (offset % slab->slot_bytes != 0 || slot >= slab->slots || !(slab->used_bits[slot / 64] & slot_bit(slot)))
        return false;
    slab->used_bits[slot / 64] &= ~slot_bit(slot);
    *bytes = slab->slot_bytes;
    return true;
}

void SlabSet::set_ready(Address address) noexcept {
    Slab* slab = slab_at(address);
    const uint32_t slot = static_cast<uint32_t>(address - slab->start()) / slab->slot_bytes;
    slab->ready_bits[slot / 64] |= slot_bit(slot);
    if (slot / 64 < slab->hint) slab->hint = slot / 64;
    if (slab->ready++ == 0) link(slab);
    if (slab->ready == slab->slots) ++empty_[static_cast<size_t>(slab->size_class)];
}

Block* SlabSet::remove(Slab* slab) {
    unlink(slab);
    if (slab->next_of_all) slab->next_of_all->previous_of_all = slab->previous_of_all;
    if (slab->previous_of_all)
        slab->previous_of_all->next_of_all = slab->next_of_all;
    else
        all_ = slab->next_of_all;
    --empty_[static_cast<size_t>(slab->size_class)];
    Block* block = slab->block;
    const size_t first = (block->start - base_) / slab_unit;
    for (size_t i = 0; i < block->bytes / slab_unit; ++i) slabs_[first + i] = nullptr;
    delete slab;
    return block;
}

Block* SlabSet::remove_empty() {
    for (size_t c = 0; c < empty_.size(); ++c) {
        if (empty_[c] == 0) continue;
        for (Slab* slab = with_ready_[c]; slab; slab = slab->next)
            if (slab->ready == slab->slots) return remove(slab);
    }
    return nullptr;
}

bool SlabSet::find(Address address, Address* start, size_t* requested) const noexcept {
    const Slab* slab = slab_at(address);
    if (!slab) return false;
    const uint32_t slot = static_cast<uint32_t>(address - slab->start()) / slab->slot_bytes;
    if (slot >= slab->slots || !(slab->used_bits[slot / 64] & slot_bit(slot))) return false;
    const Address first = slab->start() + Address{slot} * slab->slot_bytes;
    if (address - first >= slab->requested[slot])
        return false; // natively nothing is known of the bytes behind the block
    *start = first;
    *requested = slab->requested[slot];
    return true;
}

} // namespace cistern::pool
