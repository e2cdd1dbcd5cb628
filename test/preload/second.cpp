// A second interposer: wraps some calls by RTLD_NEXT, and with SECOND_DLSYM it has a dlsym hook of its own that serves
// driver names from the handle it was asked for. Runs before or behind the object under test.

#include <atomic>
#include <cstdio>
#include <cstdlib>
#include <dlfcn.h>
#include <unistd.h>

#define SECOND_EXPORT extern "C" __attribute__((visibility("default")))

namespace {
std::atomic<int> depth{0};

template <class F> F next(const char* name) { return reinterpret_cast<F>(dlsym(RTLD_NEXT, name)); }

struct Depth {
    Depth() {
        if (++depth > 50) {
            static const char text[] = "second interposer: endless recursion\n";
            if (write(2, text, sizeof text - 1) < 0) {
                _exit(98);
            }
            _exit(97);
        }
    }
    ~Depth() { --depth; }
};
} // namespace

SECOND_EXPORT pid_t getppid(void) {
    Depth guard;
    return next<pid_t (*)()>("getppid")();
}

#if defined(SECOND_CUDA)
SECOND_EXPORT int cuMemAlloc_v2(unsigned long* out, unsigned long bytes) {
    Depth guard;
    const auto real = next<int (*)(unsigned long*, unsigned long)>("cuMemAlloc_v2");
    return real != nullptr ? real(out, bytes) : 100;
}
SECOND_EXPORT int cuMemFree_v2(unsigned long ptr) {
    Depth guard;
    const auto real = next<int (*)(unsigned long)>("cuMemFree_v2");
    return real != nullptr ? real(ptr) : 100;
}
#endif

#if defined(SECOND_DLSYM)
/// Compiled so that the last call is a jump: with a call every other look-up of the process would go wrong without us too.
SECOND_EXPORT void* dlsym(void* handle, const char* name) {
    using Dlsym = void* (*)(void*, const char*);
    static Dlsym real = nullptr;
    if (real == nullptr) {
        real = reinterpret_cast<Dlsym>(dlvsym(RTLD_NEXT, "dlsym", NAIVE_VERSION));
    }
    return real(handle, name);
}
#endif
