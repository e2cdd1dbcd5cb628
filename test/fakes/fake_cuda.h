#pragma once
// cuda.h as the driver itself needs it: every ABI under its own name, none renamed by macros. Included before anything that
// includes cuda.h. Entry points are declared by FAKE below, not taken from the header: so any header from 12.0 on will do.

#ifndef __CUDA_API_VERSION_INTERNAL
#define __CUDA_API_VERSION_INTERNAL
#endif
#include <cuda.h>

// Defines an entry point under the driver's name. The C++ name differs, so that no prototype of any cuda.h can clash.
#define FAKE(name, ...)                                                                                                \
    extern "C" __attribute__((visibility("default"))) CUresult fake_##name(__VA_ARGS__) __asm__(#name);                \
    extern "C" CUresult fake_##name(__VA_ARGS__)
