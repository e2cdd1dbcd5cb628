// Links pool and config with nothing of the interposer. A driver without any function is no reason to fall over.

#include "config/config.h"
#include "pool/pool.h"

#include <cstdio>

int main() {
    static_cast<void>(cistern::config::settings());
    const bool open = cistern::pool::open([](const char*) -> void* { return nullptr; });
    CUdeviceptr block = 77;
    const auto outcome = cistern::pool::allocate(&block, 4096);
    if (open || outcome.served() || block != 77) {
        std::puts("a pool without a driver must forward and leave the output alone");
        return 1;
    }
    return 0;
}
