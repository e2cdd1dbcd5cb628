#include "test/preload/door_driver.h"

#include <cstdint>
#include <cstring>
#include <dlfcn.h>

using Word = uintptr_t;
using Function = int (*)(Word, Word, Word, Word, Word, Word);

#define DOOR_EXPORT extern "C" __attribute__((visibility("default"), used))

// exported name, name for cuGetProcAddress, version that introduced it, per-thread stream variant, arguments
#if defined(DOOR_OLD)
#define DOOR_NEW(X)
#else
#define DOOR_NEW(X)                                                                                                    \
    X(cuStreamBeginCaptureToGraph, "cuStreamBeginCaptureToGraph", 12030, 0, 6)                                         \
    X(cuStreamBeginCaptureToGraph_ptsz, "cuStreamBeginCaptureToGraph", 12030, 1, 6)                                    \
    X(cuCtxSynchronize_v2, "cuCtxSynchronize", 13000, 0, 1)                                                            \
    X(cuCtxCreate_v3, "cuCtxCreate", 11040, 0, 5)                                                                      \
    X(cuCtxCreate_v4, "cuCtxCreate", 12050, 0, 4)                                                                      \
    X(cuCtxFromGreenCtx, "cuCtxFromGreenCtx", 12040, 0, 2)                                                             \
    X(cuMemFreeAsync, "cuMemFreeAsync", 11020, 0, 2)                                                                   \
    X(cuMemFreeAsync_ptsz, "cuMemFreeAsync", 11020, 1, 2)
#endif

#define DOOR_TABLE(X)                                                                                                  \
    X(cuMemAlloc, "cuMemAlloc", 2000, 0, 2)                                                                            \
    X(cuMemAlloc_v2, "cuMemAlloc", 3020, 0, 2)                                                                         \
    X(cuMemAllocPitch, "cuMemAllocPitch", 2000, 0, 5)                                                                  \
    X(cuMemAllocPitch_v2, "cuMemAllocPitch", 3020, 0, 5)                                                               \
    X(cuMemFree, "cuMemFree", 2000, 0, 1)                                                                              \
    X(cuMemFree_v2, "cuMemFree", 3020, 0, 1)                                                                           \
    X(cuMemGetAddressRange, "cuMemGetAddressRange", 2000, 0, 3)                                                        \
    X(cuMemGetAddressRange_v2, "cuMemGetAddressRange", 3020, 0, 3)                                                     \
    X(cuMemGetInfo, "cuMemGetInfo", 2000, 0, 2)                                                                        \
    X(cuMemGetInfo_v2, "cuMemGetInfo", 3020, 0, 2)                                                                     \
    X(cuMemHostAlloc, "cuMemHostAlloc", 2020, 0, 3)                                                                    \
    X(cuStreamBeginCapture, "cuStreamBeginCapture", 10000, 0, 1)                                                       \
    X(cuStreamBeginCapture_ptsz, "cuStreamBeginCapture", 10000, 1, 1)                                                  \
    X(cuStreamBeginCapture_v2, "cuStreamBeginCapture", 10010, 0, 2)                                                    \
    X(cuStreamBeginCapture_v2_ptsz, "cuStreamBeginCapture", 10010, 1, 2)                                               \
    X(cuStreamEndCapture, "cuStreamEndCapture", 10000, 0, 2)                                                           \
    X(cuStreamEndCapture_ptsz, "cuStreamEndCapture", 10000, 1, 2)                                                      \
    X(cuStreamDestroy, "cuStreamDestroy", 2000, 0, 1)                                                                  \
    X(cuStreamDestroy_v2, "cuStreamDestroy", 4000, 0, 1)                                                               \
    X(cuStreamSynchronize, "cuStreamSynchronize", 2000, 0, 1)                                                          \
    X(cuStreamSynchronize_ptsz, "cuStreamSynchronize", 7000, 1, 1)                                                     \
    X(cuThreadExchangeStreamCaptureMode, "cuThreadExchangeStreamCaptureMode", 10010, 0, 1)                             \
    X(cuCtxSynchronize, "cuCtxSynchronize", 2000, 0, 0)                                                                \
    X(cuCtxCreate, "cuCtxCreate", 2000, 0, 3)                                                                          \
    X(cuCtxCreate_v2, "cuCtxCreate", 3020, 0, 3)                                                                       \
    X(cuCtxDestroy, "cuCtxDestroy", 2000, 0, 1)                                                                        \
    X(cuCtxDestroy_v2, "cuCtxDestroy", 4000, 0, 1)                                                                     \
    X(cuCtxDetach, "cuCtxDetach", 2000, 0, 1)                                                                          \
    X(cuCtxAttach, "cuCtxAttach", 2000, 0, 2)                                                                          \
    X(cuDevicePrimaryCtxRetain, "cuDevicePrimaryCtxRetain", 7000, 0, 2)                                                \
    X(cuDevicePrimaryCtxReset, "cuDevicePrimaryCtxReset", 7000, 0, 1)                                                  \
    X(cuDevicePrimaryCtxReset_v2, "cuDevicePrimaryCtxReset", 11000, 0, 1)                                              \
    X(cuDevicePrimaryCtxRelease_v2, "cuDevicePrimaryCtxRelease", 11000, 0, 1)                                          \
    X(cuCtxGetDevice, "cuCtxGetDevice", 2000, 0, 1)                                                                    \
    DOOR_NEW(X)

namespace {

thread_local const char* reached = "";
thread_local uint32_t arguments[6];
int answer = 0;
int pointers = DOOR_EXPORTED;
void* other_library = nullptr;
void* forward_handle = nullptr;

int enter(const char* name, int count, const Word (&words)[6]) {
    if (forward_handle != nullptr) {
        if (void* next = dlsym(forward_handle, name)) {
            return reinterpret_cast<Function>(next)(words[0], words[1], words[2], words[3], words[4], words[5]);
        }
    }
    reached = name;
    for (int i = 0; i < 6; ++i) {
        arguments[i] = i < count ? static_cast<uint32_t>(words[i]) : 0;
    }
    return answer;
}

} // namespace

#define X(name, base, since, ptsz, count)                                                                              \
    DOOR_EXPORT int name(Word a, Word b, Word c, Word d, Word e, Word f) {                                             \
        return enter(#name, count, {a, b, c, d, e, f});                                                                \
    }                                                                                                                  \
    static int twin_##name(Word a, Word b, Word c, Word d, Word e, Word f) {                                           \
        return enter(#name, count, {a, b, c, d, e, f});                                                                \
    }
DOOR_TABLE(X)
#undef X

// As in driver 580: two exported names, one address.
DOOR_EXPORT int cuDevicePrimaryCtxRelease(Word, Word, Word, Word, Word, Word)
    __attribute__((alias("cuDevicePrimaryCtxRelease_v2")));

DOOR_EXPORT int cuInit(unsigned flags) {
    const int result = enter("cuInit", 1, {flags, 0, 0, 0, 0, 0});
    return forward_handle != nullptr ? result : 0;
}

DOOR_EXPORT int cuDriverGetVersion(int* version) {
    *version = 13000;
    return 0;
}

#if !defined(DOOR_NO_PROCADDRESS)
DOOR_EXPORT int cuGetProcAddress(const char* symbol, void** function, int version, unsigned long flags);
#if !defined(DOOR_NO_V2)
DOOR_EXPORT int cuGetProcAddress_v2(const char* symbol, void** function, int version, unsigned long flags, int* status);
#endif
#endif

namespace {

struct Row {
    const char* exported;
    const char* base;
    int since;
    int ptsz;
    void* function;
    void* twin;
};

template <class F> void* address(F* function) { return reinterpret_cast<void*>(function); }

#define DOOR_SAME(name, base, since)                                                                                   \
    { #name, base, since, 0, address(&name), address(&name) }
const Row rows[] = {
#define X(name, base, since, ptsz, count) {#name, base, since, ptsz, address(&name), address(&twin_##name)},
    DOOR_TABLE(X)
#undef X
        DOOR_SAME(cuInit, "cuInit", 2000),
    DOOR_SAME(cuDriverGetVersion, "cuDriverGetVersion", 2020),
    DOOR_SAME(cuDevicePrimaryCtxRelease, "cuDevicePrimaryCtxRelease", 7000),
#if !defined(DOOR_NO_PROCADDRESS)
    DOOR_SAME(cuGetProcAddress, "cuGetProcAddress", 11030),
#if !defined(DOOR_NO_V2)
    DOOR_SAME(cuGetProcAddress_v2, "cuGetProcAddress", 12000),
#endif
#endif
};
constexpr int row_count = static_cast<int>(sizeof rows / sizeof rows[0]);

#if !defined(DOOR_NO_PROCADDRESS)
void* pointer_of(const Row& row) {
    if (pointers == DOOR_OTHER && other_library != nullptr) {
        // Not by dlsym, which would be answered with hooks.
        const auto at = reinterpret_cast<void* (*)(const char*)>(dlsym(other_library, "door_address"));
        return at(row.exported);
    }
    return pointers == DOOR_ANONYMOUS ? row.twin : row.function;
}

/// Status as the driver's: 0 found, 1 unknown name, 2 version too low.
int find(const char* base, int version, unsigned long flags, void** out) {
    const Row* best = nullptr;
    bool known = false;
    const bool wants_ptsz = (flags & 2U) != 0;
    for (const Row& row : rows) {
        if (std::strcmp(row.base, base) != 0) {
            continue;
        }
        known = true;
        if (row.since > version || (row.ptsz != 0 && !wants_ptsz)) {
            continue;
        }
        const bool better =
            best == nullptr || row.ptsz > best->ptsz || (row.ptsz == best->ptsz && row.since > best->since);
        best = better ? &row : best;
    }
    *out = best != nullptr ? pointer_of(*best) : nullptr;
    return best != nullptr ? 0 : known ? 2 : 1;
}
#endif

} // namespace

#if !defined(DOOR_NO_PROCADDRESS)
DOOR_EXPORT int cuGetProcAddress(const char* symbol, void** function, int version, unsigned long flags) {
    void* found = nullptr;
    if (find(symbol, version, flags, &found) != 0) {
        return 500;
    }
    *function = found;
    return 0;
}

#if !defined(DOOR_NO_V2)
DOOR_EXPORT int cuGetProcAddress_v2(const char* symbol, void** function, int version, unsigned long flags,
                                    int* status) {
    if (version > 90000 || flags > 3) {
        return 1;
    }
    const int outcome = find(symbol, version, flags, function);
    if (status != nullptr) {
        *status = outcome;
    }
    return 0;
}
#endif
#endif

DOOR_EXPORT const char* door_reached(void) {
    const char* name = reached;
    reached = "";
    return name;
}
DOOR_EXPORT unsigned door_argument(int index) { return arguments[index]; }
DOOR_EXPORT void door_answer(int result) { answer = result; }
DOOR_EXPORT void door_pointers(int which) { pointers = which; }
DOOR_EXPORT void door_other_library(void* handle) { other_library = handle; }
DOOR_EXPORT void door_forward_to(void* handle) { forward_handle = handle; }
DOOR_EXPORT void* door_address(const char* exported) {
    for (const Row& row : rows) {
        if (std::strcmp(row.exported, exported) == 0) {
            return row.function;
        }
    }
    return nullptr;
}
DOOR_EXPORT const char* door_exported(int row) { return row < row_count ? rows[row].exported : nullptr; }
DOOR_EXPORT const char* door_base(int row) { return row < row_count ? rows[row].base : nullptr; }
DOOR_EXPORT int door_since(int row) { return row < row_count ? rows[row].since : 0; }
