// Entry points: streams and captures.

#include "test/fakes/submit.h"

#include "test/fakes/lifecycle.h"

using namespace fake;

static CUresult create_stream(Fn fn, CUstream* out, unsigned flags, int priority) {
    return call(
        fn,
        [&](Frame& f) -> CUresult {
            Context* c = nullptr;
            if (CUresult code = f.current(c)) return code;
            if (!out || flags > 1) return CUDA_ERROR_INVALID_VALUE;
            f.s.admit(f.lock, *c);
            if (!c->alive) return CUDA_ERROR_CONTEXT_IS_DESTROYED;
            *out = reinterpret_cast<CUstream>(f.s.make_stream(*c, flags, priority, false));
            return CUDA_SUCCESS;
        },
        out);
}
FAKE(cuStreamCreate, CUstream* out, unsigned flags) { return create_stream(Fn::cuStreamCreate, out, flags, 0); }
FAKE(cuStreamCreateWithPriority, CUstream* out, unsigned flags, int priority) {
    return create_stream(Fn::cuStreamCreateWithPriority, out, flags, priority);
}
FAKE(cuGreenCtxStreamCreate, CUstream* out, void* green, unsigned flags, int priority) {
    return call(
        Fn::cuGreenCtxStreamCreate,
        [&](Frame& f) -> CUresult {
            Context* c = f.s.context(static_cast<CUcontext>(green));
            if (!c || !c->green) return CUDA_ERROR_INVALID_CONTEXT;
            if (!out || flags != CU_STREAM_NON_BLOCKING) return CUDA_ERROR_INVALID_VALUE;
            *out = reinterpret_cast<CUstream>(f.s.make_stream(*c, flags, priority, false));
            return CUDA_SUCCESS;
        },
        out);
}

static CUresult destroy_stream(Fn fn, CUstream handle) {
    return call(fn, [&](Frame& f) -> CUresult {
        Stream* stream = nullptr;
        if (CUresult code = find_stream(f, handle, stream)) return code;
        if (stream->builtin) return CUDA_ERROR_INVALID_HANDLE;
        f.s.destroy_stream(*stream);
        return CUDA_SUCCESS;
    });
}
FAKE(cuStreamDestroy, CUstream stream) { return destroy_stream(Fn::cuStreamDestroy, stream); }
FAKE(cuStreamDestroy_v2, CUstream stream) { return destroy_stream(Fn::cuStreamDestroy_v2, stream); }

/// Asking after a stream that captures kills the capture; after the legacy stream too, if a blocking stream captures.
static CUresult may_ask(const Frame& f, Stream& stream, const char* what) {
    if (stream.context->root->faulted) return CUDA_ERROR_ILLEGAL_ADDRESS;
    if (stream.capture) {
        f.s.kill(*stream.capture, f.t, what, false);
        return CUDA_ERROR_STREAM_CAPTURE_UNSUPPORTED;
    }
    if (stream.context->legacy != &stream || f.s.captures.empty()) return CUDA_SUCCESS;
    for (const Stream* other : stream.context->streams) {
        if (!other->blocking() || !other->capture) continue;
        f.s.kill(*other->capture, f.t, what, false);
        return CUDA_ERROR_STREAM_CAPTURE_IMPLICIT;
    }
    return CUDA_SUCCESS;
}

/// Everything that a stream has to finish: the legacy stream waits for the blocking ones before it.
static WorkPtr everything_in(State& s, Stream& stream) {
    if (stream.context->legacy != &stream) return stream.tail;
    WorkPtr marker = make_marker();
    marker->context = stream.context;
    s.timeline.submit(marker, s.predecessors(stream));
    return marker;
}

static CUresult synchronize(Fn fn, CUstream handle) {
    return call(fn, [&](Frame& f) -> CUresult {
        Stream* stream = nullptr;
        if (CUresult code = find_stream(f, handle, stream)) return code;
        if (CUresult code = may_ask(f, *stream, "cuStreamSynchronize")) return code;
        Context* c = stream->context;
        f.s.timeline.wait(f.lock, everything_in(f.s, *stream));
        return c->root->faulted ? CUDA_ERROR_ILLEGAL_ADDRESS : CUDA_SUCCESS;
    });
}
FAKE(cuStreamSynchronize, CUstream stream) { return synchronize(Fn::cuStreamSynchronize, stream); }
FAKE(cuStreamSynchronize_ptsz, CUstream stream) {
    return synchronize(Fn::cuStreamSynchronize_ptsz, per_thread(stream));
}

static CUresult query(Fn fn, CUstream handle) {
    return call(fn, [&](Frame& f) -> CUresult {
        Stream* stream = nullptr;
        if (CUresult code = find_stream(f, handle, stream)) return code;
        if (CUresult code = may_ask(f, *stream, "cuStreamQuery")) return code;
        return f.s.timeline.done(everything_in(f.s, *stream)) ? CUDA_SUCCESS : CUDA_ERROR_NOT_READY;
    });
}
FAKE(cuStreamQuery, CUstream stream) { return query(Fn::cuStreamQuery, stream); }
FAKE(cuStreamQuery_ptsz, CUstream stream) { return query(Fn::cuStreamQuery_ptsz, per_thread(stream)); }

/// An event of a capture draws a stream into it, or ties a branch back in.
static CUresult wait_for_captured(const Frame& f, Stream& stream, const Event& event) {
    Capture* open = f.s.capture(event.capture);
    if (!open) return CUDA_ERROR_INVALID_VALUE;
    if (open->dead) return CUDA_ERROR_STREAM_CAPTURE_INVALIDATED;
    if (stream.capture && stream.capture != open) {
        open->dead = stream.capture->dead = true;
        return CUDA_ERROR_STREAM_CAPTURE_MERGE;
    }
    if (!stream.capture) {
        if (stream.context->legacy == &stream) {
            open->dead = true;
            return CUDA_ERROR_STREAM_CAPTURE_UNSUPPORTED;
        }
        stream.capture = open;
        open->joined[&stream] = true;
        return CUDA_SUCCESS;
    }
    auto branch = open->joined.find(event.captured_stream);
    if (branch != open->joined.end() && event.captured_stream != &stream) branch->second = false;
    auto own = open->joined.find(&stream);
    if (own != open->joined.end()) own->second = true;
    return CUDA_SUCCESS;
}

static CUresult wait_event(Fn fn, CUstream handle, CUevent event_handle) {
    return call(fn, [&](Frame& f) -> CUresult {
        Stream* stream = nullptr;
        if (CUresult code = find_stream(f, handle, stream)) return code;
        if (f.s.event_handles.count(event_handle) == 0) return CUDA_ERROR_INVALID_HANDLE;
        Event& event = *reinterpret_cast<Event*>(event_handle);
        if (event.dead) return CUDA_ERROR_CONTEXT_IS_DESTROYED;
        if (stream->context->root->faulted) return CUDA_ERROR_ILLEGAL_ADDRESS;
        if (event.capture) return wait_for_captured(f, *stream, event);
        if (stream->capture) {
            if (!event.recorded) return CUDA_SUCCESS;
            stream->capture->dead = true;
            return CUDA_ERROR_STREAM_CAPTURE_ISOLATION;
        }
        WorkPtr target = event.work;
        f.s.admit(f.lock, *stream->context);
        if (stream->destroyed) return CUDA_ERROR_CONTEXT_IS_DESTROYED;
        if (f.s.timeline.done(target)) return CUDA_SUCCESS;
        f.s.append(*stream, make_marker(), {target});
        return CUDA_SUCCESS;
    });
}
FAKE(cuStreamWaitEvent, CUstream stream, CUevent event, unsigned) {
    return wait_event(Fn::cuStreamWaitEvent, stream, event);
}
FAKE(cuStreamWaitEvent_ptsz, CUstream stream, CUevent event, unsigned) {
    return wait_event(Fn::cuStreamWaitEvent_ptsz, per_thread(stream), event);
}

/// Calls that read one thing of a stream.
template <class T, class Get> static CUresult read_stream(Fn fn, CUstream handle, T* out, Get&& get) {
    return call(
        fn,
        [&](Frame& f) -> CUresult {
            Stream* stream = nullptr;
            if (CUresult code = find_stream(f, handle, stream)) return code;
            if (!out) return CUDA_ERROR_INVALID_VALUE;
            *out = get(*stream);
            return CUDA_SUCCESS;
        },
        out);
}
#define READ_PAIR(name, type, value)                                                                                   \
    FAKE(name, CUstream stream, type* out) {                                                                           \
        return read_stream(Fn::name, stream, out, [](Stream& s) -> type { return value; });                            \
    }                                                                                                                  \
    FAKE(name##_ptsz, CUstream stream, type* out) {                                                                    \
        return read_stream(Fn::name##_ptsz, per_thread(stream), out, [](Stream& s) -> type { return value; });         \
    }
READ_PAIR(cuStreamGetCtx, CUcontext, reinterpret_cast<CUcontext>(s.context))
READ_PAIR(cuStreamGetId, unsigned long long, s.id)
READ_PAIR(cuStreamGetFlags, unsigned, s.flags)
READ_PAIR(cuStreamGetPriority, int, s.priority)
READ_PAIR(cuStreamGetDevice, CUdevice, s.context->device->ordinal)

static CUstreamCaptureStatus capture_status(const Stream& s) {
    if (!s.capture) return CU_STREAM_CAPTURE_STATUS_NONE;
    return s.capture->dead ? CU_STREAM_CAPTURE_STATUS_INVALIDATED : CU_STREAM_CAPTURE_STATUS_ACTIVE;
}
READ_PAIR(cuStreamIsCapturing, CUstreamCaptureStatus, capture_status(s))

static CUresult capture_info(Fn fn, CUstream handle, CUstreamCaptureStatus* status, cuuint64_t* id, CUgraph* graph,
                             size_t* dependencies) {
    return call(
        fn,
        [&](Frame& f) -> CUresult {
            Stream* stream = nullptr;
            if (CUresult code = find_stream(f, handle, stream)) return code;
            if (!status) return CUDA_ERROR_INVALID_VALUE;
            *status = capture_status(*stream);
            if (*status != CU_STREAM_CAPTURE_STATUS_ACTIVE) return CUDA_SUCCESS;
            if (id) *id = stream->capture->id;
            if (graph) *graph = reinterpret_cast<CUgraph>(stream->capture->graph);
            if (dependencies) *dependencies = 0;
            return CUDA_SUCCESS;
        },
        status);
}
FAKE(cuStreamGetCaptureInfo, CUstream s, CUstreamCaptureStatus* status, cuuint64_t* id) {
    return capture_info(Fn::cuStreamGetCaptureInfo, s, status, id, nullptr, nullptr);
}
FAKE(cuStreamGetCaptureInfo_ptsz, CUstream s, CUstreamCaptureStatus* status, cuuint64_t* id) {
    return capture_info(Fn::cuStreamGetCaptureInfo_ptsz, per_thread(s), status, id, nullptr, nullptr);
}
FAKE(cuStreamGetCaptureInfo_v2, CUstream s, CUstreamCaptureStatus* status, cuuint64_t* id, CUgraph* graph,
     const CUgraphNode**, size_t* n) {
    return capture_info(Fn::cuStreamGetCaptureInfo_v2, s, status, id, graph, n);
}
FAKE(cuStreamGetCaptureInfo_v2_ptsz, CUstream s, CUstreamCaptureStatus* status, cuuint64_t* id, CUgraph* graph,
     const CUgraphNode**, size_t* n) {
    return capture_info(Fn::cuStreamGetCaptureInfo_v2_ptsz, per_thread(s), status, id, graph, n);
}
FAKE(cuStreamGetCaptureInfo_v3, CUstream s, CUstreamCaptureStatus* status, cuuint64_t* id, CUgraph* graph,
     const CUgraphNode**, const void**, size_t* n) {
    return capture_info(Fn::cuStreamGetCaptureInfo_v3, s, status, id, graph, n);
}
FAKE(cuStreamGetCaptureInfo_v3_ptsz, CUstream s, CUstreamCaptureStatus* status, cuuint64_t* id, CUgraph* graph,
     const CUgraphNode**, const void**, size_t* n) {
    return capture_info(Fn::cuStreamGetCaptureInfo_v3_ptsz, per_thread(s), status, id, graph, n);
}

static CUresult open_capture(const Frame& f, Stream& stream, CUstreamCaptureMode mode, Graph* into) {
    auto made = std::make_unique<Capture>();
    made->id = f.s.next_id++;
    made->context = stream.context;
    made->mode = mode;
    made->thread = f.t.id;
    made->origin = &stream;
    made->own_graph = into == nullptr;
    made->graph = into ? into : new Graph;
    if (!into) f.s.graph_handles.insert(made->graph);
    stream.capture = made.get();
    f.s.captures.push_back(std::move(made));
    return CUDA_SUCCESS;
}

static CUresult begin_capture(Fn fn, CUstream handle, CUstreamCaptureMode mode, Graph* into = nullptr) {
    return call(fn, [&](Frame& f) -> CUresult {
        Stream* stream = nullptr;
        if (CUresult code = find_stream(f, handle, stream)) return code;
        if (mode < CU_STREAM_CAPTURE_MODE_GLOBAL || mode > CU_STREAM_CAPTURE_MODE_RELAXED)
            return CUDA_ERROR_INVALID_VALUE;
        if (into && f.s.graph_handles.count(into) == 0) return CUDA_ERROR_INVALID_VALUE;
        if (stream->context->legacy == stream) return CUDA_ERROR_STREAM_CAPTURE_UNSUPPORTED;
        if (stream->capture) return CUDA_ERROR_ILLEGAL_STATE;
        Context& root = *stream->context->root;
        if (root.faulted) return CUDA_ERROR_ILLEGAL_ADDRESS;
        if (root.recording > 0) f.s.referee.report(Violation::record_races_capture, "a capture begins during a record");
        ++root.beginning;
        unsigned us = f.s.config.race_window_us;
        f.lock.unlock();
        lifecycle::race_window(us);
        f.lock.lock();
        f.s.admit_setup(f.lock, root);
        --root.beginning;
        if (stream->destroyed || !root.alive) return CUDA_ERROR_CONTEXT_IS_DESTROYED;
        return stream->capture ? CUDA_ERROR_ILLEGAL_STATE : open_capture(f, *stream, mode, into);
    });
}
FAKE(cuStreamBeginCapture, CUstream s) {
    return begin_capture(Fn::cuStreamBeginCapture, s, CU_STREAM_CAPTURE_MODE_GLOBAL);
}
FAKE(cuStreamBeginCapture_ptsz, CUstream s) {
    return begin_capture(Fn::cuStreamBeginCapture_ptsz, per_thread(s), CU_STREAM_CAPTURE_MODE_GLOBAL);
}
FAKE(cuStreamBeginCapture_v2, CUstream s, CUstreamCaptureMode mode) {
    return begin_capture(Fn::cuStreamBeginCapture_v2, s, mode);
}
FAKE(cuStreamBeginCapture_v2_ptsz, CUstream s, CUstreamCaptureMode mode) {
    return begin_capture(Fn::cuStreamBeginCapture_v2_ptsz, per_thread(s), mode);
}
FAKE(cuStreamBeginCaptureToGraph, CUstream s, CUgraph graph, const CUgraphNode*, const void*, size_t,
     CUstreamCaptureMode mode) {
    return begin_capture(Fn::cuStreamBeginCaptureToGraph, s, mode, reinterpret_cast<Graph*>(graph));
}
FAKE(cuStreamBeginCaptureToGraph_ptsz, CUstream s, CUgraph graph, const CUgraphNode*, const void*, size_t,
     CUstreamCaptureMode mode) {
    return begin_capture(Fn::cuStreamBeginCaptureToGraph_ptsz, per_thread(s), mode, reinterpret_cast<Graph*>(graph));
}

static CUresult end_capture(Fn fn, CUstream handle, CUgraph* out) {
    return call(fn, [&](Frame& f) -> CUresult {
        Stream* stream = nullptr;
        if (CUresult code = find_stream(f, handle, stream)) return code;
        if (!out) return CUDA_ERROR_INVALID_VALUE;
        *out = nullptr;
        Capture* open = stream->capture;
        if (!open) return CUDA_ERROR_ILLEGAL_STATE;
        if (open->origin != stream) return CUDA_ERROR_STREAM_CAPTURE_UNMATCHED;
        if (open->mode != CU_STREAM_CAPTURE_MODE_RELAXED && open->thread != f.t.id)
            return CUDA_ERROR_STREAM_CAPTURE_WRONG_THREAD;
        bool unjoined = false;
        for (const auto& [other, loose] : open->joined) unjoined = unjoined || loose;
        CUresult code = open->dead ? CUDA_ERROR_STREAM_CAPTURE_INVALIDATED
                        : unjoined ? CUDA_ERROR_STREAM_CAPTURE_UNJOINED
                                   : CUDA_SUCCESS;
        Graph* graph = open->graph;
        if (code == CUDA_SUCCESS) open->own_graph = false; // now the program's
        f.s.end_capture(*open);
        if (code == CUDA_SUCCESS) *out = reinterpret_cast<CUgraph>(graph);
        return code;
    });
}
FAKE(cuStreamEndCapture, CUstream s, CUgraph* out) { return end_capture(Fn::cuStreamEndCapture, s, out); }
FAKE(cuStreamEndCapture_ptsz, CUstream s, CUgraph* out) {
    return end_capture(Fn::cuStreamEndCapture_ptsz, per_thread(s), out);
}

FAKE(cuThreadExchangeStreamCaptureMode, CUstreamCaptureMode* mode) {
    return call(Fn::cuThreadExchangeStreamCaptureMode, [&](Frame& f) -> CUresult {
        if (!mode || *mode < CU_STREAM_CAPTURE_MODE_GLOBAL || *mode > CU_STREAM_CAPTURE_MODE_RELAXED)
            return CUDA_ERROR_INVALID_VALUE;
        std::swap(*mode, f.t.mode);
        return CUDA_SUCCESS;
    });
}
