#pragma once
// One list of counters: it generates the storage, the exit summary, the JSON and the explanation of each line.

#include "pool/outcome.h"

#include <atomic>
#include <cstdint>
#include <string>

namespace cistern::pool {

/// identifier, kind, meaning. Kinds: total only grows; gauge has a current value and a peak; pool_total and pool_gauge are
/// the same, but each pool keeps its own under its lock (no shared cache line on the hot path) and they are summed when
/// asked for, so that the peak of a process with several contexts is the sum of their peaks.
#define CISTERN_COUNTERS(X)                                                                                            \
    X(alloc_served, total, "allocations served by the pool")                                                           \
    X(alloc_hits, pool_total, "of these, without adding memory to the pool")                                           \
    X(free_served, total, "frees taken back by the pool")                                                              \
    X(free_async_served, total, "stream-ordered frees taken back by the pool")                                         \
    X(in_use_bytes, pool_gauge, "bytes in blocks that the program holds (rounded sizes)")                              \
    X(mapped_bytes, gauge, "physical device memory that the pool has mapped")                                          \
    X(pending_bytes, pool_gauge, "bytes freed whose earlier work may still run")                                       \
    X(growths, total, "times that memory was added to a pool")                                                         \
    X(moves, total, "free chunks moved to another address instead of creating new ones")                               \
    X(trimmed_bytes, total, "bytes given back to the driver")                                                          \
    X(epochs_closed, total, "context events recorded")                                                                 \
    X(epochs_queried, total, "context event queries")                                                                  \
    X(bound_waits, total, "host waits because pending bytes passed their bound")                                       \
    X(last_waits, total, "host waits in the last step before out of memory")                                           \
    X(waiting_frees, total, "frees that waited as natively")                                                           \
    X(driver_calls, total, "driver calls made by the pool, the current-context query excluded")

struct Counters {
#define CISTERN_FIELD_total(id) std::atomic<uint64_t> id{0};
#define CISTERN_FIELD_gauge(id)                                                                                        \
    std::atomic<uint64_t> id{0};                                                                                       \
    std::atomic<uint64_t> id##_peak{0};
#define CISTERN_FIELD_pool_total(id)
#define CISTERN_FIELD_pool_gauge(id)
#define X(id, kind, text) CISTERN_FIELD_##kind(id)
    CISTERN_COUNTERS(X)
#undef X
    /// Forwarded calls by reason, for allocations and frees apart.
    std::atomic<uint64_t> alloc_forwarded[static_cast<int>(Reason::count_)]{};
    std::atomic<uint64_t> free_forwarded[static_cast<int>(Reason::count_)]{};
};

/// The counters that one pool keeps. Written under the pool's lock only, read by anybody at any time.
struct PoolCounters {
#define CISTERN_POOL_FIELD_total(id)
#define CISTERN_POOL_FIELD_gauge(id)
#define CISTERN_POOL_FIELD_pool_total(id) CISTERN_FIELD_total(id)
#define CISTERN_POOL_FIELD_pool_gauge(id) CISTERN_FIELD_gauge(id)
#define X(id, kind, text) CISTERN_POOL_FIELD_##kind(id)
    CISTERN_COUNTERS(X)
#undef X
    PoolCounters* next = nullptr;

    /// Puts these into the sums, for ever: the object must live as long as the process.
    void enlist() noexcept;
    static void add(std::atomic<uint64_t>& c, uint64_t n = 1) noexcept {
        c.store(c.load(std::memory_order_relaxed) + n, std::memory_order_relaxed);
    }
    static void set(std::atomic<uint64_t>& value, std::atomic<uint64_t>& peak, uint64_t n) noexcept {
        value.store(n, std::memory_order_relaxed);
        if (n > peak.load(std::memory_order_relaxed)) peak.store(n, std::memory_order_relaxed);
    }
};

/// The process's counters. Valid for the whole life of the process, also inside exit handlers.
Counters& counters() noexcept;

inline void count(std::atomic<uint64_t>& c, uint64_t n = 1) noexcept { c.fetch_add(n, std::memory_order_relaxed); }
void gauge_add(std::atomic<uint64_t>& value, std::atomic<uint64_t>& peak, uint64_t n) noexcept;
inline void gauge_sub(std::atomic<uint64_t>& value, uint64_t n) noexcept {
    value.fetch_sub(n, std::memory_order_relaxed);
}

/// One JSON object (single line, keys are the identifiers above; gauges add "<id>_peak"; forwards are the objects
/// "alloc_forwarded" and "free_forwarded" keyed by reason name, zero entries left out). Fields are added, never removed.
std::string counters_json();
/// The same as a table for people, one explained line per counter.
std::string counters_text();

} // namespace cistern::pool
