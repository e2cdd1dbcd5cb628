#pragma once
// The list of sub-commands of gpu_tests. Each takes the number of rounds (0: its own default) and fills the report.

#include "report.h"

namespace cistern::gpu_test {

#define GPU_TESTS(X)                                                                                                   \
    X(info, "name of the card, driver and memory")                                                                     \
    X(reuse, "F08: memory freed under running work, taken again at once, all variants")                                \
    X(mailbox, "running kernel that gets a pointer allocated after the free of other memory")                          \
    X(cross_wait, "kernels that wait for each other across allocations and frees")                                     \
    X(producer_consumer, "threads freeing what other threads allocated")                                               \
    X(threads, "eight threads, random sizes, contents verified, frees under running kernels")                          \
    X(async_free, "cudaFreeAsync of plain memory, then reuse")                                                         \
    X(capture_matrix, "F21: every call in every capture mode, stream and thread")                                      \
    X(capture_storm, "F21: captures while eight threads allocate and free")                                            \
    X(zero_and_null, "F36: zero sizes and null pointers")                                                              \
    X(null_pitch, "F36: null pitch pointer (own process)")                                                             \
    X(meminfo_null_free, "F19: null first output (own process)")                                                       \
    X(meminfo_null_total, "F19: null second output (own process)")                                                     \
    X(foreign, "F09: pointers of other origins, double and interior frees, crossed interfaces")                        \
    X(error_state, "F17: last error and exact codes")                                                                  \
    X(meminfo, "F19: free memory as a planning tool")                                                                  \
    X(shape, "F42: alignment, pitch and reported ranges")                                                              \
    X(past_end, "F40: reads just past the end of a block")                                                             \
    X(reset, "F34: device reset in a loop")                                                                            \
    X(own_context, "F34: contexts created and destroyed in a loop, allocations in them")                               \
    X(green_context, "memory freed under a green context while the primary works")                                     \
    X(large_again, "F16a: a very large block, again after small ones were kept")                                       \
    X(large_first, "F16c: 95 per cent of free memory as the first allocation")                                         \
    X(fault, "codes after a sticky fault (own process)")                                                               \
    X(host_function, "allocation calls inside a host function")                                                        \
    X(bandwidth, "copy kernel over pool memory")                                                                       \
    X(peer_copies, "two GPUs: every kind of copy between them")                                                        \
    X(peer_free, "two GPUs: memory of one freed while the other is current")                                           \
    X(spin_pair, "two GPUs: kernels that wait for each other beside allocations")

#define X(name, text) void name(Report& report, int rounds);
GPU_TESTS(X)
#undef X

} // namespace cistern::gpu_test
