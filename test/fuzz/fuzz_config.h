#pragma once

#include <cstddef>
#include <cstdint>

/// Entry of libFuzzer: the bytes are an environment, variables separated by newlines. Aborts if a property does not hold.
extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size);

/// Makes the target see a growth factor that is out of range, to show that it looks.
extern bool fuzz_plant_fault;
