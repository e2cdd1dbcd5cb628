#include "interposer/lifecycle.h"

#include "interposer/report.h"

#include "config/config.h"
#include "config/log.h"

#include <pthread.h>

namespace cistern::interposer {

constinit std::atomic<Phase> detail::phase{Phase::idle};

namespace {

constinit std::atomic<bool> fork_handler{false};
constinit std::atomic<bool> exit_handler{false};
constinit std::atomic<pool::Reason> why_off{pool::Reason::disabled};

/// Devices with a context, for as long as the pool is not open: one bit each (the 64th and later share the last).
constinit std::atomic<uint64_t> waiting_devices{0};

/// Runs between fork and the return of fork in the child, where only async-signal-safe work is allowed.
void in_child() noexcept {
    detail::phase.store(Phase::forked, std::memory_order_release);
    pool::after_fork_in_child();
}

void announce_devices() noexcept {
    uint64_t devices = waiting_devices.exchange(0, std::memory_order_acq_rel);
    while (devices != 0) {
        const int device = __builtin_ctzll(devices);
        devices &= devices - 1;
        asked([=] { pool::context_appeared(device); });
    }
}

/// Why the pool stays shut although nothing switched it off: the driver lacks something.
pool::Reason reason_for_off(const config::Settings& settings) noexcept {
    const bool asked_for = !settings.disable && !settings.refused && settings.device_mem_pool && settings.vmm;
    return asked_for ? pool::Reason::no_vmm : pool::Reason::disabled;
}

} // namespace

void arm_if(CUresult result) noexcept {
    if (result != CUDA_SUCCESS || detail::phase.load(std::memory_order_acquire) != Phase::idle) {
        return;
    }
    if (!fork_handler.exchange(true)) {
        pthread_atfork(nullptr, nullptr, &in_child);
    }
    Phase expected = Phase::idle;
    detail::phase.compare_exchange_strong(expected, Phase::armed, std::memory_order_acq_rel);
}

// Two threads may do this at the same time: the pool opens once for both, and each returns with the phase set.
bool detail::open_now() noexcept {
    const config::Settings& settings = config::settings();
    const bool usable = !settings.disable && asked([] { return pool::open(&driver_symbol); });
    if (!usable) {
        why_off.store(reason_for_off(settings), std::memory_order_relaxed);
    }
    if (!settings.stats.empty() && !exit_handler.exchange(true)) {
        report_at_exit(settings.stats.c_str());
    }
    Phase expected = Phase::armed;
    phase.compare_exchange_strong(expected, usable ? Phase::open : Phase::off, std::memory_order_acq_rel);
    if (usable) {
        announce_devices();
    }
    return phase.load(std::memory_order_acquire) == Phase::open;
}

pool::Outcome refusal() noexcept {
    switch (detail::phase.load(std::memory_order_acquire)) {
    case Phase::idle:
    case Phase::armed:
        return pool::Outcome::forward(pool::Reason::not_armed);
    case Phase::forked:
        return pool::Outcome::forward(pool::Reason::forked);
    case Phase::open:
    case Phase::off:
        break;
    }
    return pool::Outcome::forward(why_off.load(std::memory_order_relaxed));
}

// Either this sees the pool open, or open_now sees the bit: the bit is set before the phase is read here, and the phase
// is set before the bits are read there.
void context_of_device_appeared(CUdevice device) noexcept {
    if (device < 0 || activity.in_pool) {
        return;
    }
    if (pool_opened()) {
        asked([=] { pool::context_appeared(device); });
        return;
    }
    waiting_devices.fetch_or(uint64_t{1} << (device < 63 ? device : 63), std::memory_order_seq_cst);
    if (detail::phase.load(std::memory_order_seq_cst) == Phase::open) {
        announce_devices();
    }
}

} // namespace cistern::interposer
