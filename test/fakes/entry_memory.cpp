// Entry points: native device and pinned memory, memory pools.

#include "test/fakes/submit.h"

#include <algorithm>

using namespace fake;

/// Common ground of allocations: context, captures, faults, who blocks.
static CUresult may_allocate(const Frame& f, Context*& c, const char* what) {
    if (CUresult code = f.current(c)) return code;
    if (CUresult code = f.s.unsafe_in_capture(f.t, what, false)) return code;
    if (CUresult code = noticed_fault(f.s, *c)) return code;
    f.s.admit_setup(f.lock, *c);
    return c->alive ? CUDA_SUCCESS : CUDA_ERROR_CONTEXT_IS_DESTROYED;
}

/// A native free: waits for all work of the owner, and meanwhile the owner takes no submission.
static CUresult waiting_free(const Frame& f, const Allocation& a) {
    Context& owner = *a.context;
    uintptr_t start = a.start;
    ++owner.waiting_frees;
    f.s.timeline.wait(f.lock, f.s.everything(owner));
    --owner.waiting_frees;
    f.s.timeline.wake();
    if (owner.faulted) return CUDA_ERROR_ILLEGAL_ADDRESS;
    return f.s.memory.free(start);
}

FAKE(cuMemAlloc_v2, CUdeviceptr* out, size_t bytes) {
    return call(
        Fn::cuMemAlloc_v2,
        [&](Frame& f) -> CUresult {
            Context* c = nullptr;
            if (CUresult code = may_allocate(f, c, "cuMemAlloc")) return code;
            if (!out || bytes == 0) return CUDA_ERROR_INVALID_VALUE;
            uintptr_t start = 0;
            if (CUresult code = f.s.memory.allocate(&start, bytes, *c, Kind::device, 0)) return code;
            *out = start;
            return CUDA_SUCCESS;
        },
        out);
}

FAKE(cuMemAllocPitch_v2, CUdeviceptr* out, size_t* pitch, size_t width, size_t height, unsigned element) {
    return call(
        Fn::cuMemAllocPitch_v2,
        [&](Frame& f) -> CUresult {
            Context* c = nullptr;
            if (CUresult code = may_allocate(f, c, "cuMemAllocPitch")) return code;
            bool good_element = element == 4 || element == 8 || element == 16;
            if (!out || !pitch || width == 0 || height == 0 || !good_element) return CUDA_ERROR_INVALID_VALUE;
            if (width > (size_t{1} << 47) || height > (size_t{1} << 47) / width) return CUDA_ERROR_OUT_OF_MEMORY;
            size_t row = (width + 511) / 512 * 512;
            uintptr_t start = 0;
            if (CUresult code = f.s.memory.allocate(&start, row * height, *c, Kind::device, 0)) return code;
            *out = start;
            *pitch = row;
            return CUDA_SUCCESS;
        },
        out, pitch);
}

FAKE(cuMemAllocManaged, CUdeviceptr* out, size_t bytes, unsigned flags) {
    return call(
        Fn::cuMemAllocManaged,
        [&](Frame& f) -> CUresult {
            Context* c = nullptr;
            if (CUresult code = may_allocate(f, c, "cuMemAllocManaged")) return code;
            if (!out || bytes == 0 || flags == 0 || flags > 2) return CUDA_ERROR_INVALID_VALUE;
            uintptr_t start = 0;
            if (CUresult code = f.s.memory.allocate(&start, bytes, *c, Kind::managed, flags)) return code;
            *out = start;
            return CUDA_SUCCESS;
        },
        out);
}

FAKE(cuMemFree_v2, CUdeviceptr ptr) {
    return call(Fn::cuMemFree_v2, [&](Frame& f) -> CUresult {
        Context* c = nullptr;
        if (CUresult code = f.current(c)) return code;
        if (CUresult code = f.s.unsafe_in_capture(f.t, "cuMemFree", false)) return code;
        if (c->root->faulted) return CUDA_ERROR_ILLEGAL_ADDRESS;
        if (ptr == 0) return CUDA_SUCCESS;
        const Allocation* a = f.s.memory.allocation(ptr);
        bool freeable =
            a && a->start == ptr && (a->kind == Kind::device || a->kind == Kind::managed || a->kind == Kind::async);
        if (!freeable) return CUDA_ERROR_INVALID_VALUE;
        if (a->kind == Kind::async) return f.s.memory.free(ptr);
        return waiting_free(f, *a);
    });
}

static CUresult host_allocate(Fn fn, void** out, size_t bytes, unsigned flags) {
    return call(
        fn,
        [&](Frame& f) -> CUresult {
            Context* c = nullptr;
            if (CUresult code = may_allocate(f, c, "cuMemHostAlloc")) return code;
            if (!out || flags > 7) return CUDA_ERROR_INVALID_VALUE;
            *out = nullptr;
            if (bytes == 0) return CUDA_SUCCESS;
            uintptr_t start = 0;
            if (CUresult code = f.s.memory.allocate(&start, bytes, *c, Kind::pinned, flags)) return code;
            *out = reinterpret_cast<void*>(start);
            return CUDA_SUCCESS;
        },
        out);
}
FAKE(cuMemHostAlloc, void** out, size_t bytes, unsigned flags) {
    return host_allocate(Fn::cuMemHostAlloc, out, bytes, flags);
}
FAKE(cuMemAllocHost_v2, void** out, size_t bytes) { return host_allocate(Fn::cuMemAllocHost_v2, out, bytes, 0); }

FAKE(cuMemFreeHost, void* ptr) {
    return call(Fn::cuMemFreeHost, [&](Frame& f) -> CUresult {
        Context* c = nullptr;
        if (CUresult code = f.current(c)) return code;
        if (CUresult code = f.s.unsafe_in_capture(f.t, "cuMemFreeHost", false)) return code;
        if (c->root->faulted) return CUDA_ERROR_ILLEGAL_ADDRESS;
        if (!ptr) return CUDA_SUCCESS;
        const Allocation* a = f.s.memory.allocation(reinterpret_cast<uintptr_t>(ptr));
        if (!a || a->start != reinterpret_cast<uintptr_t>(ptr) || a->kind != Kind::pinned)
            return CUDA_ERROR_INVALID_VALUE;
        return waiting_free(f, *a);
    });
}

static CUresult host_pointer(Fn fn, CUdeviceptr* out, void* host, unsigned flags) {
    return call(
        fn,
        [&](Frame& f) -> CUresult {
            Context* c = nullptr;
            if (CUresult code = f.current(c)) return code;
            uintptr_t address = reinterpret_cast<uintptr_t>(host);
            const Allocation* a = f.s.memory.allocation(address);
            const Mapping* m = f.s.memory.mapping(address);
            bool host_kind = a && (a->kind == Kind::pinned || a->kind == Kind::registered);
            bool host_mapping = m && m->physical->extent.device == host_location;
            if (!out || flags != 0 || (!host_kind && !host_mapping)) return CUDA_ERROR_INVALID_VALUE;
            *out = address;
            return CUDA_SUCCESS;
        },
        out);
}
FAKE(cuMemHostGetDevicePointer_v2, CUdeviceptr* out, void* host, unsigned flags) {
    return host_pointer(Fn::cuMemHostGetDevicePointer_v2, out, host, flags);
}

FAKE(cuMemHostGetFlags, unsigned* flags, void* host) {
    return call(
        Fn::cuMemHostGetFlags,
        [&](Frame& f) -> CUresult {
            Context* c = nullptr;
            if (CUresult code = f.current(c)) return code;
            const Allocation* a = f.s.memory.allocation(reinterpret_cast<uintptr_t>(host));
            if (!flags || !a || a->kind != Kind::pinned) return CUDA_ERROR_INVALID_VALUE;
            *flags = a->flags | CU_MEMHOSTALLOC_DEVICEMAP;
            return CUDA_SUCCESS;
        },
        flags);
}

static CUresult host_register(Fn fn, void* host, size_t bytes, unsigned flags) {
    return call(fn, [&](Frame& f) -> CUresult {
        Context* c = nullptr;
        if (CUresult code = may_allocate(f, c, "cuMemHostRegister")) return code;
        if (!host || bytes == 0) return CUDA_ERROR_INVALID_VALUE;
        uintptr_t start = reinterpret_cast<uintptr_t>(host);
        if (f.s.memory.mapping(start)) return CUDA_ERROR_INVALID_VALUE;
        f.s.referee.sharing(start, bytes, "cuMemHostRegister");
        return f.s.memory.register_host(start, bytes, *c, flags);
    });
}
FAKE(cuMemHostRegister, void* host, size_t bytes, unsigned flags) {
    return host_register(Fn::cuMemHostRegister, host, bytes, flags);
}
FAKE(cuMemHostRegister_v2, void* host, size_t bytes, unsigned flags) {
    return host_register(Fn::cuMemHostRegister_v2, host, bytes, flags);
}

FAKE(cuMemHostUnregister, void* host) {
    return call(Fn::cuMemHostUnregister, [&](Frame& f) -> CUresult {
        Context* c = nullptr;
        if (CUresult code = f.current(c)) return code;
        const Allocation* a = f.s.memory.allocation(reinterpret_cast<uintptr_t>(host));
        if (!a) return CUDA_ERROR_HOST_MEMORY_NOT_REGISTERED;
        if (a->kind != Kind::registered || a->start != reinterpret_cast<uintptr_t>(host))
            return CUDA_ERROR_INVALID_VALUE;
        return waiting_free(f, *a);
    });
}

FAKE(cuMemGetInfo_v2, size_t* available, size_t* total) {
    return call(
        Fn::cuMemGetInfo_v2,
        [&](Frame& f) -> CUresult {
            Context* c = nullptr;
            if (CUresult code = f.current(c)) return code;
            const Device& d = *c->device;
            if (available) *available = d.total - std::min(d.used, d.total);
            if (total) *total = d.total;
            return available && total ? CUDA_SUCCESS : CUDA_ERROR_INVALID_VALUE;
        },
        available, total);
}

FAKE(cuMemGetAddressRange_v2, CUdeviceptr* base, size_t* bytes, CUdeviceptr ptr) {
    return call(
        Fn::cuMemGetAddressRange_v2,
        [&](Frame& f) -> CUresult {
            Context* c = nullptr;
            if (CUresult code = f.current(c)) return code;
            const Allocation* a = f.s.memory.allocation(ptr);
            const Mapping* m = a ? nullptr : f.s.memory.mapping(ptr);
            if (m && !f.s.memory.touchable(m->start, 1)) m = nullptr;
            if (!a && !m) return CUDA_ERROR_NOT_FOUND;
            if (base) *base = a ? a->start : m->start;
            if (bytes) *bytes = a ? a->bytes : m->bytes;
            return CUDA_SUCCESS;
        },
        base, bytes);
}

// --- Stream-ordered memory

static CUresult allocate_async(Fn fn, CUdeviceptr* out, size_t bytes, CUstream handle) {
    return call(
        fn,
        [&](Frame& f) -> CUresult {
            Stream* stream = nullptr;
            if (CUresult code = find_stream(f, handle, stream)) return code;
            if (CUresult code = noticed_fault(f.s, *stream->context)) return code;
            if (!out || bytes == 0) return CUDA_ERROR_INVALID_VALUE;
            if (stream->capture) return CUDA_ERROR_STREAM_CAPTURE_UNSUPPORTED; // memory nodes are not modelled
            uintptr_t start = 0;
            if (CUresult code = f.s.memory.allocate(&start, bytes, *stream->context, Kind::async, 0)) return code;
            *out = start;
            return CUDA_SUCCESS;
        },
        out);
}
FAKE(cuMemAllocAsync, CUdeviceptr* out, size_t bytes, CUstream stream) {
    return allocate_async(Fn::cuMemAllocAsync, out, bytes, stream);
}
FAKE(cuMemAllocAsync_ptsz, CUdeviceptr* out, size_t bytes, CUstream stream) {
    return allocate_async(Fn::cuMemAllocAsync_ptsz, out, bytes, per_thread(stream));
}
FAKE(cuMemAllocFromPoolAsync, CUdeviceptr* out, size_t bytes, CUmemoryPool, CUstream stream) {
    return allocate_async(Fn::cuMemAllocFromPoolAsync, out, bytes, stream);
}
FAKE(cuMemAllocFromPoolAsync_ptsz, CUdeviceptr* out, size_t bytes, CUmemoryPool, CUstream stream) {
    return allocate_async(Fn::cuMemAllocFromPoolAsync_ptsz, out, bytes, per_thread(stream));
}

static CUresult free_async(Fn fn, CUdeviceptr ptr, CUstream handle) {
    return call(fn, [&](Frame& f) -> CUresult {
        Stream* stream = nullptr;
        if (CUresult code = find_stream(f, handle, stream)) return code;
        if (stream->context->root->faulted) return CUDA_ERROR_ILLEGAL_ADDRESS;
        if (ptr == 0) return CUDA_SUCCESS;
        if (stream->capture) return CUDA_ERROR_INVALID_VALUE;
        const Allocation* a = f.s.memory.allocation(ptr);
        if (!a || a->start != ptr || (a->kind != Kind::device && a->kind != Kind::async)) {
            // Of a VMM address: where a native free is refused because of a capture, so is this one.
            CUresult code = f.s.unsafe_in_capture(f.t, "cuMemFreeAsync", false);
            return code ? code : CUDA_ERROR_INVALID_VALUE;
        }
        GraphNode node;
        node.action = [&s = f.s, ptr, id = a->buffer_id] {
            const Allocation* still = s.memory.allocation(ptr);
            if (still && still->buffer_id == id) s.memory.free(ptr);
        };
        return launch(f, handle, node);
    });
}
FAKE(cuMemFreeAsync, CUdeviceptr ptr, CUstream stream) { return free_async(Fn::cuMemFreeAsync, ptr, stream); }
FAKE(cuMemFreeAsync_ptsz, CUdeviceptr ptr, CUstream stream) {
    return free_async(Fn::cuMemFreeAsync_ptsz, ptr, per_thread(stream));
}

static char default_pool;

static CUresult give_pool(Fn fn, CUmemoryPool* out, CUdevice device) {
    return call(
        fn,
        [&](Frame& f) -> CUresult {
            if (!f.s.device(device)) return CUDA_ERROR_INVALID_DEVICE;
            if (!out) return CUDA_ERROR_INVALID_VALUE;
            *out = reinterpret_cast<CUmemoryPool>(&default_pool);
            return CUDA_SUCCESS;
        },
        out);
}
FAKE(cuDeviceGetDefaultMemPool, CUmemoryPool* out, CUdevice device) {
    return give_pool(Fn::cuDeviceGetDefaultMemPool, out, device);
}
FAKE(cuDeviceGetMemPool, CUmemoryPool* out, CUdevice device) { return give_pool(Fn::cuDeviceGetMemPool, out, device); }
FAKE(cuMemPoolCreate, CUmemoryPool* out, const void* properties) {
    return properties ? give_pool(Fn::cuMemPoolCreate, out, 0) : CUDA_ERROR_INVALID_VALUE;
}

static CUresult nothing_to_do(Fn fn) {
    return call(fn, [](Frame&) -> CUresult { return CUDA_SUCCESS; });
}
FAKE(cuDeviceSetMemPool, CUdevice, CUmemoryPool) { return nothing_to_do(Fn::cuDeviceSetMemPool); }
FAKE(cuMemPoolDestroy, CUmemoryPool) { return nothing_to_do(Fn::cuMemPoolDestroy); }
FAKE(cuMemPoolSetAttribute, CUmemoryPool, int, void*) { return nothing_to_do(Fn::cuMemPoolSetAttribute); }
FAKE(cuMemPoolSetAccess, CUmemoryPool, const CUmemAccessDesc*, size_t) { return nothing_to_do(Fn::cuMemPoolSetAccess); }
FAKE(cuMemPoolTrimTo, CUmemoryPool, size_t) { return nothing_to_do(Fn::cuMemPoolTrimTo); }
FAKE(cuMemPoolGetAttribute, CUmemoryPool, int, cuuint64_t* value) {
    return call(
        Fn::cuMemPoolGetAttribute,
        [&](Frame&) -> CUresult {
            if (!value) return CUDA_ERROR_INVALID_VALUE;
            *value = 0;
            return CUDA_SUCCESS;
        },
        value);
}

// --- The 32-bit era: reported as the wrong ABI, then they answer what they would for small numbers.

static CUresult old_abi(Fn fn, const char* name, CUresult code) {
    return call(fn, [&](Frame& f) -> CUresult {
        f.s.referee.report(Violation::wrong_abi, "%s", name);
        return code;
    });
}
FAKE(cuMemAlloc, unsigned*, unsigned) { return old_abi(Fn::cuMemAlloc, "cuMemAlloc", CUDA_ERROR_OUT_OF_MEMORY); }
FAKE(cuMemAllocPitch, unsigned*, unsigned*, unsigned, unsigned, unsigned) {
    return old_abi(Fn::cuMemAllocPitch, "cuMemAllocPitch", CUDA_ERROR_OUT_OF_MEMORY);
}
FAKE(cuMemFree, unsigned) { return old_abi(Fn::cuMemFree, "cuMemFree", CUDA_ERROR_INVALID_VALUE); }
FAKE(cuMemGetInfo, unsigned*, unsigned*) { return old_abi(Fn::cuMemGetInfo, "cuMemGetInfo", CUDA_ERROR_INVALID_VALUE); }
FAKE(cuMemGetAddressRange, unsigned*, unsigned*, unsigned) {
    return old_abi(Fn::cuMemGetAddressRange, "cuMemGetAddressRange", CUDA_ERROR_NOT_FOUND);
}
FAKE(cuMemHostGetDevicePointer, unsigned*, void*, unsigned) {
    return old_abi(Fn::cuMemHostGetDevicePointer, "cuMemHostGetDevicePointer", CUDA_ERROR_INVALID_VALUE);
}
FAKE(cuMemAllocHost, void**, unsigned) {
    return old_abi(Fn::cuMemAllocHost, "cuMemAllocHost", CUDA_ERROR_OUT_OF_MEMORY);
}
