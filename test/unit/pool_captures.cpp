// Counting captures, and keeping records away from them.
#include "test/catch.h"

#include "pool/captures.h"

#include <atomic>
#include <thread>
#include <vector>

using namespace cistern::pool;

namespace {

CUstream stream(uintptr_t n) { return reinterpret_cast<CUstream>(n * 64); }
CUcontext context(uintptr_t n) { return reinterpret_cast<CUcontext>(n * 64); }

} // namespace

TEST_CASE("pool captures: begin and end by serial") {
    CHECK(captures::open() == 0);
    const uint64_t first = captures::begin(stream(1), context(1));
    const uint64_t second = captures::begin(stream(2), context(1));
    CHECK((first != 0 && second != 0 && first != second));
    CHECK(captures::open() == 2);
    const uint64_t again = captures::begin(stream(1), context(1)); // in one already: the driver is going to refuse
    CHECK(captures::open() == 3);
    CHECK(captures::on(stream(1), context(1)) == first);
    captures::end(again);
    CHECK(captures::open() == 2);
    CHECK(captures::on(stream(2), context(1)) == second);
    CHECK(captures::on(stream(3), context(1)) == 0);
    captures::end(second);
    captures::end(second);
    captures::end(0);
    CHECK(captures::open() == 1);
    captures::end_all_of(context(2));
    CHECK(captures::open() == 1);
    captures::end_all_of(context(1));
    CHECK(captures::open() == 0);
}

TEST_CASE("pool captures: the per-thread stream is another one in each thread and context") {
    const uint64_t mine = captures::begin(CU_STREAM_PER_THREAD, context(1));
    CHECK(captures::on(CU_STREAM_PER_THREAD, context(1)) == mine);
    CHECK(captures::on(CU_STREAM_PER_THREAD, context(2)) == 0);
    std::thread([] {
        const uint64_t seen = captures::on(CU_STREAM_PER_THREAD, context(1));
        const uint64_t other = captures::begin(CU_STREAM_PER_THREAD, context(1));
        if (seen == 0) captures::end(other);
    }).join();
    CHECK(captures::open() == 1);
    captures::end(mine);
    CHECK(captures::open() == 0);
}

TEST_CASE("pool captures: no record while one is open, no begin while a record is going on") {
    std::atomic<unsigned> going_on{0}; // the context's count, on which a begin waits
    std::atomic<int> recording{0};
    std::atomic<int> open{0};
    std::atomic<int> together{0};
    std::atomic<int> recorded{0};
    std::atomic<bool> stop{false};
    std::vector<std::thread> threads;
    for (int i = 0; i < 2; ++i)
        threads.emplace_back([&] {
            while (!stop.load()) {
                const captures::Recording allowed(going_on);
                if (!allowed) continue;
                ++recording;
                if (open.load() != 0) ++together;
                ++recorded;
                --recording;
            }
        });
    for (uintptr_t i = 0; i < 3000; ++i) {
        const uint64_t serial = captures::begin(stream(100), context(1));
        while (going_on.load() != 0) std::this_thread::yield();
        ++open;
        if (recording.load() != 0) ++together;
        --open;
        captures::end(serial);
        if (i % 100 == 0) std::this_thread::yield();
    }
    while (recorded.load() == 0) std::this_thread::yield();
    stop.store(true);
    for (std::thread& thread : threads) thread.join();
    CHECK(together == 0);
    CHECK(recorded > 0);
}
