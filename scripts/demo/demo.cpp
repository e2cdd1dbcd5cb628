// A program as it might be anybody's: knows nothing of cistern, talks to the driver API of whatever libcuda.so.1 it finds. Each
// step allocates scratch buffers, writes, copies through the device, checks and frees them. Prints what it computed, and
// nothing that could differ between two drivers.

#include <cuda.h>

#include <cstdint>
#include <cstdio>
#include <cstdlib>
#include <dlfcn.h>
#include <vector>

namespace {

template <class Function> Function find(void* library, const char* name) {
    void* address = dlsym(library, name);
    if (address == nullptr) {
        std::fprintf(stderr, "demo: no %s in libcuda.so.1\n", name);
        std::exit(1);
    }
    return reinterpret_cast<Function>(address);
}

void check(CUresult result, const char* what) {
    if (result != CUDA_SUCCESS) {
        std::printf("%s failed: %d\n", what, static_cast<int>(result));
        std::exit(1);
    }
}

/// The driver calls that this program uses.
struct Driver {
    void* library;
    CUresult (*init)(unsigned);
    CUresult (*device_get)(CUdevice*, int);
    CUresult (*retain)(CUcontext*, CUdevice);
    CUresult (*set_current)(CUcontext);
    CUresult (*allocate)(CUdeviceptr*, size_t);
    CUresult (*release)(CUdeviceptr);
    CUresult (*to_device)(CUdeviceptr, const void*, size_t);
    CUresult (*on_device)(CUdeviceptr, CUdeviceptr, size_t);
    CUresult (*to_host)(void*, CUdeviceptr, size_t);
};

Driver load() {
    void* library = dlopen("libcuda.so.1", RTLD_NOW);
    if (library == nullptr) {
        std::fprintf(stderr, "demo: %s\n", dlerror());
        std::exit(1);
    }
    Driver driver{};
    driver.library = library;
    driver.init = find<decltype(driver.init)>(library, "cuInit");
    driver.device_get = find<decltype(driver.device_get)>(library, "cuDeviceGet");
    driver.retain = find<decltype(driver.retain)>(library, "cuDevicePrimaryCtxRetain");
    driver.set_current = find<decltype(driver.set_current)>(library, "cuCtxSetCurrent");
    driver.allocate = find<decltype(driver.allocate)>(library, "cuMemAlloc_v2");
    driver.release = find<decltype(driver.release)>(library, "cuMemFree_v2");
    driver.to_device = find<decltype(driver.to_device)>(library, "cuMemcpyHtoD_v2");
    driver.on_device = find<decltype(driver.on_device)>(library, "cuMemcpyDtoD_v2");
    driver.to_host = find<decltype(driver.to_host)>(library, "cuMemcpyDtoH_v2");
    return driver;
}

/// One step with scratch buffers of `bytes`; returns a sum over what came back.
uint64_t step(const Driver& driver, size_t bytes, unsigned char seed) {
    CUdeviceptr source = 0;
    CUdeviceptr target = 0;
    check(driver.allocate(&source, bytes), "cuMemAlloc");
    check(driver.allocate(&target, bytes), "cuMemAlloc");
    std::vector<unsigned char> data(bytes);
    for (size_t i = 0; i < bytes; ++i) {
        data[i] = static_cast<unsigned char>(seed + i * 7);
    }
    check(driver.to_device(source, data.data(), bytes), "cuMemcpyHtoD");
    check(driver.on_device(target, source, bytes), "cuMemcpyDtoD");
    std::vector<unsigned char> back(bytes);
    check(driver.to_host(back.data(), target, bytes), "cuMemcpyDtoH");
    check(driver.release(source), "cuMemFree");
    check(driver.release(target), "cuMemFree");
    uint64_t sum = 0;
    for (const unsigned char byte : back) {
        sum = sum * 31 + byte;
    }
    return sum;
}

} // namespace

int main() {
    const Driver driver = load();
    CUdevice device = 0;
    CUcontext context = nullptr;
    check(driver.init(0), "cuInit");
    check(driver.device_get(&device, 0), "cuDeviceGet");
    check(driver.retain(&context, device), "cuDevicePrimaryCtxRetain");
    check(driver.set_current(context), "cuCtxSetCurrent");
    constexpr unsigned steps = 300;
    uint64_t sum = 0;
    for (unsigned i = 0; i < steps; ++i) {
        const size_t bytes = size_t{1024} << (i * 5 % 9); // 1 KiB to 256 KiB
        sum = sum * 131 + step(driver, bytes, static_cast<unsigned char>(i));
    }
    std::printf("%u steps, checksum %016llx\n", steps, static_cast<unsigned long long>(sum));
    return 0;
}
