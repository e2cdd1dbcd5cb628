// Drivers and devices that lack something. CMakeLists.txt runs these cases once for each environment.
#include "test/catch.h"
#include "test/contract/program.h"

#include <cstdlib>
#include <random>

using namespace cistern;
using namespace cistern::test;

TEST_CASE("mixed-operations") {
    const bool expected = std::getenv("EXPECT_POOL") != nullptr;
    start();
    use_primary();
    CUstream stream = make_stream();
    sim_auto_advance(200);
    std::mt19937_64 random(33);
    std::vector<CUdeviceptr> live;
    int served = 0;
    unsigned long first_creates = 0;
    for (int i = 0; i < 1000; ++i) {
        if (i == 100) first_creates = sim_calls("cuMemCreate") + sim_calls("cuMemAddressReserve");
        if (live.size() < 20 && random() % 2 == 0) {
            const size_t bytes = size_t{1} << (8 + random() % 17);
            live.push_back(take(bytes));
            served += last_reason() == pool::Reason::served;
            use(stream, live.back(), bytes, 1000);
        } else if (!live.empty()) {
            give(live.back());
            live.pop_back();
        }
        if (i % 100 == 99) pool::trim();
    }
    for (CUdeviceptr ptr : live) give(ptr);
    CHECK((served > 0) == expected);
    // A refusal is taken for an answer.
    if (!expected) CHECK(sim_calls("cuMemCreate") + sim_calls("cuMemAddressReserve") == first_creates);
    check_referee();
}

TEST_CASE("barriers") {
    start();
    use_primary();
    CUstream stream = make_stream();
    const unsigned long frees_before = sim_calls("cuMemFree_v2");
    for (int i = 0; i < 1000; ++i) {
        const CUdeviceptr ptr = take(MiB);
        use(stream, ptr, MiB, 1000);
        give(ptr);
    }
    CHECK(last_reason() == pool::Reason::served);
    CHECK(sim_calls("cuCtxRecordEvent") == 0);
    CHECK(sim_calls("cuMemFree_v2") - frees_before <= 1000 / 60);
    CHECK(mapped() <= 200 * MiB);
    check_referee();
}

TEST_CASE("barriers-on-a-full-card") {
    start({{"SIM_TOTAL_MB", "256"}});
    use_primary();
    CUstream stream = make_stream();
    for (int i = 0; i < 10; ++i) {
        std::vector<CUdeviceptr> blocks;
        CUdeviceptr ptr = 0;
        size_t bytes = 128 * MiB;
        while (bytes >= 2 * MiB) { // until no page is left
            if (mem_alloc(&ptr, bytes) == CUDA_SUCCESS) {
                blocks.push_back(ptr);
                use(stream, ptr, bytes, 1000);
            } else {
                bytes /= 2;
            }
        }
        for (CUdeviceptr block : blocks) CHECK(mem_free(block) == CUDA_SUCCESS);
        CHECK(sim_calls("cuCtxRecordEvent") == 0);
        CHECK(mem_alloc(&ptr, 200 * MiB) == CUDA_SUCCESS);
        CHECK(mem_free(ptr) == CUDA_SUCCESS);
    }
    check_referee();
}
