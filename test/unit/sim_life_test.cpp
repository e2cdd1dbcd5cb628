// States in which the driver refuses, injected failures, the call log, threads.

#include "test/unit/sim_world.h"

#include <sys/wait.h>
#include <unistd.h>

#include <cstring>

extern "C" CUresult cuCtxGetDevice_v2(CUdevice*, CUcontext);

TEST_CASE("sim life: before cuInit, without a device, without a context") {
    sim_reset();
    CUdeviceptr p = 0;
    int version = 0;
    CHECK(cuMemAlloc(&p, 16) == CUDA_ERROR_NOT_INITIALIZED);
    CHECK(cuDriverGetVersion(&version) == CUDA_SUCCESS);
    CHECK(version == 13000);
    setenv("SIM_NO_DEVICE", "1", 1);
    sim_reset();
    CHECK(cuInit(0) == CUDA_ERROR_NO_DEVICE);
    CHECK(cuMemAlloc(&p, 16) == CUDA_ERROR_NOT_INITIALIZED);
    unsetenv("SIM_NO_DEVICE");
    setenv("SIM_LIFE_PROBE", "seen", 1);
    sim_reset();
    CHECK(sim_env_at_init("SIM_LIFE_PROBE") == nullptr);
    REQUIRE(cuInit(0) == CUDA_SUCCESS);
    unsetenv("SIM_LIFE_PROBE");
    CHECK(std::string(sim_env_at_init("SIM_LIFE_PROBE")) == "seen");
    CHECK(cuMemAlloc(&p, 16) == CUDA_ERROR_INVALID_CONTEXT);
    CHECK(cuMemFree(16) == CUDA_ERROR_INVALID_CONTEXT);
    CHECK(cuCtxSynchronize() == CUDA_ERROR_INVALID_CONTEXT);
    CUcontext c = nullptr;
    CHECK(cuCtxGetCurrent(&c) == CUDA_SUCCESS);
    CHECK(c == nullptr);
    Vmm needs_no_context;
}

TEST_CASE("sim life: a child of fork has no driver") {
    World w;
    pid_t child = fork();
    if (child == 0) {
        CUdeviceptr p = 0;
        bool right = cuMemAlloc(&p, 16) == CUDA_ERROR_NOT_INITIALIZED && cuInit(0) == CUDA_ERROR_NOT_INITIALIZED;
        _exit(right ? 0 : 1);
    }
    int status = -1;
    REQUIRE(waitpid(child, &status, 0) == child);
    CHECK(WIFEXITED(status));
    CHECK(WEXITSTATUS(status) == 0);
}

TEST_CASE("sim life: inside a host function") {
    World w;
    struct Seen {
        CUevent event;
        CUcontext context;
        CUresult results[6];
    } seen{World::event(), w.context, {}};
    REQUIRE(cuCtxRecordEvent(w.context, seen.event) == CUDA_SUCCESS);
    REQUIRE(cuLaunchHostFunc(
                nullptr,
                [](void* data) {
                    auto& s = *static_cast<Seen*>(data);
                    CUdeviceptr p = 0;
                    CUcontext c = nullptr;
                    s.results[0] = cuMemAlloc(&p, 16);
                    s.results[1] = cuMemFree(0);
                    s.results[2] = cuCtxGetCurrent(&c);
                    s.results[3] = cuCtxRecordEvent(s.context, s.event);
                    s.results[4] = cuEventSynchronize(s.event);
                    s.results[5] = cuEventQuery(s.event);
                },
                &seen) == CUDA_SUCCESS);
    REQUIRE(cuCtxSynchronize() == CUDA_SUCCESS);
    for (int i = 0; i < 5; ++i) CHECK(seen.results[i] == CUDA_ERROR_NOT_PERMITTED);
    CHECK(seen.results[5] == CUDA_SUCCESS);
}

TEST_CASE("sim life: after a device fault") {
    World w;
    CUdeviceptr p = 0;
    CUevent e = World::event();
    CUstream s = World::stream();
    REQUIRE(cuMemAlloc(&p, 16) == CUDA_SUCCESS);
    REQUIRE(cuCtxRecordEvent(w.context, e) == CUDA_SUCCESS);
    SimGate* gate = sim_gate_create();
    REQUIRE(submit_nothing(s, 10, gate) == CUDA_SUCCESS);
    CUresult waited = CUDA_SUCCESS;
    Other waiter([&] { waited = cuStreamSynchronize(s); });
    REQUIRE(blocked(1));
    sim_fault(w.context, 102000000);
    waiter.join(); // nobody waits for work that will never end
    CHECK(waited == CUDA_ERROR_ILLEGAL_ADDRESS);
    CHECK(cuEventQuery(e) == CUDA_ERROR_ILLEGAL_ADDRESS);
    CHECK(cuCtxRecordEvent(w.context, e) == CUDA_ERROR_ILLEGAL_ADDRESS);
    CHECK(cuMemFree(p) == CUDA_ERROR_ILLEGAL_ADDRESS);
    CHECK(cuMemAlloc(&p, 16) == CUDA_SUCCESS);
    sim_advance(102000000);
    CHECK(cuMemAlloc(&p, 16) == CUDA_ERROR_ILLEGAL_ADDRESS);
    CHECK(submit_nothing(s, 1) == CUDA_ERROR_ILLEGAL_ADDRESS);
    Vmm still_works;
    sim_gate_open(gate);
    CHECK(sim_unfinished(nullptr) == 0);
    CHECK(cuDevicePrimaryCtxReset(0) == CUDA_SUCCESS);
    World::use(0);
    CHECK(cuMemAlloc(&p, 16) == CUDA_SUCCESS);
}

TEST_CASE("sim life: contexts") {
    World w(2);
    CUcontext made = nullptr;
    CUdevice d = 9;
    REQUIRE(cuCtxCreate_v2(&made, 0, 1) == CUDA_SUCCESS);
    CHECK(World::current() == made);
    CHECK(cuCtxGetDevice(&d) == CUDA_SUCCESS);
    CHECK(d == 1);
    CHECK(cuCtxGetDevice_v2(&d, w.context) == CUDA_SUCCESS);
    CHECK(d == 0);
    CUdeviceptr p = 0;
    REQUIRE(cuMemAlloc(&p, 16) == CUDA_SUCCESS);
    Vmm survives(page, 1);
    CHECK(cuCtxEnablePeerAccess(w.context, 0) == CUDA_SUCCESS);
    CHECK(cuCtxEnablePeerAccess(w.context, 0) == CUDA_ERROR_PEER_ACCESS_ALREADY_ENABLED);
    CHECK(cuCtxDisablePeerAccess(w.context) == CUDA_SUCCESS);
    CHECK(cuCtxDisablePeerAccess(w.context) == CUDA_ERROR_PEER_ACCESS_NOT_ENABLED);
    REQUIRE(cuCtxDestroy(made) == CUDA_SUCCESS);
    CHECK(World::current() == w.context);
    CHECK(cuMemFree(p) == CUDA_ERROR_INVALID_VALUE);
    CHECK(sim_check(survives.ptr, 16, 0) == 1);
    CUcontext top = nullptr;
    CHECK(cuCtxPushCurrent(w.context) == CUDA_SUCCESS);
    CHECK(cuCtxPopCurrent(&top) == CUDA_SUCCESS);
    CHECK(top == w.context);
    unsigned flags = 0;
    int active = 9;
    CHECK(cuDevicePrimaryCtxGetState(0, &flags, &active) == CUDA_SUCCESS);
    CHECK(active == 1);
    CHECK(cuDevicePrimaryCtxRelease(0) == CUDA_SUCCESS);
    CHECK(cuDevicePrimaryCtxGetState(0, &flags, &active) == CUDA_SUCCESS);
    CHECK(active == 0);
    CHECK(cuMemAlloc(&p, 16) == CUDA_ERROR_CONTEXT_IS_DESTROYED);
}

TEST_CASE("sim life: injected failures, poison, attributes, refusals") {
    World w(1, "SIM_REFUSE", "rdma:801,fd:800");
    CUdeviceptr p = 7;
    sim_fail("cuMemAlloc_v2", 2, CUDA_ERROR_OUT_OF_MEMORY);
    CHECK(cuMemAlloc(&p, 16) == CUDA_SUCCESS);
    CHECK(cuMemAlloc(&p, 16) == CUDA_ERROR_OUT_OF_MEMORY);
    CHECK(cuMemAlloc(&p, 16) == CUDA_SUCCESS);
    sim_fail("cuMemAlloc_v2", 0, CUDA_ERROR_UNKNOWN);
    sim_poison(1);
    CHECK(cuMemAlloc(&p, 16) == CUDA_ERROR_UNKNOWN);
    CHECK(p == 0xA5A5A5A5A5A5A5A5u);
    CHECK(cuMemAlloc(&p, 16) == CUDA_ERROR_UNKNOWN);
    sim_clear_failures();
    sim_poison(0);
    CHECK(cuMemAlloc(&p, 16) == CUDA_SUCCESS);

    CUmemAllocationProp prop = Vmm::properties();
    CUmemGenericAllocationHandle h = 0;
    CHECK(cuMemCreate(&h, page, &prop, 0) == CUDA_ERROR_NOT_PERMITTED);
    prop.requestedHandleTypes = CU_MEM_HANDLE_TYPE_NONE;
    prop.allocFlags.gpuDirectRDMACapable = 1;
    CHECK(cuMemCreate(&h, page, &prop, 0) == CUDA_ERROR_NOT_SUPPORTED);
    prop.allocFlags.gpuDirectRDMACapable = 0;
    CHECK(cuMemCreate(&h, page, &prop, 0) == CUDA_SUCCESS);
    sim_set_attribute(0, CU_DEVICE_ATTRIBUTE_VIRTUAL_MEMORY_MANAGEMENT_SUPPORTED, 0);
    int value = 9;
    CHECK(cuDeviceGetAttribute(&value, CU_DEVICE_ATTRIBUTE_VIRTUAL_MEMORY_MANAGEMENT_SUPPORTED, 0) == CUDA_SUCCESS);
    CHECK(value == 0);
    CHECK(cuMemCreate(&h, page, &prop, 0) == CUDA_ERROR_NOT_SUPPORTED);
}

TEST_CASE("sim life: settings from the environment") {
    setenv("SIM_FAIL", "cuInit:1:999,cuMemCreate:*:2", 1);
    setenv("SIM_ATTR", "102=0,1:75=7", 1);
    setenv("SIM_PEER", "0-1", 1);
    setenv("SIM_DEVICES", "2", 1);
    sim_reset();
    CHECK(cuInit(0) == CUDA_ERROR_UNKNOWN);
    REQUIRE(cuInit(0) == CUDA_SUCCESS);
    for (const char* name : {"SIM_FAIL", "SIM_ATTR", "SIM_PEER", "SIM_DEVICES"}) unsetenv(name);
    int value = 9;
    CHECK(cuDeviceGetAttribute(&value, CU_DEVICE_ATTRIBUTE_COMPUTE_CAPABILITY_MAJOR, 1) == CUDA_SUCCESS);
    CHECK(value == 7);
    CHECK(cuDeviceGetAttribute(&value, CU_DEVICE_ATTRIBUTE_COMPUTE_CAPABILITY_MAJOR, 0) == CUDA_SUCCESS);
    CHECK(value == 9);
    CHECK(cuDeviceCanAccessPeer(&value, 0, 1) == CUDA_SUCCESS);
    CHECK(value == 1);
    CHECK(cuDeviceCanAccessPeer(&value, 1, 0) == CUDA_SUCCESS);
    CHECK(value == 0);
    CUmemAllocationProp prop = Vmm::properties();
    CUmemGenericAllocationHandle h = 0;
    CHECK(cuMemCreate(&h, page, &prop, 0) == CUDA_ERROR_OUT_OF_MEMORY);
    sim_reset();
}

TEST_CASE("sim life: calls are counted") {
    World w;
    sim_clear_calls();
    CUdeviceptr p = 0;
    cuMemAlloc(&p, 16);
    cuMemFree(p);
    cuMemFree(p);
    CHECK(sim_calls("cuMemAlloc_v2") == 1);
    CHECK(sim_calls("cuMemFree_v2") == 2);
    CHECK(sim_calls("cuMemAlloc") == 0);
    CHECK(sim_calls("noSuchName") == 0);
    CHECK(sim_calls_total() == 3);
}

TEST_CASE("sim life: eight threads in two contexts") {
    World w(2);
    std::vector<std::unique_ptr<Other>> threads;
    std::atomic<int> wrong{0};
    sim_auto_advance(50);
    for (int t = 0; t < 8; ++t) {
        World::use(t % 2);
        threads.push_back(std::make_unique<Other>([&wrong] {
            CUcontext c = World::current();
            CUstream s = nullptr;
            CUevent e = nullptr;
            CUdeviceptr p = 0;
            if (cuStreamCreate(&s, 1) || cuEventCreate(&e, 2) || cuMemAlloc(&p, 4096)) ++wrong;
            sim_claim(p, 4096);
            for (int i = 0; i < 300; ++i) {
                SimRange range{p, 4096, SIM_WRITE | SIM_EDGES, static_cast<unsigned char>(i), 0};
                if (sim_submit(s, &range, 1, 500, nullptr)) ++wrong;
                if (i % 16 == 0 && cuEventQuery(e) == CUDA_SUCCESS && cuCtxRecordEvent(c, e)) ++wrong;
            }
            if (cuStreamSynchronize(s)) ++wrong;
            sim_disclaim(p);
            if (cuMemFree(p)) ++wrong;
        }));
    }
    threads.clear();
    CHECK(wrong == 0);
    sim_program_begin();
    CHECK(sim_violations(nullptr) == sim_violations("unrecorded_query"));
    sim_program_end();
}
