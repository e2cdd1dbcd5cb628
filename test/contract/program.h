#pragma once
// A program on the simulated GPU whose allocation calls go through the pool, as the hooks of the preloaded object do it:
// ask the pool, call the driver where it forwards. Everything is announced to the referee.
//
// The pool is a process-wide object that opens once, so a process runs one test case (ctest does that).

#include "pool/counters.h"
#include "pool/pool.h"
#include "test/fakes/sim.h"

#include <cuda.h>

#include <cstddef>
#include <functional>
#include <initializer_list>
#include <string>
#include <utility>
#include <vector>

namespace cistern::test {

using Environment = std::initializer_list<std::pair<const char*, const char*>>;

constexpr size_t KiB = size_t{1} << 10;
constexpr size_t MiB = size_t{1} << 20;

/// Sets the variables, initialises the simulated driver and opens the pool. Fails if called twice in a process.
/// Returns what pool::open said.
bool start(Environment environment = {});

/// What happens while the pool is inside a driver call: threads meet there without being timed. Runs in the thread that
/// calls, once each time it is set; may call everything in here.
struct During {
    std::function<void()> before_record; ///< cuCtxRecordEvent
    std::function<void()> after_record;
    std::function<void()> before_query;  ///< cuEventQuery
    std::function<void()> before_create; ///< cuEventCreate
};
During& during();

/// The device's primary context, retained and made current.
CUcontext use_primary(CUdevice device = 0);
/// cuCtxCreate; the new context is current.
CUcontext create_context(CUdevice device = 0);
/// A green context and its view as a context that can be made current (it is not yet).
struct GreenContext {
    void* handle = nullptr;
    CUcontext context = nullptr;
};
GreenContext create_green_context(CUdevice device = 0);
CUresult destroy_green_context(const GreenContext& green);
/// No context is current afterwards.
void leave_all_contexts();
CUresult destroy_context(CUcontext context);
CUresult reset_primary(CUdevice device = 0);
CUresult release_primary(CUdevice device = 0);
CUstream make_stream(unsigned flags = CU_STREAM_NON_BLOCKING);
CUresult destroy_stream(CUstream stream);

// --- The hooked calls. `last_reason` tells why the calling thread's last one was forwarded (or that it was served).
pool::Reason last_reason() noexcept;
CUresult mem_alloc(CUdeviceptr* out, size_t bytes);
CUresult mem_alloc_pitch(CUdeviceptr* out, size_t* pitch, size_t width, size_t height, unsigned element);
CUresult mem_free(CUdeviceptr ptr);
CUresult mem_free_async(CUdeviceptr ptr, CUstream stream);
CUresult address_range(CUdeviceptr* base, size_t* bytes, CUdeviceptr ptr);
CUresult mem_info(size_t* free, size_t* total);
CUresult synchronize();
CUresult begin_capture(CUstream stream, CUstreamCaptureMode mode);
CUresult end_capture(CUstream stream, CUgraph* graph);

// --- The same, announced to the referee as an owner does it.
/// An allocation that has to succeed; claimed. 0 and a failed check otherwise.
CUdeviceptr take(size_t bytes);
/// Disclaims and frees. 1 if work on the block was unfinished.
int give(CUdeviceptr ptr);
int give_async(CUdeviceptr ptr, CUstream stream);

/// Submits work that writes (and so uses) a range.
void use(CUstream stream, CUdeviceptr ptr, size_t bytes, uint64_t nanoseconds, SimGate* gate = nullptr);

/// Forks; in the child an allocation and a free of `ptr` have to give error 3 (and the pool must not be entered).
bool child_of_fork_gets_not_initialized(CUdeviceptr ptr);

uint64_t counter(const char* name); ///< of counters_json
uint64_t mapped();
SimBalance balance();
/// Everything that the pool took from the driver has been given back, but for what `kept` says is still there.
void check_balance(const SimBalance& kept);

/// Fails the test case with the referee's report if there is one.
void check_referee();

/// A closed gate that opens when the scope ends at the latest.
class Gate {
public:
    Gate() : gate_(sim_gate_create()) {}
    ~Gate() { sim_gate_destroy(gate_); }
    Gate(const Gate&) = delete;
    Gate& operator=(const Gate&) = delete;
    void open() { sim_gate_open(gate_); }
    operator SimGate*() const { return gate_; }

private:
    SimGate* gate_;
};

/// Brackets of the referee as scopes.
class AsProgram {
public:
    AsProgram() { sim_program_begin(); }
    ~AsProgram() { sim_program_end(); }
    AsProgram(const AsProgram&) = delete;
    AsProgram& operator=(const AsProgram&) = delete;
};
class InFree {
public:
    InFree() { sim_note_free_begin(); }
    ~InFree() { sim_note_free_end(); }
    InFree(const InFree&) = delete;
    InFree& operator=(const InFree&) = delete;
};

} // namespace cistern::test
