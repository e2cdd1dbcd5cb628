#pragma once
// The one state of the simulated driver, and the small state of each thread.

#include "test/fakes/config.h"
#include "test/fakes/memory.h"
#include "test/fakes/objects.h"
#include "test/fakes/referee.h"
#include "test/fakes/table.h"
#include "test/fakes/timeline.h"

#include <deque>
#include <mutex>
#include <unordered_map>

namespace fake {

struct Thread {
    int id = 0;
    uint64_t generation = 0; ///< number of the sim_reset that the rest belongs to
    std::vector<Context*> stack;
    CUstreamCaptureMode mode = CU_STREAM_CAPTURE_MODE_GLOBAL;
    int program_depth = 0;
    int free_depth = 0;
    bool in_host_function = false;

    Context* top() const { return stack.empty() ? nullptr : stack.back(); }
};
Thread& this_thread();

struct State {
    std::mutex mutex;
    Config config;
    Timeline timeline;
    Memory memory;
    Referee referee;
    std::deque<Device> devices;
    std::deque<Context> contexts;
    std::deque<Stream> stream_pool;
    std::unordered_set<const void*> context_handles;
    std::unordered_set<const void*> stream_handles;
    std::unordered_set<const void*> event_handles;
    std::unordered_set<const void*> graph_handles;
    std::map<std::pair<int, Context*>, Stream*> per_thread_streams;
    std::vector<std::unique_ptr<Capture>> captures;
    std::deque<std::unique_ptr<SimGate>> gates;
    std::map<std::pair<int, int>, bool> peers;
    uint64_t next_id = 1;
    unsigned long events_alive = 0;

    Device* device(CUdevice ordinal);
    bool can_access(int from, int to) const;

    /// Deletes events and graphs (sim_reset).
    void forget_handles();

    // --- contexts (contexts.cpp)
    Context* context(CUcontext handle); ///< null if it is no handle of a living or dead context
    Context* make_context(Device& device, Context* root);
    /// Waits for its work, then ends streams, captures, events and memory of a context.
    void end_context(Lock& lock, Context& context);

    // --- streams (streams.cpp)
    Stream* make_stream(Context& context, unsigned flags, int priority, bool builtin);
    /// Resolves a handle; built-in ones belong to `current` (null allowed for others). Null: CUDA_ERROR_INVALID_HANDLE.
    Stream* stream(CUstream handle, Context* current, const Thread& t);
    void destroy_stream(Stream& stream);
    std::vector<WorkPtr> predecessors(const Stream& stream) const;
    /// Puts work or a marker at the end of a stream. Does not ask whether the context takes work: see admit.
    void append(Stream& stream, const WorkPtr& work, const std::vector<WorkPtr>& more = {});
    /// A marker for everything submitted to the context so far (a primary: its green contexts' work too).
    WorkPtr everything(Context& context);
    /// Sleeps while another thread's native free keeps the context from taking work.
    void admit(Lock& lock, Context& context);
    /// Sleeps also while another thread's launch is stuck in a full stream.
    void admit_setup(Lock& lock, Context& context);
    /// Sleeps until the stream takes one more launch.
    void admit_launch(Lock& lock, Stream& stream);

    // --- captures (captures.cpp)
    /// A call that is unsafe during captures: 900, and the captures that forbid it die.
    CUresult unsafe_in_capture(const Thread& t, const char* what, bool report);
    /// A call that kills every capture in its context, in all modes.
    CUresult context_wide_call(Context& context, const Thread& t, const char* what, bool report);
    void kill(Capture& capture, const Thread& t, const char* what, bool report);
    void end_capture(Capture& capture);
    Capture* capture(uint64_t id);
    /// For work that goes to a stream. `handled`: it went into a capture (or was refused); else submit it.
    CUresult capture_node(Stream& stream, const GraphNode& node, bool& handled);
};

/// Lives as long as the process.
State& state();

} // namespace fake
