// What the device pool promises for single calls.
#include "test/catch.h"
#include "test/contract/beside.h"
#include "test/contract/program.h"

#include <set>

using namespace cistern;
using namespace cistern::test;

TEST_CASE("contract: blocks are aligned, usable and apart") {
    REQUIRE(start());
    use_primary();
    CUstream stream = make_stream();
    std::vector<CUdeviceptr> blocks;
    for (size_t bytes :
         {size_t{1}, size_t{511}, size_t{512}, size_t{513}, 5 * KiB, 300 * KiB, MiB, MiB + 1, 3 * MiB, 70 * MiB}) {
        const CUdeviceptr ptr = take(bytes);
        CHECK(last_reason() == pool::Reason::served);
        CHECK(ptr % 512 == 0);
        if (bytes > MiB) CHECK(ptr % (64 * KiB) == 0);
        use(stream, ptr, bytes, 1000);
        blocks.push_back(ptr);
    }
    for (CUdeviceptr ptr : blocks) CHECK(give(ptr) == 1);
    check_referee();
}

TEST_CASE("contract: an idle block is handed out again without a driver call for memory") {
    REQUIRE(start());
    use_primary();
    for (size_t bytes : {100 * KiB, 5 * MiB}) {
        const CUdeviceptr first = take(bytes);
        give(first);
        const unsigned long created = sim_calls("cuMemCreate");
        for (int i = 0; i < 1000; ++i) give(take(bytes));
        CHECK(sim_calls("cuMemCreate") <= created + 1);
    }
    CHECK(sim_calls("cuMemAlloc_v2") <= 1); // the dummy of the barrier
    check_referee();
}

TEST_CASE("contract: address range tells the requested size, and nothing beyond it") {
    REQUIRE(start());
    use_primary();
    for (size_t bytes : {size_t{1}, size_t{700}, 3 * MiB + 5}) {
        const CUdeviceptr ptr = take(bytes);
        CUdeviceptr base = 0;
        size_t range = 0;
        CHECK(address_range(&base, &range, ptr) == CUDA_SUCCESS);
        CHECK(base == ptr);
        CHECK(range == bytes);
        CHECK(address_range(&base, &range, ptr + bytes - 1) == CUDA_SUCCESS);
        CHECK(base == ptr);
        CHECK(address_range(&base, &range, ptr + bytes) != CUDA_SUCCESS);
        CHECK(address_range(nullptr, &range, ptr) == CUDA_SUCCESS);
        CHECK(address_range(&base, nullptr, ptr) == CUDA_SUCCESS);
        give(ptr);
        CHECK(address_range(&base, &range, ptr) != CUDA_SUCCESS);
    }
}

TEST_CASE("F09 contract: wrong and foreign pointers get the driver's answer") {
    REQUIRE(start());
    use_primary();
    for (size_t bytes : {2 * KiB, 3 * MiB}) {
        const CUdeviceptr ptr = take(bytes);
        CHECK(mem_free(ptr + 512) == CUDA_ERROR_INVALID_VALUE);
        CHECK(mem_free(ptr + 1) == CUDA_ERROR_INVALID_VALUE);
        give(ptr);
        CHECK(mem_free(ptr) == CUDA_ERROR_INVALID_VALUE);
    }
    int local = 0;
    CHECK(mem_free(0x1234) == CUDA_ERROR_INVALID_VALUE);
    CHECK(mem_free(reinterpret_cast<CUdeviceptr>(&local)) == CUDA_ERROR_INVALID_VALUE);
    CHECK(mem_free(0) == CUDA_SUCCESS);
    CHECK(mem_free_async(0, nullptr) == CUDA_SUCCESS);
    CUdeviceptr native = 0;
    REQUIRE(cuMemAlloc(&native, MiB) == CUDA_SUCCESS); // by a route without hooks
    CHECK(mem_free(native) == CUDA_SUCCESS);
    CHECK(last_reason() == pool::Reason::foreign_pointer);
    CHECK(balance().allocations <= 1); // the dummy of the barrier
    check_referee();
}

TEST_CASE("F36 contract: zero sizes, nulls and sizes beyond the card") {
    REQUIRE(start());
    use_primary();
    CUdeviceptr ptr = 0x1234;
    size_t pitch = 77;
    CHECK(mem_alloc(&ptr, 0) == CUDA_ERROR_INVALID_VALUE);
    CHECK(mem_alloc(nullptr, 512) == CUDA_ERROR_INVALID_VALUE);
    for (size_t bytes : {size_t{1} << 50, SIZE_MAX, SIZE_MAX - 511, size_t{1} << 63, 4096 * MiB + 1})
        CHECK(mem_alloc(&ptr, bytes) == CUDA_ERROR_OUT_OF_MEMORY);
    CHECK(ptr == 0x1234);
    CHECK(mem_alloc_pitch(&ptr, &pitch, 0, 1, 4) == CUDA_ERROR_INVALID_VALUE);
    CHECK(mem_alloc_pitch(&ptr, &pitch, 1, 1, 3) == CUDA_ERROR_INVALID_VALUE);
    CHECK(mem_alloc_pitch(&ptr, &pitch, SIZE_MAX, 2, 4) == CUDA_ERROR_OUT_OF_MEMORY);
    give(take(512));
}

TEST_CASE("F42 contract: pitch is the width rounded up to 512") {
    REQUIRE(start());
    use_primary();
    const std::pair<size_t, size_t> cases[] = {{1, 512}, {100, 512}, {512, 512}, {513, 1024}, {4097, 4608}};
    for (const auto& [width, expected] : cases) {
        CUdeviceptr ptr = 0;
        size_t pitch = 0;
        size_t range = 0;
        REQUIRE(mem_alloc_pitch(&ptr, &pitch, width, 10, 4) == CUDA_SUCCESS);
        CHECK(last_reason() == pool::Reason::served);
        CHECK(pitch == expected);
        CHECK(address_range(nullptr, &range, ptr) == CUDA_SUCCESS);
        CHECK(range == expected * 10);
        CHECK(mem_free(ptr) == CUDA_SUCCESS);
    }
}

TEST_CASE("F19 contract: freed memory counts as free") {
    REQUIRE(start());
    use_primary();
    CUstream stream = make_stream();
    Gate gate;
    size_t before = 0;
    size_t after = 0;
    size_t total = 0;
    give(take(MiB));
    REQUIRE(mem_info(&before, &total) == CUDA_SUCCESS);
    const CUdeviceptr ptr = take(1024 * MiB);
    REQUIRE(mem_info(&after, &total) == CUDA_SUCCESS);
    CHECK(after == before - 1024 * MiB);
    use(stream, ptr, 1024 * MiB, 1000, gate);
    give(ptr); // pending
    REQUIRE(mem_info(&after, &total) == CUDA_SUCCESS);
    CHECK(after == before);
    gate.open();
}

TEST_CASE("F08 contract: a block is not handed out while work on it runs") {
    REQUIRE(start({{"CISTERN_PENDING", "2G"}})); // nobody waits
    CUcontext context = use_primary();
    CUstream streams[] = {make_stream(), make_stream(CU_STREAM_DEFAULT), nullptr, CU_STREAM_PER_THREAD};
    for (CUstream stream : streams) {
        for (size_t bytes : {4 * KiB, 64 * MiB}) {
            Gate gate;
            const CUdeviceptr first = take(bytes);
            use(stream, first, bytes, 1000, gate);
            CHECK(give(first) == 1); // returned: the free does not wait
            for (size_t size : {bytes / 2, bytes, 2 * bytes}) take(size);
            CUdeviceptr other = 0;
            Beside thread(context, [&] { (void)mem_alloc(&other, bytes); });
            CHECK(thread.done_within(much_too_long));
            CHECK(other != 0);
            CHECK(other != first);
        }
    }
    check_referee();
}

TEST_CASE("contract: the free from another thread is ordered like the owner's") {
    REQUIRE(start());
    CUcontext context = use_primary();
    CUstream stream = make_stream();
    const CUdeviceptr ptr = take(8 * MiB);
    use(stream, ptr, 8 * MiB, long_time);
    {
        Beside other(context, [&] {
            sim_disclaim(ptr);
            (void)mem_free(ptr);
        });
    }
    for (int i = 0; i < 4; ++i) CHECK(take(8 * MiB) != ptr);
    sim_advance(2 * long_time);
    CHECK(take(8 * MiB) == ptr);
    check_referee();
}

TEST_CASE("contract: a synchronise of the program makes its earlier frees ready") {
    REQUIRE(start());
    use_primary();
    CUstream stream = make_stream();
    give(take(8 * MiB));
    const CUdeviceptr ptr = take(64 * KiB);
    use(stream, ptr, 64 * KiB, long_time);
    give(ptr);
    const unsigned long queries = sim_calls("cuEventQuery");
    CHECK(synchronize() == CUDA_SUCCESS);
    CHECK(take(64 * KiB) == ptr);
    CHECK(sim_calls("cuEventQuery") == queries); // nothing had to be asked
    check_referee();
}

namespace {

/// With work that a context event would wait for, and a stream's event does not.
struct StreamOrdered {
    StreamOrdered() {
        start();
        primary = use_primary();
        idle = make_stream();
        CHECK(sim_submit(make_stream(), nullptr, 0, 0, gate) == CUDA_SUCCESS);
    }
    ~StreamOrdered() { gate.open(); }
    Gate gate;
    CUcontext primary = nullptr;
    CUstream idle = nullptr;
};

} // namespace

TEST_CASE("contract: a stream-ordered free is ready when its stream has passed") {
    StreamOrdered s;
    const CUdeviceptr ptr = take(8 * MiB);
    use(s.idle, ptr, 8 * MiB, 1000);
    CHECK(give_async(ptr, s.idle) == 1);
    CHECK(last_reason() == pool::Reason::served);
    CHECK(mem_free(ptr) == CUDA_SUCCESS); // as natively, until the stream has passed it
    CHECK(take(8 * MiB) != ptr);
    sim_advance(2000);
    CHECK(take(8 * MiB) == ptr);
    CHECK(mem_free_async(ptr + 512, s.idle) == CUDA_ERROR_INVALID_VALUE);
    check_referee();
}

TEST_CASE("contract: stream-ordered frees in the legacy and the per-thread stream") {
    StreamOrdered s;
    for (CUstream stream : {CUstream{nullptr}, CU_STREAM_LEGACY, CU_STREAM_PER_THREAD}) {
        const CUdeviceptr ptr = take(8 * MiB);
        give_async(ptr, stream);
        CHECK(last_reason() == pool::Reason::served);
        CHECK(take(8 * MiB) == ptr);
        give_async(ptr, stream);
    }
    check_referee();
}

TEST_CASE("contract: a stream-ordered free in a stream of another context") {
    StreamOrdered s;
    const CUdeviceptr ptr = take(8 * MiB);
    create_context();
    CUstream foreign = make_stream();
    cuCtxSetCurrent(s.primary);
    use(foreign, ptr, 8 * MiB, long_time);
    CHECK(give_async(ptr, foreign) == 1);
    CHECK(last_reason() == pool::Reason::served);
    CHECK(take(8 * MiB) != ptr);
    sim_advance(2 * long_time);
    pool::trim(); // asks every context
    CHECK(sim_violations(nullptr) == 0);
    give(take(8 * MiB));
    CHECK(last_reason() == pool::Reason::served);
    check_referee();
}

TEST_CASE("contract: a stream-ordered free in a stream of a green context leaves the pool alive") {
    StreamOrdered s;
    const GreenContext green = create_green_context();
    cuCtxSetCurrent(green.context);
    CUstream of_green = make_stream();
    cuCtxSetCurrent(s.primary);
    CHECK(give_async(take(8 * MiB), of_green) == 0);
    take(4 * MiB);
    CHECK(last_reason() == pool::Reason::served);
    check_referee();
}

TEST_CASE("contract: a stream that refuses the pool's event costs the pool nothing") {
    StreamOrdered s;
    const CUdeviceptr ptr = take(8 * MiB);
    sim_fail("cuEventRecord", 1, CUDA_ERROR_INVALID_HANDLE);
    give_async(ptr, s.idle);
    CHECK(last_reason() == pool::Reason::served);
    take(4 * MiB);
    CHECK(last_reason() == pool::Reason::served);
    s.gate.open(); // ready as after a plain free
    CHECK(take(8 * MiB) == ptr);
    check_referee();
}

TEST_CASE("contract: no allocation without a context, frees whatever is current") {
    REQUIRE(start());
    CUcontext primary = use_primary();
    const CUdeviceptr first = take(4 * MiB);
    const CUdeviceptr second = take(4 * MiB);
    CUcontext other = create_context();
    CHECK(give(first) == 0); // with `other` current
    leave_all_contexts();
    CHECK(give(second) == 0);
    CUdeviceptr ptr = 0;
    CHECK(mem_alloc(&ptr, 512) == CUDA_ERROR_INVALID_CONTEXT);
    CHECK(last_reason() == pool::Reason::no_context);
    cuCtxSetCurrent(primary);
    std::set<CUdeviceptr> again{take(4 * MiB), take(4 * MiB)};
    CHECK(again == std::set<CUdeviceptr>{first, second});
    cuCtxSetCurrent(other);
    CUcontext now = nullptr;
    give(take(4 * MiB));
    cuCtxGetCurrent(&now);
    CHECK(now == other);
    check_referee();
}

TEST_CASE("contract: calls inside a host function get the driver's code") {
    REQUIRE(start());
    use_primary();
    static CUdeviceptr kept = 0;
    static std::atomic<int> results[3];
    kept = take(4 * MiB);
    const auto inside = [](void*) {
        CUdeviceptr ptr = 0;
        results[0] = mem_alloc(&ptr, 512);
        results[1] = mem_free(kept);
        results[2] = mem_free_async(kept, nullptr);
    };
    REQUIRE(cuLaunchHostFunc(make_stream(), inside, nullptr) == CUDA_SUCCESS);
    sim_wait_host_functions();
    for (const std::atomic<int>& result : results) CHECK(result.load() == CUDA_ERROR_NOT_PERMITTED);
    CHECK(give(kept) == 0);
    check_referee();
}

TEST_CASE("contract: a sticky fault ends the pool of its context, not of another") {
    REQUIRE(start());
    CUcontext primary = use_primary();
    CUstream stream = make_stream();
    Gate gate;
    const CUdeviceptr first = take(4 * MiB);
    const CUdeviceptr second = take(4 * MiB);
    use(stream, first, 4 * MiB, 1000, gate);
    CUcontext other = create_context();
    const CUdeviceptr elsewhere = take(4 * MiB);
    cuCtxSetCurrent(primary);
    sim_fault(primary, 0);
    sim_disclaim(first);
    CHECK(mem_free(first) != CUDA_ERROR_INVALID_VALUE); // noticed by the record inside
    CUdeviceptr ptr = 0;
    CHECK(mem_alloc(&ptr, MiB) == CUDA_ERROR_ILLEGAL_ADDRESS);
    CHECK(mem_free(second) == CUDA_ERROR_ILLEGAL_ADDRESS);
    CHECK(last_reason() == pool::Reason::dead_context);
    cuCtxSetCurrent(other);
    CHECK(give(elsewhere) == 0);
    CHECK(take(4 * MiB) == elsewhere);
    gate.open();
}

TEST_CASE("contract: waiting frees return when earlier work is over") {
    REQUIRE(start({{"DALI_USE_DEFERRED_DEALLOC", "0"}}));
    CUcontext context = use_primary();
    CUstream stream = make_stream();
    for (size_t bytes : {4 * KiB, 16 * MiB}) {
        Gate gate;
        const CUdeviceptr ptr = take(bytes);
        use(stream, ptr, bytes, 1000, gate);
        CUresult result = CUDA_ERROR_UNKNOWN;
        Beside other(context, [&] { result = mem_free(ptr); });
        CHECK(!other.done_within(a_moment));
        sim_disclaim(ptr);
        gate.open();
        sim_advance(10'000);
        CHECK(other.done_within(much_too_long));
        CHECK(result == CUDA_SUCCESS);
        CHECK(take(bytes) == ptr);
    }
    CHECK(counter("waiting_frees") == 2);
    check_referee();
}

TEST_CASE("contract: a pool that is switched off forwards everything") {
    CHECK(!start({{"DALI_USE_DEVICE_MEM_POOL", "0"}}));
    use_primary();
    CUdeviceptr ptr = 0;
    REQUIRE(mem_alloc(&ptr, MiB) == CUDA_SUCCESS);
    CHECK(last_reason() == pool::Reason::disabled);
    CHECK(mem_free(ptr) == CUDA_SUCCESS);
    CHECK(sim_calls("cuMemAlloc_v2") == 1);
    CHECK(pool::idle_bytes() == 0);
    CHECK(pool::trim() == 0);
}

TEST_CASE("F06 contract: a child of fork gets the driver's code and touches nothing") {
    REQUIRE(start());
    use_primary();
    const CUdeviceptr kept = take(4 * MiB);
    const SimBalance before = balance();
    CHECK(child_of_fork_gets_not_initialized(kept));
    CHECK(balance().handles == before.handles);
    CHECK(give(kept) == 0);
    CHECK(take(4 * MiB) == kept);
    check_referee();
}
