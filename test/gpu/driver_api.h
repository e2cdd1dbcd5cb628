#pragma once
// Driver functions for programs that are linked with the runtime only: found through the runtime's entry-point query,
// which is one of the doors that a preload has to serve. Names without a version suffix; see the list for the ABI.

#include <cuda.h>
#include <cuda_runtime.h>

#include <cstdio>
#include <cstdlib>

namespace cistern::gpu_test {

using CtxCreateV2 = CUresult (*)(CUcontext*, unsigned, CUdevice);

/// name, version that introduced the ABI, type
#define GPU_TEST_DRIVER(X)                                                                                             \
    X(cuMemAlloc, 3020, decltype(&::cuMemAlloc))                                                                       \
    X(cuMemFree, 3020, decltype(&::cuMemFree))                                                                         \
    X(cuMemAllocPitch, 3020, decltype(&::cuMemAllocPitch))                                                             \
    X(cuMemFreeAsync, 11020, decltype(&::cuMemFreeAsync))                                                              \
    X(cuMemHostAlloc, 2020, decltype(&::cuMemHostAlloc))                                                               \
    X(cuMemFreeHost, 2000, decltype(&::cuMemFreeHost))                                                                 \
    X(cuMemGetInfo, 3020, decltype(&::cuMemGetInfo))                                                                   \
    X(cuMemGetAddressRange, 3020, decltype(&::cuMemGetAddressRange))                                                   \
    X(cuMemsetD8Async, 3020, decltype(&::cuMemsetD8Async))                                                             \
    X(cuMemcpyDtoH, 3020, decltype(&::cuMemcpyDtoH))                                                                   \
    X(cuCtxCreate, 3020, CtxCreateV2)                                                                                  \
    X(cuCtxDestroy, 4000, decltype(&::cuCtxDestroy))                                                                   \
    X(cuCtxSetCurrent, 4000, decltype(&::cuCtxSetCurrent))                                                             \
    X(cuCtxGetCurrent, 4000, decltype(&::cuCtxGetCurrent))                                                             \
    X(cuStreamCreate, 2000, decltype(&::cuStreamCreate))                                                               \
    X(cuStreamSynchronize, 2000, decltype(&::cuStreamSynchronize))                                                     \
    X(cuMemCreate, 10020, decltype(&::cuMemCreate))                                                                    \
    X(cuMemRelease, 10020, decltype(&::cuMemRelease))                                                                  \
    X(cuMemAddressReserve, 10020, decltype(&::cuMemAddressReserve))                                                    \
    X(cuMemAddressFree, 10020, decltype(&::cuMemAddressFree))                                                          \
    X(cuMemMap, 10020, decltype(&::cuMemMap))                                                                          \
    X(cuMemUnmap, 10020, decltype(&::cuMemUnmap))                                                                      \
    X(cuMemSetAccess, 10020, decltype(&::cuMemSetAccess))                                                              \
    X(cuDeviceGetDevResource, 12040, decltype(&::cuDeviceGetDevResource))                                              \
    X(cuDevSmResourceSplitByCount, 12040, decltype(&::cuDevSmResourceSplitByCount))                                    \
    X(cuDevResourceGenerateDesc, 12040, decltype(&::cuDevResourceGenerateDesc))                                        \
    X(cuGreenCtxCreate, 12040, decltype(&::cuGreenCtxCreate))                                                          \
    X(cuGreenCtxDestroy, 12040, decltype(&::cuGreenCtxDestroy))                                                        \
    X(cuCtxFromGreenCtx, 12040, decltype(&::cuCtxFromGreenCtx))                                                        \
    X(cuGreenCtxStreamCreate, 12050, decltype(&::cuGreenCtxStreamCreate))

struct DriverApi {
#define X(name, version, type) type name = nullptr;
    GPU_TEST_DRIVER(X)
#undef X
    DriverApi() {
#define X(name, version, type) name = reinterpret_cast<type>(find(#name, version));
        GPU_TEST_DRIVER(X)
#undef X
    }

private:
    /// Null where this driver has no such function.
    static void* find(const char* name, unsigned version) {
        void* function = nullptr;
        cudaDriverEntryPointQueryResult status;
        const cudaError_t code = cudaGetDriverEntryPointByVersion(name, &function, version, cudaEnableDefault, &status);
        if (code != cudaSuccess) (void)cudaGetLastError();
        return code == cudaSuccess && status == cudaDriverEntryPointSuccess ? function : nullptr;
    }
};

inline const DriverApi& driver() {
    static const DriverApi api;
    return api;
}

} // namespace cistern::gpu_test
