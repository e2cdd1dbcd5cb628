// What the object must not be: a dlsym that calls the real one instead of jumping to it, and that answers for the
// driver's names by itself. Negative control: the look-up tests have to report it.

#include <dlfcn.h>

#define NAIVE_EXPORT extern "C" __attribute__((visibility("default")))

NAIVE_EXPORT const char* cistern_version(void) { return "naive"; }
NAIVE_EXPORT int cuMemAlloc_v2(unsigned long*, unsigned long) { return 0; }

NAIVE_EXPORT void* dlsym(void* handle, const char* name) {
    using Dlsym = void* (*)(void*, const char*);
    static const auto real = reinterpret_cast<Dlsym>(dlvsym(RTLD_NEXT, "dlsym", NAIVE_VERSION));
    // volatile: the compiler must not turn the call into a jump by itself.
    void* volatile found = real(handle, name);
    return found;
}
