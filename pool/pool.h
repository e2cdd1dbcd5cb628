#pragma once
// The pool's only entrance. Hooks call these functions; nothing behind this header knows that it is preloaded.
//
// Thread-safety: every function may be called from any thread at any time after `open`, unless said otherwise.
// No function throws, exits or prints to the program. Errors of the host (no memory) end in Outcome::forward.
// The CUDA context that is current for the calling thread is unchanged on return.

#include "pool/outcome.h"

#include <cstddef>

namespace cistern::pool {

/// Address of a driver function by its exported name ("cuMemAlloc_v2"), or null if this driver has none.
using Lookup = void* (*)(const char* exported_name);

/// Binds the driver and reads the settings. Idempotent and thread-safe; returns whether the pool may be used at all
/// (false: pool switched off, CISTERN_STRICT refused the settings, or the driver lacks functions that it needs).
/// Makes no driver call itself. A second call with another look-up is ignored.
bool open(Lookup lookup) noexcept;

/// In the child of fork: every later call answers forward(forked) without touching locks or the driver.
/// Async-signal-safe.
void after_fork_in_child() noexcept;

/// cuMemAlloc_v2. On served success `*out` is set, 512-byte aligned (64 KiB above 1 MiB); `*out` is untouched otherwise.
/// Never waits for the device except as design's closed list of host waits allows.
Outcome allocate(CUdeviceptr* out, size_t bytes) noexcept;

/// cuMemAllocPitch_v2: pitch is the width rounded up to 512, as natively. Both outputs are untouched unless served.
Outcome allocate_pitch(CUdeviceptr* out, size_t* pitch, size_t width, size_t height, unsigned element) noexcept;

/// cuMemFree_v2. A block of the pool is taken back whatever context is current; it is handed out again only when the
/// work that was submitted to its context before this call is over. Anything else: forward.
Outcome free(CUdeviceptr ptr) noexcept;

/// cuMemFreeAsync: ready again when `stream` has passed the work submitted to it so far.
/// `stream` null means the legacy stream; the per-thread variant passes CU_STREAM_PER_THREAD.
Outcome free_async(CUdeviceptr ptr, CUstream stream) noexcept;

/// cuMemGetAddressRange_v2 for pointers into live blocks: start and the *requested* size. Null outputs are skipped.
Outcome address_range(CUdeviceptr* base, size_t* bytes, CUdeviceptr ptr) noexcept;

/// Bytes on the current context's device that the driver counts as used but the program has freed (pending and ready
/// pool memory), in whole 2 MiB pages. 0 if there is no current context. Nothing is waited for.
size_t idle_bytes() noexcept;

/// --- Captures. A begin must be bracketed: construct, call the driver, `began(result)`. From the construction on nothing is
/// recorded in any context (a race with a begin crashes the driver, a record in an open capture kills it).
class BeginCapture {
public:
    explicit BeginCapture(CUstream stream) noexcept;
    void began(CUresult result) noexcept;

private:
    unsigned long long serial_ = 0; ///< 0: nothing was counted
};
/// Round the driver's cuStreamEndCapture: construct before it, `ended` with whatever it returned.
class EndCapture {
public:
    explicit EndCapture(CUstream stream) noexcept;
    void ended(CUresult result) noexcept;

private:
    CUstream stream_;
    unsigned long long serial_ = 0;
};
/// Before the driver's cuStreamDestroy: a capture on that stream ends with it. Call `destroyed` with the result.
class DestroyStream {
public:
    explicit DestroyStream(CUstream stream) noexcept;
    void destroyed(CUresult result) noexcept;

private:
    unsigned long long serial_ = 0;
};

/// --- The program's own context synchronise (both ABIs). Construct before the driver's call, `returned` after it.
/// `context` null means the current one. A successful one makes everything freed before it ready.
class Synchronize {
public:
    explicit Synchronize(CUcontext context) noexcept;
    void returned(CUresult result) noexcept;

private:
    void* context_ = nullptr;
    unsigned long long epoch_ = 0;
};

/// --- Life of contexts.
/// After a context of `device` came to life (primary retained, context created): later and existing pool memory becomes
/// accessible to that device where the devices are peers. Cheap when the device is known already.
void context_appeared(CUdevice device) noexcept;
/// After cuCtxFromGreenCtx: `green` is a view of a device's primary context, whose pool it uses.
void green_context_appeared(CUcontext green) noexcept;
/// After a context was created by cuCtxCreate: its handle may have been a green context's before.
void context_created(CUcontext context) noexcept;

/// A context is about to be reset, released or destroyed. Construct before the driver's call: from here on the pool
/// makes no driver call on its events, frees are still accepted, allocations are forwarded. Then `gone()` if the context
/// has ended (its pool memory is given back, its pointers are foreign from then on) or `stays()` if it has not.
/// Without either the destructor means `stays()`.
class Departure {
public:
    explicit Departure(CUcontext context) noexcept;        ///< cuCtxDestroy
    static Departure of_primary(CUdevice device) noexcept; ///< reset or release of the device's primary context
    ~Departure();
    Departure(Departure&& other) noexcept;
    Departure& operator=(Departure&&) = delete;
    void gone() noexcept;
    void stays() noexcept;
    /// After cuDevicePrimaryCtxRelease: gone or stays, as the driver's primary-context state says.
    void decide_by_state(CUdevice device) noexcept;

private:
    Departure() noexcept = default;
    void begin(CUcontext handle, void* pool) noexcept;
    void* context_ = nullptr; ///< ContextPool, null if the context has none
    CUcontext handle_ = nullptr;
};

/// Gives wholly free, ready chunks of every pool back to the driver. Returns the bytes released. Waits for nothing.
size_t trim() noexcept;

} // namespace cistern::pool
