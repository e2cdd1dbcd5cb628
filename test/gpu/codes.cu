// Result codes, last error and output pointers of allocation calls with unusual arguments (F09, F17, F36).
// Nothing here says which code is right: the native run does.

#include "driver_api.h"
#include "gpu_common.cuh"
#include "gpu_tests.h"

#include <algorithm>
#include <random>
#include <vector>

namespace cistern::gpu_test {
namespace {

constexpr uintptr_t preset = 0x1234;
void* preset_pointer() { return reinterpret_cast<void*>(preset); }

/// 0: set to null, 1: left as it was, 2: set to something.
long long state_of(const void* p) {
    if (!p) return 0;
    return reinterpret_cast<uintptr_t>(p) == preset ? 1 : 2;
}
long long state_of(CUdeviceptr p) { return state_of(reinterpret_cast<void*>(p)); }

/// Code and the last error that it left behind (which is taken off).
void row(Report& report, const char* name, cudaError_t code) {
    const cudaError_t left = cudaGetLastError();
    report.result(name, {static_cast<int>(code), static_cast<int>(left), static_cast<int>(cudaGetLastError())});
}
void row(Report& report, const char* name, cudaError_t code, long long output) {
    const cudaError_t left = cudaGetLastError();
    report.result(name, {static_cast<int>(code), static_cast<int>(left), output});
}
void row(Report& report, const char* name, CUresult code, long long output = 0) {
    report.result(name, {static_cast<int>(code), static_cast<int>(cudaGetLastError()), output});
}

} // namespace

void zero_and_null(Report& report, int) {
    CHECK_CUDA(cudaFree(nullptr));
    void* p = preset_pointer();
    size_t pitch = 77;
    cudaError_t code = cudaMalloc(&p, 0);
    row(report, "malloc_0", code, state_of(p));
    row(report, "malloc_to_null", cudaMalloc(static_cast<void**>(nullptr), 16));
    code = cudaMallocHost(&(p = preset_pointer()), 0);
    row(report, "malloc_host_0", code, state_of(p));
    code = cudaHostAlloc(&(p = preset_pointer()), 0, cudaHostAllocMapped);
    row(report, "host_alloc_0", code, state_of(p));
    row(report, "host_alloc_to_null", cudaHostAlloc(static_cast<void**>(nullptr), 16, 0));
    code = cudaHostAlloc(&(p = preset_pointer()), 16, 0x400);
    row(report, "host_alloc_flags", code, state_of(p));
    code = cudaMallocPitch(&(p = preset_pointer()), &pitch, 0, 4);
    row(report, "pitch_width_0", code, state_of(p) * 1000 + static_cast<long long>(pitch));
    code = cudaMallocPitch(&(p = preset_pointer()), &(pitch = 77), 4, 0);
    row(report, "pitch_height_0", code, state_of(p) * 1000 + static_cast<long long>(pitch));

    const DriverApi& d = driver();
    CUdeviceptr q = preset;
    CUresult result = d.cuMemAlloc(&q, 0);
    row(report, "driver_alloc_0", result, state_of(q));
    row(report, "driver_alloc_to_null", d.cuMemAlloc(nullptr, 16));
    result = d.cuMemAllocPitch(&(q = preset), &(pitch = 77), 0, 4, 4);
    row(report, "driver_pitch_width_0", result, state_of(q) * 1000 + static_cast<long long>(pitch));
    result = d.cuMemAllocPitch(&(q = preset), &(pitch = 77), 4, 0, 4);
    row(report, "driver_pitch_height_0", result, state_of(q) * 1000 + static_cast<long long>(pitch));
    result = d.cuMemAllocPitch(&(q = preset), &(pitch = 77), 64, 4, 3);
    row(report, "driver_pitch_element_3", result, state_of(q) * 1000 + static_cast<long long>(pitch));
    result = d.cuMemHostAlloc(&(p = preset_pointer()), 0, 0);
    row(report, "driver_host_alloc_0", result, state_of(p));

    row(report, "free_null", cudaFree(nullptr));
    row(report, "free_host_null", cudaFreeHost(nullptr));
    row(report, "free_async_null", cudaFreeAsync(nullptr, nullptr));
    row(report, "driver_free_null", d.cuMemFree(0));
    row(report, "driver_free_host_null", d.cuMemFreeHost(nullptr));
    row(report, "driver_free_async_null", d.cuMemFreeAsync(0, nullptr));
    row(report, "unregister_null", cudaHostUnregister(nullptr));
    long long failures = 0;
    for (int i = 0; i < 1000; i++) failures += cudaMalloc(&p, 0) != cudaSuccess || p != nullptr;
    report.result("thousand_zero_sizes", failures);
}

void null_pitch(Report& report, int) {
    void* p = preset_pointer();
    const cudaError_t code = cudaMallocPitch(&p, nullptr, 100, 10);
    row(report, "null_pitch", code, state_of(p));
}

void meminfo_null_free(Report& report, int) {
    size_t total = 0;
    row(report, "runtime", cudaMemGetInfo(nullptr, &total));
    row(report, "driver", driver().cuMemGetInfo(nullptr, &total));
}

void meminfo_null_total(Report& report, int) {
    size_t free_bytes = 0;
    row(report, "runtime", cudaMemGetInfo(&free_bytes, nullptr));
    row(report, "driver", driver().cuMemGetInfo(&free_bytes, nullptr));
}

namespace {

void* fresh(size_t bytes = 100000) {
    void* p = nullptr;
    CHECK_CUDA(cudaMalloc(&p, bytes));
    return p;
}
CUdeviceptr address(void* p) { return reinterpret_cast<CUdeviceptr>(p); }

void stream_ordered_rows(Report& report) {
    cudaStream_t s = new_stream();
    void* p = nullptr;
    CHECK_CUDA(cudaMallocAsync(&p, 5000, s));
    CHECK_CUDA(cudaStreamSynchronize(s));
    row(report, "stream_ordered_freed_plainly", cudaFree(p));
    CHECK_CUDA(cudaMallocAsync(&p, 5000, s));
    CHECK_CUDA(cudaStreamSynchronize(s));
    row(report, "stream_ordered_freed_by_driver", driver().cuMemFree(address(p)));
    cudaMemPool_t pool;
    cudaMemPoolProps props{};
    props.allocType = cudaMemAllocationTypePinned;
    props.location = {cudaMemLocationTypeDevice, 0};
    CHECK_CUDA(cudaMemPoolCreate(&pool, &props));
    CHECK_CUDA(cudaMallocFromPoolAsync(&p, 5000, pool, s));
    CHECK_CUDA(cudaStreamSynchronize(s));
    row(report, "pool_memory_freed_plainly", cudaFree(p));
    row(report, "pool_destroyed", cudaMemPoolDestroy(pool));

    row(report, "plain_freed_in_stream", cudaFreeAsync(p = fresh(), s));
    CHECK_CUDA(cudaDeviceSynchronize());
    row(report, "then_freed_again_after_synchronise", cudaFree(p));
    p = fresh();
    row(report, "plain_freed_in_legacy_stream", cudaFreeAsync(p, nullptr));
    p = fresh();
    row(report, "interior_freed_in_stream", cudaFreeAsync(static_cast<char*>(p) + 256, s));
    row(report, "then_the_start", cudaFree(p));
    CHECK_CUDA(cudaDeviceSynchronize());
}

void crossed_rows(Report& report) {
    const DriverApi& d = driver();
    CUdeviceptr q = 0;
    void* h = nullptr;
    CHECK_CUDA(d.cuMemAlloc(&q, 100000));
    row(report, "driver_alloc_runtime_free", cudaFree(reinterpret_cast<void*>(q)));
    row(report, "runtime_alloc_driver_free", d.cuMemFree(address(fresh())));
    CHECK_CUDA(d.cuMemHostAlloc(&h, 5000, 0));
    row(report, "driver_host_runtime_free", cudaFreeHost(h));
    CHECK_CUDA(cudaHostAlloc(&h, 5000, 0));
    row(report, "runtime_host_driver_free", d.cuMemFreeHost(h));
    cudaPitchedPtr volume{};
    row(report, "malloc_3d", cudaMalloc3D(&volume, make_cudaExtent(100, 10, 3)));
    report.result("malloc_3d_pitch", static_cast<long long>(volume.pitch));
    row(report, "free_3d", cudaFree(volume.ptr));
}

void wrong_rows(Report& report) {
    const DriverApi& d = driver();
    void *p = fresh(), *h = nullptr, *registered = nullptr;
    int on_stack = 0;
    CHECK_CUDA(cudaHostAlloc(&h, 8192, 0));
    row(report, "interior_256", cudaFree(static_cast<char*>(p) + 256));
    row(report, "interior_1", cudaFree(static_cast<char*>(p) + 1));
    row(report, "interior_by_driver", d.cuMemFree(address(p) + 512));
    row(report, "device_pointer_to_free_host", cudaFreeHost(p));
    row(report, "first_free", cudaFree(p));
    row(report, "second_free", cudaFree(p));
    row(report, "second_free_by_driver", d.cuMemFree(address(p)));
    row(report, "stack", cudaFree(&on_stack));
    row(report, "number", cudaFree(preset_pointer()));
    row(report, "one", cudaFree(reinterpret_cast<void*>(1)));
    row(report, "number_by_driver", d.cuMemFree(preset));
    row(report, "pinned_to_free", cudaFree(h));
    row(report, "pinned_interior", cudaFreeHost(static_cast<char*>(h) + 64));
    row(report, "pinned_free", cudaFreeHost(h));
    row(report, "pinned_second_free", cudaFreeHost(h));
    if (posix_memalign(&registered, 4096, 8192)) exit(1);
    CHECK_CUDA(cudaHostRegister(registered, 8192, 0));
    row(report, "registered_to_free_host", cudaFreeHost(registered));
    row(report, "registered_to_unregister", cudaHostUnregister(registered));
    free(registered);
    // The address may or may not come back at once; either way exactly one of the two frees may succeed.
    p = fresh();
    CHECK_CUDA(cudaFree(p));
    CHECK_CUDA(cudaDeviceSynchronize());
    void* q = fresh();
    const bool same = p == q;
    const cudaError_t old_free = cudaFree(p), new_free = cudaFree(q);
    (void)cudaGetLastError();
    report.result("address_handed_out_again",
                  (same ? old_free : new_free) == cudaSuccess && (same ? new_free : old_free) == cudaErrorInvalidValue);
    report.varying("address_came_back", same);
}

void own_vmm_rows(Report& report) {
    const DriverApi& d = driver();
    constexpr size_t bytes = 2 << 20;
    CUmemAllocationProp prop{};
    prop.type = CU_MEM_ALLOCATION_TYPE_PINNED;
    prop.location.type = CU_MEM_LOCATION_TYPE_DEVICE;
    CUmemAccessDesc access{};
    access.location.type = CU_MEM_LOCATION_TYPE_DEVICE;
    access.flags = CU_MEM_ACCESS_FLAGS_PROT_READWRITE;
    CUmemGenericAllocationHandle handle;
    CUdeviceptr at = 0, base = 0;
    size_t size = 0;
    row(report, "own_create", d.cuMemCreate(&handle, bytes, &prop, 0));
    row(report, "own_reserve", d.cuMemAddressReserve(&at, bytes, 0, 0, 0));
    row(report, "own_map", d.cuMemMap(at, bytes, 0, handle, 0));
    row(report, "own_access", d.cuMemSetAccess(at, bytes, &access, 1));
    row(report, "own_range", d.cuMemGetAddressRange(&base, &size, at + 4096));
    report.result("own_range_is", {static_cast<long long>(base - at), static_cast<long long>(size)});
    row(report, "own_to_free", cudaFree(reinterpret_cast<void*>(at)));
    row(report, "own_to_driver_free", d.cuMemFree(at));
    row(report, "own_unmap", d.cuMemUnmap(at, bytes));
    row(report, "own_release", d.cuMemRelease(handle));
    row(report, "own_address_free", d.cuMemAddressFree(at, bytes));
}

void graph_rows(Report& report) {
    cudaGraph_t graph;
    cudaGraphNode_t node;
    cudaGraphExec_t exec;
    cudaMemAllocNodeParams params{};
    params.poolProps.allocType = cudaMemAllocationTypePinned;
    params.poolProps.location = {cudaMemLocationTypeDevice, 0};
    params.bytesize = 100000;
    CHECK_CUDA(cudaGraphCreate(&graph, 0));
    CHECK_CUDA(cudaGraphAddMemAllocNode(&node, graph, nullptr, 0, &params));
    CHECK_CUDA(cudaGraphInstantiate(&exec, graph, 0));
    CHECK_CUDA(cudaGraphLaunch(exec, nullptr));
    CHECK_CUDA(cudaStreamSynchronize(nullptr));
    row(report, "graph_node_memory_freed_plainly", cudaFree(params.dptr));
    CHECK_CUDA(cudaGraphExecDestroy(exec));
    CHECK_CUDA(cudaGraphDestroy(graph));
}

/// Random operations with a look at every overlap: the wrong frees above must not have damaged anything.
long long overlaps_afterwards(int steps) {
    std::mt19937_64 random(7);
    std::vector<std::pair<char*, size_t>> live;
    long long bad = 0;
    for (int i = 0; i < steps; i++) {
        if (live.empty() || random() % 2) {
            const size_t bytes = 1 + random() % 300000;
            char* p = static_cast<char*>(fresh(bytes));
            for (const auto& [start, size] : live) bad += overlaps(p, bytes, start, size);
            live.emplace_back(p, bytes);
        } else {
            std::swap(live[random() % live.size()], live.back());
            bad += cudaFree(live.back().first) != cudaSuccess;
            live.pop_back();
        }
    }
    for (const auto& block : live) bad += cudaFree(block.first) != cudaSuccess;
    return bad;
}

} // namespace

void foreign(Report& report, int rounds) {
    CHECK_CUDA(cudaFree(nullptr));
    stream_ordered_rows(report);
    crossed_rows(report);
    wrong_rows(report);
    own_vmm_rows(report);
    graph_rows(report);
    report.result("overlaps_afterwards", overlaps_afterwards(rounds > 0 ? rounds : 10000));
    void* p = fresh();
    row(report, "freed_in_stream", cudaFreeAsync(p, cudaStreamPerThread));
    row(report, "then_freed_again_at_once", cudaFree(p));
}

namespace {

void too_large_rows(Report& report, size_t total) {
    const struct {
        const char* name;
        size_t bytes;
    } sizes[] = {{"2^50", size_t{1} << 50},
                 {"max", SIZE_MAX},
                 {"max-511", SIZE_MAX - 511},
                 {"2^63", size_t{1} << 63},
                 {"max-2MiB", SIZE_MAX - (2 << 20) + 2},
                 {"total+1", total + 1}};
    for (const auto& s : sizes) {
        void* p = preset_pointer();
        const cudaError_t code = cudaMalloc(&p, s.bytes);
        row(report, (std::string("malloc_") + s.name).c_str(), code, state_of(p));
        CUdeviceptr q = preset;
        const CUresult result = driver().cuMemAlloc(&q, s.bytes);
        row(report, (std::string("driver_alloc_") + s.name).c_str(), result, state_of(q));
        size_t pitch = 77;
        p = preset_pointer();
        const cudaError_t pitched = cudaMallocPitch(&p, &pitch, s.bytes, 3);
        row(report, (std::string("pitch_") + s.name).c_str(), pitched, state_of(p));
    }
    spin(1, nullptr);
    row(report, "launch_afterwards", cudaDeviceSynchronize());
}

} // namespace

void error_state(Report& report, int) {
    size_t free_bytes, total;
    CHECK_CUDA(cudaMemGetInfo(&free_bytes, &total));
    // A pool full of freed 64 MiB blocks, then one block larger than what is left outside of it.
    std::vector<void*> blocks;
    for (size_t taken = 0; taken < total / 2; taken += size_t{64} << 20) blocks.push_back(fresh(size_t{64} << 20));
    for (void* p : blocks) CHECK_CUDA(cudaFree(p));
    void* big = nullptr;
    cudaError_t code = cudaMalloc(&big, total / 10 * 6);
    report.result("large_after_cached", {static_cast<int>(code), static_cast<int>(cudaPeekAtLastError())});
    row(report, "large_free", cudaFree(big));
    too_large_rows(report, total);
    // An error that the program has not read yet must survive successful allocation calls.
    void *p = nullptr, *h = nullptr;
    const cudaError_t planted = cudaMemcpy(nullptr, nullptr, 16, static_cast<cudaMemcpyKind>(77));
    code = cudaMalloc(&p, 5000);
    const cudaError_t freed = cudaFree(p), host = cudaHostAlloc(&h, 5000, 0), host_freed = cudaFreeHost(h);
    report.result("successes_after_an_error",
                  {static_cast<int>(planted), static_cast<int>(code), static_cast<int>(freed), static_cast<int>(host),
                   static_cast<int>(host_freed), static_cast<int>(cudaGetLastError()),
                   static_cast<int>(cudaGetLastError())});
}

} // namespace cistern::gpu_test
