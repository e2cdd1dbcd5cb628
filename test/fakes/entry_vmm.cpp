// Entry points: virtual memory management. None needs a current context; none waits.

#include "test/fakes/calls.h"

#include <algorithm>

using namespace fake;

/// Without the attribute on any device these calls are refused.
static CUresult vmm_usable(const Frame& f) {
    for (const Device& d : f.s.devices) {
        auto found = d.attributes.find(CU_DEVICE_ATTRIBUTE_VIRTUAL_MEMORY_MANAGEMENT_SUPPORTED);
        if (found != d.attributes.end() && found->second != 0) return CUDA_SUCCESS;
    }
    return CUDA_ERROR_NOT_SUPPORTED;
}

FAKE(cuMemAddressReserve, CUdeviceptr* out, size_t bytes, size_t alignment, CUdeviceptr hint,
     unsigned long long flags) {
    return call(
        Fn::cuMemAddressReserve,
        [&](Frame& f) -> CUresult {
            if (CUresult code = vmm_usable(f)) return code;
            if (!out || flags != 0) return CUDA_ERROR_INVALID_VALUE;
            uintptr_t start = 0;
            if (CUresult code = f.s.memory.reserve(&start, bytes, alignment, hint)) return code;
            *out = start;
            return CUDA_SUCCESS;
        },
        out);
}

FAKE(cuMemAddressFree, CUdeviceptr ptr, size_t bytes) {
    return call(Fn::cuMemAddressFree, [&](Frame& f) { return f.s.memory.unreserve(ptr, bytes); });
}

FAKE(cuMemCreate, CUmemGenericAllocationHandle* out, size_t bytes, const CUmemAllocationProp* properties,
     unsigned long long flags) {
    return call(
        Fn::cuMemCreate,
        [&](Frame& f) -> CUresult {
            if (CUresult code = vmm_usable(f)) return code;
            if (!out || !properties || flags != 0) return CUDA_ERROR_INVALID_VALUE;
            return f.s.memory.create(out, bytes, *properties);
        },
        out);
}

FAKE(cuMemRelease, CUmemGenericAllocationHandle handle) {
    return call(Fn::cuMemRelease, [&](Frame& f) { return f.s.memory.release(handle); });
}

FAKE(cuMemMap, CUdeviceptr ptr, size_t bytes, size_t offset, CUmemGenericAllocationHandle handle,
     unsigned long long flags) {
    return call(Fn::cuMemMap, [&](Frame& f) -> CUresult {
        if (offset != 0 || flags != 0) return CUDA_ERROR_INVALID_VALUE;
        return f.s.memory.map(ptr, bytes, handle);
    });
}

FAKE(cuMemUnmap, CUdeviceptr ptr, size_t bytes) {
    return call(Fn::cuMemUnmap, [&](Frame& f) -> CUresult {
        f.s.referee.leaving(ptr, bytes, "cuMemUnmap");
        return f.s.memory.unmap(ptr, bytes);
    });
}

FAKE(cuMemSetAccess, CUdeviceptr ptr, size_t bytes, const CUmemAccessDesc* entries, size_t count) {
    return call(Fn::cuMemSetAccess, [&](Frame& f) -> CUresult {
        if (!entries) return CUDA_ERROR_INVALID_VALUE;
        bool takes_away = std::any_of(entries, entries + count, [](const CUmemAccessDesc& one) {
            return one.flags != CU_MEM_ACCESS_FLAGS_PROT_READWRITE;
        });
        if (takes_away) f.s.referee.leaving(ptr, bytes, "cuMemSetAccess");
        return f.s.memory.set_access(ptr, bytes, entries, count);
    });
}

FAKE(cuMemGetAccess, unsigned long long* flags, const CUmemLocation* location, CUdeviceptr ptr) {
    return call(
        Fn::cuMemGetAccess,
        [&](Frame& f) -> CUresult {
            const Mapping* m = f.s.memory.mapping(ptr);
            if (!flags || !location || !m) return CUDA_ERROR_INVALID_VALUE;
            if (location->type == CU_MEM_LOCATION_TYPE_DEVICE) {
                if (!f.s.device(location->id)) return CUDA_ERROR_INVALID_DEVICE;
                *flags = m->access[location->id];
            } else {
                *flags = m->host_access ? CU_MEM_ACCESS_FLAGS_PROT_READWRITE : CU_MEM_ACCESS_FLAGS_PROT_NONE;
            }
            return CUDA_SUCCESS;
        },
        flags);
}

FAKE(cuMemGetAllocationGranularity, size_t* out, const CUmemAllocationProp* properties,
     CUmemAllocationGranularity_flags) {
    return call(
        Fn::cuMemGetAllocationGranularity,
        [&](Frame& f) -> CUresult {
            if (CUresult code = vmm_usable(f)) return code;
            if (!out || !properties) return CUDA_ERROR_INVALID_VALUE;
            *out = page_bytes;
            return CUDA_SUCCESS;
        },
        out);
}

FAKE(cuMemGetAllocationPropertiesFromHandle, CUmemAllocationProp* out, CUmemGenericAllocationHandle handle) {
    return call(
        Fn::cuMemGetAllocationPropertiesFromHandle,
        [&](Frame& f) -> CUresult {
            const Physical* one = f.s.memory.physical(handle);
            if (!out || !one) return CUDA_ERROR_INVALID_VALUE;
            *out = one->properties;
            return CUDA_SUCCESS;
        },
        out);
}

FAKE(cuMemRetainAllocationHandle, CUmemGenericAllocationHandle* out, void* address) {
    return call(
        Fn::cuMemRetainAllocationHandle,
        [&](Frame& f) -> CUresult {
            if (!out) return CUDA_ERROR_INVALID_VALUE;
            return f.s.memory.retain(out, reinterpret_cast<uintptr_t>(address));
        },
        out);
}

FAKE(cuMemExportToShareableHandle, void* out, CUmemGenericAllocationHandle handle, CUmemAllocationHandleType type,
     unsigned long long flags) {
    return call(Fn::cuMemExportToShareableHandle, [&](Frame& f) -> CUresult {
        if (!out || flags != 0) return CUDA_ERROR_INVALID_VALUE;
        if (type != CU_MEM_HANDLE_TYPE_POSIX_FILE_DESCRIPTOR) return CUDA_ERROR_NOT_SUPPORTED;
        for (const auto& [start, m] : f.s.memory.mappings())
            if (m.physical->id == handle) f.s.referee.sharing(start, m.bytes, "cuMemExportToShareableHandle");
        return f.s.memory.export_fd(static_cast<int*>(out), handle);
    });
}

FAKE(cuMemImportFromShareableHandle, CUmemGenericAllocationHandle* out, void* given, CUmemAllocationHandleType type) {
    return call(
        Fn::cuMemImportFromShareableHandle,
        [&](Frame& f) -> CUresult {
            if (!out) return CUDA_ERROR_INVALID_VALUE;
            if (type != CU_MEM_HANDLE_TYPE_POSIX_FILE_DESCRIPTOR) return CUDA_ERROR_NOT_SUPPORTED;
            return f.s.memory.import_fd(out, static_cast<int>(reinterpret_cast<intptr_t>(given)));
        },
        out);
}
