// Birth and death of contexts with pool memory in them, through every signature. All answers as natively.

#include "test/preload/api.h"

#include <initializer_list>

namespace {

Api api;

template <class F> F function(const char* name, int version) {
    return reinterpret_cast<F>(acquire(api.library, name, version, name));
}

void print(const char* what, CUresult result) { std::printf("%s %d\n", what, static_cast<int>(result)); }

CUdeviceptr allocate(const char* what, size_t bytes) {
    CUdeviceptr p = 0;
    print(what, api.allocate(&p, bytes));
    return p;
}

void primary() {
    start(api);
    const CUdeviceptr before = allocate("allocate", 3 << 20);
    const CUdeviceptr small = allocate("allocate", 3000);
    print("free", api.release(small));
    print("reset", api.primary_reset(0));
    print("free after reset", api.release(before));
    print("allocate in the dead context", api.allocate(nullptr, 16));
    start(api);
    const CUdeviceptr again = allocate("allocate again", 3 << 20);
    print("fill", api.fill(again, 1, 3 << 20));
    print("free again", api.release(again));
    print("free of the old one", api.release(before));
    for (int i = 0; i < 3; ++i) {
        print("release", api.primary_release(0));
    }
    unsigned flags = 0;
    int active = -1;
    print("state", api.primary_state(0, &flags, &active));
    std::printf("active %d\n", active);
    start(api);
    print("free in the third life", api.release(allocate("allocate in the third life", 5000)));
}

using Create2 = CUresult (*)(CUcontext*, unsigned, CUdevice);
using Create3 = CUresult (*)(CUcontext*, void*, int, unsigned, CUdevice);
using Create4 = CUresult (*)(CUcontext*, void*, unsigned, CUdevice);
using OnContext = CUresult (*)(CUcontext);

void one_life(const char* what, CUresult created, CUcontext context, OnContext end) {
    print(what, created);
    if (created != CUDA_SUCCESS) {
        return;
    }
    const CUdeviceptr p = allocate("  allocate", 1 << 20);
    print("  fill", api.fill(p, 3, 1 << 20));
    print("  free", api.release(p));
    const CUdeviceptr kept = allocate("  allocate", 1 << 20);
    print("  end", end(context));
    print("  free after the end", api.release(kept));
}

void created() {
    must(api.init(0), "init");
    const auto create2 = function<Create2>("cuCtxCreate", 3020);
    const auto create3 = function<Create3>("cuCtxCreate", 11040);
    const auto create4 = function<Create4>("cuCtxCreate", 12050);
    const auto destroy = function<OnContext>("cuCtxDestroy", 4000);
    const auto detach = function<OnContext>("cuCtxDetach", 2000);
    CUcontext c = nullptr;
    CUresult r = create2(&c, 0, 0);
    one_life("create", r, c, destroy);
    r = create3(&c, nullptr, 0, 0, 0);
    one_life("create with affinity", r, c, destroy);
    r = create4(&c, nullptr, 0, 0);
    one_life("create with parameters", r, c, destroy);
    r = create2(&c, 0, 0);
    one_life("create and detach", r, c, detach);
    start(api);
    print("primary, free", api.release(allocate("primary, allocate", 7777)));
}

/// Captures through every signature, before anything was allocated; calls that a capture forbids.
template <class Begin, class End> void one_capture(const char* what, CUstream stream, Begin begin, End end) {
    CUgraph graph = nullptr;
    CUdeviceptr p = 0;
    print(what, begin());
    const CUresult made = api.allocate(&p, 1 << 16);
    print("  allocate", made);
    size_t bytes = 0;
    print("  info", api.memory_info(&bytes, &bytes));
    print("  end", end(stream, &graph));
    std::printf("  graph %s\n", graph != nullptr ? "made" : "none");
    if (made == CUDA_SUCCESS) {
        print("  free", api.release(p));
    }
}

void captures() {
    start(api);
    using StreamCreate = CUresult (*)(CUstream*, unsigned);
    using StreamDestroy = CUresult (*)(CUstream);
    using Begin = CUresult (*)(CUstream, CUstreamCaptureMode);
    using End = CUresult (*)(CUstream, CUgraph*);
    CUstream stream = nullptr;
    must(function<StreamCreate>("cuStreamCreate", 2000)(&stream, CU_STREAM_NON_BLOCKING), "stream");
    const auto begin = function<Begin>("cuStreamBeginCapture", 10010);
    const auto end = function<End>("cuStreamEndCapture", 10000);
    const auto begin_ptsz = reinterpret_cast<Begin>(dlsym(api.library, "cuStreamBeginCapture_v2_ptsz"));
    const auto end_ptsz = reinterpret_cast<End>(dlsym(api.library, "cuStreamEndCapture_ptsz"));
    for (const CUstreamCaptureMode mode :
         {CU_STREAM_CAPTURE_MODE_GLOBAL, CU_STREAM_CAPTURE_MODE_THREAD_LOCAL, CU_STREAM_CAPTURE_MODE_RELAXED}) {
        std::printf("mode %d\n", static_cast<int>(mode));
        one_capture(
            "begin", stream, [=] { return begin(stream, mode); }, end);
        one_capture(
            "begin, per thread", stream, [=] { return begin_ptsz(stream, mode); }, end_ptsz);
        const CUdeviceptr p = allocate("after", 1 << 18);
        print("free", api.release(p));
        print("begin twice", begin(stream, mode));
        print("begin twice", begin(stream, mode));
        CUgraph graph = nullptr;
        print("end", end(stream, &graph));
        print("end twice", end(stream, &graph));
    }
    print("begin", begin(stream, CU_STREAM_CAPTURE_MODE_GLOBAL));
    print("destroy", function<StreamDestroy>("cuStreamDestroy", 4000)(stream));
    print("free", api.release(allocate("allocate after the end", 4096)));
    print("synchronize", api.synchronize());
    using Synchronize2 = CUresult (*)(CUcontext);
    CUcontext current = nullptr;
    must(api.primary_retain(&current, 0), "retain");
    print("synchronize a context", function<Synchronize2>("cuCtxSynchronize", 13000)(current));
}

} // namespace

int main(int argc, char** argv) {
    const std::string which = argc > 1 ? argv[1] : "primary";
    api = load_api();
    if (which == "primary") {
        primary();
    } else if (which == "created") {
        created();
    } else {
        captures();
    }
    require_active();
    return 0;
}
