#pragma once
// Time since an earlier moment, from the cycle counter: no system call and no shared memory on the free path.

#include <cstdint>

namespace cistern::pool::ticks {

/// Constant-rate counter of the processor.
inline uint64_t now() noexcept {
#if defined(__x86_64__)
    return __builtin_ia32_rdtsc();
#elif defined(__aarch64__)
    uint64_t value;
    asm volatile("mrs %0, cntvct_el0" : "=r"(value));
    return value;
#else
#error "no cycle counter known for this processor"
#endif
}

/// Ticks per microsecond, measured against the monotonic clock. The first calls answer low (1000 on x86-64 would be
/// 1 GHz), so that an interval seems longer than it is and epochs close a little early; exact 1 ms after the first call.
uint64_t per_microsecond() noexcept;

} // namespace cistern::pool::ticks
