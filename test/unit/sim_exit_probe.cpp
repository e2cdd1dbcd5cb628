// Prints what the driver answers in an exit handler that was registered before cuInit, that is, runs after the driver's own.

#include "test/fakes/sim.h"

#include <cstdio>
#include <cstdlib>

namespace {

void late() {
    CUdeviceptr p = 0;
    std::printf("late: %d\n", static_cast<int>(cuMemAlloc(&p, 16)));
    std::fflush(stdout);
}

} // namespace

int main() {
    if (std::atexit(late) != 0 || cuInit(0) != CUDA_SUCCESS) return 1;
    CUcontext context = nullptr;
    if (cuDevicePrimaryCtxRetain(&context, 0) != CUDA_SUCCESS || cuCtxSetCurrent(context) != CUDA_SUCCESS) return 1;
    CUdeviceptr p = 0;
    return cuMemAlloc(&p, 16) == CUDA_SUCCESS ? 0 : 1;
}
