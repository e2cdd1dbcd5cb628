// RTLD_NEXT and RTLD_DEFAULT as an executable, a library and a plug-in see them, the same look-up very often from many
// threads, and the message for dlerror. Argument: the plug-in's file.

#include "test/preload/probe.h"

#include <atomic>
#include <initializer_list>
#include <pthread.h>
#include <string>
#include <thread>
#include <vector>

extern "C" int layered(void);
extern "C" void* tool_probe(void);
extern "C" void* ask_next_from_library(const char* name);

namespace {

const char* where(void* function) {
    static thread_local std::string text;
    Dl_info at;
    if (function == nullptr) {
        return "null";
    }
    if (dladdr(function, &at) == 0 || at.dli_fname == nullptr) {
        return "?";
    }
    text = std::strrchr(at.dli_fname, '/') != nullptr ? std::strrchr(at.dli_fname, '/') + 1 : at.dli_fname;
    return text.c_str();
}

/// As a library's constructor that wraps the C library does it.
void many_names() {
    int found = 0;
    for (const char* name :
         {"malloc", "free", "open", "read", "write", "localtime", "pthread_create", "dlopen", "mmap", "nanosleep",
          "getenv", "memcpy", "cudaMalloc", "cudnnCreate", "cublasCreate_v2", "curl_easy_init"}) {
        for (int i = 0; i < 25; ++i) {
            found += dlsym(RTLD_NEXT, name) != nullptr ? 1 : 0;
            found += ask_next_from_library(name) != nullptr ? 1 : 0;
        }
    }
    std::printf("many names %d\n", found);
}

void same_look_up_from_threads() {
    void* const first = dlsym(RTLD_NEXT, "getpid");
    void* const from_library = ask_next_from_library("getpid");
    std::atomic<int> different{0};
    std::vector<std::thread> threads;
    for (int t = 0; t < 8; ++t) {
        threads.emplace_back([&] {
            for (int i = 0; i < 1000; ++i) {
                different += dlsym(RTLD_NEXT, "getpid") != first;
                different += ask_next_from_library("getpid") != from_library;
            }
        });
    }
    for (std::thread& t : threads) {
        t.join();
    }
    std::printf("threads: %s, %d different\n", first != nullptr ? "found" : "null", different.load());
}

void print_error(const char* what) {
    const char* message = dlerror();
    std::printf("%s: %s\n", what, message != nullptr ? message : "-");
}

void messages(void* library) {
    dlsym(library, "no_such_function");
    print_error("after a failure");
    print_error("asked again");
    dlsym(library, "no_such_function");
    dlsym(library, "getpid");
    print_error("a success in between");
    dlsym(RTLD_NEXT, "cuNoSuchFunction");
    print_error("next");
    dlsym(library, "cuMemAlloc_v2");
    print_error("a hooked name in a library that lacks it");
}

} // namespace

int main(int argc, char** argv) {
    std::printf("layered %d\n", layered());
    std::printf("tool probe %s\n", where(tool_probe()));
    // Nothing follows an executable's own name but libraries; twice, because one wrapper answered the second with null.
    const bool once = dlsym(RTLD_NEXT, "dlsym") != nullptr;
    const bool twice = dlsym(RTLD_NEXT, "dlsym") != nullptr;
    std::printf("next dlsym %d %d\n", once, twice);
    std::printf("next dlsym from a library: %s\n", where(ask_next_from_library("dlsym")));
    many_names();
    same_look_up_from_threads();
    void* plugin = argc > 1 ? dlopen(argv[1], RTLD_NOW | RTLD_LOCAL) : nullptr;
    if (plugin == nullptr) {
        std::printf("no plug-in: %s\n", dlerror());
        return 3;
    }
    std::printf("plug-in %d\n", reinterpret_cast<int (*)()>(dlsym(plugin, "plugin_calls"))());
    const auto sees = reinterpret_cast<void* (*)(const char*)>(dlsym(plugin, "plugin_default"));
    std::printf("plug-in sees only_here in %s, the program in %s\n", where(sees("only_here")),
                where(dlsym(RTLD_DEFAULT, "only_here")));
    messages(plugin);
    return finish();
}
