#include "pool/ticks.h"

#include <atomic>
#include <ctime>

namespace cistern::pool::ticks {
namespace {

uint64_t monotonic_nanoseconds() noexcept {
    timespec t{};
    clock_gettime(CLOCK_MONOTONIC, &t);
    return static_cast<uint64_t>(t.tv_sec) * 1'000'000'000u + static_cast<uint64_t>(t.tv_nsec);
}

#if defined(__x86_64__)
constexpr uint64_t first_guess = 1000;
#else
constexpr uint64_t first_guess = 1;
#endif

std::atomic<uint64_t> rate{0};
std::atomic<uint64_t> first_ticks{0};
std::atomic<uint64_t> first_nanoseconds{0};

} // namespace

uint64_t per_microsecond() noexcept {
    if (const uint64_t known = rate.load(std::memory_order_relaxed)) return known;
    const uint64_t t = now();
    const uint64_t ns = monotonic_nanoseconds();
    uint64_t none = 0;
    if (first_nanoseconds.compare_exchange_strong(none, ns)) {
        first_ticks.store(t);
        return first_guess;
    }
    const uint64_t start = first_ticks.load();
    const uint64_t elapsed = ns - first_nanoseconds.load();
    if (start == 0 || ns < first_nanoseconds.load() || elapsed < 1'000'000u || t <= start) return first_guess;
    const uint64_t measured = (t - start) * 1000u / elapsed;
    rate.store(measured ? measured : 1, std::memory_order_relaxed);
    return measured ? measured : 1;
}

} // namespace cistern::pool::ticks
