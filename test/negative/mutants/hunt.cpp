// One program for each mutant of the pool: steps that are harmless with the pool as it is, and that the referee, or the
// assertion here, reports when the mutant is linked in. Threads meet inside driver calls (test/contract/program.h), so
// they need not be timed. A free also closes an epoch half a millisecond after the last close: where that would spoil a hunt
// it is repeated, and every round has to be able to report.

#include "test/catch.h"
#include "test/contract/beside.h"
#include "test/contract/program.h"

#include <cstdlib>
#include <functional>
#include <iostream>
#include <memory>
#include <thread>
#include <vector>

using namespace cistern;
using namespace cistern::test;

namespace {

constexpr size_t large = 4 * MiB; ///< its free closes the epoch
constexpr size_t small = 64 * KiB;

} // namespace

TEST_CASE("record-before-advance") {
    start();
    use_primary();
    CUstream stream = make_stream();
    // Several times, because a free that comes half a millisecond after the last close closes its epoch itself.
    for (int round = 0; round < 20; ++round) {
        const CUdeviceptr first = take(2 * MiB);
        const CUdeviceptr second = take(small);
        give(take(2 * MiB)); // the last close is a moment ago
        // Between the record, which misses this work, and whatever the pool does then.
        during().after_record = [&] {
            use(stream, second, small, long_time);
            give(second);
        };
        give(first);
        // Every ready slot and what the two large blocks give, so also the slot of `second`; kept, so that no round has more.
        for (int i = 0; i < 200; ++i) take(small);
        sim_advance(2 * long_time);
    }
    check_referee();
}

TEST_CASE("query-while-closing") {
    start();
    use_primary();
    CUstream stream = make_stream();
    const CUdeviceptr first = take(large);
    use(stream, first, large, long_time);
    during().before_record = [] { take(large); };
    give(first);
    check_referee();
}

TEST_CASE("credit-without-advance") {
    start();
    CUcontext context = use_primary();
    CUstream stream = make_stream();
    const CUdeviceptr closer = take(large);
    const CUdeviceptr before = take(small);
    const CUdeviceptr after = take(large);
    give(closer); // so that the next small free leaves its epoch open
    give(before);
    {
        pool::Synchronize observation(context);
        {
            const AsProgram own;
            CHECK(cuCtxSynchronize() == CUDA_SUCCESS);
        }
        use(stream, after, large, long_time);
        give(after);
        observation.returned(CUDA_SUCCESS);
    }
    for (int i = 0; i < 4; ++i) take(large);
    check_referee();
}

TEST_CASE("record-on-green") {
    start();
    CUcontext primary = use_primary();
    CUstream stream = make_stream();
    const GreenContext green = create_green_context();
    cuCtxSetCurrent(green.context);
    const CUdeviceptr first = take(large);
    cuCtxSetCurrent(primary);
    use(stream, first, large, long_time);
    cuCtxSetCurrent(green.context);
    give(first);
    for (int i = 0; i < 4; ++i) take(large);
    check_referee();
}

TEST_CASE("count-down-on-success-only") {
    start();
    use_primary();
    CUstream stream = make_stream();
    give(take(large));
    REQUIRE(begin_capture(stream, CU_STREAM_CAPTURE_MODE_RELAXED) == CUDA_SUCCESS);
    CHECK(synchronize() == CUDA_ERROR_STREAM_CAPTURE_UNSUPPORTED); // the program kills its capture
    CUgraph graph = nullptr;
    CHECK(end_capture(stream, &graph) == CUDA_ERROR_STREAM_CAPTURE_INVALIDATED);
    const uint64_t before = mapped();
    for (int i = 0; i < 40; ++i) give(take(large));
    CHECK(mapped() == before); // frees that stayed parked would make the pool grow
    check_referee();
}

TEST_CASE("recycle-event-not-done") {
    start();
    use_primary();
    CUstream stream = make_stream();
    const CUdeviceptr first = take(large);
    const CUdeviceptr second = take(large);
    use(stream, first, large, long_time);
    give(first);
    take(2 * large); // asks for the epoch of `first`, which is not done
    give(second);
    check_referee();
}

TEST_CASE("wait-for-late-epoch") {
    start({{"CISTERN_PENDING", "1M"}});
    CUcontext context = use_primary();
    CUstream stream = make_stream();
    CUstream captured = make_stream();
    Gate gate;
    const CUdeviceptr first = take(large);
    REQUIRE(begin_capture(captured, CU_STREAM_CAPTURE_MODE_RELAXED) == CUDA_SUCCESS);
    give(first); // parked: its epoch will be closed outside every free
    CUgraph graph = nullptr;
    CHECK(end_capture(captured, &graph) == CUDA_SUCCESS);
    REQUIRE(sim_submit(stream, nullptr, 0, 0, gate) == CUDA_SUCCESS); // work that no free has to wait for
    CUdeviceptr ptr = 0;
    CUresult result = CUDA_ERROR_UNKNOWN;
    {
        Beside other(context, [&] { result = mem_alloc(&ptr, large); });
        CHECK(other.done_within(much_too_long));
        gate.open();
        sim_advance(long_time);
    }
    CHECK(result == CUDA_SUCCESS);
    check_referee();
}

TEST_CASE("unmap-pending") {
    start();
    use_primary();
    CUstream stream = make_stream();
    const CUdeviceptr first = take(16 * MiB);
    use(stream, first, 16 * MiB, long_time);
    give(first);
    pool::trim();
    check_referee();
}

TEST_CASE("hand-out-twice") {
    start();
    use_primary();
    for (int i = 0; i < 4; ++i) take(small);
    for (int i = 0; i < 4; ++i) take(large);
    check_referee();
}

TEST_CASE("begin-beside-record") {
    start();
    CUcontext context = use_primary();
    CUstream stream = make_stream();
    const CUdeviceptr first = take(large);
    CUgraph graph = nullptr;
    std::unique_ptr<Beside> other;
    during().before_record = [&] {
        other = std::make_unique<Beside>(context, [&] {
            if (begin_capture(stream, CU_STREAM_CAPTURE_MODE_RELAXED) == CUDA_SUCCESS) {
                std::this_thread::sleep_for(a_moment);
                end_capture(stream, &graph);
            }
        });
        other->done_within(a_moment / 2);
    };
    give(first);
    other.reset();
    check_referee();
}

TEST_CASE("record-beside-capture") {
    start();
    use_primary();
    CUstream stream = make_stream();
    std::vector<CUdeviceptr> blocks;
    for (int i = 0; i < 200; ++i) blocks.push_back(take(MiB + 1));
    use(stream, blocks[0], MiB, long_time);
    CUgraph graph = nullptr;
    const CUdeviceptr another = take(large);
    // After the look at open captures, before the record: the free finds no spare event.
    during().before_create = [&] {
        CHECK(begin_capture(stream, CU_STREAM_CAPTURE_MODE_RELAXED) == CUDA_SUCCESS);
        give(another);
    };
    for (CUdeviceptr ptr : blocks) give(ptr);
    REQUIRE(!during().before_create);
    CHECK(end_capture(stream, &graph) == CUDA_SUCCESS);
    check_referee();
}

TEST_CASE("ready-with-wrong-epoch") {
    start();
    use_primary();
    CUstream stream = make_stream();
    const CUdeviceptr first = take(large);
    const CUdeviceptr second = take(large);
    give(first);
    use(stream, second, large, long_time);
    give(second);
    for (int i = 0; i < 4; ++i) take(large);
    check_referee();
}

TEST_CASE("query-in-strict-mode") {
    start();
    use_primary();
    CUstream stream = make_stream();
    give(take(large));
    REQUIRE(begin_capture(stream, CU_STREAM_CAPTURE_MODE_GLOBAL) == CUDA_SUCCESS);
    pool::trim();
    CUgraph graph = nullptr;
    CHECK(end_capture(stream, &graph) == CUDA_SUCCESS);
    check_referee();
}

TEST_CASE("leave-without-draining") {
    start();
    CUcontext home = use_primary();
    CUcontext context = create_context();
    const CUdeviceptr first = take(large);
    give(first);
    std::unique_ptr<Beside> other;
    CUresult destroyed = CUDA_ERROR_UNKNOWN;
    during().before_query = [&] {
        other = std::make_unique<Beside>(home, [&] { destroyed = destroy_context(context); });
        if (!other->done_within(a_moment)) return;
        std::cout << "FAILED: the context was destroyed while its event is being queried\n" << std::flush;
        std::_Exit(1); // what follows would crash
    };
    CUdeviceptr ptr = 0;
    (void)mem_alloc(&ptr, large);
    other.reset();
    CHECK(destroyed == CUDA_SUCCESS);
    check_referee();
}

TEST_CASE("green-context-with-own-pool") {
    start();
    CUcontext primary = use_primary();
    const GreenContext green = create_green_context();
    cuCtxSetCurrent(green.context);
    const CUdeviceptr first = take(large);
    cuCtxSetCurrent(primary);
    CUstream stream = make_stream();
    use(stream, first, large, long_time);
    give(first);
    cuCtxSetCurrent(green.context);
    for (int i = 0; i < 4; ++i) take(large);
    check_referee();
}
