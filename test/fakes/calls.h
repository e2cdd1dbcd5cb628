#pragma once
// The frame round every entry point: counting, logging, injected failures, the states in which the driver refuses everything.

#include "test/fakes/state.h"

#include <cstring>

namespace fake {

/// What every entry point checks before its own work. Success: go on.
CUresult before_call(Fn fn);
void after_call(Fn fn, CUresult result);
bool poison_outputs();

template <class T> void poison(T* out) {
    if (out) std::memset(static_cast<void*>(out), 0xA5, sizeof(T));
}

/// What a body gets. `lock` holds State::mutex; a body that sleeps hands it to the timeline.
struct Frame {
    State& s;
    Lock& lock;
    Thread& t;

    /// The calling thread's current context, or why there is none that may be used.
    CUresult current(Context*& out) const;
};

template <class Body, class... Outs> CUresult call(Fn fn, Body&& body, Outs*... outs) {
    CUresult result = before_call(fn);
    if (result == CUDA_SUCCESS) {
        State& s = state();
        Lock lock(s.mutex);
        if (s.config.auto_advance) s.timeline.advance_to(s.timeline.now() + s.config.auto_advance);
        Frame frame{s, lock, this_thread()};
        result = body(frame);
    }
    if (result != CUDA_SUCCESS && poison_outputs()) (poison(outs), ...);
    after_call(fn, result);
    return result;
}

/// The per-thread variants of an entry point mean the per-thread stream where the others mean the legacy one.
inline CUstream per_thread(CUstream stream) { return stream ? stream : CU_STREAM_PER_THREAD; }

} // namespace fake
