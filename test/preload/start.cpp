// What the driver sees of a program's start: nothing that the program did not do. Argument: which program.

#include "test/preload/api.h"

namespace {

unsigned long calls(const Api& a, const char* name) {
    const auto count = reinterpret_cast<unsigned long (*)(const char*)>(dlsym(a.library, "sim_calls"));
    return count != nullptr ? count(name) : 999;
}

unsigned long all_calls(const Api& a) {
    const auto count = reinterpret_cast<unsigned long (*)()>(dlsym(a.library, "sim_calls_total"));
    return count != nullptr ? count() : 999;
}

const char* environment_at_init(const Api& a, const char* name) {
    const auto read = reinterpret_cast<const char* (*)(const char*)>(dlsym(a.library, "sim_env_at_init"));
    const char* value = read != nullptr ? read(name) : "?";
    return value != nullptr ? value : "(unset)";
}

void print_states(const Api& a, int devices) {
    for (int d = 0; d < devices; ++d) {
        unsigned flags = 0;
        int active = -1;
        const CUresult result = a.primary_state(d, &flags, &active);
        std::printf("device %d: result %d active %d\n", d, static_cast<int>(result), active);
    }
}

/// The first statement sets the variable, and the driver has to see it at cuInit.
int environment(const Api& a) {
    std::printf("before cuInit: %lu calls beside look-ups\n",
                all_calls(a) - calls(a, "cuGetProcAddress_v2") - calls(a, "cuGetProcAddress"));
    must(a.init(0), "init");
    std::printf("cuInit called %lu times, saw %s\n", calls(a, "cuInit"),
                environment_at_init(a, "CUDA_VISIBLE_DEVICES"));
    return 0;
}

int version_only(const Api& a) {
    int version = 0;
    std::printf("version %d", static_cast<int>(a.version(&version)));
    std::printf(" %d, cuInit %lu, calls %lu\n", version, calls(a, "cuInit"), all_calls(a));
    return 0;
}

/// Everything on device 1: device 0 stays as it was.
int second_device(const Api& a) {
    start(a, 1);
    print_states(a, 2);
    CUdeviceptr p = 0;
    must(a.allocate(&p, 1 << 20), "allocate");
    must(a.release(p), "free");
    print_states(a, 2);
    require_active();
    return 0;
}

/// Calls before cuInit: the driver's own answers.
int too_early(const Api& a) {
    CUdeviceptr p = 0;
    size_t bytes = 0;
    std::printf("allocate %d", static_cast<int>(a.allocate(&p, 4096)));
    std::printf(" free %d", static_cast<int>(a.release(4096)));
    std::printf(" info %d\n", static_cast<int>(a.memory_info(&bytes, &bytes)));
    must(a.init(0), "init");
    std::printf("without a context: allocate %d", static_cast<int>(a.allocate(&p, 4096)));
    std::printf(" free %d\n", static_cast<int>(a.release(4096)));
    return 0;
}

/// The same results for one ordinary life, and the calls that a program can count itself.
int ordinary(const Api& a) {
    start(a);
    CUdeviceptr p[20] = {};
    for (int i = 0; i < 20; ++i) {
        std::printf("%d", static_cast<int>(a.allocate(&p[i], size_t{1000} << i)));
        size_t bytes = 0;
        CUdeviceptr base = 0;
        std::printf(" %d", static_cast<int>(a.address_range(&base, &bytes, p[i] + 10)));
        std::printf(" %d %zu\n", base == p[i], bytes);
    }
    for (const CUdeviceptr q : p) {
        std::printf("%d ", static_cast<int>(a.release(q)));
        std::printf("%d ", static_cast<int>(a.release(q)));
        std::printf("%d ", static_cast<int>(a.release(q + 1)));
    }
    std::printf("%d %d %d\n", static_cast<int>(a.release(0)), static_cast<int>(a.allocate(p, 0)),
                static_cast<int>(a.allocate(p, size_t{1} << 50)));
    size_t free_bytes = 0;
    size_t total = 0;
    std::printf("%d", static_cast<int>(a.memory_info(&free_bytes, &total)));
    std::printf(" %zu %d %d\n", total >> 20, free_bytes <= total, static_cast<int>(a.memory_info(nullptr, nullptr)));
    require_active();
    return 0;
}

} // namespace

int main(int argc, char** argv) {
    const std::string which = argc > 1 ? argv[1] : "";
    setenv("CUDA_VISIBLE_DEVICES", which == "environment" ? "0" : "0,1", 1);
    const Api a = load_api();
    std::printf("loaded: %lu calls beside look-ups\n", all_calls(a) - calls(a, "cuGetProcAddress_v2"));
    if (which == "environment") {
        return environment(a);
    }
    if (which == "version") {
        return version_only(a);
    }
    if (which == "second") {
        return second_device(a);
    }
    return which == "early" ? too_early(a) : ordinary(a);
}
