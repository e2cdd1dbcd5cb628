#pragma once
// Helpers of the look-up programs. What they print is the same with and without the preload; what must differ (the
// pointers are hooks) they judge themselves and end with 2 when it is wrong.

#include "test/preload/door_driver.h"

#include <cstdint>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <dlfcn.h>

using Any = int (*)(uintptr_t, uintptr_t, uintptr_t, uintptr_t, uintptr_t, uintptr_t);
using ProcAddress1 = int (*)(const char*, void**, int, unsigned long);
using ProcAddress2 = int (*)(const char*, void**, int, unsigned long, int*);

inline int failures = 0;

inline void wrong(const char* what, const char* name) {
    std::fprintf(stderr, "wrong: %s: %s\n", what, name);
    ++failures;
}

/// The driver's side, by its own handle.
struct Driver {
    void* handle = nullptr;
    const char* (*reached)() = nullptr;
    unsigned (*argument)(int) = nullptr;
    void (*answer)(int) = nullptr;
    void (*pointers)(int) = nullptr;
    void (*other_library)(void*) = nullptr;
    void (*forward_to)(void*) = nullptr;
    const char* (*exported)(int) = nullptr;
    const char* (*base)(int) = nullptr;
};

template <class F> void fetch(void* handle, F& function, const char* name) {
    function = reinterpret_cast<F>(dlsym(handle, name));
    if (function == nullptr) {
        std::fprintf(stderr, "no %s: %s\n", name, dlerror());
        std::exit(3);
    }
}

inline Driver open_driver(const char* file, int flags) {
    Driver d;
    d.handle = dlopen(file, flags);
    if (d.handle == nullptr) {
        std::fprintf(stderr, "%s\n", dlerror());
        std::exit(3);
    }
    fetch(d.handle, d.reached, "door_reached");
    fetch(d.handle, d.argument, "door_argument");
    fetch(d.handle, d.answer, "door_answer");
    fetch(d.handle, d.pointers, "door_pointers");
    fetch(d.handle, d.other_library, "door_other_library");
    fetch(d.handle, d.forward_to, "door_forward_to");
    fetch(d.handle, d.exported, "door_exported");
    fetch(d.handle, d.base, "door_base");
    return d;
}

/// The preloaded object's handle, null without it.
inline void* preloaded() {
    static void* handle = [] {
        void* mark = dlsym(RTLD_DEFAULT, "cistern_version");
        Dl_info where;
        return mark != nullptr && dladdr(mark, &where) != 0 ? dlopen(where.dli_fname, RTLD_NOW | RTLD_NOLOAD) : nullptr;
    }();
    return handle;
}

inline bool in_preloaded(void* function) {
    Dl_info at;
    Dl_info mark;
    void* version = dlsym(RTLD_DEFAULT, "cistern_version");
    return version != nullptr && dladdr(function, &at) != 0 && dladdr(version, &mark) != 0 &&
           std::strcmp(at.dli_fname, mark.dli_fname) == 0;
}

enum Expect { EXPECT_HOOK, EXPECT_ANY };

/// Calls `function` with six recognisable arguments and prints which driver function was reached with which of them.
/// A function that the preload exports has to be reached through its hook, every other one directly.
inline void call_and_print(const Driver& d, void* function, Expect expect = EXPECT_HOOK) {
    static uintptr_t scratch[6][64];
    std::memset(scratch, 0, sizeof scratch);
    uintptr_t words[6];
    for (int i = 0; i < 6; ++i) {
        words[i] = reinterpret_cast<uintptr_t>(scratch[i]);
    }
    d.answer(719);
    const int result = reinterpret_cast<Any>(function)(words[0], words[1], words[2], words[3], words[4], words[5]);
    const char* name = d.reached();
    std::printf(" %s=%d", name, result);
    for (int i = 0; i < 6; ++i) {
        const unsigned got = d.argument(i);
        std::printf("%c", got == 0 ? '-' : got == static_cast<uint32_t>(words[i]) ? 'y' : 'N');
    }
    if (expect == EXPECT_HOOK && preloaded() != nullptr) {
        const bool should = dlsym(preloaded(), name) != nullptr;
        if (in_preloaded(function) != should) {
            wrong(should ? "not hooked" : "hooked although nothing of ours", name);
        }
    }
}

/// The test sets this for the run under the preload: the program has to find the object in force.
inline int finish() {
    const char* expect = std::getenv("EXPECT_PRELOAD");
    if (expect != nullptr && preloaded() == nullptr) {
        wrong("the object is not loaded", expect);
    }
    return failures == 0 ? 0 : 2;
}
