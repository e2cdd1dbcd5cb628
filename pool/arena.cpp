#include "pool/arena.h"

#include "pool/rounding.h"

#include <algorithm>

namespace cistern::pool {
/// A candidate for growth: `missing` bytes from `start` on complete a block of the wanted size.
struct Arena::Place {
    Address start = 0;
    size_t missing = SIZE_MAX;
    size_t room = 0; ///< bytes that may be filled from `start` on
    Block* left = nullptr;
    Block* right = nullptr;
};

Arena::Arena(Address base, size_t bytes, size_t unit, size_t granularity)
    : granularity_(granularity), unit_(unit), index_(base, bytes, unit), free_(unit) {
    holes_.emplace(base, bytes);
}

Block* Arena::new_block(Address start, size_t bytes, BlockState state) {
    if (!spare_) {
        constexpr size_t batch = 64;
        storage_.push_back(std::make_unique<Block[]>(batch));
        for (size_t i = 0; i < batch; ++i) {
            storage_.back()[i].next_in_bin = spare_;
            spare_ = &storage_.back()[i];
        }
    }
    Block* block = spare_;
    spare_ = block->next_in_bin;
    *block = Block{start, bytes, 0, state, nullptr, nullptr};
    index_.insert(block);
    return block;
}

void Arena::delete_block(Block* block) noexcept {
    index_.erase(block);
    block->next_in_bin = spare_;
    spare_ = block;
}

Block* Arena::take(size_t bytes) {
    bytes = round_up(bytes, unit_);
    Block* block = free_.find(bytes);
    if (!block) return nullptr;
    if (block->bytes > bytes) {
        Block* rest = new_block(block->start + bytes, block->bytes - bytes, BlockState::ready);
        free_.erase(block);
        block->bytes = bytes;
        free_.insert(rest);
    } else {
        free_.erase(block);
    }
    block->state = BlockState::used;
    return block;
}

void Arena::put(Block* block) noexcept {
    block->requested = 0;
    block->state = BlockState::ready;
    Block* after = index_.at(block->end());
    if (after && after->state == BlockState::ready) {
        free_.erase(after);
        block->bytes += after->bytes;
        delete_block(after);
    }
    Block* before = index_.at_or_before(block->start - 1);
    if (before && before->end() == block->start && before->state == BlockState::ready) {
        free_.erase(before);
        before->bytes += block->bytes;
        delete_block(block);
        block = before;
    }
    free_.insert(block);
}

Block* Arena::containing(Address address) const noexcept {
    Block* block = index_.at_or_before(address);
    return block && address < block->end() ? block : nullptr;
}

void Arena::consider(Address hole, size_t bytes, size_t need, Place& best) const noexcept {
    Block* left = index_.at_or_before(hole - 1);
    if (left && (left->end() != hole || left->state != BlockState::ready)) left = nullptr;
    Block* right = index_.at(hole + bytes);
    if (right && right->state != BlockState::ready) right = nullptr;

    const auto missing_beside = [&](const Block* block) {
        return round_up(need - std::min(need - 1, block ? block->bytes : 0), granularity_);
    };
    const size_t upwards = missing_beside(left);
    if (upwards <= bytes) {
        if (upwards < best.missing) best = Place{hole, upwards, bytes, left, nullptr};
    } else if (left && right && left->bytes + bytes + right->bytes >= need && bytes < best.missing) {
        best = Place{hole, bytes, bytes, left, right};
    }
    const size_t downwards = missing_beside(right);
    if (right && downwards <= bytes && downwards < best.missing)
        best = Place{hole + bytes - downwards, downwards, downwards, nullptr, right};
}

void Arena::hold_back(Block* block) noexcept {
    if (!block) return;
    free_.erase(block);
    block->state = BlockState::reserved;
}

bool Arena::wholly_free(const Chunk& chunk) const noexcept {
    const Block* block = index_.at_or_before(chunk.start);
    return block && block->state == BlockState::ready && block->end() >= chunk.start + chunk.bytes;
}

void Arena::choose_moves(const Place& place, Moves moves, Growth& growth) {
    if (moves == Moves::none) return;
    std::vector<Chunk> candidates;
    size_t total = 0;
    for (const auto& [start, chunk] : chunks_) {
        if (!wholly_free(chunk) || chunk.bytes > place.room) continue;
        candidates.push_back(chunk);
        total += chunk.bytes;
    }
    if (total < place.missing && moves != Moves::all) return;
    const auto by_size = [](const Chunk& a, const Chunk& b) { return a.bytes < b.bytes; };
    std::sort(candidates.begin(), candidates.end(), by_size);
    // One chunk that suffices beats several; otherwise the largest first, so that few are moved.
    const auto enough =
        std::find_if(candidates.begin(), candidates.end(), [&](const Chunk& c) { return c.bytes >= place.missing; });
    if (enough != candidates.end()) {
        growth.moved.assign(1, *enough);
        growth.bytes = enough->bytes;
        return;
    }
    for (auto c = candidates.rbegin(); c != candidates.rend() && growth.bytes < place.missing; ++c) {
        if (growth.bytes + c->bytes > place.room) continue;
        growth.moved.push_back(*c);
        growth.bytes += c->bytes;
    }
    if (growth.bytes < place.missing && moves != Moves::all) { // they do not fit side by side: create instead
        growth.moved.clear();
        growth.bytes = 0;
    }
}

bool Arena::plan_growth(size_t need, size_t step, Moves moves, Growth& growth) {
    need = round_up(need, unit_);
    Place place;
    for (const auto& [start, bytes] : holes_) consider(start, bytes, need, place);
    if (place.missing == SIZE_MAX) return false;

    growth = Growth{};
    growth.start = place.start;
    growth.left = place.left;
    growth.right = place.right;
    hold_back(place.left);
    hold_back(place.right);
    choose_moves(place, moves, growth);
    if (growth.bytes < place.missing) {
        const size_t wanted =
            growth.moved.empty() ? std::max(place.missing, round_up(step, granularity_)) : place.missing;
        growth.create = std::min(wanted, place.room) - growth.bytes;
        growth.bytes += growth.create;
    }
    for (const Chunk& chunk : growth.moved) carve(chunk);
    cut_hole(growth.start, growth.bytes);
    return true;
}

void Arena::commit(const Growth& growth, const std::vector<Chunk>& chunks) {
    for (const Chunk& chunk : chunks) {
        chunks_.emplace(chunk.start, chunk);
        mapped_ += chunk.bytes;
    }
    if (growth.left) put(growth.left);
    if (growth.right) put(growth.right);
    put(new_block(growth.start, growth.bytes, BlockState::reserved));
}

void Arena::cancel(const Growth& growth) noexcept {
    add_hole(growth.start, growth.bytes);
    if (growth.left) put(growth.left);
    if (growth.right) put(growth.right);
}

void Arena::carve(const Chunk& chunk) {
    Block* block = index_.at_or_before(chunk.start);
    const Address end = block->end();
    const Address chunk_end = chunk.start + chunk.bytes;
    free_.erase(block);
    if (end > chunk_end) free_.insert(new_block(chunk_end, end - chunk_end, BlockState::ready));
    if (block->start < chunk.start) {
        block->bytes = chunk.start - block->start;
        free_.insert(block);
    } else {
        delete_block(block);
    }
    chunks_.erase(chunk.start);
    mapped_ -= chunk.bytes;
}

std::vector<Chunk> Arena::detach_free_chunks() {
    std::vector<Chunk> detached;
    for (const auto& [start, chunk] : chunks_)
        if (wholly_free(chunk)) detached.push_back(chunk);
    for (const Chunk& chunk : detached) carve(chunk);
    return detached;
}

size_t Arena::free_chunk_bytes() const noexcept {
    size_t total = 0;
    for (const auto& [start, chunk] : chunks_) total += wholly_free(chunk) ? chunk.bytes : 0;
    return total;
}

void Arena::restore(const Chunk& chunk) {
    chunks_.emplace(chunk.start, chunk);
    mapped_ += chunk.bytes;
    put(new_block(chunk.start, chunk.bytes, BlockState::reserved));
}

void Arena::unmapped(const Chunk& chunk) { add_hole(chunk.start, chunk.bytes); }

void Arena::add_hole(Address start, size_t bytes) {
    auto after = holes_.lower_bound(start);
    if (after != holes_.end() && after->first == start + bytes) {
        bytes += after->second;
        after = holes_.erase(after);
    }
    if (after != holes_.begin()) {
        const auto before = std::prev(after);
        if (before->first + before->second == start) {
            before->second += bytes;
            return;
        }
    }
    holes_.emplace_hint(after, start, bytes);
}

void Arena::cut_hole(Address start, size_t bytes) {
    const auto hole = std::prev(holes_.upper_bound(start));
    const Address hole_start = hole->first;
    const Address hole_end = hole_start + hole->second;
    holes_.erase(hole);
    if (hole_start < start) holes_.emplace(hole_start, start - hole_start);
    if (start + bytes < hole_end) holes_.emplace(start + bytes, hole_end - start - bytes);
}

} // namespace cistern::pool
