#include "test/fakes/sim.h"
const char* planted_environment() { return getenv("X"); }
void planted_exit() { exit(1); }
void planted_throw() { throw 1; }
