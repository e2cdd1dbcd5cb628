// Contexts: several, green ones, destroyed, reset and released under load.
#include "test/catch.h"
#include "test/contract/beside.h"
#include "test/contract/program.h"

using namespace cistern;
using namespace cistern::test;

namespace {} // namespace

TEST_CASE("F34 contract: a destroyed context takes its pool with it, 50 times") {
    REQUIRE(start());
    CUcontext primary = use_primary();
    const CUdeviceptr elsewhere = take(4 * MiB);
    const SimBalance before = balance();
    for (int round = 0; round < 50; ++round) {
        CUcontext context = create_context();
        CUstream stream = make_stream();
        const CUdeviceptr live = take(64 * MiB);
        const CUdeviceptr cached = take(16 * MiB);
        give(cached);
        const CUdeviceptr pending = take(32 * MiB);
        use(stream, pending, 32 * MiB, 1000);
        give(pending);
        sim_disclaim(live);
        CHECK(destroy_context(context) == CUDA_SUCCESS);
        cuCtxSetCurrent(primary);
        CHECK(mem_free(live) == CUDA_ERROR_INVALID_VALUE);
        CHECK(mem_free(cached) == CUDA_ERROR_INVALID_VALUE);
    }
    check_balance(before);
    CHECK(give(elsewhere) == 0);
    CHECK(take(4 * MiB) == elsewhere);
    check_referee();
}

TEST_CASE("F34 contract: reset of the primary context, 50 times") {
    REQUIRE(start());
    use_primary();
    const SimBalance before = balance();
    for (int round = 0; round < 50; ++round) {
        CUcontext context = use_primary();
        CUstream stream = make_stream();
        const CUdeviceptr ptr = take(100 * MiB);
        CHECK(last_reason() == pool::Reason::served);
        use(stream, ptr, 100 * MiB, 1000);
        const CUdeviceptr small = take(100);
        give(ptr);
        sim_disclaim(small);
        CHECK(reset_primary() == CUDA_SUCCESS);
        cuCtxSetCurrent(context);
        CHECK(mem_free(ptr) != CUDA_SUCCESS);
    }
    check_balance(before);
    check_referee();
}

TEST_CASE("F34 contract: the pool stays at a release that is not the last, and goes at the last") {
    REQUIRE(start());
    use_primary();
    const SimBalance before = balance();
    use_primary(); // retained twice
    const CUdeviceptr ptr = take(8 * MiB);
    CHECK(release_primary() == CUDA_SUCCESS);
    CHECK(give(ptr) == 0);
    CHECK(take(8 * MiB) == ptr);
    sim_disclaim(ptr);
    CHECK(release_primary() == CUDA_SUCCESS);
    check_balance(before);
    use_primary();
    take(8 * MiB);
    CHECK(last_reason() == pool::Reason::served);
    check_referee();
}

TEST_CASE("F34 contract: destruction and reset while other threads allocate") {
    REQUIRE(start());
    CUcontext primary = use_primary();
    const SimBalance before = balance();
    for (int round = 0; round < 25; ++round) {
        const bool reset = round % 2 == 0;
        CUcontext context = reset ? use_primary() : create_context();
        std::atomic<bool> stop{false};
        const auto load = [&] {
            while (!stop.load()) {
                CUdeviceptr ptr = 0;
                if (mem_alloc(&ptr, 2 * MiB) != CUDA_SUCCESS) continue;
                (void)mem_free(ptr); // of a context that has ended meanwhile: any code, no damage
            }
        };
        {
            Beside first(context, load);
            Beside second(context, load);
            std::this_thread::sleep_for(std::chrono::milliseconds(2));
            const CUresult result = reset ? reset_primary() : destroy_context(context);
            CHECK(result == CUDA_SUCCESS);
            stop.store(true);
        }
        cuCtxSetCurrent(primary);
    }
    reset_primary(); // what was allocated after the last reset
    check_balance(before);
    CHECK(sim_violations("query_dead_event") == 0);
    CHECK(sim_violations("unmap_busy") == 0);
}

TEST_CASE("F34 contract: a free in one context waits for no work of another") {
    REQUIRE(start({{"CISTERN_PENDING", "1M"}}));
    CUcontext first = use_primary();
    CUstream stream = make_stream();
    Gate gate;
    REQUIRE(sim_submit(stream, nullptr, 0, 1000, gate) == CUDA_SUCCESS);
    CUcontext second = create_context();
    std::atomic<int> good{0};
    Beside other(second, [&] {
        for (int i = 0; i < 50; ++i) {
            CUdeviceptr ptr = 0;
            if (mem_alloc(&ptr, 8 * MiB) == CUDA_SUCCESS && mem_free(ptr) == CUDA_SUCCESS) ++good;
        }
    });
    CHECK(other.done_within(much_too_long));
    CHECK(good == 50);
    CHECK(mapped() <= 16 * MiB);
    gate.open();
    (void)first;
    check_referee();
}

TEST_CASE("contract: a green context uses its primary's pool and outlives nothing") {
    REQUIRE(start());
    CUcontext primary = use_primary();
    CUstream stream = make_stream();
    const GreenContext green = create_green_context();
    cuCtxSetCurrent(green.context);
    const CUdeviceptr first = take(8 * MiB);
    const CUdeviceptr second = take(8 * MiB);
    cuCtxSetCurrent(primary);
    use(stream, first, 8 * MiB, long_time);
    cuCtxSetCurrent(green.context);
    CHECK(give(first) == 1); // the primary's work counts
    CHECK(take(8 * MiB) != first);
    CHECK(synchronize() == CUDA_SUCCESS); // of the green one: proves nothing about the primary
    CHECK(take(8 * MiB) != first);
    CHECK(destroy_green_context(green) == CUDA_SUCCESS);
    cuCtxSetCurrent(primary);
    CHECK(give(second) == 0); // memory survived
    sim_advance(2 * long_time);
    const CUdeviceptr again[] = {take(8 * MiB), take(8 * MiB)};
    CHECK((again[0] == first || again[1] == first));
    check_referee();
}

TEST_CASE("contract: a green context's handle may later be another context") {
    REQUIRE(start());
    CUcontext primary = use_primary();
    CUcontext context = create_context();
    pool::green_context_appeared(context); // as if its handle had been a green one's
    pool::context_created(context);
    const CUdeviceptr ptr = take(8 * MiB);
    cuCtxSetCurrent(primary);
    sim_disclaim(ptr);
    CHECK(destroy_context(context) == CUDA_SUCCESS);
    CHECK(mem_free(ptr) == CUDA_ERROR_INVALID_VALUE); // it lay in the destroyed context's pool
    check_referee();
}
