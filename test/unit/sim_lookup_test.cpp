// Look-ups in every variant of the library, by dlsym and by cuGetProcAddress. Not linked with any of them.

#include "test/catch.h"

#include <cuda.h>
#include <dlfcn.h>

#include <cstdint>
#include <string>

#ifdef cuGetProcAddress
#undef cuGetProcAddress
#endif

namespace {

using Gpa2 = CUresult (*)(const char*, void**, int, cuuint64_t, int*);
using Gpa1 = CUresult (*)(const char*, void**, int, cuuint64_t);

struct Library {
    void* handle;
    explicit Library(const std::string& folder)
        : handle(dlopen((std::string(SIM_FAKES_DIR) + "/" + folder + "libcuda.so.1").c_str(), RTLD_NOW | RTLD_LOCAL)) {
        REQUIRE(handle != nullptr);
    }
    void* find(const char* name) const { return dlsym(handle, name); }
    template <class F> F get(const char* name) const { return reinterpret_cast<F>(find(name)); }
};

struct Answer {
    CUresult result;
    void* address;
    int status;
};

Answer ask(const Library& lib, const char* name, int version, unsigned flags = 0) {
    Answer a{CUDA_SUCCESS, reinterpret_cast<void*>(1), 9};
    a.result = lib.get<Gpa2>("cuGetProcAddress_v2")(name, &a.address, version, flags, &a.status);
    return a;
}

} // namespace

TEST_CASE("sim look-up: five-argument answers") {
    Library lib("");
    auto is = [&](const char* name, int version, unsigned flags, const char* exported) {
        INFO(name << " " << version << " " << flags << " " << exported);
        Answer a = ask(lib, name, version, flags);
        CHECK(a.result == CUDA_SUCCESS);
        CHECK(a.status == 0);
        CHECK(a.address == lib.find(exported));
        CHECK(a.address != nullptr);
    };
    is("cuMemAlloc", 3020, 0, "cuMemAlloc_v2");
    is("cuMemAlloc", 13000, 0, "cuMemAlloc_v2");
    is("cuMemAlloc", 2000, 0, "cuMemAlloc");
    is("cuMemFree", 12000, 2, "cuMemFree_v2");
    is("cuCtxSynchronize", 2000, 0, "cuCtxSynchronize");
    is("cuCtxSynchronize", 13000, 0, "cuCtxSynchronize_v2");
    is("cuCtxGetDevice", 12080, 0, "cuCtxGetDevice");
    is("cuCtxGetDevice", 13000, 0, "cuCtxGetDevice_v2");
    is("cuCtxCreate", 3020, 0, "cuCtxCreate_v2");
    is("cuCtxCreate", 11040, 0, "cuCtxCreate_v3");
    is("cuCtxCreate", 12050, 0, "cuCtxCreate_v4");
    is("cuMemFreeAsync", 11020, 0, "cuMemFreeAsync");
    is("cuMemFreeAsync", 11020, 2, "cuMemFreeAsync_ptsz");
    is("cuMemcpyHtoD", 7000, 2, "cuMemcpyHtoD_v2_ptds");
    is("cuMemcpyHtoD", 3020, 0, "cuMemcpyHtoD_v2");
    is("cuStreamBeginCapture", 10000, 0, "cuStreamBeginCapture");
    is("cuStreamBeginCapture", 10010, 2, "cuStreamBeginCapture_v2_ptsz");
    is("cuGetProcAddress", 11030, 0, "cuGetProcAddress");
    is("cuGetProcAddress", 12000, 0, "cuGetProcAddress_v2");
    is("cuDevicePrimaryCtxRelease", 7000, 0, "cuDevicePrimaryCtxRelease_v2"); // one address, two names
    is("cuTexRefCreate", 2000, 0, "cuTexRefCreate");

    CHECK(ask(lib, "cuMemCreate", 10000).status == 2);
    CHECK(ask(lib, "cuMemCreate", 10000).address == nullptr);
    for (const char* name : {"cuNoSuchThing", "cuMemAlloc_v2", "cuMemFreeAsync_ptsz", "", "cuGetProcAddress_v2"}) {
        Answer a = ask(lib, name, 13000);
        CHECK(a.result == CUDA_SUCCESS);
        CHECK(a.address == nullptr);
        CHECK(a.status == 1);
    }
    Answer far = ask(lib, "cuMemAlloc", 99999);
    CHECK(far.result == CUDA_ERROR_INVALID_VALUE);
    CHECK(far.address == reinterpret_cast<void*>(1));
    CHECK(far.status == 9);
    CHECK(ask(lib, "cuMemAlloc", 13000, 8).result == CUDA_ERROR_INVALID_VALUE);
    void* p = nullptr;
    CHECK(lib.get<Gpa2>("cuGetProcAddress_v2")("cuInit", &p, 2000, 0, nullptr) == CUDA_SUCCESS);
    CHECK(p == lib.find("cuInit"));
}

TEST_CASE("sim look-up: four-argument answers") {
    Library lib("");
    auto gpa = lib.get<Gpa1>("cuGetProcAddress");
    void* p = reinterpret_cast<void*>(1);
    CHECK(gpa("cuMemCreate", &p, 10000, 0) == CUDA_ERROR_NOT_FOUND);
    CHECK(gpa("cuNoSuchThing", &p, 12000, 0) == CUDA_ERROR_NOT_FOUND);
    CHECK(p == reinterpret_cast<void*>(1));
    CHECK(gpa("cuMemAlloc", &p, 11020, 0) == CUDA_SUCCESS);
    CHECK(p == lib.find("cuMemAlloc_v2"));
    CHECK(gpa("cuGetProcAddress", &p, 11030, 0) == CUDA_SUCCESS);
    CHECK(p == reinterpret_cast<void*>(gpa));
}

TEST_CASE("sim look-up: what old and lacking drivers do not have") {
    Library old("old_11_0/");
    CHECK(old.find("cuGetProcAddress") == nullptr);
    CHECK(old.find("cuGetProcAddress_v2") == nullptr);
    CHECK(old.find("cuMemAllocAsync") == nullptr);
    CHECK(old.find("cuMemCreate") != nullptr);
    CHECK(old.find("sim_submit") != nullptr);
    Library one("no_gpa_v2/");
    CHECK(one.find("cuGetProcAddress_v2") == nullptr);
    void* p = nullptr;
    CHECK(one.get<Gpa1>("cuGetProcAddress")("cuMemAllocAsync", &p, 11020, 0) == CUDA_SUCCESS);
    CHECK(p == one.find("cuMemAllocAsync"));
    Library no_event("no_ctx_event/");
    CHECK(no_event.find("cuCtxRecordEvent") == nullptr);
    CHECK(ask(no_event, "cuCtxRecordEvent", 12080).status == 1);
    CHECK(ask(no_event, "cuCtxSynchronize", 12080).address == no_event.find("cuCtxSynchronize"));
    Library no_vmm("no_vmm/");
    for (const char* name : {"cuMemCreate", "cuMemMap", "cuMemAddressReserve", "cuMemSetAccess", "cuMemUnmap"}) {
        CHECK(no_vmm.find(name) == nullptr);
        CHECK(ask(no_vmm, name, 13000).status == 1);
    }
    CHECK(no_vmm.find("cuCtxRecordEvent") != nullptr);
    int version = 0;
    CHECK(old.get<CUresult (*)(int*)>("cuDriverGetVersion")(&version) == CUDA_SUCCESS);
    CHECK(version == 11000);
}

TEST_CASE("sim look-up: the profiler's shape") {
    Library shim("shim/");
    Library real("");
    CHECK(shim.find("cuMemAlloc_v2") != nullptr);
    CHECK(shim.find("cuMemAlloc_v2") != real.find("cuMemAlloc_v2"));
    Answer a = ask(shim, "cuMemAlloc", 3020);
    CHECK(a.address == real.find("cuMemAlloc_v2"));
    REQUIRE(shim.get<CUresult (*)(unsigned)>("cuInit")(0) == CUDA_SUCCESS);
    int count = 0;
    CHECK(shim.get<CUresult (*)(int*)>("cuDeviceGetCount")(&count) == CUDA_SUCCESS);
    CHECK(count == 1);
    auto calls = real.get<unsigned long (*)(const char*)>("sim_calls");
    CHECK(calls("cuInit") == 1);
    CHECK(shim.get<unsigned long (*)(const char*)>("sim_calls")("cuInit") == 1);
}

TEST_CASE("sim look-up: names without a model, and the 32-bit era") {
    Library lib("");
    REQUIRE(lib.get<CUresult (*)(unsigned)>("cuInit")(0) == CUDA_SUCCESS);
    CHECK(lib.get<CUresult (*)(void*)>("cuTexRefCreate")(nullptr) == CUDA_ERROR_NOT_SUPPORTED);
    auto violations = lib.get<unsigned long (*)(const char*)>("sim_violations");
    CHECK(violations("wrong_abi") == 0);
    unsigned p = 0;
    CHECK(lib.get<CUresult (*)(unsigned*, unsigned)>("cuMemAlloc")(&p, 16) != CUDA_SUCCESS);
    CHECK(violations("wrong_abi") == 1);
    CHECK(violations("bad_call") == 0);
    CHECK(lib.get<Gpa2>("cuGetProcAddress_v2")("cuInit", nullptr, 2000, 0, nullptr) == CUDA_ERROR_INVALID_VALUE);
    CHECK(violations("bad_call") == 1);
}
