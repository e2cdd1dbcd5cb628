#pragma once
// A program of the driver API, acquiring everything as the CUDA runtime does: one dlsym for the resolver, the resolver for
// the rest.

#include <cuda.h>

#include <cstdint>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <dlfcn.h>
#include <string>

// cuda.h gives these names to newer signatures; here they are members.
#undef cuMemAlloc
#undef cuMemFree
#undef cuMemGetInfo
#undef cuCtxCreate

struct Api {
    void* library = nullptr;
    CUresult (*init)(unsigned) = nullptr;
    CUresult (*device_count)(int*) = nullptr;
    CUresult (*version)(int*) = nullptr;
    CUresult (*primary_retain)(CUcontext*, CUdevice) = nullptr;
    CUresult (*primary_release)(CUdevice) = nullptr;
    CUresult (*primary_reset)(CUdevice) = nullptr;
    CUresult (*primary_state)(CUdevice, unsigned*, int*) = nullptr;
    CUresult (*set_current)(CUcontext) = nullptr;
    CUresult (*synchronize)() = nullptr;
    CUresult (*allocate)(CUdeviceptr*, size_t) = nullptr;
    CUresult (*release)(CUdeviceptr) = nullptr;
    CUresult (*host_allocate)(void**, size_t, unsigned) = nullptr;
    CUresult (*host_release)(void*) = nullptr;
    CUresult (*memory_info)(size_t*, size_t*) = nullptr;
    CUresult (*address_range)(CUdeviceptr*, size_t*, CUdeviceptr) = nullptr;
    CUresult (*fill)(CUdeviceptr, unsigned char, size_t) = nullptr;
    CUresult (*to_host)(void*, CUdeviceptr, size_t) = nullptr;
};

using Resolver1 = CUresult (*)(const char*, void**, int, cuuint64_t);
using Resolver2 = CUresult (*)(const char*, void**, int, cuuint64_t, int*);

/// One function: by the newer form of the resolver, by the older one, or by dlsym in a driver that has neither.
inline void* acquire(void* library, const char* name, int version, const char* exported) {
    static const auto v2 = reinterpret_cast<Resolver2>(dlsym(library, "cuGetProcAddress_v2"));
    static const auto v1 = reinterpret_cast<Resolver1>(dlsym(library, "cuGetProcAddress"));
    void* found = nullptr;
    int status = 0;
    if (v2 != nullptr) {
        return v2(name, &found, version, 0, &status) == CUDA_SUCCESS ? found : nullptr;
    }
    if (v1 != nullptr) {
        return v1(name, &found, version, 0) == CUDA_SUCCESS ? found : nullptr;
    }
    return dlsym(library, exported);
}

template <class F> void acquire(void* library, F& function, const char* name, int version, const char* exported) {
    function = reinterpret_cast<F>(acquire(library, name, version, exported));
    if (function == nullptr) {
        std::fprintf(stderr, "no %s\n", name);
        std::exit(3);
    }
}

inline Api load_api() {
    Api a;
    a.library = dlopen("libcuda.so.1", RTLD_NOW);
    if (a.library == nullptr) {
        std::printf("no driver\n");
        std::exit(4);
    }
    const auto get = [&](auto& function, const char* name, int version, const char* exported) {
        acquire(a.library, function, name, version, exported);
    };
    get(a.init, "cuInit", 2000, "cuInit");
    get(a.device_count, "cuDeviceGetCount", 2000, "cuDeviceGetCount");
    get(a.version, "cuDriverGetVersion", 2020, "cuDriverGetVersion");
    get(a.primary_retain, "cuDevicePrimaryCtxRetain", 7000, "cuDevicePrimaryCtxRetain");
    get(a.primary_release, "cuDevicePrimaryCtxRelease", 11000, "cuDevicePrimaryCtxRelease_v2");
    get(a.primary_reset, "cuDevicePrimaryCtxReset", 11000, "cuDevicePrimaryCtxReset_v2");
    get(a.primary_state, "cuDevicePrimaryCtxGetState", 7000, "cuDevicePrimaryCtxGetState");
    get(a.set_current, "cuCtxSetCurrent", 4000, "cuCtxSetCurrent");
    get(a.synchronize, "cuCtxSynchronize", 2000, "cuCtxSynchronize");
    get(a.allocate, "cuMemAlloc", 3020, "cuMemAlloc_v2");
    get(a.release, "cuMemFree", 3020, "cuMemFree_v2");
    get(a.host_allocate, "cuMemHostAlloc", 2020, "cuMemHostAlloc");
    get(a.host_release, "cuMemFreeHost", 2000, "cuMemFreeHost");
    get(a.memory_info, "cuMemGetInfo", 3020, "cuMemGetInfo_v2");
    get(a.address_range, "cuMemGetAddressRange", 3020, "cuMemGetAddressRange_v2");
    get(a.fill, "cuMemsetD8", 3020, "cuMemsetD8_v2");
    get(a.to_host, "cuMemcpyDtoH", 3020, "cuMemcpyDtoH_v2");
    return a;
}

inline void must(CUresult result, const char* what) {
    if (result != CUDA_SUCCESS) {
        std::printf("%s failed with %d\n", what, static_cast<int>(result));
        std::exit(5);
    }
}

/// Initialises the driver and makes the primary context of `device` current.
inline void start(const Api& a, CUdevice device = 0) {
    CUcontext context = nullptr;
    must(a.init(0), "init");
    must(a.primary_retain(&context, device), "retain");
    must(a.set_current(context), "set current");
}

/// One number of the preloaded object's statistics; -1 without the object.
inline long statistic(const char* key) {
    using Statistics = size_t (*)(char*, size_t);
    const auto ask = reinterpret_cast<Statistics>(dlsym(RTLD_DEFAULT, "cistern_statistics"));
    if (ask == nullptr) {
        return -1;
    }
    std::string text(ask(nullptr, 0) + 256, '\0');
    ask(text.data(), text.size());
    const std::string mark = std::string("\"") + key + "\":";
    const size_t at = text.find(mark);
    return at == std::string::npos ? 0 : std::atol(text.c_str() + at + mark.size());
}

/// In the preloaded run of a comparison: ends the program with 6 unless the pool has served allocations.
inline void require_active() {
    const char* expect = std::getenv("EXPECT_PRELOAD");
    if (expect != nullptr && *expect != '\0' && statistic("alloc_served") <= 0) {
        std::fprintf(stderr, "the pool served nothing (%ld)\n", statistic("alloc_served"));
        std::_Exit(6);
    }
}
