// Address index, free index, size classes: each against the obvious slow way.
#include "test/catch.h"

#include "pool/address_index.h"
#include "pool/free_index.h"
#include "pool/size_class.h"

#include <algorithm>
#include <map>
#include <memory>
#include <random>
#include <vector>

using namespace cistern::pool;

TEST_CASE("pool address index: random against a map") {
    constexpr size_t unit = 512;
    constexpr Address base = Address{3} << 36;
    for (size_t units : {size_t{1}, size_t{63}, size_t{64}, size_t{65}, size_t{4096}, size_t{300'000}}) {
        AddressIndex index(base, units * unit, unit);
        std::map<Address, std::unique_ptr<Block>> model;
        std::mt19937_64 random(units);
        for (int step = 0; step < 20'000; ++step) {
            const Address at = base + random() % units * unit;
            auto found = model.find(at);
            if (found == model.end()) {
                auto block = std::make_unique<Block>();
                block->start = at;
                index.insert(block.get());
                model.emplace(at, std::move(block));
            } else if (random() % 2 == 0) {
                index.erase(found->second.get());
                model.erase(found);
            }
            const Address asked = base + random() % (units * unit);
            const auto after = model.upper_bound(asked);
            const Block* expected = after == model.begin() ? nullptr : std::prev(after)->second.get();
            REQUIRE(index.at_or_before(asked) == expected);
            const auto exact = model.find(asked);
            REQUIRE(index.at(asked) == (exact == model.end() ? nullptr : exact->second.get()));
        }
        CHECK(index.at(base - 1) == nullptr);
        CHECK(index.at(base + units * unit) == nullptr);
        CHECK(index.at_or_before(base - 1) == nullptr);
        CHECK(index.at_or_before(base + units * unit) == nullptr);
    }
}

TEST_CASE("pool free index: smallest that fits, the lower address among equals") {
    constexpr size_t unit = 64 << 10;
    FreeIndex index(unit);
    std::vector<std::unique_ptr<Block>> blocks;
    std::vector<Block*> inside;
    std::mt19937_64 random(5);
    for (int i = 0; i < 60; ++i) { // no more than the search looks at in one bin
        blocks.push_back(std::make_unique<Block>());
        blocks.back()->start = static_cast<Address>(i) << 30;
    }
    for (int step = 0; step < 20'000; ++step) {
        Block* block = blocks[random() % blocks.size()].get();
        const auto found = std::find(inside.begin(), inside.end(), block);
        if (found == inside.end()) {
            block->bytes = (1 + random() % (size_t{1} << random() % 18)) * unit;
            index.insert(block);
            inside.push_back(block);
        } else {
            index.erase(block);
            inside.erase(found);
        }
        const size_t wanted = (1 + random() % (size_t{1} << random() % 18)) * unit;
        Block* expected = nullptr;
        for (Block* one : inside) {
            if (one->bytes < wanted) continue;
            const bool better = !expected || one->bytes < expected->bytes ||
                                (one->bytes == expected->bytes && one->start < expected->start);
            if (better) expected = one;
        }
        REQUIRE(index.find(wanted) == expected);
    }
    for (Block* block : inside) index.erase(block);
    CHECK(index.find(1) == nullptr);
}

TEST_CASE("pool size classes: cover every size with little waste") {
    int last = 0;
    for (size_t bytes = 1; bytes <= size_class::largest; ++bytes) {
        const int c = size_class::of(bytes);
        REQUIRE((c == last || c == last + 1));
        REQUIRE(size_class::bytes(c) >= bytes);
        REQUIRE((c == 0 || size_class::bytes(c - 1) < bytes));
        last = c;
    }
    CHECK(last == size_class::count - 1);
    for (int c = 0; c < size_class::count; ++c) {
        CHECK(size_class::bytes(c) % size_class::alignment == 0);
        CHECK(size_class::slab_bytes(c) % size_class::bytes(c) <= size_class::slab_bytes(c) * 7 / 100);
        if (c > 8) CHECK(size_class::bytes(c) - size_class::bytes(c - 1) <= size_class::bytes(c) / 5);
    }
}
