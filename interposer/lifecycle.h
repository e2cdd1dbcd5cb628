#pragma once
// From "loaded into some process" to "the pool decides": nothing happens before the program's own cuInit has succeeded,
// settings are read at the first call that the pool has to decide.

#include "interposer/slots.h"

#include "pool/counters.h"
#include "pool/pool.h"

#include <cuda.h>

#include <atomic>

namespace cistern::interposer {

/// idle -> armed (cuInit succeeded) -> open or off (settings read). In a child of a process that was armed: forked.
enum class Phase : unsigned char { idle, armed, open, off, forked };

namespace detail {
extern std::atomic<Phase> phase;
bool open_now() noexcept;
} // namespace detail

/// After a driver call that shows that the driver is initialised. Registers what fork needs, once.
void arm_if(CUresult result) noexcept;

/// Whether the pool decides; never for a driver call of its own. The first call after arming reads the settings and opens it.
inline bool pool_open() noexcept {
    if (activity.in_pool) {
        return false;
    }
    const Phase now = detail::phase.load(std::memory_order_acquire);
    return now == Phase::open || (now == Phase::armed && detail::open_now());
}

/// The same without opening it: for observations that mean nothing before the pool has handed out memory.
inline bool pool_opened() noexcept {
    return !activity.in_pool && detail::phase.load(std::memory_order_acquire) == Phase::open;
}

/// Why the pool does not decide. Only after pool_open() was false.
pool::Outcome refusal() noexcept;

/// The pool's answer to `question`, or why it is not asked.
template <class Question> pool::Outcome ask(Question&& question) noexcept {
    return pool_open() ? asked(question) : refusal();
}

/// A context of `device` came to life. Remembered until the pool is open.
void context_of_device_appeared(CUdevice device) noexcept;

} // namespace cistern::interposer
