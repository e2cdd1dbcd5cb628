#pragma once
// A fresh simulated driver for each test case, with the primary context of device 0 current.

#include "test/catch.h"
#include "test/fakes/sim.h"

#include <atomic>
#include <chrono>
#include <functional>
#include <string>
#include <thread>
#include <vector>

// Younger than the oldest header that this project builds with.
extern "C" {
CUresult cuCtxRecordEvent(CUcontext, CUevent);
CUresult cuCtxWaitEvent(CUcontext, CUevent);
CUresult cuCtxCreate_v2(CUcontext*, unsigned, CUdevice);
}

constexpr size_t MiB = size_t{1} << 20;
constexpr size_t page = 2 * MiB;

inline std::string sim_text() {
    std::string text(sim_report(nullptr, 0), '\0');
    sim_report(text.data(), text.size());
    return text;
}

struct World {
    CUcontext context = nullptr;

    explicit World(int devices = 1, const char* more = nullptr, const char* value = nullptr) {
        setenv("SIM_DEVICES", std::to_string(devices).c_str(), 1);
        if (more) setenv(more, value, 1);
        sim_reset();
        if (cuInit(0) != CUDA_SUCCESS) throw std::runtime_error("cuInit failed");
        if (more) unsetenv(more);
        use(0);
        context = current();
    }
    ~World() { sim_reset(); }
    World(const World&) = delete;
    World& operator=(const World&) = delete;

    static void use(int device) {
        CUcontext primary = nullptr;
        cuDevicePrimaryCtxRetain(&primary, device);
        cuCtxSetCurrent(primary);
    }
    static CUcontext current() {
        CUcontext now = nullptr;
        cuCtxGetCurrent(&now);
        return now;
    }
    static CUstream stream(unsigned flags = CU_STREAM_NON_BLOCKING) {
        CUstream made = nullptr;
        REQUIRE(cuStreamCreate(&made, flags) == CUDA_SUCCESS);
        return made;
    }
    static CUevent event() {
        CUevent made = nullptr;
        REQUIRE(cuEventCreate(&made, CU_EVENT_DISABLE_TIMING) == CUDA_SUCCESS);
        return made;
    }
};

/// Mapped and accessible VMM memory of device 0, left to sim_reset.
struct Vmm {
    CUdeviceptr ptr = 0;
    size_t bytes = 0;
    CUmemGenericAllocationHandle handle = 0;

    static CUmemAllocationProp properties(int device = 0) {
        CUmemAllocationProp p{};
        p.type = CU_MEM_ALLOCATION_TYPE_PINNED;
        p.location = {CU_MEM_LOCATION_TYPE_DEVICE, device};
        p.requestedHandleTypes = CU_MEM_HANDLE_TYPE_POSIX_FILE_DESCRIPTOR;
        return p;
    }
    explicit Vmm(size_t size = page, int device = 0) : bytes(size) {
        CUmemAllocationProp p = properties(device);
        REQUIRE(cuMemAddressReserve(&ptr, bytes, 0, 0, 0) == CUDA_SUCCESS);
        REQUIRE(cuMemCreate(&handle, bytes, &p, 0) == CUDA_SUCCESS);
        REQUIRE(cuMemMap(ptr, bytes, 0, handle, 0) == CUDA_SUCCESS);
        access({device});
    }
    void access(const std::vector<int>& devices) const {
        std::vector<CUmemAccessDesc> entries;
        for (int device : devices)
            entries.push_back({{CU_MEM_LOCATION_TYPE_DEVICE, device}, CU_MEM_ACCESS_FLAGS_PROT_READWRITE});
        REQUIRE(cuMemSetAccess(ptr, bytes, entries.data(), entries.size()) == CUDA_SUCCESS);
    }
};

inline CUresult submit(CUstream stream, CUdeviceptr ptr, size_t bytes, uint64_t ns, unsigned char pattern = 0x5a,
                       SimGate* gate = nullptr, unsigned flags = SIM_WRITE) {
    SimRange range{ptr, bytes, flags, pattern, 0};
    return sim_submit(stream, &range, 1, ns, gate);
}

inline CUresult submit_nothing(CUstream stream, uint64_t ns, SimGate* gate = nullptr) {
    return sim_submit(stream, nullptr, 0, ns, gate);
}

/// A thread with the same current context; `ended()` tells whether it came through.
class Other {
public:
    explicit Other(const std::function<void()>& body) : context_(World::current()) {
        thread_ = std::thread([this, body] {
            cuCtxSetCurrent(context_);
            body();
            ended_ = true;
        });
    }
    ~Other() {
        if (thread_.joinable()) thread_.join();
    }
    Other(const Other&) = delete;
    Other& operator=(const Other&) = delete;
    bool ended() const { return ended_; }
    void join() { thread_.join(); }

private:
    CUcontext context_;
    std::atomic<bool> ended_{false};
    std::thread thread_;
};

/// Until `what()` or 10 s of real time.
inline bool eventually(const std::function<bool()>& what) {
    for (int i = 0; i < 100000; ++i) {
        if (what()) return true;
        std::this_thread::sleep_for(std::chrono::microseconds(100));
    }
    return false;
}

inline bool blocked(int threads) {
    return eventually([threads] { return sim_blocked_threads() == threads; });
}
