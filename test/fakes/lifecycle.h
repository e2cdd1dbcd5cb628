#pragma once
// From before cuInit to after the process's exit handlers.

#include "test/fakes/fake_cuda.h"

namespace fake::lifecycle {

/// Success while the driver is up; 3 before cuInit and in a child of fork; 4 after the library's shutdown.
CUresult check();
CUresult initialise(unsigned flags);
/// Back to before cuInit (sim_reset).
void reset();
/// Settings are read by the first caller of this (controls work before cuInit too).
void ensure_configured();
bool poisons();
void set_poison(bool yes);
/// Sleeps for SIM_RACE_WINDOW_US in real time, without any lock.
void race_window(unsigned us);

} // namespace fake::lifecycle
