// gpu_tests NAME [ROUNDS]: one GPU correctness program per name. Exit code 0, or 1 when the program itself saw something
// wrong, 2 for bad usage; what must equal a native run stands under "result" of the line that it prints.

#include "gpu_tests.h"

#include <cstring>

namespace {

struct Entry {
    const char* name;
    const char* text;
    void (*run)(cistern::gpu_test::Report&, int);
};

constexpr Entry entries[] = {
#define X(name, text) {#name, text, cistern::gpu_test::name},
    GPU_TESTS(X)
#undef X
};

} // namespace

int main(int argc, char** argv) {
    if (argc >= 2)
        for (const Entry& e : entries)
            if (!strcmp(e.name, argv[1])) {
                cistern::gpu_test::Report report;
                e.run(report, argc > 2 ? atoi(argv[2]) : 0);
                return report.print();
            }
    fprintf(stderr, "usage: gpu_tests NAME [ROUNDS]\n");
    for (const Entry& e : entries) fprintf(stderr, "  %-20s %s\n", e.name, e.text);
    return 2;
}
