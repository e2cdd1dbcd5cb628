// Near the limit of the card: nobody sees error 2 where natively he would not, and nothing grows without bound.
#include "test/catch.h"
#include "test/contract/beside.h"
#include "test/contract/program.h"

#include <random>

using namespace cistern;
using namespace cistern::test;

TEST_CASE("F16 contract: a large request again after small blocks were cut from its memory") {
    REQUIRE(start());
    use_primary();
    const size_t large = 4096 * MiB / 10 * 7;
    give(take(large));
    std::vector<CUdeviceptr> kept;
    for (int i = 0; i < 64; ++i) kept.push_back(take(16 * MiB + 512 * KiB));
    give(take(large));
    CHECK(last_reason() == pool::Reason::served);
    for (CUdeviceptr ptr : kept) give(ptr);
    give(take(large));
    check_referee();
}

TEST_CASE("F16 contract: 95 per cent of the card after everything was freed") {
    REQUIRE(start({{"SIM_TOTAL_MB", "1024"}}));
    use_primary();
    std::mt19937_64 random(7);
    for (int round = 0; round < 5; ++round) {
        std::vector<CUdeviceptr> blocks;
        for (int i = 0; i < 300; ++i) blocks.push_back(take(size_t{1} << (8 + random() % 14)));
        for (int i = 0; i < 20; ++i) blocks.push_back(take((1 + random() % 30) * MiB));
        std::shuffle(blocks.begin(), blocks.end(), random);
        for (CUdeviceptr ptr : blocks) give(ptr);
        give(take(1024 * MiB / 100 * 95));
    }
    check_referee();
}

TEST_CASE("F16 contract: the first request for 95 per cent succeeds whatever the growth factor") {
    REQUIRE(start({{"DALI_DEVICE_BUFFER_GROWTH_FACTOR", "4"}}));
    use_primary();
    give(take(4096 * MiB / 100 * 95));
    for (int i = 0; i < 60; ++i) take(60 * MiB);
    check_referee();
}

TEST_CASE("F16 contract: many small blocks are packed") {
    REQUIRE(start());
    use_primary();
    std::vector<CUdeviceptr> blocks(100'000);
    for (CUdeviceptr& ptr : blocks) REQUIRE(mem_alloc(&ptr, 256) == CUDA_SUCCESS);
    CHECK(mapped() <= blocks.size() * 512 * 115 / 100 + 8 * MiB);
    for (CUdeviceptr ptr : blocks) REQUIRE(mem_free(ptr) == CUDA_SUCCESS);
    pool::trim();
    CHECK(mapped() == 0);
}

TEST_CASE("F16 contract: memory freed behind a kernel is waited for before anyone is out of memory") {
    REQUIRE(start({{"SIM_TOTAL_MB", "1024"}, {"CISTERN_PENDING", "1G"}}));
    CUcontext context = use_primary();
    CUstream stream = make_stream();
    Gate gate;
    const CUdeviceptr first = take(600 * MiB);
    use(stream, first, 600 * MiB, 1000, gate);
    give(first);
    CUdeviceptr second = 0;
    CUresult result = CUDA_ERROR_UNKNOWN;
    Beside other(context, [&] { result = mem_alloc(&second, 700 * MiB); });
    CHECK(!other.done_within(a_moment));
    gate.open();
    sim_advance(10'000);
    CHECK(other.done_within(much_too_long));
    CHECK(result == CUDA_SUCCESS);
    CHECK(sim_claim(second, 700 * MiB) == 1);
    check_referee();
}

TEST_CASE("F16 contract: more frees behind long work than events exist, then later work, then a large request") {
    REQUIRE(start({{"SIM_TOTAL_MB", "1024"}, {"CISTERN_PENDING", "1G"}}));
    CUcontext context = use_primary();
    CUstream stream = make_stream();
    Gate first;
    Gate second;
    std::vector<CUdeviceptr> blocks;
    for (int i = 0; i < 200; ++i) blocks.push_back(take(4 * MiB));
    use(stream, blocks[0], 4 * MiB, 1000, first);
    for (size_t i = 0; i < 100; ++i) give(blocks[i]);
    use(stream, blocks[199], 4 * MiB, 1000, second);
    for (size_t i = 100; i < 200; ++i) give(blocks[i]);
    CUdeviceptr large = 0;
    CUresult result = CUDA_ERROR_UNKNOWN;
    Beside other(context, [&] { result = mem_alloc(&large, 900 * MiB); });
    CHECK(!other.done_within(a_moment));
    first.open();
    CHECK(!other.done_within(a_moment));
    second.open();
    sim_advance(10'000);
    CHECK(other.done_within(much_too_long));
    CHECK(result == CUDA_SUCCESS);
    check_referee();
}

TEST_CASE("F14 contract: idle and pending memory of another context's pool is given back") {
    REQUIRE(start({{"SIM_TOTAL_MB", "1024"}}));
    use_primary();
    CUstream stream = make_stream();
    give(take(500 * MiB));
    const CUdeviceptr pending = take(300 * MiB);
    use(stream, pending, 300 * MiB, 50'000);
    give(pending);
    create_context();
    sim_auto_advance(1000); // time passes while the pool asks
    give(take(900 * MiB));
    CHECK(last_reason() == pool::Reason::served);
    check_referee();
}

TEST_CASE("F14 contract: another context's frees are waited for although a capture had parked them") {
    REQUIRE(start({{"SIM_TOTAL_MB", "1024"}}));
    use_primary();
    CUstream captured = make_stream();
    const CUdeviceptr parked = take(700 * MiB);
    REQUIRE(begin_capture(captured, CU_STREAM_CAPTURE_MODE_RELAXED) == CUDA_SUCCESS);
    give(parked);
    CUcontext second = create_context();
    CUdeviceptr large = 0;
    CUresult result = CUDA_ERROR_UNKNOWN;
    Beside other(second, [&] { result = mem_alloc(&large, 800 * MiB); });
    CHECK(!other.done_within(a_moment));
    CUgraph graph = nullptr;
    CHECK(end_capture(captured, &graph) == CUDA_SUCCESS);
    CHECK(other.done_within(much_too_long));
    CHECK(result == CUDA_SUCCESS);
    check_referee();
}

TEST_CASE("F14 contract: trim leaves everything to other users of the card") {
    REQUIRE(start({{"SIM_TOTAL_MB", "1024"}}));
    use_primary();
    std::vector<CUdeviceptr> blocks;
    for (int i = 0; i < 14; ++i) blocks.push_back(take(64 * MiB));
    for (CUdeviceptr ptr : blocks) give(ptr);
    CHECK(pool::trim() >= 14 * 64 * MiB);
    CUdeviceptr native = 0;
    CHECK(cuMemAlloc(&native, 960 * MiB) == CUDA_SUCCESS);
    check_referee();
}

TEST_CASE("F17 contract: out of memory is told at once and leaves the pool as it was") {
    REQUIRE(start({{"SIM_TOTAL_MB", "1024"}}));
    use_primary();
    take(512 * MiB);
    give(take(256 * MiB));
    const uint64_t before = mapped();
    CUdeviceptr ptr = 0x1234;
    CHECK(mem_alloc(&ptr, 600 * MiB) == CUDA_ERROR_OUT_OF_MEMORY);
    CHECK(last_reason() == pool::Reason::out_of_memory);
    CHECK(ptr == 0x1234);
    CHECK(mapped() == before);
    give(take(256 * MiB));
    CHECK(mapped() == before);
    check_referee();
}

TEST_CASE("contract: a loop behind a kernel that spans it neither hangs nor grows without bound") {
    REQUIRE(start({{"CISTERN_PENDING", "64M"}}));
    CUcontext context = use_primary();
    CUstream stream = make_stream();
    Gate gate;
    REQUIRE(sim_submit(stream, nullptr, 0, 1000, gate) == CUDA_SUCCESS);
    std::atomic<int> good{0};
    Beside loop(context, [&] {
        for (int i = 0; i < 200; ++i) {
            CUdeviceptr ptr = 0;
            if (mem_alloc(&ptr, 8 * MiB) == CUDA_SUCCESS && mem_free(ptr) == CUDA_SUCCESS) ++good;
        }
    });
    CHECK(!loop.done_within(a_moment)); // natively the first free would wait
    CHECK(mapped() <= 64 * MiB + 2 * 8 * MiB);
    gate.open();
    sim_advance(10'000);
    CHECK(loop.done_within(much_too_long));
    CHECK(good == 200);
    CHECK(mapped() <= 64 * MiB + 2 * 8 * MiB);
    check_referee();
}

TEST_CASE("contract: the bound may be given as a share of the card") {
    REQUIRE(start({{"CISTERN_PENDING", "2%"}, {"SIM_TOTAL_MB", "1024"}}));
    CUcontext context = use_primary();
    CUstream stream = make_stream();
    Gate gate;
    REQUIRE(sim_submit(stream, nullptr, 0, 1000, gate) == CUDA_SUCCESS);
    Beside loop(context, [&] {
        for (int i = 0; i < 20; ++i) {
            CUdeviceptr ptr = 0;
            if (mem_alloc(&ptr, 4 * MiB) == CUDA_SUCCESS) (void)mem_free(ptr);
        }
    });
    CHECK(!loop.done_within(a_moment));
    CHECK(counter("pending_bytes") >= 20 * MiB);
    CHECK(counter("pending_bytes") <= 24 * MiB);
    gate.open();
    sim_advance(10'000);
    CHECK(loop.done_within(much_too_long));
    check_referee();
}

TEST_CASE("F30 contract: nobody else is held up by a thread that waits") {
    REQUIRE(start({{"CISTERN_PENDING", "16M"}}));
    CUcontext context = use_primary();
    CUstream stream = make_stream();
    Gate gate;
    give(take(100 * KiB));
    const CUdeviceptr blocks[] = {take(8 * MiB), take(8 * MiB), take(8 * MiB), take(4 * MiB)};
    give(take(MiB));
    REQUIRE(sim_submit(stream, nullptr, 0, 1000, gate) == CUDA_SUCCESS);
    for (int i = 0; i < 3; ++i) give(blocks[i]);
    CUdeviceptr got = 0;
    Beside waiting(context, [&] { (void)mem_alloc(&got, 32 * MiB); });
    CHECK(!waiting.done_within(a_moment));
    std::atomic<int> good{0};
    Beside other(context, [&] {
        CUdeviceptr ptr = 0;
        if (mem_alloc(&ptr, 90 * KiB) == CUDA_SUCCESS) ++good; // hit
        if (mem_free(ptr) == CUDA_SUCCESS) ++good;
        sim_disclaim(blocks[3]);
        if (mem_free(blocks[3]) == CUDA_SUCCESS) ++good;
        CUdeviceptr start = 0;
        size_t bytes = 0;
        if (address_range(&start, &bytes, blocks[3]) != CUDA_SUCCESS) ++good;
        (void)pool::trim();
        if (mem_info(&bytes, &bytes) == CUDA_SUCCESS) ++good;
    });
    CHECK(other.done_within(std::chrono::milliseconds(1000)));
    CHECK(good == 5);
    CHECK(!waiting.done());
    gate.open();
    sim_advance(10'000);
    CHECK(waiting.done_within(much_too_long));
    CHECK(got != 0);
    check_referee();
}
