// Virtual memory management: reservations, physical handles, mappings, access.

#include "test/fakes/memory.h"

#include "test/fakes/raw_memory.h"
#include "test/fakes/state.h"

#include <algorithm>

namespace fake {
namespace {

bool paged(uintptr_t value) { return value % page_bytes == 0; }

bool on_device(const CUmemLocation& location) { return location.type == CU_MEM_LOCATION_TYPE_DEVICE; }

bool overlaps(uintptr_t a, size_t a_bytes, uintptr_t b, size_t b_bytes) { return a < b + b_bytes && b < a + a_bytes; }

} // namespace

CUresult Memory::reserve(uintptr_t* out, size_t bytes, size_t alignment, uintptr_t hint) {
    if (bytes == 0 || !paged(bytes) || (alignment & (alignment - 1)) != 0) return CUDA_ERROR_INVALID_VALUE;
    uintptr_t start = raw::reserve(bytes, std::max(alignment, page_bytes), hint);
    if (start == 0) return CUDA_ERROR_OUT_OF_MEMORY;
    reservations_[start] = bytes;
    *out = start;
    return CUDA_SUCCESS;
}

CUresult Memory::unreserve(uintptr_t start, size_t bytes) {
    auto found = reservations_.find(start);
    if (found == reservations_.end() || found->second != bytes) return CUDA_ERROR_INVALID_VALUE;
    auto next = mappings_.lower_bound(start);
    if (next != mappings_.end() && next->first < start + bytes) return CUDA_ERROR_INVALID_VALUE;
    reservations_.erase(found);
    raw::unmap(start, bytes);
    return CUDA_SUCCESS;
}

std::pair<uintptr_t, size_t> Memory::reservation(uintptr_t address) const {
    auto next = reservations_.upper_bound(address);
    if (next == reservations_.begin()) return {0, 0};
    --next;
    if (address >= next->first + next->second) return {0, 0};
    return {next->first, next->second};
}

CUresult Memory::check_properties(size_t bytes, const CUmemAllocationProp& p) const {
    State& s = state();
    auto refused = [&](const char* what) {
        auto found = s.config.refuse.find(what);
        return found == s.config.refuse.end() ? CUDA_SUCCESS : found->second;
    };
    if (bytes == 0 || !paged(bytes) || p.type != CU_MEM_ALLOCATION_TYPE_PINNED) return CUDA_ERROR_INVALID_VALUE;
    if (on_device(p.location)) {
        Device* device = s.device(p.location.id);
        if (!device) return CUDA_ERROR_INVALID_DEVICE;
        if (device->attributes[CU_DEVICE_ATTRIBUTE_VIRTUAL_MEMORY_MANAGEMENT_SUPPORTED] == 0)
            return CUDA_ERROR_NOT_SUPPORTED;
        if (p.allocFlags.gpuDirectRDMACapable) {
            if (device->attributes[CU_DEVICE_ATTRIBUTE_GPU_DIRECT_RDMA_WITH_CUDA_VMM_SUPPORTED] == 0)
                return CUDA_ERROR_INVALID_VALUE;
            if (CUresult code = refused("rdma")) return code;
        }
    } else if (CUresult code = refused("host_numa")) {
        return code;
    }
    int types = static_cast<int>(p.requestedHandleTypes);
    if (types & 1)
        if (CUresult code = refused("fd")) return code;
    if (types & 8)
        if (CUresult code = refused("fabric")) return code;
    return types & ~9 ? CUDA_ERROR_INVALID_VALUE : CUDA_SUCCESS;
}

CUresult Memory::create(CUmemGenericAllocationHandle* out, size_t bytes, const CUmemAllocationProp& properties) {
    if (CUresult code = check_properties(bytes, properties)) return code;
    Extent extent{on_device(properties.location) ? properties.location.id : host_location, 0, bytes};
    if (!take_extent(extent)) return CUDA_ERROR_OUT_OF_MEMORY;
    Physical& one = physicals_[++next_id_];
    one.id = next_id_;
    one.extent = extent;
    one.properties = properties;
    one.references = 1;
    ++references_;
    *out = one.id;
    return CUDA_SUCCESS;
}

Physical* Memory::physical(CUmemGenericAllocationHandle id) {
    auto found = physicals_.find(id);
    return found == physicals_.end() || found->second.references == 0 ? nullptr : &found->second;
}

CUresult Memory::release(CUmemGenericAllocationHandle id) {
    Physical* one = physical(id);
    if (!one) return CUDA_ERROR_INVALID_VALUE;
    --one->references;
    --references_;
    release_if_unused(*one);
    return CUDA_SUCCESS;
}

void Memory::release_if_unused(Physical& one) {
    if (one.references != 0 || one.maps != 0) return;
    if (one.imported_file >= 0) {
        raw::close_file(one.imported_file);
    } else if (!one.exported) {
        drop_extent(one.extent);
    } else if (Device* device = state().device(one.extent.device)) {
        device->used -= one.extent.bytes; // another process may still use the bytes of the file
    }
    physicals_.erase(one.id);
}

CUresult Memory::retain(CUmemGenericAllocationHandle* out, uintptr_t address) {
    const Mapping* found = mapping(address);
    if (!found) return CUDA_ERROR_INVALID_VALUE;
    ++found->physical->references;
    ++references_;
    *out = found->physical->id;
    return CUDA_SUCCESS;
}

const Mapping* Memory::mapping(uintptr_t address) const {
    auto next = mappings_.upper_bound(address);
    if (next == mappings_.begin()) return nullptr;
    --next;
    return address < next->first + next->second.bytes ? &next->second : nullptr;
}

CUresult Memory::map(uintptr_t start, size_t bytes, CUmemGenericAllocationHandle id) {
    Physical* one = physical(id);
    auto [base, size] = reservation(start);
    if (!one || size == 0 || !paged(start) || start + bytes > base + size) return CUDA_ERROR_INVALID_VALUE;
    if (bytes != one->extent.bytes) return CUDA_ERROR_INVALID_VALUE; // a handle is the unit of mapping
    auto next = mappings_.upper_bound(start);
    if (next != mappings_.end() && next->first < start + bytes) return CUDA_ERROR_INVALID_VALUE;
    if (next != mappings_.begin()) {
        const Mapping& before = std::prev(next)->second;
        if (overlaps(before.start, before.bytes, start, bytes)) return CUDA_ERROR_INVALID_VALUE;
    }
    Mapping& made = mappings_[start];
    made.start = start;
    made.bytes = bytes;
    made.physical = one;
    made.buffer_id = ++next_id_;
    ++one->maps;
    return CUDA_SUCCESS;
}

/// Whether whole mappings, edge to edge, make up the range.
bool Memory::covered(uintptr_t start, size_t bytes) const {
    uintptr_t at = start;
    for (auto it = mappings_.find(start); it != mappings_.end() && it->first == at && at < start + bytes; ++it)
        at += it->second.bytes;
    return bytes != 0 && at == start + bytes;
}

CUresult Memory::unmap(uintptr_t start, size_t bytes) {
    if (!covered(start, bytes)) return CUDA_ERROR_INVALID_VALUE;
    raw::forbid(start, bytes);
    auto first = mappings_.find(start);
    auto last = mappings_.lower_bound(start + bytes);
    for (auto it = first; it != last; ++it) {
        --it->second.physical->maps;
        release_if_unused(*it->second.physical);
    }
    mappings_.erase(first, last);
    return CUDA_SUCCESS;
}

CUresult Memory::set_access(uintptr_t start, size_t bytes, const CUmemAccessDesc* entries, size_t count) {
    if (!covered(start, bytes) || count == 0) return CUDA_ERROR_INVALID_VALUE;
    State& s = state();
    for (size_t i = 0; i < count; ++i)
        if (on_device(entries[i].location) && !s.device(entries[i].location.id)) return CUDA_ERROR_INVALID_DEVICE;
    for (auto it = mappings_.find(start); it != mappings_.end() && it->first < start + bytes; ++it) {
        const Extent& extent = it->second.physical->extent;
        for (size_t i = 0; i < count; ++i) { // a device that is no peer of the memory's
            int to = entries[i].location.id;
            if (on_device(entries[i].location) && extent.device != host_location && !s.can_access(to, extent.device))
                return CUDA_ERROR_INVALID_VALUE;
        }
    }
    for (auto it = mappings_.find(start); it != mappings_.end() && it->first < start + bytes; ++it) {
        Mapping& m = it->second;
        for (size_t i = 0; i < count; ++i) {
            if (on_device(entries[i].location))
                m.access[entries[i].location.id] = static_cast<unsigned char>(entries[i].flags);
            else
                m.host_access = entries[i].flags != CU_MEM_ACCESS_FLAGS_PROT_NONE;
        }
        bool any =
            m.host_access || std::any_of(std::begin(m.access), std::end(m.access), [](unsigned a) { return a != 0; });
        const Extent& extent = m.physical->extent;
        int source = m.physical->imported_file >= 0 ? m.physical->imported_file : file(extent.device);
        if (any ? !raw::map_file(m.start, m.bytes, source, extent.offset) : !raw::forbid(m.start, m.bytes))
            return CUDA_ERROR_OUT_OF_MEMORY;
    }
    return CUDA_SUCCESS;
}

CUresult Memory::export_fd(int* out, CUmemGenericAllocationHandle id) {
    Physical* one = physical(id);
    if (!one || (static_cast<int>(one->properties.requestedHandleTypes) & 1) == 0) return CUDA_ERROR_INVALID_VALUE;
    int source = one->imported_file >= 0 ? one->imported_file : file(one->extent.device);
    int copy = raw::share(source, one->extent.offset, {one->extent.bytes, one->extent.device});
    if (copy < 0) return CUDA_ERROR_OUT_OF_MEMORY;
    one->exported = true;
    *out = copy;
    return CUDA_SUCCESS;
}

CUresult Memory::import_fd(CUmemGenericAllocationHandle* out, int fd) {
    raw::Note note;
    uint64_t offset = 0;
    int copy = raw::open_shared(fd, offset, note);
    if (copy < 0) return CUDA_ERROR_INVALID_VALUE;
    Physical& one = physicals_[++next_id_];
    one.id = next_id_;
    one.extent = {note.device, offset, note.bytes};
    one.properties.type = CU_MEM_ALLOCATION_TYPE_PINNED;
    one.properties.location = {CU_MEM_LOCATION_TYPE_DEVICE, note.device};
    one.properties.requestedHandleTypes = CU_MEM_HANDLE_TYPE_POSIX_FILE_DESCRIPTOR;
    one.references = 1;
    one.imported_file = copy;
    ++references_;
    *out = one.id;
    return CUDA_SUCCESS;
}

bool Memory::touchable(uintptr_t start, size_t bytes) const {
    uintptr_t at = start;
    while (at < start + bytes) {
        if (const Mapping* m = mapping(at)) {
            bool any = m->host_access;
            for (unsigned char access : m->access) any = any || access != 0;
            if (!any) return false;
            at = m->start + m->bytes;
        } else if (const Allocation* a = allocation(at)) {
            at = a->start + a->bytes;
        } else {
            return false;
        }
    }
    return true;
}

bool Memory::accessible(uintptr_t start, size_t bytes, int device, bool peer_copy) const {
    uintptr_t at = start;
    while (at < start + bytes) {
        if (const Mapping* m = mapping(at)) {
            bool own = peer_copy && m->access[m->physical->extent.device < 0 ? 0 : m->physical->extent.device] != 0;
            if (m->access[device] != CU_MEM_ACCESS_FLAGS_PROT_READWRITE && !own) return false;
            at = m->start + m->bytes;
        } else if (const Allocation* a = allocation(at)) {
            at = a->start + a->bytes;
        } else {
            return false;
        }
    }
    return true;
}

bool Memory::is_driver_memory(uintptr_t address) const {
    return allocation(address) != nullptr || reservation(address).second != 0;
}

} // namespace fake
