// Life of contexts (F34), faults, host functions, green contexts, and the speed of a kernel in pool memory.

#include "driver_api.h"
#include "gpu_common.cuh"
#include "gpu_tests.h"

#include <algorithm>
#include <thread>
#include <vector>

namespace cistern::gpu_test {
namespace {

constexpr size_t mib = 1 << 20;

size_t free_now() {
    size_t free_bytes = 0, total = 0;
    CHECK_CUDA(cudaMemGetInfo(&free_bytes, &total));
    return free_bytes;
}

unsigned long long fill_and_check(void* p, size_t bytes) {
    unsigned long long* wrong = nullptr;
    CHECK_CUDA(cudaHostAlloc(reinterpret_cast<void**>(&wrong), sizeof *wrong, cudaHostAllocMapped));
    *wrong = 0;
    fill(p, bytes, 0x5A, nullptr);
    check(p, bytes, 0x5A, wrong, nullptr);
    CHECK_CUDA(cudaDeviceSynchronize());
    const unsigned long long bad = *wrong;
    CHECK_CUDA(cudaFreeHost(wrong));
    return bad;
}

} // namespace

void info(Report& report, int) {
    int devices = 0, version = 0, runtime = 0;
    const cudaError_t code = cudaGetDeviceCount(&devices);
    report.result("code", code);
    report.result("devices", devices);
    if (code || !devices) return report.fail("no device");
    cudaDeviceProp prop{};
    CHECK_CUDA(cudaGetDeviceProperties(&prop, 0));
    CHECK_CUDA(cudaDriverGetVersion(&version));
    CHECK_CUDA(cudaRuntimeGetVersion(&runtime));
    report.result("name", std::string(prop.name));
    report.result("driver_interface", version);
    report.result("runtime", runtime);
    report.result("total_mib", static_cast<long long>(prop.totalGlobalMem / mib));
}

void reset(Report& report, int rounds) {
    if (rounds <= 0) rounds = 12;
    CHECK_CUDA(cudaFree(nullptr));
    const size_t before = free_now();
    long long bad = 0;
    void *first_old = nullptr, *p = nullptr, *q = nullptr;
    for (int i = 0; i < rounds; i++) {
        CHECK_CUDA(cudaMalloc(&p, 512 * mib));
        CHECK_CUDA(cudaMalloc(&q, 3 * mib));
        bad += static_cast<long long>(fill_and_check(p, 64 * mib) + fill_and_check(q, 3 * mib));
        CHECK_CUDA(cudaFree(q));
        if (i % 2) CHECK_CUDA(cudaFree(p));
        if (i == 0) first_old = p;
        if (i % 3 == 0) spin(20000, nullptr);
        CHECK_CUDA(cudaDeviceReset());
    }
    report.result("wrong", bad);
    CHECK_CUDA(cudaFree(nullptr));
    report.result("free_of_old_pointer", {cudaFree(first_old), cudaGetLastError()});
    const size_t after = free_now();
    report.result("memory_comes_back", after + 64 * mib >= before);
    report.varying("lost_mib", (double(before) - double(after)) / double(mib));
}

namespace {

/// Allocations, work and a late write in a context of its own; returns the number of wrong bytes.
long long use_context(int i) {
    const DriverApi& d = driver();
    CUdeviceptr kept = 0, freed = 0, again = 0;
    CUstream s1, s2;
    const size_t bytes = 4 * mib;
    CHECK_CUDA(d.cuStreamCreate(&s1, CU_STREAM_NON_BLOCKING));
    CHECK_CUDA(d.cuStreamCreate(&s2, CU_STREAM_NON_BLOCKING));
    CHECK_CUDA(d.cuMemAlloc(&kept, 256 * mib));
    CHECK_CUDA(d.cuMemAlloc(&freed, bytes));
    for (int k = 0; k < 8; k++) CHECK_CUDA(d.cuMemsetD8Async(kept, 1, 256 * mib, s1)); // keeps the stream busy
    CHECK_CUDA(d.cuMemsetD8Async(freed, 0xA5, bytes, s1));
    CHECK_CUDA(d.cuMemFree(freed));
    CHECK_CUDA(d.cuMemAlloc(&again, bytes));
    CHECK_CUDA(d.cuMemsetD8Async(again, 0x11, bytes, s2));
    CHECK_CUDA(d.cuStreamSynchronize(s2));
    CHECK_CUDA(d.cuStreamSynchronize(s1));
    std::vector<unsigned char> host(bytes);
    CHECK_CUDA(d.cuMemcpyDtoH(host.data(), again, bytes));
    const long long wrong = static_cast<long long>(bytes) - std::count(host.begin(), host.end(), 0x11);
    if (i % 2) CHECK_CUDA(d.cuMemFree(again));
    return wrong; // the rest dies with the context
}

} // namespace

void own_context(Report& report, int rounds) {
    if (rounds <= 0) rounds = 12;
    CHECK_CUDA(cudaFree(nullptr));
    const DriverApi& d = driver();
    CUcontext primary = nullptr, own = nullptr;
    CHECK_CUDA(d.cuCtxGetCurrent(&primary));
    void* in_primary = nullptr;
    CHECK_CUDA(cudaMalloc(&in_primary, 8 * mib));
    CHECK_CUDA(cudaMemset(in_primary, 0x42, 8 * mib));
    const size_t before = free_now();
    long long wrong = 0;
    CUdeviceptr old = 0;
    for (int i = 0; i < rounds; i++) {
        CHECK_CUDA(d.cuCtxCreate(&own, 0, 0));
        wrong += use_context(i);
        CHECK_CUDA(d.cuMemAlloc(&old, mib));
        if (i == 0) { // memory of one context, freed while another is current
            CHECK_CUDA(d.cuCtxSetCurrent(primary));
            report.result("free_from_other_context", d.cuMemFree(old));
            CHECK_CUDA(d.cuCtxSetCurrent(own));
            CHECK_CUDA(d.cuMemAlloc(&old, mib));
        }
        CHECK_CUDA(d.cuCtxDestroy(own));
        CHECK_CUDA(d.cuCtxSetCurrent(primary));
        if (i == 1) report.result("free_after_destroy", d.cuMemFree(old));
    }
    WrongBytes other;
    check(in_primary, 8 * mib, 0x42, other.device(), nullptr);
    CHECK_CUDA(cudaDeviceSynchronize());
    report.result("wrong", wrong);
    report.result("wrong_in_primary", static_cast<long long>(other.value()));
    report.result("free_in_primary", cudaFree(in_primary));
    const size_t after = free_now();
    report.result("memory_comes_back", after + 64 * mib >= before);
    report.varying("lost_mib", (double(before) - double(after)) / double(mib));
    if (wrong || other.value()) report.fail("wrong bytes");
}

namespace {

/// A green context with some of the multiprocessors of device 0; null where the driver has none.
CUgreenCtx make_green(CUcontext* view) {
    const DriverApi& d = driver();
    if (!d.cuGreenCtxCreate || !d.cuDeviceGetDevResource || !d.cuDevSmResourceSplitByCount) return nullptr;
    CUdevResource all{}, part{};
    unsigned groups = 1;
    CUdevResourceDesc description;
    CUgreenCtx green = nullptr;
    if (d.cuDeviceGetDevResource(0, &all, CU_DEV_RESOURCE_TYPE_SM)) return nullptr;
    if (d.cuDevSmResourceSplitByCount(&part, &groups, &all, nullptr, 0, 16)) return nullptr;
    if (d.cuDevResourceGenerateDesc(&description, &part, 1)) return nullptr;
    if (d.cuGreenCtxCreate(&green, description, 0, CU_GREEN_CTX_DEFAULT_STREAM)) return nullptr;
    CHECK_CUDA(d.cuCtxFromGreenCtx(view, green));
    return green;
}

} // namespace

// Work is submitted under the primary context, its memory freed under the green one, and taken again there.
void green_context(Report& report, int rounds) {
    if (rounds <= 0) rounds = 100;
    CHECK_CUDA(cudaFree(nullptr));
    const DriverApi& d = driver();
    CUcontext primary = nullptr, view = nullptr;
    CHECK_CUDA(d.cuCtxGetCurrent(&primary));
    CUgreenCtx green = make_green(&view);
    report.result("available", green != nullptr);
    if (!green) return;
    CUstream in_green;
    CHECK_CUDA(d.cuGreenCtxStreamCreate(&in_green, green, CU_STREAM_NON_BLOCKING, 0));
    cudaStream_t s1 = new_stream();
    WrongBytes wrong;
    CUdeviceptr last = 0;
    for (int i = 0; i < rounds; i++) {
        const size_t bytes = i % 2 ? 4 * mib : 100 * 1024;
        void* p = nullptr;
        CUdeviceptr q = 0;
        CHECK_CUDA(cudaMalloc(&p, bytes));
        spin(400, s1);
        fill(p, bytes, 0xA5, s1);
        CHECK_CUDA(d.cuCtxSetCurrent(view));
        CHECK_CUDA(d.cuMemFree(reinterpret_cast<CUdeviceptr>(p)));
        CHECK_CUDA(d.cuMemAlloc(&q, bytes));
        CHECK_CUDA(d.cuMemsetD8Async(q, 0x11, bytes, in_green));
        CHECK_CUDA(d.cuStreamSynchronize(in_green));
        CHECK_CUDA(d.cuCtxSetCurrent(primary));
        CHECK_CUDA(cudaDeviceSynchronize());
        check(reinterpret_cast<void*>(q), bytes, 0x11, wrong.device(), s1);
        CHECK_CUDA(cudaStreamSynchronize(s1));
        if (i + 1 == rounds)
            last = q;
        else
            CHECK_CUDA(d.cuMemFree(q));
    }
    report.result("wrong", static_cast<long long>(wrong.value()));
    report.result("destroy", d.cuGreenCtxDestroy(green));
    fill(reinterpret_cast<void*>(last), 1000, 1, s1); // memory survives the green context
    report.result("memory_survives", cudaStreamSynchronize(s1));
    report.result("free_afterwards", d.cuMemFree(last));
    if (wrong.value()) report.fail("wrong bytes");
}

namespace {

__global__ void bad_write_kernel(int* p) { *p = 1; }

} // namespace

void fault(Report& report, int) {
    void *p = nullptr, *q = nullptr;
    CUdeviceptr r = 0;
    size_t f = 0, t = 0;
    CHECK_CUDA(cudaMalloc(&p, 5 * mib));
    CHECK_CUDA(cudaMalloc(&q, 5 * mib));
    CHECK_CUDA(cudaFree(q));
    bad_write_kernel<<<1, 1>>>(reinterpret_cast<int*>(0x10)); // no allocation reaches down there
    report.result("synchronise", cudaDeviceSynchronize());
    report.result("malloc", {cudaMalloc(&q, 5 * mib), cudaGetLastError()});
    report.result("malloc_small", {cudaMalloc(&q, 100), cudaGetLastError()});
    report.result("driver_alloc", driver().cuMemAlloc(&r, 5 * mib));
    report.result("free", {cudaFree(p), cudaGetLastError()});
    report.result("driver_free", driver().cuMemFree(reinterpret_cast<CUdeviceptr>(p)));
    report.result("mem_info", {cudaMemGetInfo(&f, &t), cudaGetLastError()});
    report.result("free_null", {cudaFree(nullptr), cudaGetLastError()});
    report.result("interior", {cudaFree(static_cast<char*>(p) + 512), cudaGetLastError()});
}

namespace {

struct FromHostFunction {
    void* victim;
    int codes[6]; ///< two allocations, query, output untouched, last error, free
};

void CUDART_CB inside(void* data) {
    FromHostFunction& f = *static_cast<FromHostFunction*>(data);
    void* p = nullptr;
    CUdeviceptr q = 0;
    size_t free_bytes = 0, total = 0;
    f.codes[0] = cudaMalloc(&p, 4096);
    f.codes[1] = driver().cuMemAlloc(&q, 3 << 20);
    f.codes[2] = cudaMemGetInfo(&free_bytes, &total);
    f.codes[3] = p == nullptr;
    f.codes[4] = cudaGetLastError();
    f.codes[5] = driver().cuMemFree(reinterpret_cast<CUdeviceptr>(f.victim));
}

} // namespace

void host_function(Report& report, int) {
    cudaStream_t s = new_stream();
    FromHostFunction f{};
    CHECK_CUDA(cudaMalloc(&f.victim, 4096));
    CHECK_CUDA(driver().cuCtxGetCurrent ? cudaSuccess : cudaErrorUnknown); // looked up here, not in the host function
    CHECK_CUDA(cudaLaunchHostFunc(s, inside, &f));
    report.result("stream", cudaStreamSynchronize(s));
    report.result("codes", {f.codes[0], f.codes[1], f.codes[2], f.codes[3], f.codes[4], f.codes[5]});
    report.result("free_afterwards", cudaFree(f.victim));
}

namespace {

__global__ void copy_kernel(const uint4* __restrict__ from, uint4* __restrict__ to, size_t n) {
    const size_t threads = size_t{gridDim.x} * blockDim.x;
    for (size_t i = blockIdx.x * size_t{blockDim.x} + threadIdx.x; i < n; i += threads) to[i] = from[i];
}

} // namespace

void bandwidth(Report& report, int rounds) {
    if (rounds <= 0) rounds = 30;
    constexpr size_t bytes = size_t{2} << 30;
    uint4 *from, *to;
    CHECK_CUDA(cudaMalloc(&from, bytes));
    CHECK_CUDA(cudaMalloc(&to, bytes));
    CHECK_CUDA(cudaMemset(from, 0x5A, bytes));
    cudaEvent_t start, stop;
    CHECK_CUDA(cudaEventCreate(&start));
    CHECK_CUDA(cudaEventCreate(&stop));
    std::vector<float> times;
    for (int i = 0; i < rounds; i++) {
        float ms = 0;
        CHECK_CUDA(cudaEventRecord(start));
        copy_kernel<<<132 * 16, 256>>>(from, to, bytes / sizeof(uint4));
        CHECK_CUDA(cudaEventRecord(stop));
        CHECK_CUDA(cudaEventSynchronize(stop));
        CHECK_CUDA(cudaEventElapsedTime(&ms, start, stop));
        times.push_back(ms);
    }
    std::sort(times.begin(), times.end());
    WrongBytes wrong;
    check(to, bytes, 0x5A, wrong.device(), nullptr);
    CHECK_CUDA(cudaDeviceSynchronize());
    report.result("wrong", static_cast<long long>(wrong.value()));
    report.varying("gb_per_s", 2.0 * double(bytes) / (times[times.size() / 2] * 1e6));
    CHECK_CUDA(cudaFree(from));
    CHECK_CUDA(cudaFree(to));
}

} // namespace cistern::gpu_test
