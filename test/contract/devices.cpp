// Several devices: access entries, and nobody waits for another device.
#include "test/catch.h"
#include "test/contract/beside.h"
#include "test/contract/program.h"

using namespace cistern;
using namespace cistern::test;

TEST_CASE("F24 contract: a device whose context appears later can use what is there and what comes") {
    REQUIRE(start({{"SIM_DEVICES", "3"}}));
    CUcontext first = use_primary(0);
    const CUdeviceptr early = take(8 * MiB);
    const CUdeviceptr tiny = take(100);
    use_primary(1);
    CUstream stream = make_stream();
    use(stream, early, 8 * MiB, 1000);
    use(stream, tiny, 100, 1000);
    cuCtxSetCurrent(first);
    const CUdeviceptr late = take(300 * MiB);
    use(stream, late, 300 * MiB, 1000);
    CHECK(cuStreamSynchronize(stream) == CUDA_SUCCESS);
    check_referee();
}

TEST_CASE("F24 contract: a peer that refuses costs the others nothing") {
    REQUIRE(start({{"SIM_DEVICES", "3"}, {"SIM_PEER", "0-1,1-0"}}));
    CUcontext first = use_primary(0);
    take(8 * MiB);
    use_primary(2); // cannot reach device 0
    use_primary(1);
    CUstream stream = make_stream();
    cuCtxSetCurrent(first);
    for (int i = 0; i < 10; ++i) {
        const CUdeviceptr ptr = take(64 * MiB);
        CHECK(last_reason() == pool::Reason::served);
        use(stream, ptr, 64 * MiB, 1000);
    }
    check_referee();
}

TEST_CASE("F24 contract: a peer that lies about access") {
    REQUIRE(start({{"SIM_DEVICES", "2"}}));
    CUcontext first = use_primary(0);
    use_primary(1);
    cuCtxSetCurrent(first);
    sim_fail("cuMemSetAccess", 1, CUDA_ERROR_INVALID_VALUE);
    take(8 * MiB);
    CHECK(last_reason() == pool::Reason::served);
    take(100);
    CHECK(last_reason() == pool::Reason::served);
    check_referee();
}

TEST_CASE("F30 contract: a pool on one device goes on while another device is busy") {
    REQUIRE(start({{"SIM_DEVICES", "2"}, {"CISTERN_PENDING", "1M"}}));
    use_primary(0);
    Gate gate;
    const CUdeviceptr busy = take(8 * MiB);
    use(make_stream(), busy, 8 * MiB, 1000, gate);
    CUcontext second = use_primary(1);
    std::atomic<int> good{0};
    Beside other(second, [&] {
        for (int i = 0; i < 50; ++i) {
            CUdeviceptr ptr = 0;
            if (mem_alloc(&ptr, 8 * MiB) == CUDA_SUCCESS && mem_free(ptr) == CUDA_SUCCESS) ++good;
        }
        // Memory of the busy device, freed with another one current.
        sim_disclaim(busy);
        if (mem_free(busy) == CUDA_SUCCESS) ++good;
    });
    CHECK(other.done_within(much_too_long));
    CHECK(good == 51);
    gate.open();
    check_referee();
}

TEST_CASE("F34 contract: reset of one device leaves the other alone") {
    REQUIRE(start({{"SIM_DEVICES", "2"}}));
    CUcontext first = use_primary(0);
    const CUdeviceptr kept = take(8 * MiB);
    use_primary(1);
    const CUdeviceptr lost = take(8 * MiB);
    sim_disclaim(lost);
    CHECK(reset_primary(1) == CUDA_SUCCESS);
    cuCtxSetCurrent(first);
    CHECK(mem_free(lost) == CUDA_ERROR_INVALID_VALUE);
    CHECK(give(kept) == 0);
    CHECK(take(8 * MiB) == kept);
    check_referee();
}
