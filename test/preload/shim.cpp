// A shim in front of the driver, as a profiler's: the program gets its functions, and the shim finds the driver's by
// dlsym at each call, so it finds hooks. Without care hook and shim would call each other for ever.
// Argument: the shim's file.

#include "test/preload/probe.h"

int main(int argc, char** argv) {
    const Driver shim = open_driver(argc > 1 ? argv[1] : "", RTLD_NOW);
    const Driver real = open_driver("libcuda.so.1", RTLD_NOW);
    shim.forward_to(real.handle);
    for (int row = 0; real.exported(row) != nullptr; ++row) {
        if (std::strncmp(real.exported(row), "cuGetProcAddress", 16) == 0 ||
            std::strcmp(real.exported(row), "cuDriverGetVersion") == 0) {
            continue;
        }
        std::printf("through the shim %s", real.exported(row));
        call_and_print(real, dlsym(shim.handle, real.exported(row)));
        std::printf("\n  straight");
        call_and_print(real, dlsym(real.handle, real.exported(row)));
        std::printf("\n");
    }
    return finish();
}
