// The arena against a model that knows the state of every unit.
#include "test/catch.h"

#include "pool/arena.h"

#include <random>
#include <set>

using namespace cistern::pool;

namespace {

constexpr size_t unit = size_t{64} << 10;
constexpr size_t granularity = size_t{2} << 20;
constexpr size_t granules = 96;
constexpr size_t units = granules * granularity / unit;
constexpr Address base = Address{1} << 40;

/// State of one unit: hole, or that of its block.
enum class Is : unsigned char { hole, ready, used, pending };

class Model {
public:
    Model() : arena(base, granules * granularity, unit, granularity), state_(units, Is::hole) {}

    void take(size_t bytes) {
        Block* block = arena.take(bytes);
        const size_t need = (bytes + unit - 1) / unit;
        if (!block) {
            CHECK(longest_run(Is::ready) < need);
            return;
        }
        CHECK(block->bytes == need * unit);
        CHECK(block->state == BlockState::used);
        CHECK(all(block->start, block->bytes, Is::ready));
        CHECK(run_is_best_fit(block->start, need));
        set(block->start, block->bytes, Is::used);
        used_.push_back(block);
    }

    void free_one(size_t which) {
        if (used_.empty()) return;
        std::swap(used_[which % used_.size()], used_.back());
        Block* block = used_.back();
        used_.pop_back();
        block->state = BlockState::pending;
        set(block->start, block->bytes, Is::pending);
        pending_.push_back(block->start);
    }

    void ready_one(size_t which) {
        if (pending_.empty()) return;
        std::swap(pending_[which % pending_.size()], pending_.back());
        Block* block = arena.at(pending_.back());
        pending_.pop_back();
        REQUIRE(block);
        set(block->start, block->bytes, Is::ready);
        arena.put(block);
    }

    void grow(size_t bytes, size_t step, Moves moves, bool succeeds, std::mt19937_64& random) {
        Growth growth;
        if (!arena.plan_growth(bytes, step, moves, growth)) {
            CHECK(longest_place() < (bytes + unit - 1) / unit);
            return;
        }
        CHECK((moves != Moves::none || growth.moved.empty()));
        CHECK(all(growth.start, growth.bytes, Is::hole));
        std::vector<Chunk> chunks;
        Address at = growth.start;
        for (const Chunk& chunk : growth.moved) {
            CHECK(all(chunk.start, chunk.bytes, Is::ready));
            set(chunk.start, chunk.bytes, Is::hole);
            arena.unmapped(chunk);
            if (!succeeds) continue;
            chunks.push_back({at, chunk.bytes, chunk.handle});
            at += chunk.bytes;
        }
        if (!succeeds) return arena.cancel(growth);
        create(at, growth.start + growth.bytes - at, chunks, random);
        CHECK(growth.start + growth.bytes == chunks.back().start + chunks.back().bytes);
        arena.commit(growth, chunks);
        set(growth.start, growth.bytes, Is::ready);
        CHECK(longest_run(Is::ready) >= (bytes + unit - 1) / unit); // what was asked for is there
    }

    void detach(std::mt19937_64& random) {
        for (const Chunk& chunk : arena.detach_free_chunks()) {
            CHECK(all(chunk.start, chunk.bytes, Is::ready));
            if (random() % 4 == 0) {
                arena.restore(chunk);
            } else {
                arena.unmapped(chunk);
                set(chunk.start, chunk.bytes, Is::hole);
            }
        }
    }

    /// The arena says the same as the model, and adjacent ready blocks are one.
    void compare() const {
        size_t mapped = 0;
        for (const auto& [start, chunk] : arena.chunks()) {
            CHECK(start == chunk.start);
            mapped += chunk.bytes;
            for (size_t i = index(start); i < index(start + chunk.bytes); ++i) REQUIRE(state_[i] != Is::hole);
        }
        CHECK(mapped == arena.mapped_bytes());
        CHECK(mapped / unit == units - static_cast<size_t>(std::count(state_.begin(), state_.end(), Is::hole)));
        const Block* before = nullptr;
        for (size_t i = 0; i < units;) {
            const Block* block = arena.containing(base + i * unit);
            REQUIRE((block != nullptr) == (state_[i] != Is::hole));
            if (!block) {
                ++i;
                continue;
            }
            REQUIRE(block->start == base + i * unit);
            REQUIRE(all(block->start, block->bytes, is(block->state)));
            const bool both = before && before->end() == block->start && before->state == BlockState::ready;
            REQUIRE(!(both && block->state == BlockState::ready));
            before = block;
            i += block->bytes / unit;
        }
    }

    Arena arena;

private:
    static size_t index(Address a) { return (a - base) / unit; }
    static Is is(BlockState s) {
        return s == BlockState::ready ? Is::ready : s == BlockState::pending ? Is::pending : Is::used;
    }
    void set(Address start, size_t bytes, Is s) {
        std::fill_n(state_.begin() + static_cast<std::ptrdiff_t>(index(start)), bytes / unit, s);
    }
    bool all(Address start, size_t bytes, Is s) const {
        for (size_t i = index(start); i < index(start + bytes); ++i)
            if (state_[i] != s) return false;
        return true;
    }
    void create(Address at, size_t bytes, std::vector<Chunk>& chunks, std::mt19937_64& random) {
        while (bytes > 0) {
            const size_t part = std::min(bytes, (1 + random() % 8) * granularity);
            chunks.push_back({at, part, ++handle_});
            at += part;
            bytes -= part;
        }
    }
    size_t longest_run(Is s) const {
        size_t longest = 0;
        size_t run = 0;
        for (Is one : state_) longest = std::max(longest, run = one == s ? run + 1 : 0);
        return longest;
    }
    /// Longest stretch of one hole with its ready neighbours.
    size_t longest_place() const {
        size_t longest = 0;
        for (size_t i = 0; i < units; ++i) {
            if (state_[i] != Is::hole || (i > 0 && state_[i - 1] == Is::hole)) continue;
            size_t end = i;
            size_t begin = i;
            while (end < units && state_[end] == Is::hole) ++end;
            while (end < units && state_[end] == Is::ready) ++end;
            while (begin > 0 && state_[begin - 1] == Is::ready) --begin;
            longest = std::max(longest, end - begin);
        }
        return longest;
    }
    /// No other ready run that is large enough is smaller than the one that was cut (few blocks: the search is exact).
    bool run_is_best_fit(Address start, size_t need) const {
        const auto length_from = [&](size_t i) {
            size_t n = 0;
            while (i + n < units && state_[i + n] == Is::ready) ++n;
            return n;
        };
        const size_t taken = length_from(index(start));
        for (size_t i = 0; i < units; ++i) {
            const bool first = state_[i] == Is::ready && (i == 0 || state_[i - 1] != Is::ready);
            if (first && length_from(i) >= need && length_from(i) < taken) return false;
        }
        return true;
    }

    std::vector<Is> state_;
    std::vector<Block*> used_;
    std::vector<Address> pending_;
    CUmemGenericAllocationHandle handle_ = 0;
};

} // namespace

TEST_CASE("pool arena: random operations against a model") {
    for (uint64_t seed : {1u, 2u, 3u, 4u}) {
        INFO("seed " << seed);
        std::mt19937_64 random(seed);
        Model model;
        for (int step = 0; step < 3000; ++step) {
            const size_t bytes = 1 + random() % (size_t{1} << (16 + random() % 9));
            const Moves moves = static_cast<Moves>(random() % 3);
            switch (random() % 10) {
            case 0:
            case 1:
            case 2:
            case 3:
                model.take(bytes);
                break;
            case 4:
            case 5:
                model.free_one(random());
                break;
            case 6:
            case 7:
                model.ready_one(random());
                break;
            case 8:
                model.grow(bytes, (random() % 8) * granularity, moves, random() % 4 != 0, random);
                break;
            default:
                if (random() % 8 == 0) model.detach(random);
            }
            if (step % 8 == 0) model.compare();
        }
        model.compare();
    }
}

TEST_CASE("pool arena: a growth takes as little as completes a block") {
    Arena arena(base, granules * granularity, unit, granularity);
    Growth growth;
    REQUIRE(arena.plan_growth(3 * granularity, 0, Moves::none, growth));
    CHECK(growth.create == 3 * granularity);
    arena.commit(growth, {{growth.start, growth.bytes, 1}});
    Block* used = arena.take(2 * granularity);
    REQUIRE(used);
    Growth next;
    REQUIRE(arena.plan_growth(3 * granularity, 0, Moves::none, next));
    CHECK(next.create == 2 * granularity); // one is free already and lies beside
    arena.cancel(next);
    arena.put(used);
    CHECK(arena.free_chunk_bytes() == 3 * granularity);
    CHECK(arena.detach_free_chunks().size() == 1);
    CHECK(arena.mapped_bytes() == 0);
}

TEST_CASE("pool arena: one move of a chunk that suffices beats new memory") {
    Arena arena(base, granules * granularity, unit, granularity);
    Growth growth;
    REQUIRE(arena.plan_growth(granularity, 0, Moves::none, growth));
    arena.commit(growth, {{growth.start, growth.bytes, 1}});
    Block* first = arena.take(granularity);
    REQUIRE(arena.plan_growth(4 * granularity, 0, Moves::none, growth));
    arena.commit(growth, {{growth.start, growth.bytes, 2}});
    Block* second = arena.take(4 * granularity);
    REQUIRE(arena.plan_growth(granularity, 0, Moves::none, growth));
    arena.commit(growth, {{growth.start, growth.bytes, 3}});
    REQUIRE(arena.take(granularity));
    arena.put(first);
    (void)second;
    REQUIRE(arena.plan_growth(2 * granularity, 0, Moves::all, growth));
    REQUIRE(growth.moved.size() == 1);
    CHECK(growth.moved[0].handle == 1);
    CHECK(growth.create == granularity);
    arena.unmapped(growth.moved[0]);
    arena.cancel(growth);
    CHECK(arena.mapped_bytes() == 5 * granularity);
}
