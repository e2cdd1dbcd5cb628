#include "test/fakes/state.h"

#include <algorithm>

namespace fake {

Device* State::device(CUdevice ordinal) {
    return ordinal >= 0 && static_cast<size_t>(ordinal) < devices.size() ? &devices[static_cast<size_t>(ordinal)]
                                                                         : nullptr;
}

bool State::can_access(int from, int to) const {
    if (from == to) return true;
    auto found = peers.find({from, to});
    return found != peers.end() && found->second;
}

void State::forget_handles() {
    for (const void* handle : event_handles) delete static_cast<const Event*>(handle);
    for (const void* handle : graph_handles) delete static_cast<const Graph*>(handle);
    event_handles.clear();
    graph_handles.clear();
}

Context* State::context(CUcontext handle) {
    if (context_handles.count(handle) == 0) return nullptr;
    return reinterpret_cast<Context*>(handle);
}

Context* State::make_context(Device& device, Context* root) {
    Context& c = contexts.emplace_back();
    c.device = &device;
    c.root = root ? root : &c;
    c.green = root != nullptr;
    c.alive = true;
    context_handles.insert(&c);
    c.legacy = make_stream(c, 0, 0, true);
    return &c;
}

void State::end_context(Lock& lock, Context& c) {
    WorkPtr all = everything(c);
    ++c.waiting_frees;
    timeline.wait(lock, all);
    --c.waiting_frees;
    for (size_t i = captures.size(); i-- > 0;)
        if (captures[i]->context == &c) end_capture(*captures[i]);
    for (Context* green : c.greens) green->alive = false;
    for (Stream* stream : c.streams) {
        stream->destroyed = true;
        stream_handles.erase(stream);
    }
    for (auto it = per_thread_streams.begin(); it != per_thread_streams.end();)
        it = it->first.second == &c ? per_thread_streams.erase(it) : std::next(it);
    for (const void* handle : event_handles) {
        // The handle stays known: the driver tells dead events from unknown ones.
        Event* event = const_cast<Event*>(static_cast<const Event*>(handle));
        if (event->context == &c) event->dead = true;
    }
    memory.free_all(c);
    c.streams.clear();
    c.orphans.clear();
    c.greens.clear();
    c.barrier = nullptr;
    c.peers.clear();
    c.faulted = false;
    c.alive = false;
    c.legacy = make_stream(c, 0, 0, true);
    timeline.wake();
}

} // namespace fake
