// Every way in which a process ends, with memory of the pool in the hands of whatever runs last. Argument: which.
// What it prints and its exit status must not depend on the preload, nor may anything hang or crash.

#include "test/preload/api.h"

#include <atomic>
#include <csignal>
#include <stdexcept>
#include <thread>
#include <unistd.h>
#include <vector>

namespace {

Api api;
CUcontext context;

struct Holder {
    CUdeviceptr device = 0;
    void* host = nullptr;
    const char* name;
    explicit Holder(const char* n) : name(n) {}
    void fill() {
        must(api.allocate(&device, 100000), "allocate");
        must(api.host_allocate(&host, 4096, 0), "host allocate");
    }
    ~Holder() {
        if (device == 0) {
            return;
        }
        std::printf("%s: %d", name, static_cast<int>(api.release(device)));
        std::printf(" %d\n", static_cast<int>(api.host_release(host)));
        std::fflush(stdout);
    }
};

Holder before_cuda("static made before CUDA");

Holder& in_function() {
    static Holder holder("static in a function");
    return holder;
}

void prepare() {
    api = load_api();
    start(api);
    must(api.primary_retain(&context, 0), "retain");
    CUdeviceptr p = 0;
    must(api.allocate(&p, 1 << 20), "allocate");
    must(api.release(p), "free");
    require_active();
}

void handler_that_allocates() {
    if (api.allocate == nullptr) {
        return;
    }
    CUdeviceptr p = 0;
    const CUresult got = api.allocate(&p, 50000);
    std::printf("in the handler: %d %d\n", static_cast<int>(got),
                static_cast<int>(got == CUDA_SUCCESS ? api.release(p) : got));
    std::fflush(stdout);
}

std::atomic<bool> running{false};

void loop_for_ever() {
    api.set_current(context);
    for (size_t i = 0;; ++i) {
        CUdeviceptr p = 0;
        if (api.allocate(&p, 1000 + (i % 64) * 5000) == CUDA_SUCCESS) {
            api.release(p);
        }
        running = true;
    }
}

void start_threads() {
    for (int i = 0; i < 2; ++i) {
        std::thread(loop_for_ever).detach();
    }
    while (!running) {
        std::this_thread::yield();
    }
}

void thread_with_local() {
    api.set_current(context);
    static thread_local Holder local("thread local");
    local.fill();
}

void hold_for_ever() {
    api.set_current(context);
    static thread_local Holder local("thread local of a living thread");
    local.fill();
    running = true;
    pause();
}

void live_allocations() {
    for (int i = 0; i < 100; ++i) {
        CUdeviceptr p = 0;
        must(api.allocate(&p, size_t{4096} << (i % 10)), "allocate");
    }
}

void from_library() {
    static Holder* const holder = new Holder("static in a library");
    if (holder->device == 0) {
        holder->fill();
    } else {
        delete holder;
        handler_that_allocates();
    }
}

/// Before or after the first CUDA call, which decides the order at exit.
void open_library(const char* file) {
    void* library = dlopen(file, RTLD_NOW);
    if (library == nullptr) {
        std::printf("%s\n", dlerror());
        std::_Exit(3);
    }
    reinterpret_cast<void (*)(void (*)())>(dlsym(library, "call_at_unload"))(&from_library);
}

[[noreturn]] void die(const std::string& which) {
    if (which == "_exit") {
        _exit(11);
    }
    if (which == "quick_exit") {
        std::quick_exit(12);
    }
    if (which == "abort") {
        std::abort();
    }
    if (which == "term") {
        std::raise(SIGTERM);
    }
    if (which == "throw") {
        throw std::runtime_error("nobody catches this");
    }
    std::exit(13);
}

} // namespace

int main(int argc, char** argv) {
    const std::string which = argc > 1 ? argv[1] : "return";
    std::atexit(handler_that_allocates);
    if (which == "library early") {
        open_library(argv[2]);
    }
    prepare();
    if (which == "library late") {
        open_library(argv[2]);
    }
    if (which.rfind("library", 0) == 0) {
        from_library();
    }
    before_cuda.fill();
    in_function().fill();
    live_allocations();
    if (which == "return") {
        return 7;
    }
    if (which == "threads") {
        start_threads();
    } else if (which == "local") {
        std::thread(thread_with_local).join();
        std::thread(hold_for_ever).detach();
        while (!running) {
            std::this_thread::yield();
        }
    }
    die(which);
}
