// Acquires driver functions by one kind of door and prints what each pointer reaches.
// Use: lookups KIND [LIBRARY]; kinds below.

#include "test/preload/probe.h"

#include <initializer_list>

namespace {

const int versions[] = {2000,  3020,  4000,  7000,  10000, 10010, 11000, 11020,
                        11030, 11040, 12000, 12030, 12050, 12080, 13000};

/// The resolver itself, fetched through the resolver: it has to hand out the same as the first one.
void print_resolver(const Driver& d, void* function, int version) {
    void* out = nullptr;
    int status = -1;
    const int result = version < 12000 ? reinterpret_cast<ProcAddress1>(function)("cuMemAlloc", &out, 3020, 0)
                                       : reinterpret_cast<ProcAddress2>(function)("cuMemAlloc", &out, 3020, 0, &status);
    std::printf(" resolver r=%d status=%d", result, status);
    if (out != nullptr) {
        call_and_print(d, out);
    }
    if (preloaded() != nullptr && !in_preloaded(function)) {
        wrong("resolver escaped", "cuGetProcAddress");
    }
}

void print_function(const Driver& d, void* function, const char* base, int version) {
    if (function == nullptr) {
        std::printf(" null");
    } else if (std::strcmp(base, "cuGetProcAddress") == 0) {
        print_resolver(d, function, version);
    } else if (std::strcmp(base, "cuDriverGetVersion") == 0) {
        std::printf(" found");
    } else {
        call_and_print(d, function);
    }
}

void query1(const Driver& d, ProcAddress1 resolver, const char* name, int version, unsigned long flags) {
    void* out = nullptr;
    const int result = resolver(name, &out, version, flags);
    std::printf("v1 %s %d %lu r=%d", name, version, flags, result);
    print_function(d, out, name, version);
    std::printf("\n");
}

void query2(const Driver& d, ProcAddress2 resolver, const char* name, int version, unsigned long flags, bool status) {
    void* out = nullptr;
    int found = -1;
    const int result = resolver(name, &out, version, flags, status ? &found : nullptr);
    std::printf("v2 %s %d %lu r=%d status=%d", name, version, flags, result, found);
    print_function(d, out, name, version);
    std::printf("\n");
}

void query_all(const Driver& d, ProcAddress1 v1, ProcAddress2 v2, const char* name) {
    for (const int version : versions) {
        for (unsigned long flags = 0; flags < 3; ++flags) {
            if (v1 != nullptr) {
                query1(d, v1, name, version, flags);
            }
            if (v2 != nullptr) {
                query2(d, v2, name, version, flags, flags != 1);
            }
        }
    }
}

/// cuGetProcAddress in both forms: every name, version and flag; odd names; the resolver through itself.
void by_procaddress(const Driver& d) {
    const auto v1 = reinterpret_cast<ProcAddress1>(dlsym(d.handle, "cuGetProcAddress"));
    const auto v2 = reinterpret_cast<ProcAddress2>(dlsym(d.handle, "cuGetProcAddress_v2"));
    std::printf("v1 %s v2 %s\n", v1 != nullptr ? "yes" : "no", v2 != nullptr ? "yes" : "no");
    for (int row = 0; d.exported(row) != nullptr; ++row) {
        query_all(d, v1, v2, d.base(row));
        query_all(d, v1, v2, d.exported(row)); // with a suffix: unknown, or the older function of that very name
    }
    for (const char* name : {"", "cuNoSuchFunction", "cuMemAlloc_v2_ptsz", "cuGetProcAddress_v2", "cu", "memcpy"}) {
        query_all(d, v1, v2, name);
    }
    if (v2 != nullptr) {
        query2(d, v2, "cuMemAlloc", 99999, 0, true);
        query2(d, v2, "cuMemAlloc", 12000, 8, true);
        query2(d, v2, "cuInit", 0, 0, true);
    }
}

/// dlsym on the driver's handle: every exported name, and names that it lacks.
void by_handle(const Driver& d) {
    for (int row = 0; d.exported(row) != nullptr; ++row) {
        std::printf("dlsym %s", d.exported(row));
        print_function(d, dlsym(d.handle, d.exported(row)), d.base(row),
                       std::strstr(d.exported(row), "_v2") ? 12000 : 11030);
        std::printf("\n");
    }
    for (const char* name : {"cuCtxCreate_v4", "cuMemFreeAsync_ptsz", "cuGetProcAddress_v2", "cuGetProcAddress",
                             "cuNoSuchFunction", "cuMemAlloc_v9", "", "cu", "cuM"}) {
        dlerror();
        void* found = dlsym(d.handle, name);
        const char* message = dlerror();
        std::printf("dlsym '%s' %s %s\n", name, found != nullptr ? "found" : "null",
                    message != nullptr ? message : "-");
    }
}

/// The global scope: the preload's export comes first there.
void by_default(const Driver& d, void* scope) {
    for (int row = 0; d.exported(row) != nullptr; ++row) {
        std::printf("dlsym %s", d.exported(row));
        print_function(d, dlsym(scope, d.exported(row)), d.base(row),
                       std::strstr(d.exported(row), "_v2") ? 12000 : 11030);
        std::printf("\n");
    }
}

/// The driver defines no symbol versions, so dlvsym reaches it for any version: no hook there, for no name.
void by_version(const Driver& d) {
    for (const char* name : {"cuMemAlloc_v2", "cuMemFree_v2", "cuNoSuchFunction"}) {
        void* found = dlvsym(d.handle, name, "ANY_1.0");
        std::printf("dlvsym %s %s", name, found != nullptr ? "" : "null");
        if (found != nullptr) {
            call_and_print(d, found, EXPECT_ANY);
            if (in_preloaded(found)) {
                wrong("hooked by dlvsym, but malloc and free must agree", name);
            }
        }
        std::printf("\n");
    }
}

/// A profiler's shape: libcuda.so.1 is a shim whose exports go on to the driver, and whose resolver hands out the driver's
/// own functions. Everything is acquired by dlsym first, then by the resolver.
void by_shim(const Driver& shim, const Driver& real) {
    shim.other_library(real.handle);
    shim.pointers(DOOR_OTHER);
    shim.forward_to(real.handle);
    Driver both = real;
    both.handle = shim.handle;
    by_handle(both);
    by_procaddress(both);
}

} // namespace

int main(int argc, char** argv) {
    const char* kind = argc > 1 ? argv[1] : "handle";
    const bool global = std::strcmp(kind, "default") == 0;
    const Driver d = open_driver("libcuda.so.1", RTLD_NOW | (global ? RTLD_GLOBAL : RTLD_LOCAL));
    if (std::strcmp(kind, "procaddress") == 0) {
        by_procaddress(d);
    } else if (std::strcmp(kind, "anonymous") == 0) {
        d.pointers(DOOR_ANONYMOUS);
        by_procaddress(d);
    } else if (std::strcmp(kind, "shim") == 0 && argc > 2) {
        by_shim(d, open_driver(argv[2], RTLD_NOW));
    } else if (global) {
        by_default(d, RTLD_DEFAULT);
    } else if (std::strcmp(kind, "dlvsym") == 0) {
        by_version(d);
    } else {
        by_handle(d);
    }
    return finish();
}
