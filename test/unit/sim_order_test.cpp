// The order in which work runs, and what each kind of event and synchronise covers.

#include "test/unit/sim_world.h"

TEST_CASE("sim order: work runs in stream order and takes its time") {
    World w;
    Vmm m;
    CUstream s = World::stream();
    REQUIRE(submit(s, m.ptr, 4096, 1000, 1) == CUDA_SUCCESS);
    REQUIRE(submit(s, m.ptr, 4096, 1000, 2) == CUDA_SUCCESS);
    CHECK(cuStreamQuery(s) == CUDA_ERROR_NOT_READY);
    sim_advance(999);
    CHECK(sim_check(m.ptr, 4096, 0) == 1);
    sim_advance(1);
    CHECK(sim_check(m.ptr, 4096, 1) == 1);
    uint64_t before = sim_now();
    CHECK(cuStreamSynchronize(s) == CUDA_SUCCESS); // fast-forward
    CHECK(sim_now() - before == 1000);
    CHECK(sim_check(m.ptr, 4096, 2) == 1);
    CHECK(sim_check(m.ptr, 4096, 1) == 0);
    CHECK(sim_unfinished(nullptr) == 0);
}

TEST_CASE("sim order: legacy, blocking, per-thread and non-blocking streams") {
    World w;
    CUstream blocking = World::stream(CU_STREAM_DEFAULT);
    CUstream apart = World::stream();
    REQUIRE(submit_nothing(blocking, 1000) == CUDA_SUCCESS);
    REQUIRE(submit_nothing(nullptr, 1000) == CUDA_SUCCESS);              // after the blocking one
    REQUIRE(submit_nothing(CU_STREAM_PER_THREAD, 1000) == CUDA_SUCCESS); // after the legacy one
    REQUIRE(submit_nothing(apart, 1000) == CUDA_SUCCESS);
    sim_advance(1000);
    CHECK(cuStreamQuery(apart) == CUDA_SUCCESS);
    CHECK(cuStreamQuery(blocking) == CUDA_SUCCESS);
    CHECK(cuStreamQuery(nullptr) == CUDA_ERROR_NOT_READY);
    sim_advance(1000);
    CHECK(cuStreamQuery(CU_STREAM_PER_THREAD) == CUDA_ERROR_NOT_READY);
    sim_advance(1000);
    CHECK(cuStreamQuery(CU_STREAM_PER_THREAD) == CUDA_SUCCESS);
    CHECK(sim_unfinished(w.context) == 0);
}

TEST_CASE("sim order: stream events and waits for them") {
    World w;
    CUstream a = World::stream();
    CUstream b = World::stream();
    CUevent e = World::event();
    CHECK(cuEventQuery(e) == CUDA_SUCCESS); // fresh reads as done
    REQUIRE(submit_nothing(a, 5000) == CUDA_SUCCESS);
    REQUIRE(cuEventRecord(e, a) == CUDA_SUCCESS);
    REQUIRE(submit_nothing(a, 9000) == CUDA_SUCCESS); // after the record: not covered
    REQUIRE(cuStreamWaitEvent(b, e, 0) == CUDA_SUCCESS);
    REQUIRE(submit_nothing(b, 100) == CUDA_SUCCESS);
    CHECK(cuEventQuery(e) == CUDA_ERROR_NOT_READY);
    sim_advance(5000);
    CHECK(cuEventQuery(e) == CUDA_SUCCESS);
    CHECK(cuStreamQuery(b) == CUDA_ERROR_NOT_READY);
    sim_advance(100);
    CHECK(cuStreamQuery(b) == CUDA_SUCCESS);
    CHECK(cuStreamQuery(a) == CUDA_ERROR_NOT_READY);
}

TEST_CASE("sim order: a context record covers everything so far, of every thread, and delays nothing") {
    World w;
    CUstream s = World::stream();
    CUevent e = World::event();
    std::atomic<int> ran{0};
    REQUIRE(submit_nothing(s, 100) == CUDA_SUCCESS);
    Other other([] { submit_nothing(CU_STREAM_PER_THREAD, 7000); });
    other.join();
    CUstream gone = World::stream();
    REQUIRE(submit_nothing(gone, 8000) == CUDA_SUCCESS);
    REQUIRE(cuStreamDestroy(gone) == CUDA_SUCCESS); // its work goes on
    REQUIRE(cuLaunchHostFunc(
                s, [](void* p) { ++*static_cast<std::atomic<int>*>(p); }, &ran) == CUDA_SUCCESS);
    REQUIRE(cuCtxRecordEvent(w.context, e) == CUDA_SUCCESS);
    REQUIRE(submit_nothing(s, 50) == CUDA_SUCCESS);
    sim_advance(7500);
    sim_wait_host_functions();
    CHECK(ran == 1);
    CHECK(cuEventQuery(e) == CUDA_ERROR_NOT_READY);
    sim_advance(500);
    CHECK(cuEventQuery(e) == CUDA_SUCCESS);
}

TEST_CASE("sim order: a recycled event keeps its old state until the new record takes effect") {
    World w;
    CUstream s = World::stream();
    CUevent e = World::event();
    REQUIRE(cuCtxRecordEvent(w.context, e) == CUDA_SUCCESS);
    REQUIRE(submit_nothing(s, 1000) == CUDA_SUCCESS);
    CHECK(cuEventQuery(e) == CUDA_SUCCESS);
    REQUIRE(cuCtxRecordEvent(w.context, e) == CUDA_SUCCESS);
    CHECK(cuEventQuery(e) == CUDA_ERROR_NOT_READY);
}

TEST_CASE("sim order: re-recording or destroying an event leaves waits that are queued alone") {
    World w;
    CUstream a = World::stream();
    CUstream b = World::stream();
    CUevent e = World::event();
    REQUIRE(submit_nothing(a, 1000) == CUDA_SUCCESS);
    REQUIRE(cuEventRecord(e, a) == CUDA_SUCCESS);
    REQUIRE(cuStreamWaitEvent(b, e, 0) == CUDA_SUCCESS);
    REQUIRE(cuEventRecord(e, b) == CUDA_SUCCESS);
    REQUIRE(cuEventDestroy(e) == CUDA_SUCCESS);
    REQUIRE(submit_nothing(b, 1) == CUDA_SUCCESS);
    CHECK(cuStreamQuery(b) == CUDA_ERROR_NOT_READY);
    sim_advance(1001);
    CHECK(cuStreamQuery(b) == CUDA_SUCCESS);
}

TEST_CASE("sim order: a context wait holds later work of every stream, not earlier work") {
    World w(2);
    CUstream s = World::stream();
    CUstream earlier = World::stream();
    SimGate* gate = sim_gate_create();
    World::use(1);
    CUcontext other = World::current();
    CUstream there = World::stream();
    CUevent e = World::event();
    REQUIRE(submit_nothing(there, 10, gate) == CUDA_SUCCESS);
    REQUIRE(cuCtxRecordEvent(other, e) == CUDA_SUCCESS);
    World::use(0);
    REQUIRE(submit_nothing(earlier, 100) == CUDA_SUCCESS);
    REQUIRE(cuCtxWaitEvent(w.context, e) == CUDA_SUCCESS);
    REQUIRE(submit_nothing(s, 10) == CUDA_SUCCESS);
    CUstream late = World::stream();
    REQUIRE(submit_nothing(late, 10) == CUDA_SUCCESS);
    sim_advance(10000);
    CHECK(cuStreamQuery(earlier) == CUDA_SUCCESS);
    CHECK(cuStreamQuery(s) == CUDA_ERROR_NOT_READY);
    CHECK(cuStreamQuery(late) == CUDA_ERROR_NOT_READY);
    sim_gate_open(gate);
    sim_advance(20);
    CHECK(cuStreamQuery(s) == CUDA_SUCCESS);
    CHECK(cuStreamQuery(late) == CUDA_SUCCESS);
}

TEST_CASE("sim order: an event belongs to its context") {
    World w(2);
    CUevent e = World::event();
    World::use(1);
    CHECK(cuCtxRecordEvent(World::current(), e) == CUDA_ERROR_INVALID_HANDLE);
    CHECK(cuCtxRecordEvent(w.context, e) == CUDA_SUCCESS); // whatever is current
    cuCtxSetCurrent(nullptr);
    CHECK(cuCtxRecordEvent(w.context, e) == CUDA_SUCCESS);
}

TEST_CASE("sim order: gates hold work and wake waiters") {
    World w;
    CUstream s = World::stream();
    SimGate* gate = sim_gate_create();
    REQUIRE(submit_nothing(s, 10, gate) == CUDA_SUCCESS);
    sim_advance(1000000);
    CHECK(cuStreamQuery(s) == CUDA_ERROR_NOT_READY);
    Other waiter([s] { cuStreamSynchronize(s); });
    REQUIRE(blocked(1));
    CHECK_FALSE(waiter.ended());
    sim_gate_open(gate);
    waiter.join();
    CHECK(cuStreamQuery(s) == CUDA_SUCCESS);
    sim_gate_destroy(gate);
}

TEST_CASE("sim order: copies and memsets move real bytes in stream order") {
    World w;
    Vmm a;
    Vmm b;
    CUstream s = World::stream();
    std::vector<unsigned char> host(4096, 0x11);
    REQUIRE(cuMemcpyHtoDAsync(a.ptr, host.data(), host.size(), s) == CUDA_SUCCESS);
    host.assign(4096, 0x99); // pageable: staged already
    REQUIRE(cuMemcpyDtoDAsync(b.ptr, a.ptr, 4096, s) == CUDA_SUCCESS);
    REQUIRE(cuMemsetD8Async(a.ptr, 0x22, 4096, s) == CUDA_SUCCESS);
    REQUIRE(cuMemsetD32Async(a.ptr + 4096, 0x01020304, 16, s) == CUDA_SUCCESS);
    REQUIRE(cuStreamSynchronize(s) == CUDA_SUCCESS);
    CHECK(sim_check(b.ptr, 4096, 0x11) == 1);
    CHECK(sim_check(a.ptr, 4096, 0x22) == 1);
    unsigned word = 0;
    REQUIRE(cuMemcpyDtoH(&word, a.ptr + 4096 + 60, 4) == CUDA_SUCCESS);
    CHECK(word == 0x01020304);
    CUDA_MEMCPY2D c{};
    c.srcMemoryType = CU_MEMORYTYPE_DEVICE;
    c.srcDevice = a.ptr;
    c.srcPitch = 512;
    c.dstMemoryType = CU_MEMORYTYPE_HOST;
    c.dstHost = host.data();
    c.WidthInBytes = 100;
    c.Height = 4;
    REQUIRE(cuMemcpy2D(&c) == CUDA_SUCCESS);
    CHECK(std::vector<unsigned char>(host.begin(), host.begin() + 400) == std::vector<unsigned char>(400, 0x22));
    CHECK(host[400] == 0x99);
}

TEST_CASE("sim order: automatic advance moves the clock with each call") {
    World w;
    sim_auto_advance(100);
    uint64_t before = sim_now();
    CUcontext c = nullptr;
    cuCtxGetCurrent(&c);
    cuCtxGetCurrent(&c);
    CHECK(sim_now() - before == 200);
}
