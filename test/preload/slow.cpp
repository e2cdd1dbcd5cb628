// An object that costs too much, for the negative control of cost.py: a constructor and a slow dlsym.

#include <dlfcn.h>
#include <time.h>

#define SLOW_EXPORT extern "C" __attribute__((visibility("default")))

__attribute__((constructor)) static void at_load() {
    const timespec wait{0, 2000000};
    nanosleep(&wait, nullptr);
}

SLOW_EXPORT void* dlsym(void* handle, const char* name) {
    using Dlsym = void* (*)(void*, const char*);
    static Dlsym real = nullptr;
    if (real == nullptr) {
        real = reinterpret_cast<Dlsym>(dlvsym(RTLD_NEXT, "dlsym", NAIVE_VERSION));
    }
    for (int i = 0; i < 200; ++i) {
        asm volatile("");
    }
    return real(handle, name);
}
