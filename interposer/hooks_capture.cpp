// Stream captures and the program's own synchronise. While a capture is open the pool must not record events in its
// context, so beginnings are bracketed and every end is reported.

#include "interposer/hooks.h"
#include "interposer/lifecycle.h"

namespace cistern::interposer {
namespace {

CUstream per_thread(CUstream stream) noexcept { return stream == nullptr ? CU_STREAM_PER_THREAD : stream; }

/// A call that comes back to a hook through a tool's shim was judged already, and so was one that the pool makes.
bool passes_by(Slot slot) noexcept { return nested(slot) || !pool_opened(); }

/// Opens the pool: a capture that began before the first allocation counts as well.
template <class Begin> CUresult begin_capture(Slot slot, CUstream stream, Begin&& begin) {
    if (nested(slot) || !pool_open()) {
        return begin();
    }
    auto bracket = asked([=] { return pool::BeginCapture(stream); });
    const CUresult result = begin();
    asked([&] { bracket.began(result); });
    return result;
}

template <class End> CUresult end_capture(Slot slot, CUstream stream, End&& end) {
    if (passes_by(slot)) {
        return end();
    }
    auto bracket = asked([=] { return pool::EndCapture(stream); });
    const CUresult result = end();
    asked([&] { bracket.ended(result); });
    return result;
}

template <class Destroy> CUresult destroy_stream(Slot slot, CUstream stream, Destroy&& destroy) {
    if (passes_by(slot)) {
        return destroy();
    }
    auto bracket = asked([=] { return pool::DestroyStream(stream); });
    const CUresult result = destroy();
    asked([&] { bracket.destroyed(result); });
    return result;
}

template <class Wait> CUresult synchronize(Slot slot, CUcontext context, Wait&& wait) {
    if (passes_by(slot)) {
        return wait();
    }
    auto observation = asked([=] { return pool::Synchronize(context); });
    const CUresult result = wait();
    asked([&] { observation.returned(result); });
    return result;
}

} // namespace

CUresult hook_StreamBeginCapture(CUstream stream) {
    return begin_capture(Slot::StreamBeginCapture, stream, [=] { return next::StreamBeginCapture(stream); });
}

CUresult hook_StreamBeginCapture_ptsz(CUstream stream) {
    return begin_capture(Slot::StreamBeginCapture_ptsz, per_thread(stream),
                         [=] { return next::StreamBeginCapture_ptsz(stream); });
}

CUresult hook_StreamBeginCapture_v2(CUstream stream, CUstreamCaptureMode mode) {
    return begin_capture(Slot::StreamBeginCapture_v2, stream,
                         [=] { return next::StreamBeginCapture_v2(stream, mode); });
}

CUresult hook_StreamBeginCapture_v2_ptsz(CUstream stream, CUstreamCaptureMode mode) {
    return begin_capture(Slot::StreamBeginCapture_v2_ptsz, per_thread(stream),
                         [=] { return next::StreamBeginCapture_v2_ptsz(stream, mode); });
}

CUresult hook_StreamBeginCaptureToGraph(CUstream stream, CUgraph graph, const CUgraphNode* nodes, const void* edges,
                                        size_t count, CUstreamCaptureMode mode) {
    return begin_capture(Slot::StreamBeginCaptureToGraph, stream,
                         [=] { return next::StreamBeginCaptureToGraph(stream, graph, nodes, edges, count, mode); });
}

CUresult hook_StreamBeginCaptureToGraph_ptsz(CUstream stream, CUgraph graph, const CUgraphNode* nodes,
                                             const void* edges, size_t count, CUstreamCaptureMode mode) {
    return begin_capture(Slot::StreamBeginCaptureToGraph_ptsz, per_thread(stream), [=] {
        return next::StreamBeginCaptureToGraph_ptsz(stream, graph, nodes, edges, count, mode);
    });
}

CUresult hook_StreamBeginRecaptureToGraph(CUstream stream, CUstreamCaptureMode mode, CUgraph graph, void* callback,
                                          void* data) {
    return begin_capture(Slot::StreamBeginRecaptureToGraph, stream,
                         [=] { return next::StreamBeginRecaptureToGraph(stream, mode, graph, callback, data); });
}

CUresult hook_StreamBeginRecaptureToGraph_ptsz(CUstream stream, CUstreamCaptureMode mode, CUgraph graph, void* callback,
                                               void* data) {
    return begin_capture(Slot::StreamBeginRecaptureToGraph_ptsz, per_thread(stream),
                         [=] { return next::StreamBeginRecaptureToGraph_ptsz(stream, mode, graph, callback, data); });
}

CUresult hook_StreamEndCapture(CUstream stream, CUgraph* graph) {
    return end_capture(Slot::StreamEndCapture, stream, [=] { return next::StreamEndCapture(stream, graph); });
}

CUresult hook_StreamEndCapture_ptsz(CUstream stream, CUgraph* graph) {
    return end_capture(Slot::StreamEndCapture_ptsz, per_thread(stream),
                       [=] { return next::StreamEndCapture_ptsz(stream, graph); });
}

CUresult hook_StreamDestroy(CUstream stream) {
    return destroy_stream(Slot::StreamDestroy, stream, [=] { return next::StreamDestroy(stream); });
}

CUresult hook_StreamDestroy_v2(CUstream stream) {
    return destroy_stream(Slot::StreamDestroy_v2, stream, [=] { return next::StreamDestroy_v2(stream); });
}

CUresult hook_ThreadExchangeStreamCaptureMode(CUstreamCaptureMode* mode) {
    return next::ThreadExchangeStreamCaptureMode(mode);
}

CUresult hook_CtxSynchronize(void) {
    return synchronize(Slot::CtxSynchronize, nullptr, [] { return next::CtxSynchronize(); });
}

CUresult hook_CtxSynchronize_v2(CUcontext context) {
    return synchronize(Slot::CtxSynchronize_v2, context, [=] { return next::CtxSynchronize_v2(context); });
}

} // namespace cistern::interposer
