// fork in all its places. The parent prints what each child's calls answered; argument: which.

#include "test/preload/api.h"

#include <atomic>
#include <csignal>
#include <spawn.h>
#include <sys/wait.h>
#include <thread>
#include <unistd.h>
#include <vector>

extern char** environ;

namespace {

Api api;
CUcontext context;
std::atomic<bool> stop{false};

/// Runs `body` in a child and prints its exit status; a child that hangs is killed after five seconds.
template <class Body> void in_child(const char* name, Body body, bool print = true) {
    std::fflush(stdout);
    const pid_t child = fork();
    if (child == 0) {
        alarm(5);
        const int status = body();
        std::fflush(stdout);
        _exit(status);
    }
    int status = 0;
    waitpid(child, &status, 0);
    if (print || status != 0) {
        std::printf("%s: child %s %d\n", name, WIFEXITED(status) ? "ended with" : "died of",
                    WIFEXITED(status) ? WEXITSTATUS(status) : WTERMSIG(status));
    }
}

int use_cuda(int index) {
    start(api);
    CUdeviceptr p = 0;
    const CUresult got = api.allocate(&p, 1 << 20);
    unsigned char bytes[16] = {};
    const CUresult filled = api.fill(p, static_cast<unsigned char>(0x40 + index), 1 << 20);
    const CUresult copied = api.to_host(bytes, p, sizeof bytes);
    std::printf("  child %d: %d %d %d byte %d free %d\n", index, static_cast<int>(got), static_cast<int>(filled),
                static_cast<int>(copied), bytes[7], static_cast<int>(api.release(p)));
    require_active();
    return 0;
}

/// The parent has looked everything up and made no CUDA call; the children use CUDA, one of them by a child of its own.
void before_cuda() {
    for (int i = 0; i < 4; ++i) {
        in_child("fork before CUDA", [=] { return use_cuda(i); });
    }
    in_child("grandchild", [] {
        in_child("  inner", [] { return use_cuda(9); });
        return use_cuda(8);
    });
    use_cuda(7);
}

int answers_in_child(CUdeviceptr inherited) {
    CUdeviceptr p = 0;
    size_t bytes = 0;
    std::printf("  free %d", static_cast<int>(api.release(inherited)));
    std::printf(" malloc %d", static_cast<int>(api.allocate(&p, 4096)));
    std::printf(" range %d", static_cast<int>(api.address_range(&p, &bytes, inherited)));
    std::printf(" info %d", static_cast<int>(api.memory_info(&bytes, &bytes)));
    std::printf(" synchronize %d\n", static_cast<int>(api.synchronize()));
    return 0;
}

void allocate_until_told() {
    api.set_current(context);
    for (size_t i = 0; !stop; ++i) {
        CUdeviceptr p = 0;
        if (api.allocate(&p, 1000 + (i % 100) * 3000) == CUDA_SUCCESS) {
            api.release(p);
        }
    }
}

/// Children of a process that uses CUDA, while its other threads are anywhere inside the pool.
void after_cuda() {
    start(api);
    must(api.primary_retain(&context, 0), "retain");
    CUdeviceptr kept = 0;
    must(api.allocate(&kept, 1 << 20), "allocate");
    std::vector<std::thread> threads;
    for (int i = 0; i < 3; ++i) {
        threads.emplace_back(allocate_until_told);
    }
    in_child("nothing", [] { return 0; });
    in_child("inherited", [=] { return answers_in_child(kept); });
    in_child("exec", [] { return execlp("true", "true", nullptr); });
    for (int i = 0; i < 100; ++i) {
        in_child(
            "busy", [=] { return api.release(kept) == CUDA_ERROR_NOT_INITIALIZED ? 0 : 1; }, false);
    }
    stop = true;
    for (std::thread& t : threads) {
        t.join();
    }
    int good = 0;
    for (int i = 0; i < 1000; ++i) {
        CUdeviceptr p = 0;
        good += api.allocate(&p, 4096) == CUDA_SUCCESS && api.release(p) == CUDA_SUCCESS;
    }
    std::printf("parent afterwards: %d good, free %d\n", good, static_cast<int>(api.release(kept)));
    require_active();
}

/// A child that leaves through exit runs the handlers that it inherited.
void child_exits() {
    start(api);
    CUdeviceptr p = 0;
    must(api.allocate(&p, 4096), "allocate");
    in_child("exit", []() -> int { std::exit(21); });
    in_child("quick_exit", []() -> int { std::quick_exit(22); });
    std::printf("free %d\n", static_cast<int>(api.release(p)));
    require_active();
}

void spawned() {
    start(api);
    CUdeviceptr p = 0;
    must(api.allocate(&p, 4096), "allocate");
    const char* arguments[] = {"sh", "-c", "exit 5", nullptr};
    pid_t child = 0;
    int status = 0;
    const int made = posix_spawnp(&child, "sh", nullptr, nullptr, const_cast<char**>(arguments), environ);
    waitpid(child, &status, 0);
    std::printf("spawn %d status %d\n", made, WEXITSTATUS(status));
    const pid_t other = vfork();
    if (other == 0) {
        execlp("true", "true", nullptr);
        _exit(1);
    }
    waitpid(other, &status, 0);
    std::printf("vfork status %d, system %d\n", WEXITSTATUS(status), std::system("exit 6"));
    std::printf("free %d\n", static_cast<int>(api.release(p)));
    require_active();
}

} // namespace

int main(int argc, char** argv) {
    const std::string which = argc > 1 ? argv[1] : "before";
    api = load_api();
    if (which == "before") {
        before_cuda();
    } else if (which == "after") {
        after_cuda();
    } else if (which == "exit") {
        child_exits();
    } else {
        spawned();
    }
    return 0;
}
