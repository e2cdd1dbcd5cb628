// Stream captures and the program's own synchronise. While a capture is open the pool must not record events in its
// context, so beginnings are bracketed and every end is reported.

#include "interposer/hooks.h"
#include "interposer/lifecycle.h"

namespace cistern::interposer {
namespace {

CUstream per_thread(CUstream stream) noexcept { return stream == nullptr ? CU_STREAM_PER_THREAD : stream; }

/// Opens the pool: a capture that began before the first allocation counts as well.
template <class Begin> CUresult begin_capture(CUstream stream, Begin&& begin) noexcept {
    if (!pool_open()) {
        return begin();
    }
    auto bracket = asked([=] { return pool::BeginCapture(stream); });
    const CUresult result = begin();
    asked([&] { bracket.began(result); });
    return result;
}

CUresult ended(CUstream stream, CUresult result) noexcept {
    if (pool_opened()) {
        asked([=] { pool::ended_capture(stream, result); });
    }
    return result;
}

template <class Destroy> CUresult destroy_stream(CUstream stream, Destroy&& destroy) noexcept {
    if (!pool_opened()) {
        return destroy();
    }
    auto bracket = asked([=] { return pool::DestroyStream(stream); });
    const CUresult result = destroy();
    asked([&] { bracket.destroyed(result); });
    return result;
}

template <class Wait> CUresult synchronize(CUcontext context, Wait&& wait) noexcept {
    if (!pool_opened()) {
        return wait();
    }
    auto observation = asked([=] { return pool::Synchronize(context); });
    const CUresult result = wait();
    asked([&] { observation.returned(result); });
    return result;
}

} // namespace

CUresult hook_StreamBeginCapture(CUstream stream) noexcept {
    return begin_capture(stream, [=] { return next::StreamBeginCapture(stream); });
}

CUresult hook_StreamBeginCapture_ptsz(CUstream stream) noexcept {
    return begin_capture(per_thread(stream), [=] { return next::StreamBeginCapture_ptsz(stream); });
}

CUresult hook_StreamBeginCapture_v2(CUstream stream, CUstreamCaptureMode mode) noexcept {
    return begin_capture(stream, [=] { return next::StreamBeginCapture_v2(stream, mode); });
}

CUresult hook_StreamBeginCapture_v2_ptsz(CUstream stream, CUstreamCaptureMode mode) noexcept {
    return begin_capture(per_thread(stream), [=] { return next::StreamBeginCapture_v2_ptsz(stream, mode); });
}

CUresult hook_StreamBeginCaptureToGraph(CUstream stream, CUgraph graph, const CUgraphNode* nodes, const void* edges,
                                        size_t count, CUstreamCaptureMode mode) noexcept {
    return begin_capture(stream,
                         [=] { return next::StreamBeginCaptureToGraph(stream, graph, nodes, edges, count, mode); });
}

CUresult hook_StreamBeginCaptureToGraph_ptsz(CUstream stream, CUgraph graph, const CUgraphNode* nodes,
                                             const void* edges, size_t count, CUstreamCaptureMode mode) noexcept {
    return begin_capture(per_thread(stream), [=] {
        return next::StreamBeginCaptureToGraph_ptsz(stream, graph, nodes, edges, count, mode);
    });
}

CUresult hook_StreamBeginRecaptureToGraph(CUstream stream, CUstreamCaptureMode mode, CUgraph graph, void* callback,
                                          void* data) noexcept {
    return begin_capture(stream,
                         [=] { return next::StreamBeginRecaptureToGraph(stream, mode, graph, callback, data); });
}

CUresult hook_StreamBeginRecaptureToGraph_ptsz(CUstream stream, CUstreamCaptureMode mode, CUgraph graph, void* callback,
                                               void* data) noexcept {
    return begin_capture(per_thread(stream),
                         [=] { return next::StreamBeginRecaptureToGraph_ptsz(stream, mode, graph, callback, data); });
}

CUresult hook_StreamEndCapture(CUstream stream, CUgraph* graph) noexcept {
    return ended(stream, next::StreamEndCapture(stream, graph));
}

CUresult hook_StreamEndCapture_ptsz(CUstream stream, CUgraph* graph) noexcept {
    return ended(per_thread(stream), next::StreamEndCapture_ptsz(stream, graph));
}

CUresult hook_StreamDestroy(CUstream stream) noexcept {
    return destroy_stream(stream, [=] { return next::StreamDestroy(stream); });
}

CUresult hook_StreamDestroy_v2(CUstream stream) noexcept {
    return destroy_stream(stream, [=] { return next::StreamDestroy_v2(stream); });
}

CUresult hook_ThreadExchangeStreamCaptureMode(CUstreamCaptureMode* mode) noexcept {
    return next::ThreadExchangeStreamCaptureMode(mode);
}

CUresult hook_CtxSynchronize(void) noexcept {
    return synchronize(nullptr, [] { return next::CtxSynchronize(); });
}

CUresult hook_CtxSynchronize_v2(CUcontext context) noexcept {
    return synchronize(context, [=] { return next::CtxSynchronize_v2(context); });
}

} // namespace cistern::interposer
