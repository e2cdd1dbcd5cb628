#pragma once
// The only place where the pool talks to CUDA. Three small back ends: contexts, order (events and captures), memory.
//
// Contract for all: results are the driver's own codes; outputs are written only on success; no policy, no logging, no
// retry. Thread-safe after `bind`. The calling thread's current context and capture mode are unchanged on return.
// Facts about what waits for what were measured on an H200 with driver 580.159 (see README, "What the pool relies on").

#include "pool/pool.h"

#include <cstddef>
#include <cstdint>

namespace cistern::pool::driver {

using DeviceMask = uint64_t; ///< bit i: device ordinal i; devices beyond 63 get no peer access entries

/// Resolves the entry points. False if a function is missing without which no pool is possible. Holds no lock; of several
/// threads the first one's result counts, and nobody may use the others before it has returned.
bool bind(Lookup lookup) noexcept;

// --- Contexts -------------------------------------------------------------------------------------------------------

/// 0 and null: no context. Non-zero inside host functions (800), after fork (3), after shut-down (4). About 10 ns.
CUresult current_context(CUcontext* context) noexcept;
/// Device of the calling thread's current context.
CUresult current_device(CUdevice* device) noexcept;
/// Handle of the device's primary context, null if it is not active. Does not activate it.
CUcontext primary_context(CUdevice device) noexcept;
/// Number that no other context of the process ever has, 0 if the driver has none to give (before CUDA 12.0). The context
/// must be alive.
unsigned long long context_id(CUcontext context) noexcept;
/// Context that `stream` belongs to; the special handles mean the current one.
CUresult stream_context(CUstream stream, CUcontext* context) noexcept;
/// Whether `device` can read and write memory of `owner`.
bool can_access_peer(CUdevice device, CUdevice owner) noexcept;
size_t total_memory(CUdevice device) noexcept;

/// Makes `context` current for a scope, unless it is already.
class Current {
public:
    explicit Current(CUcontext context) noexcept;
    ~Current();
    Current(const Current&) = delete;
    Current& operator=(const Current&) = delete;
    explicit operator bool() const noexcept { return usable_; }

private:
    bool pushed_ = false;
    bool usable_ = false;
};

// --- Order ----------------------------------------------------------------------------------------------------------

/// Whether context events exist (CUDA 12.5 and later; the symbol decides, not a version).
bool has_context_events() noexcept;
/// Creates an event without timing in the current context. May block while another thread waits in a native free.
CUresult create_event(CUevent* event) noexcept;
/// Captures all work submitted to `context` so far. Must never overlap a begin-capture in that context (crashes inside
/// the driver) and must not be called while a capture is open there (kills the capture in every mode).
CUresult record_context(CUcontext context, CUevent event) noexcept;
/// Captures the work submitted to `stream` so far; the event must belong to the stream's context.
CUresult record_stream(CUevent event, CUstream stream) noexcept;
/// 0: done, 600: not ready. Leaves open captures of all threads alive: runs in relaxed capture mode always, because a
/// capture may begin between a look at any counter and the query (the two switches cost 20 ns).
CUresult query_event(CUevent event) noexcept;
/// Whether the driver would refuse an allocation or free of this thread because of an open capture. If so the capture
/// has been invalidated by the question, exactly as the program's own call would have done (measured cell by cell).
bool capture_refuses() noexcept;
/// Whether `stream` is in a capture, valid or not.
bool is_capturing(CUstream stream) noexcept;

// --- Memory ---------------------------------------------------------------------------------------------------------

/// Granularity of device memory in bytes, 0 where virtual memory management is missing or refuses to answer.
size_t granularity(CUdevice device) noexcept;
/// Address range without memory behind it, aligned to `alignment`.
CUresult reserve(CUdeviceptr* start, size_t bytes, size_t alignment) noexcept;
CUresult free_reservation(CUdeviceptr start, size_t bytes) noexcept;
/// Physical memory. Exportable and RDMA-capable where the device agrees; a refused wish is dropped once per device.
CUresult create(CUmemGenericAllocationHandle* handle, CUdevice device, size_t bytes) noexcept;
CUresult release(CUmemGenericAllocationHandle handle) noexcept;
CUresult map(CUdeviceptr start, size_t bytes, CUmemGenericAllocationHandle handle) noexcept;
/// Does not wait for the device: the caller knows that nothing uses the range.
CUresult unmap(CUdeviceptr start, size_t bytes) noexcept;
/// Read and write for every device of the mask; other devices keep what they have.
CUresult set_access(CUdeviceptr start, size_t bytes, DeviceMask devices) noexcept;
/// The driver's own allocation in the current context; small dummies only.
CUresult native_allocate(CUdeviceptr* ptr, size_t bytes) noexcept;
/// Waits for all work of the owning context. Leaves open captures alive.
CUresult native_free(CUdeviceptr ptr) noexcept;
/// Free memory of the current context's device.
CUresult free_memory(size_t* bytes) noexcept;

} // namespace cistern::pool::driver
