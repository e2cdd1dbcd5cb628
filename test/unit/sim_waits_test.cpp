// Who blocks whom on the host.

#include "test/unit/sim_world.h"

namespace {

/// Whether `call`, made by another thread, sleeps as long as the state lasts. `busy` threads sleep already.
bool sleeps(int busy, const std::function<void()>& call, Other*& left) {
    left = new Other(call);
    bool went_on = false;
    eventually([&] {
        went_on = left->ended();
        return went_on || sim_blocked_threads() == busy + 1;
    });
    return !went_on;
}

} // namespace

TEST_CASE("sim waits: native frees wait for all work of the owner, whatever is current") {
    World w(2);
    CUdeviceptr p = 0;
    void* h = nullptr;
    REQUIRE(cuMemAlloc(&p, 256) == CUDA_SUCCESS);
    REQUIRE(cuMemHostAlloc(&h, 256, 0) == CUDA_SUCCESS);
    uint64_t start = sim_now();
    REQUIRE(submit_nothing(World::stream(), 100000) == CUDA_SUCCESS);
    World::use(1);
    REQUIRE(submit_nothing(World::stream(), 500000) == CUDA_SUCCESS); // a busy peer is not waited for
    REQUIRE(cuMemFree(p) == CUDA_SUCCESS);
    CHECK(sim_now() - start == 100000);
    World::use(0);
    REQUIRE(submit_nothing(World::stream(), 1000) == CUDA_SUCCESS);
    REQUIRE(cuMemFreeHost(h) == CUDA_SUCCESS);
    CHECK(sim_now() - start == 101000);
    World::use(1);
    CHECK(sim_unfinished(nullptr) == 1);
}

TEST_CASE("sim waits: what a waiting native free blocks, and what it does not") {
    World w(2);
    Vmm m;
    CUdeviceptr p = 0;
    REQUIRE(cuMemAlloc(&p, 256) == CUDA_SUCCESS);
    CUstream s = World::stream();
    CUevent e = World::event();
    SimGate* gate = sim_gate_create();
    REQUIRE(submit_nothing(s, 0, gate) == CUDA_SUCCESS);
    CUcontext c = w.context;
    Other freer([p] { cuMemFree(p); });
    REQUIRE(blocked(1));

    // These go on; the test would hang if one slept.
    CHECK(cuStreamQuery(s) == CUDA_ERROR_NOT_READY);
    sim_program_begin();
    cuEventQuery(e);
    sim_program_end();
    CUdeviceptr q = 0;
    CHECK(cuMemAllocAsync(&q, 100, s) == CUDA_SUCCESS);
    Vmm made;
    World::use(1);
    CHECK(submit_nothing(World::stream(), 10) == CUDA_SUCCESS);
    World::use(0);

    const std::vector<std::pair<const char*, std::function<void()>>> sleepers = {
        {"launch", [s] { submit_nothing(s, 1); }},
        {"copy", [&] { cuMemsetD8Async(m.ptr, 0, 16, s); }},
        {"event record", [=] { cuEventRecord(e, s); }},
        {"context record", [=] { cuCtxRecordEvent(c, e); }},
        {"cuMemAlloc",
         [] {
             CUdeviceptr x = 0;
             cuMemAlloc(&x, 1);
         }},
        {"cuMemHostAlloc",
         [] {
             void* x = nullptr;
             cuMemHostAlloc(&x, 1, 0);
         }},
        {"event creation",
         [] {
             CUevent x = nullptr;
             cuEventCreate(&x, 0);
         }},
        {"stream creation",
         [] {
             CUstream x = nullptr;
             cuStreamCreate(&x, 0);
         }},
    };
    std::vector<Other*> left;
    for (const auto& [name, call] : sleepers) {
        INFO(name);
        Other* one = nullptr;
        CHECK(sleeps(1 + static_cast<int>(left.size()), call, one));
        left.push_back(one);
    }
    CHECK_FALSE(freer.ended());
    sim_gate_open(gate);
    for (Other* one : left) delete one; // joins
    freer.join();
    CHECK(sim_blocked_threads() == 0);
}

TEST_CASE("sim waits: a full stream blocks its launcher and set-up calls, not records and queries") {
    World w(2);
    sim_stream_limit(4);
    CUstream s = World::stream();
    CUstream elsewhere = World::stream();
    CUevent e = World::event();
    SimGate* gate = sim_gate_create();
    REQUIRE(submit_nothing(s, 0, gate) == CUDA_SUCCESS);
    for (int i = 0; i < 3; ++i) REQUIRE(submit_nothing(s, 1) == CUDA_SUCCESS);
    CUcontext c = w.context;
    Other launcher([s] { submit_nothing(s, 1); });
    REQUIRE(blocked(1));
    CHECK(submit_nothing(elsewhere, 1) == CUDA_SUCCESS);
    CHECK(cuCtxRecordEvent(c, e) == CUDA_SUCCESS);
    CHECK(cuEventQuery(e) == CUDA_ERROR_NOT_READY);
    Vmm made;
    const std::vector<std::function<void()>> sleepers = {
        [=] { cuCtxWaitEvent(c, e); },
        [] {
            CUdeviceptr x = 0;
            cuMemAlloc(&x, 1);
        },
        [] {
            CUevent x = nullptr;
            cuEventCreate(&x, 0);
        },
        [elsewhere] { cuStreamBeginCapture(elsewhere, CU_STREAM_CAPTURE_MODE_RELAXED); },
    };
    std::vector<Other*> left;
    for (const auto& call : sleepers) {
        Other* one = nullptr;
        CHECK(sleeps(1 + static_cast<int>(left.size()), call, one));
        left.push_back(one);
    }
    sim_gate_open(gate);
    sim_advance(10);
    for (Other* one : left) delete one;
    launcher.join();
    CHECK(sim_blocked_threads() == 0);
}

TEST_CASE("sim waits: work of known length never makes a launcher sleep") {
    World w;
    CUstream s = World::stream();
    for (int i = 0; i < 3000; ++i) REQUIRE(submit_nothing(s, 100) == CUDA_SUCCESS);
    CHECK(sim_unfinished(nullptr) <= 1021);
}

TEST_CASE("sim waits: reset waits for running work") {
    World w;
    uint64_t start = sim_now();
    REQUIRE(submit_nothing(World::stream(), 4000) == CUDA_SUCCESS);
    REQUIRE(cuDevicePrimaryCtxReset(0) == CUDA_SUCCESS);
    CHECK(sim_now() - start == 4000);
}
