#pragma once
// Lock for critical sections of well under a microsecond. Uncontended it costs half of a pthread mutex, and a crowd of threads
// does not queue up in the kernel; a waiter spins a little, then gives its time slice away.

#include "pool/nap.h"

#include <atomic>
#include <thread>

namespace cistern::pool {

/// Meets the standard's Lockable requirements. Not recursive, not fair.
class SpinLock {
public:
    void lock() noexcept {
        while (taken_.exchange(true, std::memory_order_acquire)) wait();
    }
    bool try_lock() noexcept { return !taken_.exchange(true, std::memory_order_acquire); }
    void unlock() noexcept { taken_.store(false, std::memory_order_release); }

private:
    void wait() const noexcept {
        constexpr int spins = 64;
        for (int i = 0; taken_.load(std::memory_order_relaxed); ++i) {
            if (i < spins)
                pause();
            else
                std::this_thread::yield();
        }
    }
    static void pause() noexcept {
#if defined(__x86_64__)
        __builtin_ia32_pause();
#elif defined(__aarch64__)
        asm volatile("yield");
#endif
    }
    std::atomic<bool> taken_{false};
};

} // namespace cistern::pool
