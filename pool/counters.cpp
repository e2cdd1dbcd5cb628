#include "pool/counters.h"

#include <cinttypes>
#include <cstdio>

namespace cistern::pool {
namespace {

/// Constant-initialised and never destroyed: exit handlers and late threads may still count.
constinit Counters process_counters;
constinit std::atomic<PoolCounters*> pool_counters{nullptr};

uint64_t summed(std::atomic<uint64_t> PoolCounters::*field) noexcept {
    uint64_t sum = 0;
    for (const PoolCounters* c = pool_counters.load(std::memory_order_acquire); c; c = c->next)
        sum += (c->*field).load(std::memory_order_relaxed);
    return sum;
}

constexpr const char* reason_names[] = {"served",
#define X(id, name, text) name,
                                        CISTERN_REASONS(X)
#undef X
};
constexpr const char* reason_texts[] = {"",
#define X(id, name, text) text,
                                        CISTERN_REASONS(X)
#undef X
};
constexpr int reason_count = static_cast<int>(Reason::count_);

std::string json_field(const char* name, uint64_t value) {
    char line[96];
    std::snprintf(line, sizeof line, "\"%s\": %" PRIu64, name, value);
    return line;
}

std::string text_line(const char* name, uint64_t value, const char* text) {
    char line[256];
    std::snprintf(line, sizeof line, "%-32s %16" PRIu64 "  %s\n", name, value, text);
    return line;
}

std::string forwards_json(const std::atomic<uint64_t> (&forwards)[reason_count]) {
    std::string out;
    for (int i = 1; i < reason_count; ++i) {
        const uint64_t n = forwards[i].load(std::memory_order_relaxed);
        if (n != 0) out += (out.empty() ? "" : ", ") + json_field(reason_names[i], n);
    }
    return "{" + out + "}";
}

std::string forwards_text(const char* what, const std::atomic<uint64_t> (&forwards)[reason_count]) {
    std::string out;
    for (int i = 1; i < reason_count; ++i) {
        const uint64_t n = forwards[i].load(std::memory_order_relaxed);
        const std::string name = std::string(what) + "_forwarded." + reason_names[i];
        if (n != 0) out += text_line(name.c_str(), n, reason_texts[i]);
    }
    return out;
}

} // namespace

Counters& counters() noexcept { return process_counters; }

void PoolCounters::enlist() noexcept {
    next = pool_counters.load(std::memory_order_relaxed);
    while (!pool_counters.compare_exchange_weak(next, this, std::memory_order_release)) {
    }
}

void gauge_add(std::atomic<uint64_t>& value, std::atomic<uint64_t>& peak, uint64_t n) noexcept {
    const uint64_t now = value.fetch_add(n, std::memory_order_relaxed) + n;
    uint64_t seen = peak.load(std::memory_order_relaxed);
    while (now > seen && !peak.compare_exchange_weak(seen, now, std::memory_order_relaxed)) {
    }
}

std::string counters_json() {
    const Counters& c = counters();
    std::string out = "{";
#define CISTERN_JSON_total(id) out += json_field(#id, c.id.load(std::memory_order_relaxed)) + ", ";
#define CISTERN_JSON_gauge(id)                                                                                         \
    CISTERN_JSON_total(id) out += json_field(#id "_peak", c.id##_peak.load(std::memory_order_relaxed)) + ", ";
#define CISTERN_JSON_pool_total(id) out += json_field(#id, summed(&PoolCounters::id)) + ", ";
#define CISTERN_JSON_pool_gauge(id)                                                                                    \
    CISTERN_JSON_pool_total(id) out += json_field(#id "_peak", summed(&PoolCounters::id##_peak)) + ", ";
#define X(id, kind, text) CISTERN_JSON_##kind(id)
    CISTERN_COUNTERS(X)
#undef X
    out += "\"alloc_forwarded\": " + forwards_json(c.alloc_forwarded);
    out += ", \"free_forwarded\": " + forwards_json(c.free_forwarded);
    return out + "}";
}

std::string counters_text() {
    const Counters& c = counters();
    std::string out;
#define CISTERN_TEXT_total(id, text) out += text_line(#id, c.id.load(std::memory_order_relaxed), text);
#define CISTERN_TEXT_gauge(id, text)                                                                                   \
    CISTERN_TEXT_total(id, text) out += text_line(#id " peak", c.id##_peak.load(std::memory_order_relaxed), "");
#define CISTERN_TEXT_pool_total(id, text) out += text_line(#id, summed(&PoolCounters::id), text);
#define CISTERN_TEXT_pool_gauge(id, text)                                                                              \
    CISTERN_TEXT_pool_total(id, text) out += text_line(#id " peak", summed(&PoolCounters::id##_peak), "");
#define X(id, kind, text) CISTERN_TEXT_##kind(id, text)
    CISTERN_COUNTERS(X)
#undef X
    return out + forwards_text("alloc", c.alloc_forwarded) + forwards_text("free", c.free_forwarded);
}

} // namespace cistern::pool
