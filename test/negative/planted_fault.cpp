// One fault for each sanitizer, to show that a build under it reports what it finds. Use: planted_fault address|thread|undefined

#include <cstdio>
#include <cstring>
#include <limits>
#include <thread>

namespace {

int read_after_free() {
    int* block = new int(7);
    int* volatile alias = block;
    delete block;
    return *alias;
}

int race() {
    int shared = 0;
    std::thread other([&shared] { ++shared; });
    ++shared;
    other.join();
    return shared;
}

int overflow(int argc) {
    int number = std::numeric_limits<int>::max();
    number += argc;
    return number;
}

} // namespace

int main(int argc, char** argv) {
    const char* fault = argc > 1 ? argv[1] : "";
    int result = 0;
    if (std::strcmp(fault, "address") == 0) {
        result = read_after_free();
    } else if (std::strcmp(fault, "thread") == 0) {
        result = race();
    } else if (std::strcmp(fault, "undefined") == 0) {
        result = overflow(argc);
    }
    std::printf("not found: %d\n", result);
    return 0;
}
