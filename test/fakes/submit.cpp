#include "test/fakes/submit.h"

namespace fake {

CUresult noticed_fault(const State& s, const Context& c) {
    return c.root->faulted && s.timeline.now() >= c.root->fault_noticed ? CUDA_ERROR_ILLEGAL_ADDRESS : CUDA_SUCCESS;
}

CUresult find_stream(const Frame& f, CUstream handle, Stream*& out) {
    Context* current = f.t.top();
    bool builtin = handle == nullptr || handle == CU_STREAM_LEGACY || handle == CU_STREAM_PER_THREAD;
    if (builtin)
        if (CUresult code = f.current(current)) return code;
    out = f.s.stream(handle, current, f.t);
    if (!out) return CUDA_ERROR_INVALID_HANDLE;
    return out->context->alive ? CUDA_SUCCESS : CUDA_ERROR_CONTEXT_IS_DESTROYED;
}

WorkPtr make_work(const GraphNode& node) {
    auto work = std::make_shared<Work>();
    work->ranges = node.ranges;
    work->duration = node.duration;
    work->gate = node.gate;
    work->host_function = node.host_function;
    work->host_data = node.host_data;
    work->action = node.action;
    return work;
}

WorkPtr make_marker() {
    auto marker = std::make_shared<Work>();
    marker->marker = true;
    return marker;
}

static CUresult check_ranges(const Frame& f, const Stream& stream, const GraphNode& node) {
    int device = stream.context->device->ordinal;
    for (const SimRange& range : node.ranges) {
        if (range.bytes == 0 || f.s.memory.accessible(range.ptr, range.bytes, device)) continue;
        f.s.referee.report(Violation::no_access, "[%llx, +%zu) by device %d",
                           static_cast<unsigned long long>(range.ptr), range.bytes, device);
        return CUDA_ERROR_ILLEGAL_ADDRESS;
    }
    return CUDA_SUCCESS;
}

CUresult launch(const Frame& f, CUstream handle, const GraphNode& node, WorkPtr* made) {
    Stream* stream = nullptr;
    if (CUresult code = find_stream(f, handle, stream)) return code;
    if (CUresult code = noticed_fault(f.s, *stream->context)) return code;
    bool handled = false;
    CUresult code = f.s.capture_node(*stream, node, handled);
    if (handled) return code;
    f.s.admit_launch(f.lock, *stream);
    if (stream->destroyed || !stream->context->alive) return CUDA_ERROR_CONTEXT_IS_DESTROYED;
    if (CUresult refused = check_ranges(f, *stream, node)) return refused;
    WorkPtr work = make_work(node);
    f.s.append(*stream, work);
    if (made) *made = work;
    return CUDA_SUCCESS;
}

} // namespace fake
