#pragma once
// Declarations of all hooks, and the way to "next": the function that would have been called without us.

#include "interposer/slots.h"
#include "interposer/table.h"

#include <cuda.h>

#include <cstddef>

#define CISTERN_EXPORT __attribute__((visibility("default")))

namespace cistern::interposer {

// Neither hooks nor next are noexcept: a thread that is cancelled while it waits in the driver unwinds through them, as it
// would without us. Exceptions of our own never get here: the pool's functions are noexcept.
//
// hook_MemAlloc_v2 is exported as cuMemAlloc_v2, and so on. The detour through an assembler name is needed because
// cuda.h redefines many of the older names as macros and declares them with their newer signatures.
#define X(name, base, since, until, stream, parameters, arguments)                                                     \
    CISTERN_EXPORT CUresult hook_##name parameters asm("cu" #name);
CISTERN_HOOKS(X)
#undef X

namespace next {
// next::MemAlloc_v2(out, bytes) calls the driver's cuMemAlloc_v2 (or whatever stands between us and it). Without a
// driver, or with one that lacks the function, the answer is that of Target::missing().
#define X(name, base, since, until, stream, parameters, arguments)                                                     \
    inline CUresult name parameters {                                                                                  \
        using Function = CUresult(*) parameters;                                                                       \
        Target target(Slot::name);                                                                                     \
        if (target.function() == nullptr) {                                                                            \
            return Target::missing();                                                                                  \
        }                                                                                                              \
        return reinterpret_cast<Function>(target.function()) arguments;                                                \
    }
CISTERN_HOOKS(X)
#undef X
} // namespace next

} // namespace cistern::interposer

#define X(name, result, parameters) extern "C" CISTERN_EXPORT result cistern_##name parameters noexcept;
CISTERN_OWN_FUNCTIONS(X)
#undef X
