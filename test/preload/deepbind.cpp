// A plug-in opened with RTLD_DEEPBIND: its dlsym is the C library's own, so nothing it acquires is hooked. Documented,
// and consistent: what it allocates natively it also frees natively. Built twice as origin.cpp.

#include "test/preload/probe.h"

#if defined(DEEPBIND_PLUGIN)
extern "C" __attribute__((visibility("default"))) void* plugin_look_up(void* handle, const char* name) {
    return dlsym(handle, name);
}
#else
int main(int argc, char** argv) {
    const Driver d = open_driver("libcuda.so.1", RTLD_NOW);
    void* plugin = argc > 1 ? dlopen(argv[1], RTLD_NOW | RTLD_LOCAL | RTLD_DEEPBIND) : nullptr;
    if (plugin == nullptr) {
        std::printf("%s\n", dlerror());
        return 3;
    }
    const auto look_up = reinterpret_cast<void* (*)(void*, const char*)>(dlsym(plugin, "plugin_look_up"));
    int hooked = 0;
    for (int row = 0; d.exported(row) != nullptr; ++row) {
        void* function = look_up(d.handle, d.exported(row));
        std::printf("%s", d.exported(row));
        call_and_print(d, function, EXPECT_ANY);
        std::printf("\n");
        hooked += in_preloaded(function) ? 1 : 0;
    }
    if (hooked != 0) {
        wrong("a deep-bound library got some hooks", "the README says none");
    }
    return finish();
}
#endif
