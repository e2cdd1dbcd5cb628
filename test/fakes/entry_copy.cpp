// Entry points: copies and memsets. A synchronous one is work in the legacy (or per-thread) stream that the host waits for.

#include "test/fakes/submit.h"

#include <cstring>

using namespace fake;

namespace {

/// One copy: rows of `width` bytes; a plain copy has one row.
struct Copy {
    uintptr_t to = 0;
    uintptr_t from = 0;
    size_t width = 0;
    size_t rows = 1;
    size_t to_pitch = 0;
    size_t from_pitch = 0;
    bool peer = false; ///< the peer calls need no access entry

    size_t to_span() const { return rows ? to_pitch * (rows - 1) + width : 0; }
    size_t from_span() const { return rows ? from_pitch * (rows - 1) + width : 0; }
};

/// Memory of the driver must be accessible to the stream's device; anything else counts as host memory.
bool reachable(const Frame& f, uintptr_t start, size_t bytes, int device, bool peer) {
    return !f.s.memory.is_driver_memory(start) || f.s.memory.accessible(start, bytes, device, peer);
}

void run_copy(const Copy& copy) {
    for (size_t row = 0; row < copy.rows; ++row)
        device_copy(copy.to + row * copy.to_pitch, copy.from + row * copy.from_pitch, copy.width);
}

GraphNode copy_node(const Frame& f, const Copy& copy, bool snapshot) {
    GraphNode node;
    node.type = CU_GRAPH_NODE_TYPE_MEMCPY;
    node.duration = f.s.config.copy_ns;
    const Memory& memory = f.s.memory;
    if (memory.is_driver_memory(copy.to)) node.ranges.push_back({copy.to, copy.to_span(), 0, 0, 0});
    if (memory.is_driver_memory(copy.from)) node.ranges.push_back({copy.from, copy.from_span(), SIM_READ, 0, 0});
    if (copy.peer)
        for (SimRange& range : node.ranges) range.flags |= SIM_FOREIGN;
    if (snapshot) { // pageable source: staged before the call returns
        auto staged = std::make_shared<std::vector<unsigned char>>(copy.from_span());
        device_copy(reinterpret_cast<uintptr_t>(staged->data()), copy.from, staged->size());
        Copy from_staged = copy;
        from_staged.from = reinterpret_cast<uintptr_t>(staged->data());
        node.action = [from_staged, staged] { run_copy(from_staged); };
    } else {
        node.action = [copy] { run_copy(copy); };
    }
    return node;
}

CUresult check_copy(const Frame& f, const Stream& stream, const Copy& copy) {
    int device = stream.context->device->ordinal;
    bool good = copy.width == 0 || copy.rows == 0 ||
                (copy.to && copy.from && reachable(f, copy.to, copy.to_span(), device, copy.peer) &&
                 reachable(f, copy.from, copy.from_span(), device, copy.peer));
    return good ? CUDA_SUCCESS : CUDA_ERROR_INVALID_VALUE;
}

/// The ranges were checked already, by the rules of copies.
CUresult submit_copy(const Frame& f, Stream& stream, const GraphNode& node, WorkPtr& made) {
    if (CUresult code = noticed_fault(f.s, *stream.context)) return code;
    bool handled = false;
    CUresult code = f.s.capture_node(stream, node, handled);
    if (handled) return code;
    f.s.admit_launch(f.lock, stream);
    if (stream.destroyed || !stream.context->alive) return CUDA_ERROR_CONTEXT_IS_DESTROYED;
    made = make_work(node);
    f.s.append(stream, made);
    return CUDA_SUCCESS;
}

CUresult copy_call(Fn fn, const Copy& copy, CUstream handle, bool wait) {
    return call(fn, [&](Frame& f) -> CUresult {
        Stream* stream = nullptr;
        if (CUresult code = find_stream(f, handle, stream)) return code;
        if (wait)
            if (CUresult code = f.s.unsafe_in_capture(f.t, "cuMemcpy", false)) return code;
        if (CUresult code = check_copy(f, *stream, copy)) return code;
        if (copy.width == 0 || copy.rows == 0) return CUDA_SUCCESS;
        bool pageable_source = !f.s.memory.is_driver_memory(copy.from) && !stream->capture;
        bool pageable_target = !f.s.memory.is_driver_memory(copy.to) && !stream->capture;
        WorkPtr made;
        GraphNode node = copy_node(f, copy, pageable_source && !wait);
        if (CUresult code = submit_copy(f, *stream, node, made)) return code;
        if (wait || pageable_target) f.s.timeline.wait(f.lock, made);
        return CUDA_SUCCESS;
    });
}

Copy plain(uintptr_t to, uintptr_t from, size_t bytes, bool peer = false) {
    return {to, from, bytes, 1, bytes, bytes, peer};
}

uintptr_t address(const void* p) { return reinterpret_cast<uintptr_t>(p); }

CUresult peer_call(Fn fn, const Copy& copy, CUcontext to, CUcontext from, CUstream stream, bool wait) {
    {
        State& s = state();
        Lock lock(s.mutex);
        if (!s.context(to) || !s.context(from)) return CUDA_ERROR_INVALID_CONTEXT;
    }
    return copy_call(fn, copy, stream, wait);
}

bool array_in(const CUDA_MEMCPY2D* c) {
    return c->srcMemoryType == CU_MEMORYTYPE_ARRAY || c->dstMemoryType == CU_MEMORYTYPE_ARRAY;
}

CUresult copy_2d(Fn fn, const CUDA_MEMCPY2D* c, CUstream stream, bool wait) {
    if (!c) return CUDA_ERROR_INVALID_VALUE;
    if (array_in(c)) return CUDA_ERROR_NOT_SUPPORTED;
    bool to_host = c->dstMemoryType == CU_MEMORYTYPE_HOST;
    bool from_host = c->srcMemoryType == CU_MEMORYTYPE_HOST;
    Copy copy;
    copy.width = c->WidthInBytes;
    copy.rows = c->Height;
    copy.to_pitch = c->dstPitch ? c->dstPitch : c->WidthInBytes;
    copy.from_pitch = c->srcPitch ? c->srcPitch : c->WidthInBytes;
    copy.to = (to_host ? address(c->dstHost) : c->dstDevice) + c->dstY * copy.to_pitch + c->dstXInBytes;
    copy.from = (from_host ? address(c->srcHost) : c->srcDevice) + c->srcY * copy.from_pitch + c->srcXInBytes;
    if (copy.to_pitch < copy.width || copy.from_pitch < copy.width) return CUDA_ERROR_INVALID_VALUE;
    return copy_call(fn, copy, stream, wait);
}

} // namespace

// Each synchronous call with its twin for the per-thread stream, then the asynchronous ones.
#define COPY_PAIR(name, parameters, copy)                                                                              \
    FAKE(name, SIM_UNPACK parameters) { return copy_call(Fn::name, copy, nullptr, true); }                             \
    FAKE(name##_ptds, SIM_UNPACK parameters) { return copy_call(Fn::name##_ptds, copy, CU_STREAM_PER_THREAD, true); }
#define COPY_ASYNC_PAIR(name, parameters, copy)                                                                        \
    FAKE(name, SIM_UNPACK parameters, CUstream stream) { return copy_call(Fn::name, copy, stream, false); }            \
    FAKE(name##_ptsz, SIM_UNPACK parameters, CUstream stream) {                                                        \
        return copy_call(Fn::name##_ptsz, copy, per_thread(stream), false);                                            \
    }
#define SIM_UNPACK(...) __VA_ARGS__

COPY_PAIR(cuMemcpy, (CUdeviceptr to, CUdeviceptr from, size_t bytes), plain(to, from, bytes))
COPY_PAIR(cuMemcpyHtoD_v2, (CUdeviceptr to, const void* from, size_t bytes), plain(to, address(from), bytes))
COPY_PAIR(cuMemcpyDtoH_v2, (void* to, CUdeviceptr from, size_t bytes), plain(address(to), from, bytes))
COPY_PAIR(cuMemcpyDtoD_v2, (CUdeviceptr to, CUdeviceptr from, size_t bytes), plain(to, from, bytes))
COPY_ASYNC_PAIR(cuMemcpyAsync, (CUdeviceptr to, CUdeviceptr from, size_t bytes), plain(to, from, bytes))
COPY_ASYNC_PAIR(cuMemcpyHtoDAsync_v2, (CUdeviceptr to, const void* from, size_t bytes), plain(to, address(from), bytes))
COPY_ASYNC_PAIR(cuMemcpyDtoHAsync_v2, (void* to, CUdeviceptr from, size_t bytes), plain(address(to), from, bytes))
COPY_ASYNC_PAIR(cuMemcpyDtoDAsync_v2, (CUdeviceptr to, CUdeviceptr from, size_t bytes), plain(to, from, bytes))

FAKE(cuMemcpyPeer, CUdeviceptr to, CUcontext to_context, CUdeviceptr from, CUcontext from_context, size_t bytes) {
    return peer_call(Fn::cuMemcpyPeer, plain(to, from, bytes, true), to_context, from_context, nullptr, true);
}
FAKE(cuMemcpyPeer_ptds, CUdeviceptr to, CUcontext to_context, CUdeviceptr from, CUcontext from_context, size_t bytes) {
    return peer_call(Fn::cuMemcpyPeer_ptds, plain(to, from, bytes, true), to_context, from_context,
                     CU_STREAM_PER_THREAD, true);
}
FAKE(cuMemcpyPeerAsync, CUdeviceptr to, CUcontext to_context, CUdeviceptr from, CUcontext from_context, size_t bytes,
     CUstream stream) {
    return peer_call(Fn::cuMemcpyPeerAsync, plain(to, from, bytes, true), to_context, from_context, stream, false);
}
FAKE(cuMemcpyPeerAsync_ptsz, CUdeviceptr to, CUcontext to_context, CUdeviceptr from, CUcontext from_context,
     size_t bytes, CUstream stream) {
    return peer_call(Fn::cuMemcpyPeerAsync_ptsz, plain(to, from, bytes, true), to_context, from_context,
                     per_thread(stream), false);
}

FAKE(cuMemcpy2D_v2, const CUDA_MEMCPY2D* c) { return copy_2d(Fn::cuMemcpy2D_v2, c, nullptr, true); }
FAKE(cuMemcpy2D_v2_ptds, const CUDA_MEMCPY2D* c) {
    return copy_2d(Fn::cuMemcpy2D_v2_ptds, c, CU_STREAM_PER_THREAD, true);
}
FAKE(cuMemcpy2DUnaligned_v2, const CUDA_MEMCPY2D* c) { return copy_2d(Fn::cuMemcpy2DUnaligned_v2, c, nullptr, true); }
FAKE(cuMemcpy2DUnaligned_v2_ptds, const CUDA_MEMCPY2D* c) {
    return copy_2d(Fn::cuMemcpy2DUnaligned_v2_ptds, c, CU_STREAM_PER_THREAD, true);
}
FAKE(cuMemcpy2DAsync_v2, const CUDA_MEMCPY2D* c, CUstream stream) {
    return copy_2d(Fn::cuMemcpy2DAsync_v2, c, stream, false);
}
FAKE(cuMemcpy2DAsync_v2_ptsz, const CUDA_MEMCPY2D* c, CUstream stream) {
    return copy_2d(Fn::cuMemcpy2DAsync_v2_ptsz, c, per_thread(stream), false);
}

namespace {

void fill_words(uintptr_t start, size_t count, unsigned value) {
    unsigned char bytes[4];
    std::memcpy(bytes, &value, sizeof bytes);
    for (size_t i = 0; i < count; ++i) device_copy(start + 4 * i, reinterpret_cast<uintptr_t>(bytes), 4);
}

/// `unit` 1 or 4 bytes. Memsets do not block the host.
CUresult memset_call(Fn fn, uintptr_t start, unsigned value, size_t count, size_t unit, CUstream handle) {
    return call(fn, [&](Frame& f) -> CUresult {
        Stream* stream = nullptr;
        if (CUresult code = find_stream(f, handle, stream)) return code;
        if (count == 0) return CUDA_SUCCESS;
        size_t bytes = count * unit;
        int device = stream->context->device->ordinal;
        if (start % unit != 0 || !f.s.memory.accessible(start, bytes, device)) return CUDA_ERROR_INVALID_VALUE;
        GraphNode node;
        node.type = CU_GRAPH_NODE_TYPE_MEMSET;
        node.duration = f.s.config.copy_ns;
        if (unit == 1) {
            node.ranges.push_back({start, bytes, SIM_WRITE, static_cast<unsigned char>(value), 0});
        } else {
            node.ranges.push_back({start, bytes, 0, 0, 0});
            node.action = [start, count, value] { fill_words(start, count, value); };
        }
        return launch(f, handle, node);
    });
}

} // namespace

FAKE(cuMemsetD8_v2, CUdeviceptr start, unsigned char value, size_t count) {
    return memset_call(Fn::cuMemsetD8_v2, start, value, count, 1, nullptr);
}
FAKE(cuMemsetD8_v2_ptds, CUdeviceptr start, unsigned char value, size_t count) {
    return memset_call(Fn::cuMemsetD8_v2_ptds, start, value, count, 1, CU_STREAM_PER_THREAD);
}
FAKE(cuMemsetD32_v2, CUdeviceptr start, unsigned value, size_t count) {
    return memset_call(Fn::cuMemsetD32_v2, start, value, count, 4, nullptr);
}
FAKE(cuMemsetD32_v2_ptds, CUdeviceptr start, unsigned value, size_t count) {
    return memset_call(Fn::cuMemsetD32_v2_ptds, start, value, count, 4, CU_STREAM_PER_THREAD);
}
FAKE(cuMemsetD8Async, CUdeviceptr start, unsigned char value, size_t count, CUstream stream) {
    return memset_call(Fn::cuMemsetD8Async, start, value, count, 1, stream);
}
FAKE(cuMemsetD8Async_ptsz, CUdeviceptr start, unsigned char value, size_t count, CUstream stream) {
    return memset_call(Fn::cuMemsetD8Async_ptsz, start, value, count, 1, per_thread(stream));
}
FAKE(cuMemsetD32Async, CUdeviceptr start, unsigned value, size_t count, CUstream stream) {
    return memset_call(Fn::cuMemsetD32Async, start, value, count, 4, stream);
}
FAKE(cuMemsetD32Async_ptsz, CUdeviceptr start, unsigned value, size_t count, CUstream stream) {
    return memset_call(Fn::cuMemsetD32Async_ptsz, start, value, count, 4, per_thread(stream));
}
