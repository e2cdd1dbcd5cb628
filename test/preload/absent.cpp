// The exports without a driver behind them, and with one that lacks some functions. They are visible to programs that
// test for the driver by a weak reference, so they have to answer and never to crash.
// Use: absent none | absent old (with a door driver on the library path)

#include "interposer/table.h"
#include "test/preload/probe.h"

#include <initializer_list>

namespace {

const char* const names[] = {
#define X(name, ...) "cu" #name,
    CISTERN_HOOKS(X)
#undef X
};

int call(void* function) { return reinterpret_cast<Any>(function)(0, 0, 0, 0, 0, 0); }

void expect(const char* name, int got, int wanted) {
    if (got != wanted) {
        std::fprintf(stderr, "%s answered %d, not %d\n", name, got, wanted);
        ++failures;
    }
}

void without_driver() {
    for (const char* name : names) {
        void* function = dlsym(RTLD_DEFAULT, name);
        if (function == nullptr) {
            wrong("not exported", name);
            continue;
        }
        expect(name, call(function), 100);
    }
    if (dlopen("libcuda.so.1", RTLD_NOW | RTLD_NOLOAD) != nullptr) {
        wrong("a driver was loaded", "libcuda.so.1");
    }
}

/// The second form of the resolver, found in our exports, on a driver that has only the first.
void old_driver() {
    const Driver d = open_driver("libcuda.so.1", RTLD_NOW | RTLD_GLOBAL);
    for (const char* name : {"cuCtxCreate_v4", "cuMemFreeAsync", "cuCtxSynchronize_v2", "cuCtxFromGreenCtx"}) {
        expect(name, call(dlsym(RTLD_DEFAULT, name)), 500);
    }
    const auto v2 = reinterpret_cast<ProcAddress2>(dlsym(RTLD_DEFAULT, "cuGetProcAddress_v2"));
    void* found = nullptr;
    int status = -1;
    expect("the second form", v2("cuMemAlloc", &found, 3020, 0, &status), 0);
    expect("its status", status, 0);
    call_and_print(d, found);
    expect("an unknown name", v2("cuNoSuchFunction", &found, 3020, 0, &status), 0);
    expect("its status", status, 1);
    expect("its pointer is null", found == nullptr, 1);
}

} // namespace

int main(int argc, char** argv) {
    if (preloaded() == nullptr) {
        std::fprintf(stderr, "this program is about the preload\n");
        return 3;
    }
    if (argc > 1 && std::strcmp(argv[1], "old") == 0) {
        old_driver();
    } else {
        without_driver();
    }
    return failures == 0 ? 0 : 2;
}
