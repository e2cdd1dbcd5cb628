#include "interposer/slots.h"
#include <spdlog/spdlog.h>
// cuMemFree(comment) and "cuMemFree(string)" are no findings.
int planted_driver_call() { return cuMemRelease(0); }
const char* text = "getenv(not a finding)";
