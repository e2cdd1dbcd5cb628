// Reported sizes: free memory (F19), alignment, pitch and ranges (F42), slack behind a block (F40), very large requests
// (F16). Device memory comes from plain allocations only.

#include "driver_api.h"
#include "gpu_common.cuh"
#include "gpu_tests.h"

#include <algorithm>
#include <cmath>
#include <thread>
#include <vector>

namespace cistern::gpu_test {
namespace {

constexpr size_t mib = 1 << 20, gib = 1 << 30;
constexpr size_t page = 2 * mib;
/// What a pool may hold above what the program asked for, when a single large block is live: one chunk.
constexpr size_t chunk_allowance = 256 * mib;

size_t free_now() {
    size_t free_bytes = 0, total = 0;
    CHECK_CUDA(cudaMemGetInfo(&free_bytes, &total));
    return free_bytes;
}
size_t total_now() {
    size_t free_bytes = 0, total = 0;
    CHECK_CUDA(cudaMemGetInfo(&free_bytes, &total));
    return total;
}
void* allocate(size_t bytes) {
    void* p = nullptr;
    CHECK_CUDA(cudaMalloc(&p, bytes));
    return p;
}

/// Free memory before, with one block of `bytes`, and after its free.
void one_size(Report& report, const std::string& name, size_t bytes) {
    const size_t before = free_now();
    void* p = allocate(bytes);
    const size_t with = free_now();
    CHECK_CUDA(cudaFree(p));
    const size_t after = free_now();
    const long long taken = static_cast<long long>(before) - static_cast<long long>(with);
    const long long expected = static_cast<long long>(bytes);
    report.result(name + ".taken_is_near_size", taken >= expected - static_cast<long long>(page) &&
                                                    taken <= expected + static_cast<long long>(chunk_allowance));
    report.result(name + ".comes_back", after + page >= before);
    report.varying(name + ".taken_mib", double(taken) / double(mib));
    report.varying(name + ".lost_mib", (double(before) - double(after)) / double(mib));
}

/// Asks for exactly what is reported and steps down; returns the gap in bytes.
size_t gap_to_reported() {
    const size_t reported = free_now();
    for (size_t ask = reported; ask > reported - gib; ask -= page) {
        void* p = nullptr;
        if (cudaMalloc(&p, ask) != cudaSuccess) continue;
        CHECK_CUDA(cudaFree(p));
        (void)cudaGetLastError();
        return reported - ask;
    }
    return gib;
}

} // namespace

void meminfo(Report& report, int) {
    CHECK_CUDA(cudaFree(nullptr));
    std::thread([&] { // no context is current in a new thread that only uses the driver interface
        size_t f = 0, t = 0;
        CUcontext current = nullptr;
        const CUresult got = driver().cuCtxGetCurrent(&current);
        report.result("current_in_new_thread", {got, current != nullptr});
        if (!current) report.result("driver_form_without_context", driver().cuMemGetInfo(&f, &t));
    })
        .join();
    one_size(report, "byte", 1);
    one_size(report, "2MiB", page);
    one_size(report, "1GiB", gib);
    one_size(report, "10GiB", 10 * gib);
    const size_t before = free_now();
    CHECK_CUDA(cudaFree(allocate(30 * gib)));
    const size_t after = free_now();
    report.result("free_does_not_grow", after <= before + page);
    report.result("free_comes_back", double(after) >= 0.99 * double(before));
    const size_t gap = gap_to_reported();
    report.result("gap_is_small", gap <= chunk_allowance);
    report.varying("gap_kib", double(gap) / 1024);
    size_t a = 0, b = 0, t = 0;
    CHECK_CUDA(driver().cuMemGetInfo(&a, &t));
    b = free_now();
    report.result("driver_form_says_the_same", a == b);
    report.result("total_mib", static_cast<long long>(t / mib));
}

namespace {

void range_row(Report& report, const std::string& name, CUdeviceptr base, CUdeviceptr at) {
    CUdeviceptr start = 0;
    size_t bytes = 0;
    const CUresult code = driver().cuMemGetAddressRange(&start, &bytes, at);
    if (code)
        report.result(name, {code});
    else
        report.result(name, {code, static_cast<long long>(base - start), static_cast<long long>(bytes)});
}

void ranges(Report& report) {
    for (size_t bytes : {size_t{1}, size_t{1000}, size_t{1000000}, 5 * mib, 300 * mib + 12345}) {
        const std::string name = "range_" + std::to_string(bytes);
        void* p = allocate(bytes);
        const CUdeviceptr at = reinterpret_cast<CUdeviceptr>(p);
        range_row(report, name + ".base", at, at);
        range_row(report, name + ".interior", at, at + bytes / 2);
        range_row(report, name + ".last", at, at + bytes - 1);
        CUdeviceptr start = 0;
        size_t size = 0;
        report.result(name + ".only_start", driver().cuMemGetAddressRange(&start, nullptr, at));
        report.result(name + ".only_size", driver().cuMemGetAddressRange(nullptr, &size, at));
        report.result(name + ".size_alone", static_cast<long long>(size));
        CUdeviceptr past = 0;
        size_t past_size = 0;
        const CUresult code = driver().cuMemGetAddressRange(&past, &past_size, at + bytes + 4096 * 1024);
        report.varying(name + ".4MiB_past", std::to_string(code));
        cudaPointerAttributes attributes{};
        CHECK_CUDA(cudaPointerGetAttributes(&attributes, static_cast<char*>(p) + bytes / 2));
        report.result(name + ".attributes", {attributes.type, attributes.device, attributes.hostPointer != nullptr,
                                             static_cast<char*>(attributes.devicePointer) - static_cast<char*>(p)});
        CHECK_CUDA(cudaFree(p));
        CHECK_CUDA(cudaDeviceSynchronize());
        range_row(report, name + ".after_free", at, at);
    }
}

void pitches(Report& report) {
    WrongBytes wrong;
    for (size_t width : {1, 32, 100, 512, 513, 4097, 65537})
        for (size_t height : {1, 7, 1000})
            for (unsigned element : {4u, 8u, 16u, 3u}) {
                CUdeviceptr p = 0, base = 0;
                size_t pitch = 0, bytes = 0;
                const CUresult code = driver().cuMemAllocPitch(&p, &pitch, width, height, element);
                const std::string name =
                    "pitch_" + std::to_string(width) + "x" + std::to_string(height) + "/" + std::to_string(element);
                if (code) {
                    report.result(name, {code});
                    continue;
                }
                CHECK_CUDA(driver().cuMemGetAddressRange(&base, &bytes, p));
                report.result(name, {code, static_cast<long long>(pitch), static_cast<long long>(bytes), base == p});
                fill(reinterpret_cast<void*>(p), pitch * height, 0x3C, nullptr);
                check(reinterpret_cast<void*>(p), pitch * height, 0x3C, wrong.device(), nullptr);
                CHECK_CUDA(driver().cuMemFree(p));
            }
    CHECK_CUDA(cudaDeviceSynchronize());
    report.result("pitch_wrong_bytes", static_cast<long long>(wrong.value()));
}

void textures(Report& report) {
    void* p = nullptr;
    size_t pitch = 0;
    CHECK_CUDA(cudaMallocPitch(&p, &pitch, 100 * sizeof(float), 30));
    cudaResourceDesc plane{}, line{};
    cudaTextureDesc texture{};
    plane.resType = cudaResourceTypePitch2D;
    plane.res.pitch2D = {p, cudaCreateChannelDesc<float>(), 100, 30, pitch};
    line.resType = cudaResourceTypeLinear;
    line.res.linear = {p, cudaCreateChannelDesc<float>(), 4000};
    cudaTextureObject_t object;
    report.result("texture_2d", cudaCreateTextureObject(&object, &plane, &texture, nullptr));
    report.result("texture_linear", cudaCreateTextureObject(&object, &line, &texture, nullptr));
    CHECK_CUDA(cudaFree(p));
}

} // namespace

void shape(Report& report, int) {
    CHECK_CUDA(cudaFree(nullptr));
    uintptr_t all = 0;
    std::vector<void*> blocks;
    for (size_t bytes = 1; bytes <= 5000; bytes += 5) {
        blocks.push_back(allocate(bytes));
        all |= reinterpret_cast<uintptr_t>(blocks.back());
    }
    report.result("aligned_512", all % 512 == 0);
    for (void* p : blocks) CHECK_CUDA(cudaFree(p));
    ranges(report);
    pitches(report);
    textures(report);
}

namespace {

__global__ void read_kernel(const unsigned char* from, size_t bytes, unsigned long long* sum) {
    unsigned long long s = 0;
    for (size_t i = threadIdx.x; i < bytes; i += blockDim.x) s += from[i];
    if (s == ~0ULL) *sum = s;
}

} // namespace

// Natively a block is followed by its own slack up to the next multiple of 512; code that reads there never faults.
void past_end(Report& report, int) {
    WrongBytes sink;
    for (size_t bytes : {size_t{1000}, 64 * 1024 + size_t{1}, 2 * mib - 4, 2 * mib - 700, 300 * mib + 1}) {
        unsigned char* p = static_cast<unsigned char*>(allocate(bytes));
        const size_t slack = (bytes + 511) / 512 * 512 - bytes;
        read_kernel<<<1, 128>>>(p + bytes, slack, sink.device());
        report.result("slack_of_" + std::to_string(bytes), {static_cast<long long>(slack), cudaDeviceSynchronize()});
        CHECK_CUDA(cudaFree(p));
    }
}

// A very large block is freed, small ones are kept, the large one is asked for again.
void large_again(Report& report, int) {
    const size_t large = static_cast<size_t>(0.7 * double(total_now())) / page * page;
    void* p = allocate(large);
    fill(p, mib, 1, nullptr);
    CHECK_CUDA(cudaFree(p));
    std::vector<void*> kept;
    for (int i = 0; i < 64; i++) kept.push_back(allocate(16 * mib + mib / 2));
    for (double share : {0.7, 0.7, 0.35}) {
        const cudaError_t code = cudaMalloc(&p, static_cast<size_t>(share / 0.7 * double(large)) / page * page);
        report.result("again_" + std::to_string(share).substr(0, 4), {code, cudaGetLastError()});
        if (code) continue;
        fill(p, mib, 2, nullptr);
        CHECK_CUDA(cudaDeviceSynchronize());
        CHECK_CUDA(cudaFree(p));
    }
    report.varying("free_mib_with_kept", double(free_now()) / double(mib));
    for (void* k : kept) CHECK_CUDA(cudaFree(k));
}

// 95 per cent of what is reported, first of all; then in two halves; then with one block of every size in between.
void large_first(Report& report, int) {
    const size_t most = static_cast<size_t>(0.95 * double(free_now())) / page * page;
    void *p = nullptr, *q = nullptr;
    report.result("first", {cudaMalloc(&p, most), cudaGetLastError()});
    fill(p, most, 7, nullptr);
    report.result("works", cudaDeviceSynchronize());
    report.result("free", cudaFree(p));
    report.result("half", {cudaMalloc(&p, most / 2), cudaGetLastError()});
    report.result("other_half", {cudaMalloc(&q, most / 2), cudaGetLastError()});
    report.result("frees", {cudaFree(p), cudaFree(q)});
    std::vector<void*> ladder;
    int failed = 0;
    for (size_t bytes = 512; bytes < most / 4; bytes = bytes * 2 + 512) ladder.push_back(allocate(bytes));
    for (void* k : ladder) failed += cudaFree(k) != cudaSuccess;
    report.result("ladder", failed);
    report.result("first_again", {cudaMalloc(&p, most), cudaGetLastError()});
    if (p) report.result("free_again", cudaFree(p));
}

} // namespace cistern::gpu_test
