// Entry points: events, context events.

#include "test/fakes/submit.h"

#include "test/fakes/lifecycle.h"

#include <cstdlib>

using namespace fake;

static Event* find_event(const Frame& f, CUevent handle) {
    if (f.s.event_handles.count(handle) == 0) return nullptr;
    return reinterpret_cast<Event*>(handle);
}

/// Unknown: 400; of a dead context: 709.
static CUresult living_event(const Frame& f, CUevent handle, Event*& out) {
    out = find_event(f, handle);
    if (!out) return CUDA_ERROR_INVALID_HANDLE;
    return out->dead ? CUDA_ERROR_CONTEXT_IS_DESTROYED : CUDA_SUCCESS;
}

FAKE(cuEventCreate, CUevent* out, unsigned flags) {
    return call(
        Fn::cuEventCreate,
        [&](Frame& f) -> CUresult {
            Context* c = nullptr;
            if (CUresult code = f.current(c)) return code;
            if (!out) return CUDA_ERROR_INVALID_VALUE;
            f.s.admit_setup(f.lock, *c);
            if (!c->alive) return CUDA_ERROR_CONTEXT_IS_DESTROYED;
            Event* made = new Event;
            made->context = c;
            made->flags = flags;
            f.s.event_handles.insert(made);
            ++f.s.events_alive;
            *out = reinterpret_cast<CUevent>(made);
            return CUDA_SUCCESS;
        },
        out);
}

static CUresult destroy_event(Fn fn, CUevent handle) {
    return call(fn, [&](Frame& f) -> CUresult {
        Event* event = nullptr;
        if (CUresult code = living_event(f, handle, event)) return code;
        f.s.event_handles.erase(event);
        --f.s.events_alive;
        delete event;
        return CUDA_SUCCESS;
    });
}
FAKE(cuEventDestroy, CUevent event) { return destroy_event(Fn::cuEventDestroy, event); }
FAKE(cuEventDestroy_v2, CUevent event) { return destroy_event(Fn::cuEventDestroy_v2, event); }

static void set_record(Event& event, const WorkPtr& work, const Frame& f, bool by_context) {
    event.work = f.s.timeline.done(work) ? nullptr : work;
    event.recorded = true;
    event.seen_done = false;
    event.by_context = by_context;
    event.late = by_context && f.t.free_depth == 0;
    event.capture = 0;
    event.captured_stream = nullptr;
    event.time = f.s.timeline.now();
}

static CUresult record_in_stream(Fn fn, CUevent handle, CUstream stream_handle) {
    return call(fn, [&](Frame& f) -> CUresult {
        Event* event = nullptr;
        Stream* stream = nullptr;
        if (CUresult code = living_event(f, handle, event)) return code;
        if (CUresult code = find_stream(f, stream_handle, stream)) return code;
        if (stream->context->root->faulted) return CUDA_ERROR_ILLEGAL_ADDRESS;
        if (event->context->root != stream->context->root) return CUDA_ERROR_INVALID_HANDLE;
        if (Capture* open = stream->capture) {
            if (open->dead) return CUDA_ERROR_STREAM_CAPTURE_INVALIDATED;
            event->capture = open->id;
            event->captured_stream = stream;
            event->recorded = true;
            return CUDA_SUCCESS;
        }
        bool handled = false; // a blocking stream that captures forbids the legacy stream
        if (stream->context->legacy == stream && !f.s.captures.empty())
            for (const Stream* other : stream->context->streams)
                if (other != stream && other->blocking() && other->capture)
                    return f.s.capture_node(*stream, {}, handled);
        f.s.admit(f.lock, *stream->context);
        if (stream->destroyed || event->dead) return CUDA_ERROR_CONTEXT_IS_DESTROYED;
        WorkPtr marker = make_marker();
        f.s.append(*stream, marker);
        set_record(*event, marker, f, false);
        return CUDA_SUCCESS;
    });
}
FAKE(cuEventRecord, CUevent event, CUstream stream) { return record_in_stream(Fn::cuEventRecord, event, stream); }
FAKE(cuEventRecord_ptsz, CUevent event, CUstream stream) {
    return record_in_stream(Fn::cuEventRecord_ptsz, event, per_thread(stream));
}
FAKE(cuEventRecordWithFlags, CUevent event, CUstream stream, unsigned) {
    return record_in_stream(Fn::cuEventRecordWithFlags, event, stream);
}
FAKE(cuEventRecordWithFlags_ptsz, CUevent event, CUstream stream, unsigned) {
    return record_in_stream(Fn::cuEventRecordWithFlags_ptsz, event, per_thread(stream));
}

/// Queries and waits share what forbids them.
static CUresult may_ask(const Frame& f, CUevent handle, Event*& event, const char* what) {
    event = find_event(f, handle);
    if (!event) return CUDA_ERROR_INVALID_HANDLE;
    if (event->capture) {
        if (Capture* open = f.s.capture(event->capture)) f.s.kill(*open, f.t, what, true);
        return CUDA_ERROR_CAPTURED_EVENT;
    }
    if (CUresult code = f.s.unsafe_in_capture(f.t, what, true)) return code;
    return event->context->root->faulted ? CUDA_ERROR_ILLEGAL_ADDRESS : CUDA_SUCCESS;
}

FAKE(cuEventQuery, CUevent handle) {
    return call(Fn::cuEventQuery, [&](Frame& f) -> CUresult {
        Event* event = find_event(f, handle);
        if (event && event->dead) {
            f.s.referee.report(Violation::query_dead_event, "thread %d", f.t.id);
            if (f.s.config.crash) std::abort();
            return CUDA_ERROR_CONTEXT_IS_DESTROYED;
        }
        if (CUresult code = may_ask(f, handle, event, "cuEventQuery")) return code;
        f.s.referee.querying(*event, f.t);
        if (!f.s.timeline.done(event->work)) return CUDA_ERROR_NOT_READY;
        event->work = nullptr;
        event->seen_done = true;
        return CUDA_SUCCESS;
    });
}

FAKE(cuEventSynchronize, CUevent handle) {
    return call(Fn::cuEventSynchronize, [&](Frame& f) -> CUresult {
        Event* event = find_event(f, handle);
        if (event && event->dead) return CUDA_ERROR_CONTEXT_IS_DESTROYED;
        if (CUresult code = may_ask(f, handle, event, "cuEventSynchronize")) return code;
        f.s.referee.waiting(*event, f.t, f.t.top());
        WorkPtr work = event->work;
        Context* c = event->context;
        f.s.timeline.wait(f.lock, work);
        return c->root->faulted ? CUDA_ERROR_ILLEGAL_ADDRESS : CUDA_SUCCESS;
    });
}

static CUresult elapsed(Fn fn, float* out, CUevent from, CUevent to) {
    return call(
        fn,
        [&](Frame& f) -> CUresult {
            Event* a = nullptr;
            Event* b = nullptr;
            if (CUresult code = living_event(f, from, a)) return code;
            if (CUresult code = living_event(f, to, b)) return code;
            if (!out) return CUDA_ERROR_INVALID_VALUE;
            if (!a->recorded || !b->recorded) return CUDA_ERROR_INVALID_HANDLE;
            if (!f.s.timeline.done(a->work) || !f.s.timeline.done(b->work)) return CUDA_ERROR_NOT_READY;
            auto end = [](const Event& e) { return e.work ? e.work->finish : e.time; };
            *out = static_cast<float>(static_cast<double>(end(*b)) - static_cast<double>(end(*a))) / 1e6f;
            return CUDA_SUCCESS;
        },
        out);
}
FAKE(cuEventElapsedTime, float* out, CUevent from, CUevent to) {
    return elapsed(Fn::cuEventElapsedTime, out, from, to);
}
FAKE(cuEventElapsedTime_v2, float* out, CUevent from, CUevent to) {
    return elapsed(Fn::cuEventElapsedTime_v2, out, from, to);
}

// --- Context events

namespace {

/// Both context calls last from here to their return; a begin-capture in the same context must not overlap.
///   thread 1   record: enter ---- window ---- take effect, return
///   thread 2          begin: enter ---- window ---- take effect, return      overlap: the real driver crashes
class ContextCall {
public:
    ContextCall(const Frame& f, Context& c, Event* event) : f_(f), c_(*c.root), event_(event) {
        if (c_.beginning > 0) f.s.referee.report(Violation::record_races_capture, "record while a capture begins");
        ++c_.recording;
        if (event_) {
            ++event_->recording;
            event_->recorder = f.t.id;
        }
        unsigned us = f.s.config.race_window_us;
        f.lock.unlock();
        lifecycle::race_window(us);
        f.lock.lock();
    }
    ~ContextCall() {
        --c_.recording;
        // The event may have been destroyed meanwhile: that is the caller's own race.
        if (event_ && f_.s.event_handles.count(event_)) --event_->recording;
    }
    ContextCall(const ContextCall&) = delete;
    ContextCall& operator=(const ContextCall&) = delete;

private:
    const Frame& f_;
    Context& c_;
    Event* event_;
};

CUresult context_argument(const Frame& f, CUcontext given, Context*& c) {
    c = f.s.context(given);
    if (!c) return CUDA_ERROR_INVALID_CONTEXT;
    if (!c->alive) return CUDA_ERROR_CONTEXT_IS_DESTROYED;
    return c->root->faulted ? CUDA_ERROR_ILLEGAL_ADDRESS : CUDA_SUCCESS;
}

CUresult record_context(Fn fn, CUcontext given, CUevent handle) {
    return call(fn, [&](Frame& f) -> CUresult {
        Context* c = nullptr;
        Event* event = nullptr;
        if (CUresult code = living_event(f, handle, event)) return code;
        if (CUresult code = context_argument(f, given, c)) return code;
        if (event->context != c) return CUDA_ERROR_INVALID_HANDLE;
        if (f.t.program_depth == 0) f.s.referee.recording(*event);
        ContextCall lasting(f, *c, event);
        if (event->dead || !c->alive) return CUDA_ERROR_CONTEXT_IS_DESTROYED;
        if (CUresult code = f.s.context_wide_call(*c, f.t, "cuCtxRecordEvent", true)) return code;
        f.s.admit(f.lock, *c);
        if (event->dead || !c->alive) return CUDA_ERROR_CONTEXT_IS_DESTROYED;
        set_record(*event, f.s.everything(*c), f, true);
        return CUDA_SUCCESS;
    });
}

CUresult wait_in_context(Fn fn, CUcontext given, CUevent handle) {
    return call(fn, [&](Frame& f) -> CUresult {
        Context* c = nullptr;
        Event* event = nullptr;
        if (CUresult code = living_event(f, handle, event)) return code;
        if (CUresult code = context_argument(f, given, c)) return code;
        WorkPtr target = event->work;
        ContextCall lasting(f, *c, nullptr);
        if (CUresult code = f.s.context_wide_call(*c, f.t, "cuCtxWaitEvent", true)) return code;
        f.s.admit_setup(f.lock, *c);
        if (!c->alive) return CUDA_ERROR_CONTEXT_IS_DESTROYED;
        if (f.s.timeline.done(target)) return CUDA_SUCCESS;
        WorkPtr marker = make_marker();
        marker->context = c;
        f.s.timeline.submit(marker, {target, c->barrier});
        c->barrier = marker;
        return CUDA_SUCCESS;
    });
}

} // namespace

FAKE(cuCtxRecordEvent, CUcontext c, CUevent event) { return record_context(Fn::cuCtxRecordEvent, c, event); }
FAKE(cuCtxWaitEvent, CUcontext c, CUevent event) { return wait_in_context(Fn::cuCtxWaitEvent, c, event); }
FAKE(cuGreenCtxRecordEvent, void* c, CUevent event) {
    return record_context(Fn::cuGreenCtxRecordEvent, static_cast<CUcontext>(c), event);
}
FAKE(cuGreenCtxWaitEvent, void* c, CUevent event) {
    return wait_in_context(Fn::cuGreenCtxWaitEvent, static_cast<CUcontext>(c), event);
}
