// Entry points: questions about pointers, legacy IPC.

#include "test/fakes/submit.h"

#include <cstring>

using namespace fake;

namespace {

/// What the driver knows of an address.
struct Place {
    const Allocation* a = nullptr;
    const Mapping* m = nullptr;
    uintptr_t address = 0;
    uintptr_t reserved = 0;
    size_t reserved_bytes = 0;

    bool known() const { return a || m; }
    bool usable() const { return a || state().memory.touchable(address, 1); }
    bool host() const {
        return a ? a->kind == Kind::pinned || a->kind == Kind::registered : m->physical->extent.device == host_location;
    }
    bool device() const {
        return a ? a->kind == Kind::device || a->kind == Kind::async || a->kind == Kind::ipc : !host();
    }
    int ordinal() const { return a ? a->device : m->physical->extent.device; }
};

Place find(const Frame& f, uintptr_t address) {
    Place p;
    p.address = address;
    p.a = f.s.memory.allocation(address);
    if (p.a) return p;
    p.m = f.s.memory.mapping(address);
    std::tie(p.reserved, p.reserved_bytes) = f.s.memory.reservation(address);
    return p;
}

template <class T> CUresult put(void* out, T value) {
    std::memcpy(out, &value, sizeof value);
    return CUDA_SUCCESS;
}

uint64_t buffer_id(const Place& p) { return p.a ? p.a->buffer_id : p.m->buffer_id; }

/// Identity and kind of memory: attributes 1 to 9.
CUresult first_attributes(const Place& p, int attribute, void* out) {
    switch (attribute) {
    case CU_POINTER_ATTRIBUTE_CONTEXT: {
        bool has = p.a && p.a->kind != Kind::async;
        return put(out, has ? reinterpret_cast<CUcontext>(p.a->context) : CUcontext{});
    }
    case CU_POINTER_ATTRIBUTE_MEMORY_TYPE:
        return put(out, p.host() ? 1u : 2u);
    case CU_POINTER_ATTRIBUTE_DEVICE_POINTER:
        return p.usable() ? put<CUdeviceptr>(out, p.address) : CUDA_ERROR_INVALID_VALUE;
    case CU_POINTER_ATTRIBUTE_HOST_POINTER: {
        bool host = p.host() || (p.a && p.a->kind == Kind::managed);
        return host ? put(out, reinterpret_cast<void*>(p.address)) : CUDA_ERROR_INVALID_VALUE;
    }
    case CU_POINTER_ATTRIBUTE_SYNC_MEMOPS:
        return put(out, 1u);
    case CU_POINTER_ATTRIBUTE_BUFFER_ID:
        return put<unsigned long long>(out, buffer_id(p));
    case CU_POINTER_ATTRIBUTE_IS_MANAGED:
        return put(out, p.a && p.a->kind == Kind::managed ? 1u : 0u);
    case CU_POINTER_ATTRIBUTE_DEVICE_ORDINAL:
        return put(out, p.ordinal());
    default:
        return CUDA_ERROR_INVALID_VALUE;
    }
}

/// Range and capabilities: attributes 10 to 21. Byte-sized results are written as unsigned int, as the driver does.
CUresult later_attributes(const Place& p, int attribute, void* out) {
    bool plain = p.a && p.a->kind == Kind::device;
    switch (attribute) {
    case 10:
        return put(out, plain ? 1u : 0u); // legacy IPC
    case 11:
        return put<CUdeviceptr>(out, p.a ? p.a->start : p.reserved);
    case 12:
        return put<size_t>(out, p.a ? p.a->bytes : p.reserved_bytes);
    case 13:
        return put(out, p.usable() ? 1u : 0u); // mapped
    case 14:                                   // allowed handle types
        return put(out, p.m ? static_cast<unsigned long long>(p.m->physical->properties.requestedHandleTypes) : 0ull);
    case 15: { // direct RDMA
        bool capable = plain || (p.m && p.m->physical->properties.allocFlags.gpuDirectRDMACapable);
        return put(out, capable ? 1u : 0u);
    }
    case 16:
        return put(out, 3u); // access flags
    case 17:
        return put<void*>(out, nullptr); // memory pool
    case 18:
        return put<size_t>(out, p.m ? p.m->bytes : page_bytes);
    case 19:
        return put<CUdeviceptr>(out, p.m ? p.m->start : p.a->page);
    case 20:
        return put<unsigned long long>(out, p.m ? p.m->physical->id : p.a->buffer_id);
    case 21:
        return put(out, plain ? 1u : 0u); // hardware decompression
    default:
        return CUDA_ERROR_INVALID_VALUE;
    }
}

CUresult attribute_of(const Place& p, int attribute, void* out) {
    if (!p.known()) return CUDA_ERROR_INVALID_VALUE;
    return attribute < 10 ? first_attributes(p, attribute, out) : later_attributes(p, attribute, out);
}

size_t attribute_bytes(int attribute) {
    switch (attribute) {
    case 2:
    case 6:
    case 8:
    case 9:
    case 10:
    case 13:
    case 15:
    case 16:
    case 21:
        return 4;
    default:
        return 8;
    }
}

} // namespace

FAKE(cuPointerGetAttribute, void* out, CUpointer_attribute attribute, CUdeviceptr ptr) {
    return call(Fn::cuPointerGetAttribute, [&](Frame& f) -> CUresult {
        if (!out) return CUDA_ERROR_INVALID_VALUE;
        return attribute_of(find(f, ptr), static_cast<int>(attribute), out);
    });
}

FAKE(cuPointerGetAttributes, unsigned count, CUpointer_attribute* attributes, void** out, CUdeviceptr ptr) {
    return call(Fn::cuPointerGetAttributes, [&](Frame& f) -> CUresult {
        if (!attributes || !out || count == 0) return CUDA_ERROR_INVALID_VALUE;
        Place p = find(f, ptr);
        for (unsigned i = 0; i < count; ++i) {
            int attribute = static_cast<int>(attributes[i]);
            if (attribute_of(p, attribute, out[i]) == CUDA_SUCCESS) continue;
            // Unknown pointers and what does not apply read as zeros; the device of an unknown one as -2.
            std::memset(out[i], 0, attribute_bytes(attribute));
            if (attribute == CU_POINTER_ATTRIBUTE_DEVICE_ORDINAL) put(out[i], -2);
        }
        return CUDA_SUCCESS;
    });
}

FAKE(cuPointerSetAttribute, const void* value, CUpointer_attribute attribute, CUdeviceptr ptr) {
    return call(Fn::cuPointerSetAttribute, [&](Frame& f) -> CUresult {
        Place p = find(f, ptr);
        if (!value || !p.known() || attribute != CU_POINTER_ATTRIBUTE_SYNC_MEMOPS) return CUDA_ERROR_INVALID_VALUE;
        return p.m ? CUDA_ERROR_NOT_SUPPORTED : CUDA_SUCCESS;
    });
}

FAKE(cuIpcGetMemHandle, CUipcMemHandle* out, CUdeviceptr ptr) {
    return call(
        Fn::cuIpcGetMemHandle,
        [&](Frame& f) -> CUresult {
            Context* c = nullptr;
            if (CUresult code = f.current(c)) return code;
            if (!out) return CUDA_ERROR_INVALID_VALUE;
            return f.s.memory.ipc_handle(out, ptr);
        },
        out);
}

static CUresult ipc_open(Fn fn, CUdeviceptr* out, const CUipcMemHandle& handle, unsigned flags) {
    return call(
        fn,
        [&](Frame& f) -> CUresult {
            Context* c = nullptr;
            if (CUresult code = f.current(c)) return code;
            if (!out || flags != CU_IPC_MEM_LAZY_ENABLE_PEER_ACCESS) return CUDA_ERROR_INVALID_VALUE;
            uintptr_t start = 0;
            if (CUresult code = f.s.memory.ipc_open(&start, handle, *c)) return code;
            *out = start;
            return CUDA_SUCCESS;
        },
        out);
}
FAKE(cuIpcOpenMemHandle, CUdeviceptr* out, CUipcMemHandle handle, unsigned flags) {
    return ipc_open(Fn::cuIpcOpenMemHandle, out, handle, flags);
}
FAKE(cuIpcOpenMemHandle_v2, CUdeviceptr* out, CUipcMemHandle handle, unsigned flags) {
    return ipc_open(Fn::cuIpcOpenMemHandle_v2, out, handle, flags);
}

FAKE(cuIpcCloseMemHandle, CUdeviceptr ptr) {
    return call(Fn::cuIpcCloseMemHandle, [&](Frame& f) -> CUresult {
        Context* c = nullptr;
        if (CUresult code = f.current(c)) return code;
        return f.s.memory.ipc_close(ptr);
    });
}
