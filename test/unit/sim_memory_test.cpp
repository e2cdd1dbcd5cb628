// Memory: result codes, shapes, virtual memory management, attributes.

#include "test/unit/sim_world.h"

#include <fcntl.h>
#include <sys/stat.h>
#include <unistd.h>

#include <cstring>

namespace {

template <class T> T attribute(CUpointer_attribute which, CUdeviceptr p, CUresult expected = CUDA_SUCCESS) {
    T value{};
    CHECK(cuPointerGetAttribute(&value, which, p) == expected);
    return value;
}

/// Host memory behind the simulated devices.
size_t host_bytes() {
    size_t blocks = 0;
    for (int fd = 3; fd < 64; ++fd) {
        char link[64] = {};
        struct stat about {};
        if (readlink(("/proc/self/fd/" + std::to_string(fd)).c_str(), link, sizeof link - 1) < 0) continue;
        if (std::strstr(link, "sim-gpu") && fstat(fd, &about) == 0) blocks += static_cast<size_t>(about.st_blocks);
    }
    return blocks * 512;
}

} // namespace

TEST_CASE("sim memory: native result codes") {
    World w;
    CUdeviceptr p = 0;
    void* h = nullptr;
    size_t pitch = 0;
    CHECK(cuMemAlloc(&p, 0) == CUDA_ERROR_INVALID_VALUE);
    CHECK(cuMemAlloc(nullptr, 16) == CUDA_ERROR_INVALID_VALUE);
    CHECK(cuMemAlloc(&p, size_t{1} << 50) == CUDA_ERROR_OUT_OF_MEMORY);
    CHECK(cuMemFree(0) == CUDA_SUCCESS);
    REQUIRE(cuMemAlloc(&p, 4096) == CUDA_SUCCESS);
    CHECK(cuMemFree(p + 256) == CUDA_ERROR_INVALID_VALUE);
    CHECK(cuMemFree(0x1234) == CUDA_ERROR_INVALID_VALUE);
    CHECK(cuMemFreeHost(reinterpret_cast<void*>(p)) == CUDA_ERROR_INVALID_VALUE);
    CHECK(cuMemFree(p) == CUDA_SUCCESS);
    CHECK(cuMemFree(p) == CUDA_ERROR_INVALID_VALUE);
    CHECK(cuMemHostAlloc(&h, 0, 0) == CUDA_SUCCESS);
    CHECK(h == nullptr);
    CHECK(cuMemAllocHost(&h, 0) == CUDA_SUCCESS);
    CHECK(cuMemFreeHost(nullptr) == CUDA_SUCCESS);
    CHECK(cuMemHostAlloc(&h, 64, 0x100) == CUDA_ERROR_INVALID_VALUE);
    CHECK(cuMemHostAlloc(&h, size_t{1} << 50, 0) == CUDA_ERROR_OUT_OF_MEMORY);
    CHECK(cuMemAllocPitch(&p, &pitch, 0, 1, 4) == CUDA_ERROR_INVALID_VALUE);
    CHECK(cuMemAllocPitch(&p, &pitch, 16, 1, 3) == CUDA_ERROR_INVALID_VALUE);
    Vmm m;
    CHECK(cuMemFree(m.ptr) == CUDA_ERROR_INVALID_VALUE);
    REQUIRE(cuMemAlloc(&p, 4096) == CUDA_SUCCESS);
    CHECK(cuMemFreeAsync(p, nullptr) == CUDA_SUCCESS);
    CHECK(cuMemFreeAsync(0, nullptr) == CUDA_SUCCESS);
    CHECK(cuCtxSynchronize() == CUDA_SUCCESS);
    CHECK(cuMemFree(p) == CUDA_ERROR_INVALID_VALUE); // gone with the synchronise
}

TEST_CASE("sim memory: native shapes and accounting") {
    World w;
    SimBalance before{};
    sim_balance(&before);
    CUdeviceptr a = 0;
    CUdeviceptr b = 0;
    REQUIRE(cuMemAlloc(&a, 100) == CUDA_SUCCESS);
    REQUIRE(cuMemAlloc(&b, 100) == CUDA_SUCCESS);
    CHECK(a % 512 == 0);
    CHECK(b - a == 512);
    SimBalance now{};
    sim_balance(&now);
    CHECK(now.used_bytes == before.used_bytes + page); // both in one page
    size_t available = 0;
    size_t total = 0;
    REQUIRE(cuMemGetInfo(&available, &total) == CUDA_SUCCESS);
    CHECK(total == 4096 * MiB);
    CHECK(available == total - page);
    CHECK(cuMemGetInfo(nullptr, &total) == CUDA_ERROR_INVALID_VALUE);
    CUdeviceptr base = 0;
    size_t bytes = 0;
    REQUIRE(cuMemGetAddressRange(&base, &bytes, b + 99) == CUDA_SUCCESS);
    CHECK(base == b);
    CHECK(bytes == 100);
    CHECK(cuMemGetAddressRange(&base, &bytes, b + 100) == CUDA_ERROR_NOT_FOUND);
    REQUIRE(cuMemFree(a) == CUDA_SUCCESS);
    REQUIRE(cuMemFree(b) == CUDA_SUCCESS);
    for (size_t width : {1u, 100u, 512u, 513u, 4097u}) {
        size_t pitch = 0;
        REQUIRE(cuMemAllocPitch(&a, &pitch, width, 7, 4) == CUDA_SUCCESS);
        CHECK(pitch == (width + 511) / 512 * 512);
        REQUIRE(cuMemGetAddressRange(nullptr, &bytes, a) == CUDA_SUCCESS);
        CHECK(bytes == pitch * 7);
        REQUIRE(cuMemFree(a) == CUDA_SUCCESS);
    }
    sim_balance(&now);
    CHECK(now.used_bytes == before.used_bytes);
    CHECK(now.allocations == 0);
}

TEST_CASE("sim memory: old bytes of small blocks stay, large ones read as zeros") {
    World w;
    CUdeviceptr keep = 0;
    CUdeviceptr p = 0;
    REQUIRE(cuMemAlloc(&keep, 4096) == CUDA_SUCCESS);
    REQUIRE(cuMemAlloc(&p, 4096) == CUDA_SUCCESS);
    sim_fill(p, 4096, 3);
    CUdeviceptr old = p;
    REQUIRE(cuMemFree(p) == CUDA_SUCCESS);
    REQUIRE(cuMemAlloc(&p, 4096) == CUDA_SUCCESS);
    CHECK(p == old);
    CHECK(sim_check(p, 4096, 3) == 1);
    CUdeviceptr large = 0;
    REQUIRE(cuMemAlloc(&large, 8 * MiB) == CUDA_SUCCESS);
    sim_fill(large, 8 * MiB, 3);
    size_t full = host_bytes();
    REQUIRE(cuMemFree(large) == CUDA_SUCCESS);
    CHECK(full - host_bytes() == 8 * MiB); // the host gets it back
    REQUIRE(cuMemAlloc(&large, 8 * MiB) == CUDA_SUCCESS);
    CHECK(sim_check(large, 8 * MiB, 0) == 1);
    Vmm m;
    sim_fill(m.ptr, page, 3);
    REQUIRE(cuMemUnmap(m.ptr, page) == CUDA_SUCCESS);
    REQUIRE(cuMemMap(m.ptr, page, 0, m.handle, 0) == CUDA_SUCCESS);
    m.access({0});
    CHECK(sim_check(m.ptr, page, 3) == 1); // a handle keeps its bytes
}

TEST_CASE("sim memory: mapping rules") {
    World w;
    CUmemAllocationProp p = Vmm::properties();
    CUdeviceptr r = 0;
    CUmemGenericAllocationHandle h = 0;
    CUmemGenericAllocationHandle h2 = 0;
    CHECK(cuMemAddressReserve(&r, 4096, 0, 0, 0) == CUDA_ERROR_INVALID_VALUE);
    REQUIRE(cuMemAddressReserve(&r, 4 * page, 0, 0, 0) == CUDA_SUCCESS);
    CHECK(cuMemCreate(&h, page + 1, &p, 0) == CUDA_ERROR_INVALID_VALUE);
    REQUIRE(cuMemCreate(&h, 2 * page, &p, 0) == CUDA_SUCCESS);
    REQUIRE(cuMemCreate(&h2, page, &p, 0) == CUDA_SUCCESS);
    CHECK(cuMemMap(r, page, 0, h, 0) == CUDA_ERROR_INVALID_VALUE);                // part of a handle
    CHECK(cuMemMap(r, page, page, h, 0) == CUDA_ERROR_INVALID_VALUE);             // offset
    CHECK(cuMemMap(r + 3 * page, 2 * page, 0, h, 0) == CUDA_ERROR_INVALID_VALUE); // past the end
    REQUIRE(cuMemMap(r, 2 * page, 0, h, 0) == CUDA_SUCCESS);
    CHECK(cuMemMap(r + page, page, 0, h2, 0) == CUDA_ERROR_INVALID_VALUE); // overlap
    REQUIRE(cuMemMap(r + 2 * page, page, 0, h2, 0) == CUDA_SUCCESS);
    CUmemAccessDesc desc{{CU_MEM_LOCATION_TYPE_DEVICE, 0}, CU_MEM_ACCESS_FLAGS_PROT_READWRITE};
    CHECK(cuMemSetAccess(r, 4 * page, &desc, 1) == CUDA_ERROR_INVALID_VALUE); // a hole
    CHECK(sim_check(r, 16, 0) == 0);                                          // no access yet
    CHECK(submit(World::stream(), r, 16, 1) == CUDA_ERROR_ILLEGAL_ADDRESS);
    REQUIRE(cuMemSetAccess(r, 3 * page, &desc, 1) == CUDA_SUCCESS);
    CHECK(submit(World::stream(), r + 2 * page - 8, 16, 1) == CUDA_SUCCESS); // across two handles
    unsigned long long flags = 0;
    CHECK(cuMemGetAccess(&flags, &desc.location, r + page) == CUDA_SUCCESS);
    CHECK(flags == 3);
    CHECK(cuMemUnmap(r, page) == CUDA_ERROR_INVALID_VALUE); // part of a mapping
    CHECK(cuMemAddressFree(r, 4 * page) == CUDA_ERROR_INVALID_VALUE);
    sim_advance(1);
    REQUIRE(cuMemRelease(h) == CUDA_SUCCESS); // lives on while mapped
    CHECK(cuMemRelease(h) == CUDA_ERROR_INVALID_VALUE);
    SimBalance b{};
    sim_balance(&b);
    CHECK(b.used_bytes == 3 * page);
    CHECK(b.handles == 1);
    CUmemGenericAllocationHandle again = 0;
    CHECK(cuMemRetainAllocationHandle(&again, reinterpret_cast<void*>(r + 100)) == CUDA_SUCCESS);
    CHECK(again == h);
    CHECK(cuMemRelease(again) == CUDA_SUCCESS);
    REQUIRE(cuMemUnmap(r, 3 * page) == CUDA_SUCCESS);
    REQUIRE(cuMemRelease(h2) == CUDA_SUCCESS);
    REQUIRE(cuMemAddressFree(r, 4 * page) == CUDA_SUCCESS);
    sim_balance(&b);
    CHECK(b.used_bytes == 0);
    CHECK(b.handles + b.maps + b.reservations == 0);
    CHECK(sim_violations("no_access") == 1);
}

TEST_CASE("sim memory: huge and aligned reservations") {
    World w;
    for (size_t alignment : {size_t{0}, 64 * MiB, size_t{1} << 30}) {
        CUdeviceptr r = 0;
        REQUIRE(cuMemAddressReserve(&r, size_t{64} << 30, alignment, 0, 0) == CUDA_SUCCESS);
        if (alignment) CHECK(r % alignment == 0);
        CHECK(cuMemAddressFree(r, size_t{64} << 30) == CUDA_SUCCESS);
    }
#if defined(__SANITIZE_THREAD__) // leaves a program little more than a TiB of addresses, in a random place
    constexpr size_t huge = size_t{1} << 37;
#else
    constexpr size_t huge = size_t{1} << 40;
#endif
    CUdeviceptr r = 0;
    REQUIRE(cuMemAddressReserve(&r, huge, 0, 0, 0) == CUDA_SUCCESS);
    CUmemAllocationProp p = Vmm::properties();
    CUmemGenericAllocationHandle h = 0;
    REQUIRE(cuMemCreate(&h, page, &p, 0) == CUDA_SUCCESS);
    CUdeviceptr far = r + huge - page;
    REQUIRE(cuMemMap(far, page, 0, h, 0) == CUDA_SUCCESS);
    CUmemAccessDesc desc{{CU_MEM_LOCATION_TYPE_DEVICE, 0}, CU_MEM_ACCESS_FLAGS_PROT_READWRITE};
    REQUIRE(cuMemSetAccess(far, page, &desc, 1) == CUDA_SUCCESS);
    *reinterpret_cast<volatile unsigned char*>(far) = 42; // instrumented code may touch it too
    CHECK(sim_check(far, 1, 42) == 1);
}

TEST_CASE("sim memory: running out") {
    World w(1, "SIM_TOTAL_MB", "16");
    CUmemAllocationProp p = Vmm::properties();
    CUmemGenericAllocationHandle h = 0;
    REQUIRE(cuMemCreate(&h, 7 * page, &p, 0) == CUDA_SUCCESS);
    CUmemGenericAllocationHandle more = 0;
    CHECK(cuMemCreate(&more, 2 * page, &p, 0) == CUDA_ERROR_OUT_OF_MEMORY);
    CUdeviceptr d = 0;
    CHECK(cuMemAlloc(&d, page + 1) == CUDA_ERROR_OUT_OF_MEMORY);
    CHECK(cuMemAlloc(&d, page) == CUDA_SUCCESS);
    CHECK(cuMemFree(d) == CUDA_SUCCESS);
    REQUIRE(cuMemRelease(h) == CUDA_SUCCESS);
    CHECK(cuMemAlloc(&d, 8 * page) == CUDA_SUCCESS);
}

TEST_CASE("sim memory: what VMM memory is not") {
    World w;
    CUdeviceptr n = 0;
    REQUIRE(cuMemAlloc(&n, 1000000) == CUDA_SUCCESS);
    Vmm m;
    CUdeviceptr reserved = 0;
    REQUIRE(cuMemAddressReserve(&reserved, 8 * page, 0, 0, 0) == CUDA_SUCCESS);
    CHECK(attribute<CUcontext>(CU_POINTER_ATTRIBUTE_CONTEXT, n + 4096) == w.context);
    CHECK(attribute<CUcontext>(CU_POINTER_ATTRIBUTE_CONTEXT, m.ptr + 4096) == nullptr);
    CHECK(attribute<unsigned>(CU_POINTER_ATTRIBUTE_MEMORY_TYPE, m.ptr) == 2);
    CHECK(attribute<int>(CU_POINTER_ATTRIBUTE_DEVICE_ORDINAL, m.ptr) == 0);
    CHECK(attribute<unsigned>(CU_POINTER_ATTRIBUTE_IS_LEGACY_CUDA_IPC_CAPABLE, n) == 1);
    CHECK(attribute<unsigned>(CU_POINTER_ATTRIBUTE_IS_LEGACY_CUDA_IPC_CAPABLE, m.ptr) == 0);
    CHECK(attribute<size_t>(CU_POINTER_ATTRIBUTE_RANGE_SIZE, n) == 1000000);
    CHECK(attribute<size_t>(CU_POINTER_ATTRIBUTE_RANGE_SIZE, m.ptr) == page);
    CHECK(attribute<unsigned long long>(CU_POINTER_ATTRIBUTE_ALLOWED_HANDLE_TYPES, n) == 0);
    CHECK(attribute<unsigned long long>(CU_POINTER_ATTRIBUTE_ALLOWED_HANDLE_TYPES, m.ptr) == 1);
    attribute<void*>(CU_POINTER_ATTRIBUTE_HOST_POINTER, n, CUDA_ERROR_INVALID_VALUE);
    attribute<int>(CU_POINTER_ATTRIBUTE_MEMORY_TYPE, 0x1000, CUDA_ERROR_INVALID_VALUE);
    int yes = 1;
    CHECK(cuPointerSetAttribute(&yes, CU_POINTER_ATTRIBUTE_SYNC_MEMOPS, n) == CUDA_SUCCESS);
    CHECK(cuPointerSetAttribute(&yes, CU_POINTER_ATTRIBUTE_SYNC_MEMOPS, m.ptr) == CUDA_ERROR_NOT_SUPPORTED);
    CUipcMemHandle ipc;
    CHECK(cuIpcGetMemHandle(&ipc, n + 5) == CUDA_SUCCESS);
    CHECK(cuIpcGetMemHandle(&ipc, m.ptr) == CUDA_ERROR_INVALID_VALUE);
    CUmemGenericAllocationHandle h = 0;
    CHECK(cuMemRetainAllocationHandle(&h, reinterpret_cast<void*>(n)) == CUDA_ERROR_INVALID_VALUE);
    unsigned type = 9;
    int ordinal = 9;
    CUpointer_attribute which[] = {CU_POINTER_ATTRIBUTE_MEMORY_TYPE, CU_POINTER_ATTRIBUTE_DEVICE_ORDINAL};
    void* out[] = {&type, &ordinal};
    CHECK(cuPointerGetAttributes(2, which, out, 0x1000) == CUDA_SUCCESS);
    CHECK(type == 0);
    CHECK(ordinal == -2);
}

TEST_CASE("sim memory: pinned memory") {
    World w;
    void* h = nullptr;
    REQUIRE(cuMemHostAlloc(&h, 1000, 0) == CUDA_SUCCESS);
    CHECK(reinterpret_cast<uintptr_t>(h) % 512 == 0);
    CUdeviceptr d = 0;
    CHECK(cuMemHostGetDevicePointer(&d, static_cast<char*>(h) + 10, 0) == CUDA_SUCCESS);
    CHECK(d == reinterpret_cast<CUdeviceptr>(h) + 10);
    unsigned flags = 0;
    CHECK(cuMemHostGetFlags(&flags, h) == CUDA_SUCCESS);
    CHECK(flags == 2);
    CHECK(cuMemHostRegister(h, 1000, 0) == CUDA_ERROR_INVALID_VALUE);
    CHECK(cuMemHostUnregister(h) == CUDA_ERROR_INVALID_VALUE);
    CHECK(cuMemFreeHost(static_cast<char*>(h) + 64) == CUDA_ERROR_INVALID_VALUE);
    CHECK(cuMemFree(reinterpret_cast<CUdeviceptr>(h)) == CUDA_ERROR_INVALID_VALUE);
    std::vector<char> own(8192);
    CHECK(cuMemHostRegister(own.data(), own.size(), 0) == CUDA_SUCCESS);
    CHECK(cuMemHostRegister(own.data(), own.size(), 0) == CUDA_ERROR_HOST_MEMORY_ALREADY_REGISTERED);
    CHECK(cuMemFreeHost(own.data()) == CUDA_ERROR_INVALID_VALUE);
    CHECK(cuMemHostUnregister(own.data()) == CUDA_SUCCESS);
    CHECK(cuMemHostUnregister(own.data()) == CUDA_ERROR_HOST_MEMORY_NOT_REGISTERED);
    CHECK(cuMemFreeHost(h) == CUDA_SUCCESS);
    CHECK(cuMemFreeHost(h) == CUDA_ERROR_INVALID_VALUE);
}

TEST_CASE("sim memory: copies between devices need access entries of VMM memory") {
    World w(2);
    Vmm m;
    CUdeviceptr native = 0;
    REQUIRE(cuMemAlloc(&native, 4096) == CUDA_SUCCESS);
    World::use(1);
    CUdeviceptr there = 0;
    REQUIRE(cuMemAlloc(&there, 4096) == CUDA_SUCCESS);
    CHECK(cuMemcpyDtoD(there, native, 4096) == CUDA_SUCCESS);
    CHECK(cuMemcpyDtoD(there, m.ptr, 4096) == CUDA_ERROR_INVALID_VALUE);
    CHECK(cuMemcpyPeer(there, World::current(), m.ptr, w.context, 4096) == CUDA_SUCCESS);
    m.access({0, 1});
    CHECK(cuMemcpyDtoD(there, m.ptr, 4096) == CUDA_SUCCESS);
    sim_set_peer(1, 0, 0);
    CUmemAccessDesc desc{{CU_MEM_LOCATION_TYPE_DEVICE, 1}, CU_MEM_ACCESS_FLAGS_PROT_READWRITE};
    CHECK(cuMemSetAccess(m.ptr, m.bytes, &desc, 1) == CUDA_ERROR_INVALID_VALUE);
}

TEST_CASE("sim memory: handles pass to another process as descriptors") {
    World w;
    Vmm m;
    sim_fill(m.ptr, 4096, 0x33);
    int fd = -1;
    REQUIRE(cuMemExportToShareableHandle(&fd, m.handle, CU_MEM_HANDLE_TYPE_POSIX_FILE_DESCRIPTOR, 0) == CUDA_SUCCESS);
    // Imported by the same process: other address, same bytes.
    CUmemGenericAllocationHandle h = 0;
    REQUIRE(cuMemImportFromShareableHandle(&h, reinterpret_cast<void*>(static_cast<intptr_t>(fd)),
                                           CU_MEM_HANDLE_TYPE_POSIX_FILE_DESCRIPTOR) == CUDA_SUCCESS);
    close(fd);
    CUdeviceptr r = 0;
    REQUIRE(cuMemAddressReserve(&r, page, 0, 0, 0) == CUDA_SUCCESS);
    REQUIRE(cuMemMap(r, page, 0, h, 0) == CUDA_SUCCESS);
    CUmemAccessDesc desc{{CU_MEM_LOCATION_TYPE_DEVICE, 0}, CU_MEM_ACCESS_FLAGS_PROT_READWRITE};
    REQUIRE(cuMemSetAccess(r, page, &desc, 1) == CUDA_SUCCESS);
    CHECK(sim_check(r, 4096, 0x33) == 1);
    sim_fill(r, 16, 0x44);
    CHECK(sim_check(m.ptr, 16, 0x44) == 1);
    int none = open("/dev/null", 0);
    CHECK(cuMemImportFromShareableHandle(&h, reinterpret_cast<void*>(static_cast<intptr_t>(none)),
                                         CU_MEM_HANDLE_TYPE_POSIX_FILE_DESCRIPTOR) == CUDA_ERROR_INVALID_VALUE);
    close(none);
}
