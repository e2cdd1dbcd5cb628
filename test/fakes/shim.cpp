// The shape of a profiler's replacement library: dlsym on it gives forwarders of its own, while the cuGetProcAddress that they
// lead to answers with the functions of the library behind it.

#include "test/fakes/fake_cuda.h"

#include "test/fakes/controls.h"
#include "test/fakes/table.h"

#include <dlfcn.h>

#include <cstdio>
#include <cstdlib>
#include <string>

#define SIM_EVERYTHING(X) SIM_ALL_ENTRIES(X) SIM_CONTROLS(X)

// One slot and one jump for each name. Nothing is assumed about arguments.
#if defined(__x86_64__)
#define SIM_JUMP(name) "    jmp *sim_slot_" #name "(%rip)\n"
#elif defined(__aarch64__)
#define SIM_JUMP(name) "    adrp x16, sim_slot_" #name "\n    ldr x16, [x16, #:lo12:sim_slot_" #name "]\n    br x16\n"
#endif
#define X(name, ...)                                                                                                   \
    extern "C" {                                                                                                       \
    extern __attribute__((visibility("hidden"))) void* slot_##name __asm__("sim_slot_" #name);                         \
    void* slot_##name = nullptr;                                                                                       \
    }                                                                                                                  \
    __asm__(".text\n.globl " #name "\n.type " #name ", %function\n.balign 16\n" #name                                  \
            ":\n" SIM_JUMP(name) ".size " #name ", .-" #name "\n");
SIM_EVERYTHING(X)
#undef X

namespace {

__attribute__((constructor)) void connect() {
    Dl_info self{};
    if (dladdr(reinterpret_cast<void*>(&connect), &self) == 0) return;
    std::string path = self.dli_fname;
    size_t slash = path.rfind('/');
    path = (slash == std::string::npos ? std::string(".") : path.substr(0, slash)) + "/../libcuda.so.1";
    void* real = dlopen(path.c_str(), RTLD_NOW | RTLD_LOCAL);
    if (!real) {
        std::fprintf(stderr, "sim shim: %s\n", dlerror());
        std::abort();
    }
#define X(name, ...) slot_##name = dlsym(real, #name);
    SIM_EVERYTHING(X)
#undef X
}

} // namespace
