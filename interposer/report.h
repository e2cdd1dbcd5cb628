#pragma once
// What can be asked: counters of pool and doors, on demand and at exit.

#include <string>

namespace cistern::interposer {

/// All counters as one line of JSON: the pool's, and "doors" with those of the look-ups.
std::string statistics_json();

/// Registers the summary at exit. `stats` is the value of CISTERN_STATS, "text" or "json" with an optional file pattern,
/// and has to stay valid. Makes no driver call; a child of fork says nothing.
void report_at_exit(const char* stats) noexcept;

} // namespace cistern::interposer
