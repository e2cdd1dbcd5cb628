// Built three times: two libraries of which one needs the other, and a plug-in that needs the second alone. Each asks for
// what follows it or for what it can see, which a dlsym wrapper that calls instead of jumping gets wrong.

#include <dlfcn.h>
#include <pthread.h>

#define CHAIN_EXPORT extern "C" __attribute__((visibility("default")))

#if CHAIN_LEVEL == 1
CHAIN_EXPORT int layered(void) {
    const auto next = reinterpret_cast<int (*)()>(dlsym(RTLD_NEXT, "layered"));
    return 10 + (next != nullptr ? next() : 0);
}
/// As OpenMP's tool probe: the prober defines the name weakly itself and must not find itself.
CHAIN_EXPORT __attribute__((weak)) void* tool_probe(void) { return dlsym(RTLD_NEXT, "tool_probe"); }
CHAIN_EXPORT void* ask_next_from_library(const char* name) {
    void* volatile found = dlsym(RTLD_NEXT, name);
    return found;
}
#elif CHAIN_LEVEL == 2
CHAIN_EXPORT int layered(void) {
    const auto next = reinterpret_cast<int (*)()>(dlsym(RTLD_NEXT, "layered"));
    return 1 + (next != nullptr ? 1000 : 0);
}
CHAIN_EXPORT int only_here(void) { return 7; }
#else
extern "C" int only_here(void);
/// Visible for this library through its own dependency, not for the program.
CHAIN_EXPORT void* plugin_default(const char* name) {
    void* volatile found = dlsym(RTLD_DEFAULT, name);
    return found;
}
CHAIN_EXPORT int plugin_calls(void) { return only_here(); }
#endif
