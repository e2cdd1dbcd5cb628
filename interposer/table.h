// The one table of everything that this object exports. It generates the hooks' declarations, the slots, the look-up
// by exported name and by cuGetProcAddress name, the linker's export list (exports.lds.in) and the golden export list.
//
// Preprocessed by the linker's build step too: no include, nothing but macros and comments.

#ifndef CISTERN_INTERPOSER_TABLE_H
#define CISTERN_INTERPOSER_TABLE_H

/// Newest CUDA version whose headers this table was compared with. Beyond it a function is known by its address alone:
/// a later version may have given the same name another signature.
#define CISTERN_NEWEST_KNOWN_ABI 13000

/// Last version of an ABI that is still the current one.
#define CISTERN_ABI_CURRENT 0x7fffffff

/// Hooked driver functions, one line for each signature ("slot"):
///   exported name without "cu" (cuda.h redefines the full names as macros),
///   name under which cuGetProcAddress knows it,
///   versions [since, until) for which cuGetProcAddress gives this signature,
///   plain or ptsz (the variant for the per-thread default stream),
///   parameters, arguments.
/// Types that older CUDA headers lack are passed as plain pointers.
#define CISTERN_HOOKS(X)                                                                                               \
    X(Init, "cuInit", 2000, CISTERN_ABI_CURRENT, plain, (unsigned flags), (flags))                                     \
    X(GetProcAddress, "cuGetProcAddress", 11030, 12000, plain,                                                         \
      (const char* symbol, void** function, int version, cuuint64_t flags), (symbol, function, version, flags))        \
    X(GetProcAddress_v2, "cuGetProcAddress", 12000, CISTERN_ABI_CURRENT, plain,                                        \
      (const char* symbol, void** function, int version, cuuint64_t flags, int* status),                               \
      (symbol, function, version, flags, status))                                                                      \
    X(MemAlloc_v2, "cuMemAlloc", 3020, CISTERN_ABI_CURRENT, plain, (CUdeviceptr * out, size_t bytes), (out, bytes))    \
    X(MemAllocPitch_v2, "cuMemAllocPitch", 3020, CISTERN_ABI_CURRENT, plain,                                           \
      (CUdeviceptr * out, size_t * pitch, size_t width, size_t height, unsigned element),                              \
      (out, pitch, width, height, element))                                                                            \
    X(MemFree_v2, "cuMemFree", 3020, CISTERN_ABI_CURRENT, plain, (CUdeviceptr ptr), (ptr))                             \
    X(MemFreeAsync, "cuMemFreeAsync", 11020, CISTERN_ABI_CURRENT, plain, (CUdeviceptr ptr, CUstream stream),           \
      (ptr, stream))                                                                                                   \
    X(MemFreeAsync_ptsz, "cuMemFreeAsync", 11020, CISTERN_ABI_CURRENT, ptsz, (CUdeviceptr ptr, CUstream stream),       \
      (ptr, stream))                                                                                                   \
    X(MemGetAddressRange_v2, "cuMemGetAddressRange", 3020, CISTERN_ABI_CURRENT, plain,                                 \
      (CUdeviceptr * base, size_t * bytes, CUdeviceptr ptr), (base, bytes, ptr))                                       \
    X(MemGetInfo_v2, "cuMemGetInfo", 3020, CISTERN_ABI_CURRENT, plain, (size_t * free_bytes, size_t * total_bytes),    \
      (free_bytes, total_bytes))                                                                                       \
    X(StreamBeginCapture, "cuStreamBeginCapture", 10000, 10010, plain, (CUstream stream), (stream))                    \
    X(StreamBeginCapture_ptsz, "cuStreamBeginCapture", 10000, 10010, ptsz, (CUstream stream), (stream))                \
    X(StreamBeginCapture_v2, "cuStreamBeginCapture", 10010, CISTERN_ABI_CURRENT, plain,                                \
      (CUstream stream, CUstreamCaptureMode mode), (stream, mode))                                                     \
    X(StreamBeginCapture_v2_ptsz, "cuStreamBeginCapture", 10010, CISTERN_ABI_CURRENT, ptsz,                            \
      (CUstream stream, CUstreamCaptureMode mode), (stream, mode))                                                     \
    X(StreamBeginCaptureToGraph, "cuStreamBeginCaptureToGraph", 12030, CISTERN_ABI_CURRENT, plain,                     \
      (CUstream stream, CUgraph graph, const CUgraphNode* nodes, const void* edges, size_t count,                      \
       CUstreamCaptureMode mode),                                                                                      \
      (stream, graph, nodes, edges, count, mode))                                                                      \
    X(StreamBeginCaptureToGraph_ptsz, "cuStreamBeginCaptureToGraph", 12030, CISTERN_ABI_CURRENT, ptsz,                 \
      (CUstream stream, CUgraph graph, const CUgraphNode* nodes, const void* edges, size_t count,                      \
       CUstreamCaptureMode mode),                                                                                      \
      (stream, graph, nodes, edges, count, mode))                                                                      \
    X(StreamBeginRecaptureToGraph, "cuStreamBeginRecaptureToGraph", 13030, CISTERN_ABI_CURRENT, plain,                 \
      (CUstream stream, CUstreamCaptureMode mode, CUgraph graph, void* callback, void* data),                          \
      (stream, mode, graph, callback, data))                                                                           \
    X(StreamBeginRecaptureToGraph_ptsz, "cuStreamBeginRecaptureToGraph", 13030, CISTERN_ABI_CURRENT, ptsz,             \
      (CUstream stream, CUstreamCaptureMode mode, CUgraph graph, void* callback, void* data),                          \
      (stream, mode, graph, callback, data))                                                                           \
    X(StreamEndCapture, "cuStreamEndCapture", 10000, CISTERN_ABI_CURRENT, plain, (CUstream stream, CUgraph * graph),   \
      (stream, graph))                                                                                                 \
    X(StreamEndCapture_ptsz, "cuStreamEndCapture", 10000, CISTERN_ABI_CURRENT, ptsz,                                   \
      (CUstream stream, CUgraph * graph), (stream, graph))                                                             \
    X(StreamDestroy, "cuStreamDestroy", 2000, 4000, plain, (CUstream stream), (stream))                                \
    X(StreamDestroy_v2, "cuStreamDestroy", 4000, CISTERN_ABI_CURRENT, plain, (CUstream stream), (stream))              \
    X(ThreadExchangeStreamCaptureMode, "cuThreadExchangeStreamCaptureMode", 10010, CISTERN_ABI_CURRENT, plain,         \
      (CUstreamCaptureMode * mode), (mode))                                                                            \
    X(CtxSynchronize, "cuCtxSynchronize", 2000, 13000, plain, (void), ())                                              \
    X(CtxSynchronize_v2, "cuCtxSynchronize", 13000, CISTERN_ABI_CURRENT, plain, (CUcontext context), (context))        \
    X(CtxCreate, "cuCtxCreate", 2000, 3020, plain, (CUcontext * out, unsigned flags, CUdevice device),                 \
      (out, flags, device))                                                                                            \
    X(CtxCreate_v2, "cuCtxCreate", 3020, 11040, plain, (CUcontext * out, unsigned flags, CUdevice device),             \
      (out, flags, device))                                                                                            \
    X(CtxCreate_v3, "cuCtxCreate", 11040, 12050, plain,                                                                \
      (CUcontext * out, void* affinity, int count, unsigned flags, CUdevice device),                                   \
      (out, affinity, count, flags, device))                                                                           \
    X(CtxCreate_v4, "cuCtxCreate", 12050, CISTERN_ABI_CURRENT, plain,                                                  \
      (CUcontext * out, void* parameters, unsigned flags, CUdevice device), (out, parameters, flags, device))          \
    X(CtxAttach, "cuCtxAttach", 2000, CISTERN_ABI_CURRENT, plain, (CUcontext * out, unsigned flags), (out, flags))     \
    X(CtxDetach, "cuCtxDetach", 2000, CISTERN_ABI_CURRENT, plain, (CUcontext context), (context))                      \
    X(CtxDestroy, "cuCtxDestroy", 2000, 4000, plain, (CUcontext context), (context))                                   \
    X(CtxDestroy_v2, "cuCtxDestroy", 4000, CISTERN_ABI_CURRENT, plain, (CUcontext context), (context))                 \
    X(CtxFromGreenCtx, "cuCtxFromGreenCtx", 12040, CISTERN_ABI_CURRENT, plain, (CUcontext * out, void* green),         \
      (out, green))                                                                                                    \
    X(DevicePrimaryCtxRetain, "cuDevicePrimaryCtxRetain", 7000, CISTERN_ABI_CURRENT, plain,                            \
      (CUcontext * out, CUdevice device), (out, device))                                                               \
    X(DevicePrimaryCtxRelease, "cuDevicePrimaryCtxRelease", 7000, 11000, plain, (CUdevice device), (device))           \
    X(DevicePrimaryCtxRelease_v2, "cuDevicePrimaryCtxRelease", 11000, CISTERN_ABI_CURRENT, plain, (CUdevice device),   \
      (device))                                                                                                        \
    X(DevicePrimaryCtxReset, "cuDevicePrimaryCtxReset", 7000, 11000, plain, (CUdevice device), (device))               \
    X(DevicePrimaryCtxReset_v2, "cuDevicePrimaryCtxReset", 11000, CISTERN_ABI_CURRENT, plain, (CUdevice device),       \
      (device))

/// Our own functions, for programs and tests that know about us: name without "cistern_", result, parameters.
///   version     version and commit of this object, a constant string
///   trim        gives idle pool memory back to the driver; bytes released
///   statistics  the counters as one line of JSON into `buffer` (always terminated if size > 0); returns the length that
///               was needed, as snprintf does
#define CISTERN_OWN_FUNCTIONS(X)                                                                                       \
    X(version, const char*, (void))                                                                                    \
    X(trim, size_t, (void))                                                                                            \
    X(statistics, size_t, (char* buffer, size_t size))

#endif
