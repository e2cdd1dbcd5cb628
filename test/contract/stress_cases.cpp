// A million random allocations and frees with work in flight, and not one report of the referee.
#include "test/catch.h"
#include "test/contract/program.h"
#include "test/contract/stress.h"

#include <cstdlib>
#include <iostream>

using namespace cistern::test;

#ifndef CISTERN_STRESS_OPERATIONS
#define CISTERN_STRESS_OPERATIONS 1000000
#endif

namespace {

constexpr size_t card_mb = 2048;

uint64_t from_environment(const char* name, uint64_t otherwise) {
    const char* value = std::getenv(name);
    return value ? std::strtoull(value, nullptr, 10) : otherwise;
}

void million(unsigned threads, unsigned contexts) {
    start({{"SIM_TOTAL_MB", "2048"}});
    stress::Plan plan;
    plan.threads = threads;
    plan.contexts = contexts;
    plan.operations = from_environment("STRESS_OPERATIONS", CISTERN_STRESS_OPERATIONS);
    plan.seed = from_environment("STRESS_SEED", 20240 + 10 * threads + contexts);
    plan.card_bytes = card_mb * MiB;
    const stress::Result r = stress::run(plan);
    std::cout << "seed " << plan.seed << ": " << r.allocations << " allocations (" << r.recycled << " recycled), "
              << r.frees << " frees (" << r.busy << " busy), " << r.refused << " refused by captures, " << r.captures
              << " captures, " << r.exhausted << " out of memory (" << r.unjust << " unjust)\n"
              << cistern::pool::counters_json() << "\n";
    INFO("seed " << plan.seed);
    CHECK(r.failure == "");
    CHECK(r.allocations + r.frees >= plan.operations);
    CHECK(r.allocations == r.frees);
    CHECK(r.busy * 100 >= r.frees * 30);
    CHECK(r.recycled * 100 >= r.allocations * 30);
    // Without context events what another context has freed last is out of reach until its next barrier.
    if (sim_calls("cuCtxRecordEvent") > 0) CHECK(r.unjust == 0);
    check_referee();
}

} // namespace

TEST_CASE("stress with one thread in one context") { million(1, 1); }
TEST_CASE("stress with one thread in two contexts") { million(1, 2); }
TEST_CASE("stress with eight threads in one context") { million(8, 1); }
TEST_CASE("stress with eight threads in two contexts") { million(8, 2); }
