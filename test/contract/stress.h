#pragma once
// A random program: allocations, work, frees, captures, synchronises and trims from several threads in several contexts.

#include <cstdint>
#include <string>

namespace cistern::test::stress {

struct Plan {
    unsigned threads = 1;
    unsigned contexts = 1;
    uint64_t operations = 0; ///< allocations and frees together, all threads
    uint64_t seed = 0;
    size_t card_bytes = 0; ///< of the simulated device; decides how much the program keeps alive
};

struct Result {
    uint64_t allocations = 0;
    uint64_t recycled = 0; ///< of these, at an address that was handed out before
    uint64_t frees = 0;
    uint64_t busy = 0;      ///< of these, while work on the block was unfinished
    uint64_t refused = 0;   ///< calls that an open global capture refused, as natively
    uint64_t exhausted = 0; ///< allocations that ended in error 2
    uint64_t unjust = 0;    ///< of these, although three fifths of the card would have held everything alive
    uint64_t captures = 0;
    std::string failure; ///< first unexpected result, empty if none
};

/// Needs `start` and nothing else; leaves every block freed and every context without work.
Result run(const Plan& plan);

} // namespace cistern::test::stress
