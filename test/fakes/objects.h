#pragma once
// What the simulated driver keeps books of. Everything here is guarded by State::mutex.

#include "test/fakes/fake_cuda.h"

#include "test/fakes/sim.h"

#include <cstddef>
#include <cstdint>
#include <functional>
#include <map>
#include <memory>
#include <unordered_set>
#include <vector>

namespace fake {

struct Context;
struct Stream;
struct Work;
using WorkPtr = std::shared_ptr<Work>;

/// One piece of work, or a marker: work without effects that stands for "everything of its predecessors".
struct Work {
    uint64_t seq = 0;
    Context* context = nullptr;
    Stream* stream = nullptr; ///< null for markers of a whole context
    std::vector<SimRange> ranges;
    uint64_t duration = 0;
    uint64_t ready_at = 0; ///< latest known end of a predecessor, or the time of submission
    uint64_t finish = 0;   ///< valid once resolved
    unsigned waiting = 0;  ///< predecessors whose end is not known yet
    bool marker = false;
    bool resolved = false;  ///< the end is known (it may lie in the future)
    bool completed = false; ///< effects are visible
    SimGate* gate = nullptr;
    CUhostFn host_function = nullptr;
    void* host_data = nullptr;
    std::function<void()> action; ///< runs at completion, under the lock
    std::vector<WorkPtr> successors;
    size_t flight = SIZE_MAX; ///< index in the list of unfinished works
};

struct Device {
    int ordinal = 0;
    size_t total = 0;
    size_t used = 0;
    std::map<int, int> attributes;
    Context* primary = nullptr;
};

/// Never freed before sim_reset: a handle of a dead context must stay recognisable. A primary keeps its object for good.
struct Context {
    Device* device = nullptr;
    Context* root = nullptr; ///< the primary behind a green context, else this
    bool primary = false;
    bool green = false;
    bool alive = false;
    unsigned retained = 0;
    unsigned flags = 0;
    unsigned version = 3020;
    bool faulted = false;
    uint64_t fault_noticed = 0;
    Stream* legacy = nullptr;
    std::vector<Stream*> streams; ///< legacy and per-thread ones included
    std::vector<Context*> greens;
    std::vector<WorkPtr> orphans; ///< last works of destroyed streams
    WorkPtr barrier;              ///< set by cuCtxWaitEvent; every later work follows it
    unsigned unfinished = 0;
    unsigned waiting_frees = 0;  ///< threads inside a native free (or a reset): nothing may be submitted
    unsigned full_launchers = 0; ///< threads blocked because a stream is full
    unsigned recording = 0;      ///< threads between entry and return of a context record or wait
    unsigned beginning = 0;      ///< threads between entry and return of a begin-capture
    std::unordered_set<Context*> peers;
};

struct Capture;

struct Stream {
    Context* context = nullptr;
    unsigned flags = 0;
    int priority = 0;
    uint64_t id = 0;
    bool builtin = false;
    bool destroyed = false;
    unsigned pending = 0; ///< unfinished works, markers not counted
    WorkPtr tail;
    Capture* capture = nullptr;

    bool blocking() const { return (flags & CU_STREAM_NON_BLOCKING) == 0; }
};

struct Event {
    Context* context = nullptr;
    unsigned flags = 0;
    bool dead = false; ///< its context is gone
    bool recorded = false;
    bool seen_done = false;
    bool late = false;       ///< the last record was a context record outside every announced free
    bool by_context = false; ///< the last record was a context record
    unsigned recording = 0;
    int recorder = 0;     ///< thread that is inside a record
    uint64_t capture = 0; ///< capture that the event was last recorded in
    Stream* captured_stream = nullptr;
    uint64_t time = 0;
    WorkPtr work; ///< null: done
};

struct GraphNode {
    CUgraphNodeType type = CU_GRAPH_NODE_TYPE_KERNEL;
    std::vector<SimRange> ranges;
    uint64_t duration = 0;
    SimGate* gate = nullptr;
    CUhostFn host_function = nullptr;
    void* host_data = nullptr;
    std::function<void()> action;
};

struct Graph {
    std::vector<GraphNode> nodes;
};

struct Capture {
    uint64_t id = 0;
    Context* context = nullptr;
    CUstreamCaptureMode mode = CU_STREAM_CAPTURE_MODE_GLOBAL;
    int thread = 0;
    Stream* origin = nullptr;
    std::map<Stream*, bool> joined; ///< other streams; true: has nodes that nothing in the capture waits for
    bool dead = false;
    Graph* graph = nullptr;
    bool own_graph = true;
};

} // namespace fake

/// Closed until opened once.
struct SimGate {
    bool open = false;
    std::vector<fake::WorkPtr> waiting;
};
