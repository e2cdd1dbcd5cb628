#pragma once
// The answer of the pool to one call: either a result for the program, or "ask the driver", with the reason.

#include <cuda.h>

namespace cistern::pool {

/// Why a call goes to the driver instead of the pool. One line each: identifier, name in statistics, meaning.
/// The list generates the enumerators, the JSON keys and the explanations in the summary.
#define CISTERN_REASONS(X)                                                                                             \
    X(disabled, "disabled", "pool switched off by a setting")                                                          \
    X(not_armed, "not_armed", "call before cuInit succeeded")                                                          \
    X(forked, "forked", "process forked after CUDA use; the child has no CUDA")                                        \
    X(no_context, "no_context", "no current context, or the driver refused to name it")                                \
    X(no_vmm, "no_vmm", "device or driver without usable virtual memory management")                                   \
    X(bad_argument, "bad_argument", "zero size, null pointer or arguments that only the driver answers")               \
    X(too_large, "too_large", "larger than the memory of the device")                                                  \
    X(capture, "capture", "the driver refuses the call because of an open stream capture")                             \
    X(dead_context, "dead_context", "the context has a sticky error")                                                  \
    X(leaving_context, "leaving_context", "the context is being reset or destroyed")                                   \
    X(out_of_memory, "out_of_memory", "the pool could not get memory; the driver decides")                             \
    X(foreign_pointer, "foreign_pointer", "pointer that the pool did not hand out")                                    \
    X(invalid_pointer, "invalid_pointer", "address inside the pool that is no live block's start")                     \
    X(internal, "internal", "the host ran out of memory inside the pool")

enum class Reason : unsigned char {
    served, ///< not forwarded
#define X(id, name, text) id,
    CISTERN_REASONS(X)
#undef X
        count_
};

/// Result of a pool operation. `result` has a meaning only when `served()`.
struct [[nodiscard]] Outcome {
    Reason reason = Reason::served;
    CUresult result = CUDA_SUCCESS;

    bool served() const noexcept { return reason == Reason::served; }
    static Outcome done(CUresult r = CUDA_SUCCESS) noexcept { return {Reason::served, r}; }
    static Outcome forward(Reason why) noexcept { return {why, CUDA_SUCCESS}; }
};

} // namespace cistern::pool
