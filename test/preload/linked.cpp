// A program that is linked with the driver and never calls dlsym for it: its calls arrive at the preload's exports.
// Prints what each call reaches; then the same names by RTLD_DEFAULT and RTLD_NEXT.

#include "test/preload/probe.h"

#define LINKED_NAMES(X)                                                                                                \
    X(cuInit)                                                                                                          \
    X(cuMemAlloc_v2)                                                                                                   \
    X(cuMemAlloc)                                                                                                      \
    X(cuMemFree_v2)                                                                                                    \
    X(cuMemFree)                                                                                                       \
    X(cuMemAllocPitch_v2)                                                                                              \
    X(cuMemGetInfo_v2)                                                                                                 \
    X(cuMemGetAddressRange_v2)                                                                                         \
    X(cuMemFreeAsync)                                                                                                  \
    X(cuMemFreeAsync_ptsz)                                                                                             \
    X(cuCtxSynchronize)                                                                                                \
    X(cuCtxSynchronize_v2)                                                                                             \
    X(cuStreamBeginCapture_v2_ptsz)                                                                                    \
    X(cuStreamEndCapture)                                                                                              \
    X(cuStreamDestroy_v2)                                                                                              \
    X(cuCtxCreate)                                                                                                     \
    X(cuCtxCreate_v2)                                                                                                  \
    X(cuCtxCreate_v3)                                                                                                  \
    X(cuCtxCreate_v4)                                                                                                  \
    X(cuCtxDestroy_v2)                                                                                                 \
    X(cuDevicePrimaryCtxRelease)                                                                                       \
    X(cuMemHostAlloc)                                                                                                  \
    X(cuDevicePrimaryCtxRetain)                                                                                        \
    X(cuDevicePrimaryCtxReset_v2)

#define X(name) extern "C" int name(uintptr_t, uintptr_t, uintptr_t, uintptr_t, uintptr_t, uintptr_t);
LINKED_NAMES(X)
#undef X
extern "C" void* ask_next_from_library(const char* name);

namespace {

void print(const Driver& d, const char* what, const char* name, void* function) {
    std::printf("%s %s", what, name);
    if (function != nullptr) {
        call_and_print(d, function, EXPECT_ANY);
    }
    std::printf("\n");
}

} // namespace

int main() {
    // Before anything was looked up. cuInit's answer is 0 by itself.
    std::printf("first call %d\n", cuInit(0, 0, 0, 0, 0, 0));
    const Driver d = open_driver("libcuda.so.1", RTLD_NOW | RTLD_NOLOAD);
    std::printf("reached %s\n", d.reached());
#define X(name) print(d, "linked", #name, reinterpret_cast<void*>(&name));
    LINKED_NAMES(X)
#undef X
#define X(name) print(d, "default", #name, dlsym(RTLD_DEFAULT, #name));
    LINKED_NAMES(X)
#undef X
#define X(name) print(d, "next", #name, dlsym(RTLD_NEXT, #name));
    LINKED_NAMES(X)
#undef X
#define X(name) print(d, "next from a library", #name, ask_next_from_library(#name));
    LINKED_NAMES(X)
#undef X
    // With another interposer in front its function comes first, and ours behind that.
    if (std::getenv("OTHER_IN_FRONT") == nullptr && preloaded() != nullptr &&
        !in_preloaded(dlsym(RTLD_NEXT, "cuMemAlloc_v2"))) {
        wrong("the executable's RTLD_NEXT does not come to us", "cuMemAlloc_v2");
    }
    return finish();
}
