// Two GPUs: copies between them, memory of one freed while the other is current, kernels that wait for each other.

#include "gpu_common.cuh"
#include "gpu_tests.h"

#include <atomic>
#include <thread>
#include <vector>

namespace cistern::gpu_test {
namespace {

constexpr size_t bytes = size_t{64} << 20;

bool two_devices(Report& report) {
    int devices = 0;
    if (cudaGetDeviceCount(&devices) != cudaSuccess || devices < 2) report.fail("needs two devices");
    return devices >= 2;
}

struct Copy {
    const char* name;
    cudaError_t (*run)(void* to, int to_device, const void* from, int from_device);
};

const Copy copies[] = {
    {"default", [](void* t, int, const void* f, int) { return cudaMemcpy(t, f, bytes, cudaMemcpyDefault); }},
    {"device", [](void* t, int, const void* f, int) { return cudaMemcpy(t, f, bytes, cudaMemcpyDeviceToDevice); }},
    {"async",
     [](void* t, int, const void* f, int) { return cudaMemcpyAsync(t, f, bytes, cudaMemcpyDefault, nullptr); }},
    {"2d", [](void* t, int, const void* f,
              int) { return cudaMemcpy2D(t, 4096, f, 4096, 4096, bytes / 4096, cudaMemcpyDeviceToDevice); }},
    {"peer", [](void* t, int td, const void* f, int fd) { return cudaMemcpyPeer(t, td, f, fd, bytes); }},
    {"peer_async",
     [](void* t, int td, const void* f, int fd) { return cudaMemcpyPeerAsync(t, td, f, fd, bytes, nullptr); }},
};

void synchronise_both() {
    for (int device : {0, 1}) {
        CHECK_CUDA(cudaSetDevice(device));
        CHECK_CUDA(cudaDeviceSynchronize());
    }
}

void copies_with(Report& report, const std::string& when, void* const memory[2], WrongBytes& wrong) {
    int number = 0;
    for (int source : {0, 1})
        for (int current : {0, 1})
            for (const Copy& copy : copies) {
                const int target = 1 - source;
                const auto value = static_cast<unsigned char>(1 + number++);
                CHECK_CUDA(cudaSetDevice(source));
                fill(memory[source], bytes, value, nullptr);
                CHECK_CUDA(cudaSetDevice(target));
                fill(memory[target], bytes, 0xFF, nullptr);
                synchronise_both();
                CHECK_CUDA(cudaSetDevice(current));
                const cudaError_t code = copy.run(memory[target], target, memory[source], source);
                const cudaError_t last = cudaGetLastError();
                synchronise_both();
                wrong.reset();
                CHECK_CUDA(cudaSetDevice(target));
                check(memory[target], bytes, value, wrong.device(), nullptr);
                CHECK_CUDA(cudaDeviceSynchronize());
                report.result(when + "/" + copy.name + "/from" + std::to_string(source) + "/current" +
                                  std::to_string(current),
                              {code, last, static_cast<long long>(wrong.value())});
            }
}

void* allocate_on(int device) {
    void* p = nullptr;
    CHECK_CUDA(cudaSetDevice(device));
    CHECK_CUDA(cudaMalloc(&p, bytes));
    return p;
}

} // namespace

void peer_copies(Report& report, int) {
    if (!two_devices(report)) return;
    void* memory[2] = {allocate_on(0), allocate_on(1)}; // device 0's memory is older than device 1's context
    CHECK_CUDA(cudaSetDevice(0));
    WrongBytes wrong;
    copies_with(report, "before", memory, wrong);
    for (int device : {0, 1}) {
        CHECK_CUDA(cudaSetDevice(device));
        report.result("enable_on_" + std::to_string(device), cudaDeviceEnablePeerAccess(1 - device, 0));
        report.result("enable_again_on_" + std::to_string(device),
                      {cudaDeviceEnablePeerAccess(1 - device, 0), cudaGetLastError()});
    }
    copies_with(report, "enabled", memory, wrong);
    // A kernel of device 1 writes old and new memory of device 0.
    void* fresh = allocate_on(0);
    CHECK_CUDA(cudaSetDevice(1));
    for (void* p : {memory[0], fresh}) {
        fill(p, bytes, 0x61, nullptr);
        report.result(p == fresh ? "kernel_new" : "kernel_old", cudaDeviceSynchronize());
    }
    CHECK_CUDA(cudaSetDevice(0));
    wrong.reset();
    for (void* p : {memory[0], fresh}) check(p, bytes, 0x61, wrong.device(), nullptr);
    CHECK_CUDA(cudaDeviceSynchronize());
    report.result("kernel_wrong", static_cast<long long>(wrong.value()));
    for (int device : {0, 1}) {
        CHECK_CUDA(cudaSetDevice(device));
        report.result("disable_on_" + std::to_string(device), cudaDeviceDisablePeerAccess(1 - device));
        report.result("disable_again_on_" + std::to_string(device),
                      {cudaDeviceDisablePeerAccess(1 - device), cudaGetLastError()});
    }
    copies_with(report, "disabled", memory, wrong);
    report.result("free_with_other_current", {cudaFree(memory[0]), cudaFree(fresh), cudaFree(memory[1])});
}

// F08 with the wrong device current: device 0 still writes, the free is made with device 1 current.
void peer_free(Report& report, int rounds) {
    if (!two_devices(report)) return;
    if (rounds <= 0) rounds = 300;
    constexpr size_t sizes[] = {8192, 1 << 20, 8 << 20};
    CHECK_CUDA(cudaSetDevice(1));
    CHECK_CUDA(cudaFree(nullptr));
    CHECK_CUDA(cudaSetDevice(0));
    WrongBytes wrong;
    cudaStream_t s1 = new_stream(), s2 = new_stream();
    Victims victims;
    int recycled = 0;
    for (int i = 0; i < rounds; i++) {
        const size_t n = sizes[i % 3];
        unsigned char *p, *q;
        CHECK_CUDA(cudaMalloc(&p, n));
        spin(300, s1);
        fill(p, n, 0xA5, s1);
        CHECK_CUDA(cudaSetDevice(1));
        CHECK_CUDA(cudaFree(p));
        CHECK_CUDA(cudaSetDevice(0));
        CHECK_CUDA(cudaMalloc(&q, n));
        CHECK_CUDA(cudaMemsetAsync(q, 0x11, n, s2));
        CHECK_CUDA(cudaStreamSynchronize(s2));
        CHECK_CUDA(cudaDeviceSynchronize());
        check(q, n, 0x11, wrong.device(), s2);
        CHECK_CUDA(cudaStreamSynchronize(s2));
        recycled += victims.met(p, n) || victims.met(q, n);
        victims.add(p, n);
        CHECK_CUDA(cudaFree(q));
    }
    report.result("wrong", static_cast<long long>(wrong.value()));
    report.varying("recycled_share", double(recycled) / rounds);
    if (wrong.value()) report.fail("wrong bytes");
}

namespace {

__global__ void meet_kernel(volatile int* mine, volatile int* theirs, int round, int* timeouts) {
    *mine = round;
    __threadfence_system();
    const long long start = global_ns();
    while (*theirs < round)
        if (global_ns() - start > 3'000'000'000LL) {
            atomicAdd_system(timeouts, 1);
            return;
        }
}

struct Meeting {
    int arrived[2];
    int timeouts;
};

void one_side(int device, int rounds, Meeting* m, std::atomic<long long>& errors) {
    CHECK_CUDA(cudaSetDevice(device));
    cudaStream_t s = new_stream();
    constexpr size_t sizes[] = {4096, 512 << 10, 8 << 20};
    for (int i = 1; i <= rounds; i++) {
        void *p = nullptr, *q = nullptr;
        errors += cudaMalloc(&p, sizes[i % 3]) != cudaSuccess;
        fill(p, sizes[i % 3], 1, s);
        errors += cudaFree(p) != cudaSuccess;
        errors += cudaMalloc(&q, sizes[i % 3]) != cudaSuccess;
        meet_kernel<<<1, 1, 0, s>>>(&m->arrived[device], &m->arrived[1 - device], i, &m->timeouts);
        fill(q, sizes[i % 3], 2, s);
        if (i % 2) errors += cudaStreamSynchronize(s) != cudaSuccess;
        errors += cudaFree(q) != cudaSuccess; // in every second round while the two kernels are meeting
        errors += cudaStreamSynchronize(s) != cudaSuccess;
        if (m->timeouts) break;
    }
}

} // namespace

// As collectives do: one thread for each device, kernels that meet, memory freed and taken in between.
void spin_pair(Report& report, int rounds) {
    if (!two_devices(report)) return;
    if (rounds <= 0) rounds = 500;
    Meeting* m = nullptr;
    CHECK_CUDA(cudaSetDevice(0));
    CHECK_CUDA(cudaHostAlloc(reinterpret_cast<void**>(&m), sizeof *m, cudaHostAllocMapped | cudaHostAllocPortable));
    *m = Meeting{};
    std::atomic<long long> errors{0};
    const auto start = Clock::now();
    std::vector<std::thread> sides;
    for (int device : {0, 1}) sides.emplace_back([&, device] { one_side(device, rounds, m, errors); });
    for (auto& t : sides) t.join();
    report.result("timeouts", m->timeouts);
    report.result("errors", errors.load());
    report.varying("seconds", seconds_since(start));
    if (m->timeouts || errors) report.fail("kernels of two devices did not meet");
}

} // namespace cistern::gpu_test
