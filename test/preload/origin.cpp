// A library with RUNPATH $ORIGIN opens its neighbour by bare name. Built twice: the library, and the program (argument:
// the library's path).

#include <cstdio>
#include <dlfcn.h>

#if defined(ORIGIN_LIBRARY)
extern "C" __attribute__((visibility("default"))) int open_neighbour(void) {
    return dlopen("liborigin_neighbour.so", RTLD_NOW) != nullptr ? 1 : 0;
}
#else
int main(int argc, char** argv) {
    void* library = argc > 1 ? dlopen(argv[1], RTLD_NOW) : nullptr;
    if (library == nullptr) {
        std::printf("%s\n", dlerror());
        return 3;
    }
    const int found = reinterpret_cast<int (*)()>(dlsym(library, "open_neighbour"))();
    std::printf("neighbour %s\n", found != 0 ? "found" : "not found");
    return found != 0 ? 0 : 1;
}
#endif
