// Preloaded behind the object (or alone): writes down on standard error what is asked of the driver's resolver, in order.

#include <cstdio>
#include <cstring>
#include <dlfcn.h>

#define RECORDER_EXPORT extern "C" __attribute__((visibility("default")))

namespace {

using Dlsym = void* (*)(void*, const char*);
using Resolver = int (*)(const char*, void**, int, unsigned long, int*);
Dlsym real_dlsym = nullptr;
Resolver real_resolver = nullptr;

int recording_resolver(const char* symbol, void** function, int version, unsigned long flags, int* status) {
    const int result = real_resolver(symbol, function, version, flags, status);
    const bool found = result == 0 && *function != nullptr;
    std::fprintf(stderr, "%s %d %lu status %s: %d %s\n", symbol, version, flags, status != nullptr ? "asked" : "null",
                 result, found ? "found" : "null");
    if (found && *function == reinterpret_cast<void*>(real_resolver)) {
        *function = reinterpret_cast<void*>(&recording_resolver);
    }
    return result;
}

} // namespace

RECORDER_EXPORT void* dlsym(void* handle, const char* name) {
    if (real_dlsym == nullptr) {
        real_dlsym = reinterpret_cast<Dlsym>(dlvsym(RTLD_NEXT, "dlsym", NAIVE_VERSION));
    }
    if (handle != RTLD_NEXT && handle != RTLD_DEFAULT && std::strcmp(name, "cuGetProcAddress_v2") == 0) {
        real_resolver = reinterpret_cast<Resolver>(real_dlsym(handle, name));
        return real_resolver != nullptr ? reinterpret_cast<void*>(&recording_resolver) : nullptr;
    }
    return real_dlsym(handle, name);
}
