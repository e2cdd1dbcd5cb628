#include "test/fakes/state.h"

#include <algorithm>

namespace fake {

Stream* State::make_stream(Context& c, unsigned flags, int priority, bool builtin) {
    Stream& s = stream_pool.emplace_back();
    s.context = &c;
    s.flags = flags;
    s.priority = priority;
    s.id = next_id++;
    s.builtin = builtin;
    c.streams.push_back(&s);
    if (!builtin) stream_handles.insert(&s);
    return &s;
}

Stream* State::stream(CUstream handle, Context* current, const Thread& t) {
    if (handle == nullptr || handle == CU_STREAM_LEGACY) return current ? current->legacy : nullptr;
    if (handle == CU_STREAM_PER_THREAD) {
        if (!current) return nullptr;
        Stream*& own = per_thread_streams[{t.id, current}];
        if (!own) own = make_stream(*current, 0, 0, true);
        return own;
    }
    if (stream_handles.count(handle) == 0) return nullptr;
    return reinterpret_cast<Stream*>(handle);
}

void State::destroy_stream(Stream& stream) {
    Context& c = *stream.context;
    if (stream.capture) {
        Capture& open = *stream.capture;
        if (open.origin == &stream) {
            end_capture(open);
        } else {
            open.dead = true;
            open.joined.erase(&stream);
        }
        stream.capture = nullptr;
    }
    c.orphans.erase(
        std::remove_if(c.orphans.begin(), c.orphans.end(), [&](const WorkPtr& w) { return timeline.done(w); }),
        c.orphans.end());
    if (!timeline.done(stream.tail)) c.orphans.push_back(stream.tail);
    stream.tail = nullptr;
    stream.destroyed = true;
    stream_handles.erase(&stream);
    c.streams.erase(std::remove(c.streams.begin(), c.streams.end(), &stream), c.streams.end());
}

/// The order of streams: one's own last work; the legacy stream and the blocking ones of a context follow each other.
std::vector<WorkPtr> State::predecessors(const Stream& stream) const {
    std::vector<WorkPtr> before;
    const Context& c = *stream.context;
    if (!timeline.done(stream.tail)) before.push_back(stream.tail);
    if (!timeline.done(c.barrier)) before.push_back(c.barrier);
    if (stream.context->legacy == &stream) {
        for (const Stream* other : c.streams)
            if (other != &stream && other->blocking() && !timeline.done(other->tail)) before.push_back(other->tail);
    } else if (stream.blocking() && !timeline.done(c.legacy->tail)) {
        before.push_back(c.legacy->tail);
    }
    return before;
}

void State::append(Stream& stream, const WorkPtr& work, const std::vector<WorkPtr>& more) {
    work->context = stream.context;
    work->stream = &stream;
    std::vector<WorkPtr> before = predecessors(stream);
    before.insert(before.end(), more.begin(), more.end());
    timeline.submit(work, before);
    stream.tail = timeline.done(work) ? nullptr : work;
}

WorkPtr State::everything(Context& c) {
    std::vector<WorkPtr> before;
    auto gather = [&](const Context& one) {
        for (const Stream* stream : one.streams)
            if (!timeline.done(stream->tail)) before.push_back(stream->tail);
        for (const WorkPtr& orphan : one.orphans)
            if (!timeline.done(orphan)) before.push_back(orphan);
    };
    gather(c);
    for (const Context* green : c.greens) gather(*green);
    if (before.empty()) return nullptr;
    auto marker = std::make_shared<Work>();
    marker->marker = true;
    marker->context = &c;
    timeline.submit(marker, before);
    return marker;
}

void State::admit(Lock& lock, Context& c) {
    while (c.root->waiting_frees > 0) timeline.sleep(lock);
}

void State::admit_setup(Lock& lock, Context& c) {
    while (c.root->waiting_frees > 0 || c.root->full_launchers > 0) timeline.sleep(lock);
}

void State::admit_launch(Lock& lock, Stream& stream) {
    Context& root = *stream.context->root;
    for (;;) {
        admit(lock, root);
        if (stream.pending < config.stream_limit) return;
        WorkPtr oldest;
        for (const WorkPtr& work : timeline.unfinished())
            if (work->stream == &stream && (!oldest || work->seq < oldest->seq)) oldest = work;
        ++root.full_launchers;
        timeline.wait(lock, oldest);
        --root.full_launchers;
        timeline.wake();
    }
}

} // namespace fake
