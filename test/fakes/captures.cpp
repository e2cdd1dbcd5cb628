#include "test/fakes/state.h"

#include <algorithm>

namespace fake {

void State::kill(Capture& c, const Thread& t, const char* what, bool report) {
    if (!c.dead && report && t.program_depth == 0)
        referee.report(Violation::capture_killed, "%s by thread %d, capture of thread %d", what, t.id, c.thread);
    c.dead = true;
}

CUresult State::unsafe_in_capture(const Thread& t, const char* what, bool report) {
    CUresult result = CUDA_SUCCESS;
    if (t.mode == CU_STREAM_CAPTURE_MODE_RELAXED) return result;
    for (const std::unique_ptr<Capture>& one : captures) {
        bool own = one->thread == t.id;
        bool forbids = own ? one->mode != CU_STREAM_CAPTURE_MODE_RELAXED
                           : t.mode == CU_STREAM_CAPTURE_MODE_GLOBAL && one->mode == CU_STREAM_CAPTURE_MODE_GLOBAL;
        if (!forbids) continue;
        kill(*one, t, what, report);
        result = CUDA_ERROR_STREAM_CAPTURE_UNSUPPORTED;
    }
    return result;
}

CUresult State::context_wide_call(Context& c, const Thread& t, const char* what, bool report) {
    CUresult result = CUDA_SUCCESS;
    for (const std::unique_ptr<Capture>& one : captures) {
        bool within = one->context == &c || (one->context->root == &c);
        if (!within) continue;
        kill(*one, t, what, report);
        result = CUDA_ERROR_STREAM_CAPTURE_UNSUPPORTED;
    }
    return result;
}

Capture* State::capture(uint64_t id) {
    for (const std::unique_ptr<Capture>& one : captures)
        if (one->id == id) return one.get();
    return nullptr;
}

/// Takes the capture off the books; an unfinished graph of its own goes with it.
void State::end_capture(Capture& c) {
    c.origin->capture = nullptr;
    for (auto& [stream, open] : c.joined) stream->capture = nullptr;
    if (c.own_graph && c.graph) {
        graph_handles.erase(c.graph);
        delete c.graph;
    }
    captures.erase(std::find_if(captures.begin(), captures.end(), [&](const auto& one) { return one.get() == &c; }));
}

CUresult State::capture_node(Stream& stream, const GraphNode& node, bool& handled) {
    handled = true;
    if (Capture* open = stream.capture) {
        if (open->dead) return CUDA_ERROR_STREAM_CAPTURE_INVALIDATED;
        open->graph->nodes.push_back(node);
        auto joined = open->joined.find(&stream);
        if (joined != open->joined.end()) joined->second = true;
        return CUDA_SUCCESS;
    }
    // The legacy stream would have to wait for a blocking stream that is not running anything.
    if (stream.context->legacy == &stream && !captures.empty()) {
        for (const Stream* other : stream.context->streams) {
            if (other == &stream || !other->blocking() || !other->capture) continue;
            other->capture->dead = true;
            return CUDA_ERROR_STREAM_CAPTURE_IMPLICIT;
        }
    }
    handled = false;
    return CUDA_SUCCESS;
}

} // namespace fake
