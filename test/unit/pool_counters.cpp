// What is told about the pool is what the list of counters says.
#include "test/catch.h"

#include "pool/counters.h"

#include <string>

using namespace cistern::pool;

TEST_CASE("pool counters: JSON has every key of the list, gauges with their peak") {
    const std::string json = counters_json();
    CHECK(json.front() == '{');
    CHECK(json.back() == '}');
    CHECK(json.find('\n') == std::string::npos);
    const auto has = [&](const std::string& key) { return json.find('"' + key + "\": ") != std::string::npos; };
#define CISTERN_HAS_total(id) CHECK(has(#id));
#define CISTERN_HAS_gauge(id)                                                                                          \
    CHECK(has(#id));                                                                                                   \
    CHECK(has(#id "_peak"));
#define CISTERN_HAS_pool_total(id) CISTERN_HAS_total(id)
#define CISTERN_HAS_pool_gauge(id) CISTERN_HAS_gauge(id)
#define X(id, kind, text) CISTERN_HAS_##kind(id)
    CISTERN_COUNTERS(X)
#undef X
    CHECK(has("alloc_forwarded"));
    CHECK(has("free_forwarded"));
}

TEST_CASE("pool counters: forwards are told by reason, zero ones left out") {
    count(counters().alloc_forwarded[static_cast<int>(Reason::too_large)], 3);
    count(counters().free_forwarded[static_cast<int>(Reason::foreign_pointer)]);
    const std::string json = counters_json();
    CHECK(json.find("\"alloc_forwarded\": {\"too_large\": 3}") != std::string::npos);
    CHECK(json.find("\"free_forwarded\": {\"foreign_pointer\": 1}") != std::string::npos);
}

TEST_CASE("pool counters: the table explains every line") {
    const std::string text = counters_text();
#define X(id, kind, meaning) CHECK(text.find(meaning) != std::string::npos);
    CISTERN_COUNTERS(X)
#undef X
}

TEST_CASE("pool counters: a gauge keeps its peak") {
    std::atomic<uint64_t> value{0};
    std::atomic<uint64_t> peak{0};
    gauge_add(value, peak, 5);
    gauge_sub(value, 3);
    gauge_add(value, peak, 1);
    CHECK(value == 3);
    CHECK(peak == 5);
}

TEST_CASE("pool counters: what pools keep for themselves is summed") {
    static PoolCounters first; // enlisted for ever
    static PoolCounters second;
    first.enlist();
    second.enlist();
    PoolCounters::add(first.alloc_hits, 2);
    PoolCounters::add(second.alloc_hits);
    PoolCounters::set(first.pending_bytes, first.pending_bytes_peak, 10);
    PoolCounters::set(first.pending_bytes, first.pending_bytes_peak, 4);
    PoolCounters::set(second.pending_bytes, second.pending_bytes_peak, 5);
    const std::string json = counters_json();
    CHECK(json.find("\"alloc_hits\": 3,") != std::string::npos);
    CHECK(json.find("\"pending_bytes\": 9,") != std::string::npos);
    CHECK(json.find("\"pending_bytes_peak\": 15,") != std::string::npos);
}
