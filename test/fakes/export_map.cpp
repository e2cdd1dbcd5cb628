// Prints the linker's export map of one variant. It runs at build time and is linked with that variant's variant.cpp.

#include "test/fakes/fake_cuda.h"

#include "test/fakes/controls.h"
#include "test/fakes/table.h"
#include "test/fakes/variant.h"

#include <cstdio>

int main(int argc, char** argv) {
    if (argc != 2) return 2;
    std::FILE* out = std::fopen(argv[1], "w");
    if (!out) return 1;
    std::fputs("{\nglobal:\n", out);
#define X(name, base, version, variant)                                                                                \
    if (fake::variant_exports(#name, version)) std::fprintf(out, "    %s;\n", #name);
    SIM_ALL_ENTRIES(X)
#undef X
#define X(name) std::fprintf(out, "    %s;\n", #name);
    SIM_CONTROLS(X)
#undef X
    std::fputs("local:\n    *;\n};\n", out);
    return std::fclose(out) == 0 ? 0 : 1;
}
