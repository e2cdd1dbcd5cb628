// The bookkeeping of epochs: which frees are ready after what.
#include "test/catch.h"

#include "pool/reuse_order.h"
#include "pool/ticks.h"

#include <algorithm>

using namespace cistern::pool;

namespace {

CUevent event(uintptr_t n) { return reinterpret_cast<CUevent>(n * 16); }

struct Order {
    explicit Order(uintptr_t events = 8) {
        for (uintptr_t n = 1; n <= events; ++n) order.add_event(event(n));
    }
    void free(Address address, size_t bytes = 512) {
        order.make_room();
        order.add({address, bytes, nullptr});
    }
    Epoch* close(bool in_free = true) {
        Epoch* epoch = order.begin_close(in_free, now);
        if (epoch) order.recorded(epoch);
        return epoch;
    }
    std::vector<Address> release(Epoch* epoch, bool done) {
        std::vector<Freed> ready;
        order.release(epoch, done, ready);
        return addresses(ready);
    }
    static std::vector<Address> addresses(const std::vector<Freed>& freed) {
        std::vector<Address> all;
        for (const Freed& one : freed) all.push_back(one.address);
        std::sort(all.begin(), all.end());
        return all;
    }
    ReuseOrder order;
    uint64_t now = 1'000'000'000'000;
};

using Addresses = std::vector<Address>;

} // namespace

TEST_CASE("pool reuse order: a free is ready when its epoch is seen done") {
    Order o;
    o.free(1, 100);
    o.free(2, 200);
    CHECK(o.order.pending_bytes() == 300);
    CHECK(o.order.hold_oldest() == nullptr); // an open epoch is not asked for
    REQUIRE(o.close());
    o.free(3);
    Epoch* held = o.order.hold_oldest();
    REQUIRE(held);
    CHECK(o.release(held, false).empty());
    held = o.order.hold_oldest();
    CHECK(o.release(held, true) == Addresses{1, 2});
    CHECK(o.order.pending_bytes() == 512);
    CHECK(o.order.spare_events() == 8);
    CHECK(o.order.closed_epochs() == 0);
}

TEST_CASE("pool reuse order: a closing epoch is asked for by nobody") {
    Order o;
    o.free(1);
    Epoch* closing = o.order.begin_close(true, o.now);
    REQUIRE(closing);
    CHECK(o.order.hold_oldest() == nullptr);
    CHECK(o.order.hold_waitable() == nullptr);
    o.order.recorded(closing);
    CHECK(o.order.hold_oldest() == closing);
}

TEST_CASE("pool reuse order: a later epoch proves earlier ones, never the reverse") {
    Order o;
    o.free(1);
    Epoch* first = o.order.begin_close(true, o.now); // its record is slow
    o.free(2);
    Epoch* second = o.close();
    o.free(3);
    Epoch* third = o.close();
    REQUIRE((first && second && third));
    CHECK(o.order.hold_oldest() == second);
    CHECK(o.release(second, true) == Addresses{1, 2});
    o.order.recorded(first);
    CHECK(o.order.spare_events() == 6); // the event of the first was not seen done
    CHECK(o.order.hold_oldest() == first);
    CHECK(o.release(first, true).empty());
    CHECK(o.order.spare_events() == 7);
    CHECK(o.order.pending_bytes() == 512);
}

TEST_CASE("pool reuse order: a failed record puts its frees back") {
    Order o;
    o.free(1, 100);
    Epoch* epoch = o.order.begin_close(true, o.now);
    o.free(2, 50);
    o.order.reopen(epoch);
    CHECK(o.order.open_frees() == 2);
    CHECK(o.order.open_bytes() == 150);
    CHECK(o.order.spare_events() == 8);
    REQUIRE(o.close());
    CHECK(o.release(o.order.hold_oldest(), true) == Addresses{1, 2});
    CHECK(o.order.pending_bytes() == 0);
}

TEST_CASE("pool reuse order: a synchronise credits what was freed before it") {
    Order o;
    CHECK(o.order.advance(o.now) == 0); // nothing pending
    o.free(1);
    REQUIRE(o.close());
    o.free(2);
    const uint64_t number = o.order.advance(o.now);
    REQUIRE(number != 0);
    o.free(3);
    Epoch* later = o.close();
    std::vector<Freed> ready;
    o.order.credit(number, ready);
    CHECK(Order::addresses(ready) == Addresses{1, 2});
    CHECK(o.order.spare_events() == 6); // the event of the first epoch is still to be seen done
    CHECK(o.release(o.order.hold_oldest(), true).empty());
    CHECK(o.order.hold_oldest() == later);
    CHECK(o.release(later, true) == Addresses{3});
}

TEST_CASE("pool reuse order: a synchronise that failed proves nothing") {
    Order o;
    o.free(1);
    const uint64_t number = o.order.advance(o.now);
    o.free(2);
    o.order.reopen(number);
    CHECK(o.order.open_frees() == 2);
    o.order.reopen(number + 17); // unknown
    std::vector<Freed> ready;
    o.order.credit(number, ready);
    CHECK(ready.empty());
}

TEST_CASE("pool reuse order: only prompt epochs are waited for") {
    Order o;
    o.free(1);
    Epoch* late = o.close(false);
    CHECK(late->late);
    CHECK(o.order.hold_waitable() == nullptr);
    o.free(2);
    Epoch* prompt = o.close(true);
    CHECK(o.order.hold_waitable() == prompt);
    CHECK(o.order.hold_oldest() == late);
    CHECK(o.release(prompt, true) == Addresses{1, 2});
    CHECK(o.order.hold_waitable() == nullptr); // proven: nothing to wait for
}

TEST_CASE("pool reuse order: an event that two threads hold is recycled by the last") {
    Order o;
    o.free(1);
    Epoch* epoch = o.close();
    CHECK(o.order.hold_oldest() == epoch);
    CHECK(o.order.hold_waitable() == epoch);
    CHECK(o.release(epoch, true) == Addresses{1});
    CHECK(o.order.spare_events() == 7);
    CHECK(o.release(epoch, true).empty());
    CHECK(o.order.spare_events() == 8);
}

TEST_CASE("pool reuse order: stream frees are ready one by one, or with an epoch") {
    Order o;
    o.order.add_stream_free({1, 100, nullptr}, o.order.take_event());
    o.order.add_stream_free({2, 100, nullptr}, o.order.take_event());
    CHECK(o.order.is_freed_in_stream(1));
    CHECK(!o.order.is_freed_in_stream(3));
    CHECK(o.order.hold_waitable() == nullptr);
    Epoch* first = o.order.hold_next_stream_free();
    Epoch* second = o.order.hold_next_stream_free();
    REQUIRE((first && second));
    CHECK(first != second);
    CHECK(o.release(first, false).empty());
    CHECK(o.release(second, true) == Addresses{2});
    CHECK(!o.order.is_freed_in_stream(2));
    o.free(3);
    o.close();
    CHECK(o.release(o.order.hold_oldest(), true) == Addresses{1, 3});
    CHECK(o.order.pending_bytes() == 0);
    CHECK(o.release(o.order.hold_next_stream_free(), true).empty());
    CHECK(o.order.spare_events() == 8);
}

TEST_CASE("pool reuse order: when a free closes its epoch") {
    Order o;
    o.free(1);
    CHECK(o.order.wants_close(512, o.now)); // long since the last close
    o.close();
    o.free(2);
    CHECK(!o.order.wants_close(512, o.now));
    CHECK(o.order.wants_close(ReuseOrder::close_block_bytes, o.now));
    CHECK(o.order.wants_close(512, o.now + 1'000'000'000));
    for (Address a = 3; a < 3 + ReuseOrder::close_frees; ++a) o.free(a);
    CHECK(o.order.wants_close(512, o.now));
    o.close();
    o.free(100, ReuseOrder::close_bytes);
    CHECK(o.order.wants_close(512, o.now));
}

TEST_CASE("pool reuse order: without a spare event nothing is closed") {
    Order o(1);
    o.free(1);
    REQUIRE(o.close());
    o.free(2);
    CHECK(o.close() == nullptr);
    CHECK(o.order.take_event() == nullptr);
    CHECK(o.release(o.order.hold_oldest(), true) == Addresses{1});
    CHECK(o.close() != nullptr);
}

TEST_CASE("pool reuse order: so many events outstanding that only bytes close") {
    Order o(ReuseOrder::many_epochs + 8);
    for (Address a = 1; a <= ReuseOrder::many_epochs; ++a) {
        o.free(a);
        REQUIRE(o.close());
    }
    o.free(1, ReuseOrder::close_block_bytes);
    CHECK(!o.order.wants_close(ReuseOrder::close_block_bytes, o.now + 1'000'000'000));
    o.free(2, 4 * ReuseOrder::close_bytes);
    CHECK(o.order.wants_close(1, o.now));
}

TEST_CASE("pool reuse order: the end of the context makes everything ready and forgets the events") {
    Order o;
    o.free(1);
    o.close();
    o.free(2);
    o.order.begin_close(true, o.now);
    o.order.add_stream_free({3, 10, nullptr}, o.order.take_event());
    o.free(4);
    std::vector<Freed> ready;
    o.order.abandon(ready);
    CHECK(Order::addresses(ready) == Addresses{1, 2, 3, 4});
    CHECK(o.order.pending_bytes() == 0);
    CHECK(o.order.spare_events() == 0);
    CHECK(o.order.hold_oldest() == nullptr);
    CHECK(o.order.hold_next_stream_free() == nullptr);
}

TEST_CASE("pool reuse order: ticks are counted in microseconds") {
    CHECK(ticks::per_microsecond() >= 1);
    const uint64_t before = ticks::now();
    CHECK(ticks::now() >= before);
}
