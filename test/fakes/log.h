#pragma once
// Counts of calls, the optional log file, injected failures. Has locks of its own: usable before and outside State::mutex.

#include "test/fakes/fake_cuda.h"

#include "test/fakes/table.h"

namespace fake::log {

/// Counts a call of `fn`; returns the injected failure or success.
CUresult count(Fn fn);
void result(Fn fn, CUresult code);

void add_failure(const char* function, int nth, CUresult code);
void clear_failures();
unsigned long calls(const char* function);
unsigned long total();
void clear_calls();

/// Remembers the environment as it is now (first call only) / gives a value of that moment.
void remember_environment();
const char* environment(const char* name);
void forget_environment();

/// SIM_SUMMARY: writes counts (and `more`) to that file. Called when the library is unloaded or the process ends.
void write_summary(const char* more);

const char* name(Fn fn);
/// Fn::count_ if there is none.
Fn find(const char* exported_name);

} // namespace fake::log
