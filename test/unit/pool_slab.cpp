// Slabs: slots are handed out once, come back when ready, and empty slabs are returned.
#include "test/catch.h"

#include "pool/slab.h"

#include <map>
#include <memory>
#include <random>
#include <set>
#include <vector>

using namespace cistern::pool;

namespace {

constexpr Address base = Address{5} << 36;
constexpr size_t unit = size_t{2} << 20;

struct Slabs {
    Slabs() : set(base, 1024 * unit) {}
    void add(int size_class) {
        blocks.push_back(std::make_unique<Block>());
        Block* block = blocks.back().get();
        block->start = next;
        block->bytes = size_class::slab_bytes(size_class);
        next += block->bytes;
        ++lent;
        set.add(size_class, block);
    }
    void returned(const Block* block) { lent -= block ? 1 : 0; }
    SlabSet set;
    std::vector<std::unique_ptr<Block>> blocks;
    Address next = base;
    int lent = 0;
};

} // namespace

TEST_CASE("pool slabs: random against a map of what is used") {
    Slabs slabs;
    std::map<Address, std::pair<int, size_t>> used;
    std::vector<std::pair<Address, int>> pending;
    std::mt19937_64 random(11);
    for (int step = 0; step < 60'000; ++step) {
        const size_t bytes = 1 + random() % (size_t{1} << (6 + random() % 15));
        const int c = size_class::of(bytes);
        if (random() % 500 == 0) slabs.returned(slabs.set.remove_empty());
        if (random() % 2 == 0 && used.size() < 3000) {
            Address slot = slabs.set.take(c, bytes);
            if (!slot) {
                if (slabs.next > base + 1000 * unit) continue;
                slabs.add(c);
                slot = slabs.set.take(c, bytes);
            }
            REQUIRE(slot != 0);
            const auto after = used.upper_bound(slot);
            if (after != used.end()) REQUIRE(after->first >= slot + size_class::bytes(c));
            if (after != used.begin()) {
                const auto& [start, what] = *std::prev(after);
                REQUIRE(start + size_class::bytes(what.first) <= slot);
            }
            used.emplace(slot, std::pair{c, bytes});
        } else if (!used.empty() && random() % 2 == 0) {
            auto it = used.lower_bound(base + random() % (slabs.next - base));
            if (it == used.end()) it = used.begin();
            size_t freed = 0;
            REQUIRE(!slabs.set.set_pending(it->first + 1, &freed));
            REQUIRE(slabs.set.set_pending(it->first, &freed));
            REQUIRE(freed == size_class::bytes(it->second.first));
            REQUIRE(!slabs.set.set_pending(it->first, &freed)); // a second free
            pending.emplace_back(it->first, it->second.first);
            used.erase(it);
        } else if (!pending.empty()) {
            std::swap(pending[random() % pending.size()], pending.back());
            slabs.set.set_ready(pending.back().first);
            pending.pop_back();
        }
        const Address asked = base + random() % (slabs.next - base + 1);
        Address start = 0;
        size_t requested = 0;
        const auto after = used.upper_bound(asked);
        const bool inside = after != used.begin() && asked < std::prev(after)->first + std::prev(after)->second.second;
        REQUIRE(slabs.set.find(asked, &start, &requested) == inside);
        if (inside) REQUIRE((start == std::prev(after)->first && requested == std::prev(after)->second.second));
    }
    for (const auto& [slot, what] : used) {
        size_t freed = 0;
        REQUIRE(slabs.set.set_pending(slot, &freed));
        slabs.set.set_ready(slot);
    }
    for (const auto& [slot, c] : pending) slabs.set.set_ready(slot);
    while (const Block* block = slabs.set.remove_empty()) slabs.returned(block);
    CHECK(slabs.lent == 0);
}
