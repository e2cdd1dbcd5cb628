// Open stream captures: results and fates as natively, and the pool never kills one.
#include "test/catch.h"
#include "test/contract/beside.h"
#include "test/contract/program.h"

using namespace cistern;
using namespace cistern::test;

namespace {

constexpr CUstreamCaptureMode global = CU_STREAM_CAPTURE_MODE_GLOBAL;
constexpr CUstreamCaptureMode thread_local_mode = CU_STREAM_CAPTURE_MODE_THREAD_LOCAL;
constexpr CUstreamCaptureMode relaxed = CU_STREAM_CAPTURE_MODE_RELAXED;

/// What `call` answers while a capture is open, and what becomes of the capture.
struct Cell {
    CUresult call = CUDA_ERROR_UNKNOWN;
    CUresult end = CUDA_ERROR_UNKNOWN;
    size_t nodes = 0;
};

template <class Call>
Cell within(CUcontext context, CUstreamCaptureMode mode, bool own_thread, unsigned flags, Call call) {
    CUstream stream = make_stream(flags);
    Cell cell;
    REQUIRE(begin_capture(stream, mode) == CUDA_SUCCESS);
    CHECK(sim_submit(stream, nullptr, 0, 1000, nullptr) == CUDA_SUCCESS);
    if (own_thread)
        cell.call = call();
    else
        Beside(context, [&] { cell.call = call(); });
    (void)sim_submit(stream, nullptr, 0, 1000, nullptr);
    CUgraph graph = nullptr;
    cell.end = end_capture(stream, &graph);
    if (graph) {
        CHECK(cuGraphGetNodes(graph, nullptr, &cell.nodes) == CUDA_SUCCESS);
        cuGraphDestroy(graph);
    }
    return cell;
}

void every_cell(bool own_thread) {
    REQUIRE(start());
    CUcontext context = use_primary();
    CUdeviceptr kept[32];
    for (CUdeviceptr& ptr : kept) ptr = take(4 * MiB);
    give(take(4 * MiB)); // a block for a hit
    size_t used = 0;
    CUdeviceptr ptr = 0;
    size_t pitch = 0;
    const std::function<CUresult()> calls[] = {
        [&] { return mem_alloc(&ptr, 4 * MiB); }, // hit
        [&] { return mem_alloc(&ptr, 100 * MiB); }, // miss
        [&] { return mem_alloc(&ptr, 100); },       [&] { return mem_alloc_pitch(&ptr, &pitch, 1000, 1000, 4); },
        [&] { return mem_free(kept[used++]); },
    };
    for (CUstreamCaptureMode mode : {global, thread_local_mode, relaxed})
        for (unsigned flags : {CU_STREAM_NON_BLOCKING, CU_STREAM_DEFAULT})
            for (const auto& call : calls) {
                const bool refused = own_thread ? mode != relaxed : mode == global;
                const Cell cell = within(context, mode, own_thread, flags, call);
                CHECK(cell.call == (refused ? CUDA_ERROR_STREAM_CAPTURE_UNSUPPORTED : CUDA_SUCCESS));
                CHECK(cell.end == (refused ? CUDA_ERROR_STREAM_CAPTURE_INVALIDATED : CUDA_SUCCESS));
                CHECK(cell.nodes == (refused ? 0 : 2));
            }
    const CUdeviceptr after = take(MiB);
    CHECK(last_reason() == pool::Reason::served);
    sim_disclaim(after);
    CHECK(mem_free(after) == CUDA_SUCCESS);
    CHECK(sim_violations("capture_killed") == 0);
}

} // namespace

TEST_CASE("F21 contract: allocation and free by the capturing thread, every mode") { every_cell(true); }
TEST_CASE("F21 contract: allocation and free by another thread, every mode") { every_cell(false); }

TEST_CASE("F21 contract: calls that native allows leave a capture alive") {
    REQUIRE(start());
    CUcontext context = use_primary();
    give(take(8 * MiB));
    size_t free = 0;
    size_t total = 0;
    const std::function<CUresult()> calls[] = {
        [&] { return mem_info(&free, &total); },
        [&] { return pool::trim(), CUDA_SUCCESS; },
        [&] { return address_range(nullptr, &free, 0x1000), CUDA_SUCCESS; },
    };
    for (CUstreamCaptureMode mode : {global, thread_local_mode, relaxed})
        for (bool own_thread : {true, false})
            for (const auto& call : calls) {
                const Cell cell = within(context, mode, own_thread, CU_STREAM_NON_BLOCKING, call);
                CHECK(cell.call == CUDA_SUCCESS);
                CHECK(cell.end == CUDA_SUCCESS);
                CHECK(cell.nodes == 2);
            }
    check_referee();
}

TEST_CASE("F21 contract: frees are parked while a capture is open, and ready after it") {
    REQUIRE(start());
    CUcontext context = use_primary();
    CUstream captured = make_stream();
    CUstream stream = make_stream();
    const CUdeviceptr before = take(8 * MiB);
    const CUdeviceptr during_it = take(8 * MiB);
    give(before);
    use(stream, during_it, 8 * MiB, long_time);
    REQUIRE(begin_capture(captured, thread_local_mode) == CUDA_SUCCESS);
    const unsigned long records = sim_calls("cuCtxRecordEvent");
    CUdeviceptr hit = 0;
    CUdeviceptr miss = 0;
    {
        Beside other(context, [&] {
            sim_disclaim(during_it);
            (void)mem_free(during_it);
            (void)mem_alloc(&hit, 8 * MiB);  // what was freed before the capture
            (void)mem_alloc(&miss, 8 * MiB); // the other is parked
        });
    }
    CHECK(hit == before);
    CHECK(miss != 0);
    CHECK(miss != during_it);
    CHECK(sim_calls("cuCtxRecordEvent") == records);
    CUgraph graph = nullptr;
    CHECK(end_capture(captured, &graph) == CUDA_SUCCESS);
    sim_advance(2 * long_time);
    const uint64_t before_reuse = mapped();
    CUdeviceptr again = take(8 * MiB);
    CHECK(again == during_it);
    CHECK(mapped() == before_reuse);
    check_referee();
}

TEST_CASE("F21 contract: a destroyed stream ends its capture") {
    REQUIRE(start());
    use_primary();
    CUstream stream = make_stream();
    REQUIRE(begin_capture(stream, relaxed) == CUDA_SUCCESS);
    give(take(8 * MiB));
    const uint64_t before = mapped();
    CHECK(destroy_stream(stream) == CUDA_SUCCESS);
    for (int i = 0; i < 40; ++i) give(take(8 * MiB));
    CHECK(mapped() <= before + 8 * MiB);
    check_referee();
}

TEST_CASE("F21 contract: a begin that fails does not count") {
    REQUIRE(start());
    use_primary();
    CHECK(begin_capture(nullptr, relaxed) == CUDA_ERROR_STREAM_CAPTURE_UNSUPPORTED); // the legacy stream
    CUstream stream = make_stream();
    REQUIRE(begin_capture(stream, relaxed) == CUDA_SUCCESS);
    CHECK(begin_capture(stream, relaxed) != CUDA_SUCCESS);
    const unsigned long records = sim_calls("cuCtxRecordEvent");
    give(take(8 * MiB)); // the first capture is still open
    CHECK(sim_calls("cuCtxRecordEvent") == records);
    CUgraph graph = nullptr;
    CHECK(end_capture(stream, &graph) == CUDA_SUCCESS);
    give(take(8 * MiB));
    give(take(8 * MiB));
    CHECK(sim_calls("cuCtxRecordEvent") > records);
    check_referee();
}

TEST_CASE("F21 contract: captures in per-thread streams of two contexts are told apart") {
    REQUIRE(start());
    CUcontext first = use_primary();
    REQUIRE(begin_capture(CU_STREAM_PER_THREAD, relaxed) == CUDA_SUCCESS);
    CUcontext second = create_context();
    REQUIRE(begin_capture(CU_STREAM_PER_THREAD, relaxed) == CUDA_SUCCESS);
    CUgraph graph = nullptr;
    CHECK(end_capture(CU_STREAM_PER_THREAD, &graph) == CUDA_SUCCESS);
    cuCtxSetCurrent(first);
    give(take(8 * MiB)); // a record now would kill the first capture
    CHECK(end_capture(CU_STREAM_PER_THREAD, &graph) == CUDA_SUCCESS);
    cuCtxSetCurrent(second);
    give(take(8 * MiB));
    check_referee();
}

TEST_CASE("F21 contract: 600 captures beside a thread that allocates and frees") {
    REQUIRE(start());
    CUcontext context = use_primary();
    sim_auto_advance(300);
    sim_race_window(20); // makes an overlap of record and begin-capture last
    CUstream stream = make_stream();
    std::atomic<bool> stop{false};
    std::atomic<int> unexpected{0};
    {
        const auto allocate = [&] {
            CUstream work = make_stream();
            while (!stop.load()) {
                CUdeviceptr ptr = 0;
                if (mem_alloc(&ptr, 2 * MiB) != CUDA_SUCCESS) {
                    ++unexpected;
                    continue;
                }
                sim_claim(ptr, 2 * MiB);
                const SimRange range{ptr, 2 * MiB, SIM_WRITE | SIM_EDGES, 1, 0};
                if (sim_submit(work, &range, 1, 1000, nullptr) != CUDA_SUCCESS) ++unexpected;
                sim_disclaim(ptr);
                if (mem_free(ptr) != CUDA_SUCCESS) ++unexpected;
            }
        };
        Beside first(context, allocate);
        Beside second(context, allocate);
        for (int i = 0; i < 600; ++i) {
            CUgraph graph = nullptr;
            CHECK(begin_capture(stream, i % 2 ? relaxed : thread_local_mode) == CUDA_SUCCESS);
            CHECK(end_capture(stream, &graph) == CUDA_SUCCESS);
            if (graph) cuGraphDestroy(graph);
        }
        stop.store(true);
    }
    CHECK(unexpected == 0);
    check_referee();
}

TEST_CASE("F21 contract: out of memory while frees are parked") {
    REQUIRE(start({{"SIM_TOTAL_MB", "512"}}));
    CUcontext context = use_primary();
    CUstream captured = make_stream();
    CUstream stream = make_stream();
    const CUdeviceptr first = take(400 * MiB);
    REQUIRE(begin_capture(captured, relaxed) == CUDA_SUCCESS);
    use(stream, first, 400 * MiB, 1000);
    give(first);
    CUdeviceptr second = 0;
    CHECK(mem_alloc(&second, 420 * MiB) == CUDA_SUCCESS); // natively the free would have waited
    CUgraph graph = nullptr;
    CHECK(end_capture(captured, &graph) == CUDA_SUCCESS);
    (void)context;
    check_referee();
}

TEST_CASE("F30 contract: frees go on while a begin-capture is blocked by a full stream") {
    REQUIRE(start({{"SIM_STREAM_LIMIT", "4"}}));
    CUcontext context = use_primary();
    CUstream full = make_stream();
    CUstream captured = make_stream();
    std::vector<CUdeviceptr> blocks;
    for (int i = 0; i < 10; ++i) blocks.push_back(take(4 * MiB));
    Gate gate;
    Beside launcher(context, [&] {
        for (int i = 0; i < 6; ++i)
            (void)sim_submit(full, nullptr, 0, 1000, i == 0 ? static_cast<SimGate*>(gate) : nullptr);
    });
    while (sim_blocked_threads() == 0) std::this_thread::yield();
    CUresult began = CUDA_ERROR_UNKNOWN;
    Beside capturer(context, [&] {
        CUgraph graph = nullptr;
        began = begin_capture(captured, relaxed);
        (void)end_capture(captured, &graph);
    });
    while (sim_blocked_threads() < 2) std::this_thread::yield();
    std::atomic<int> good{0};
    Beside other(context, [&] {
        for (CUdeviceptr ptr : blocks) {
            sim_disclaim(ptr);
            if (mem_free(ptr) == CUDA_SUCCESS) ++good;
        }
    });
    CHECK(other.done_within(std::chrono::milliseconds(1000)));
    CHECK(good == 10);
    CHECK(!capturer.done());
    gate.open();
    sim_advance(100'000);
    CHECK(capturer.done_within(much_too_long));
    CHECK(began == CUDA_SUCCESS);
    check_referee();
}
