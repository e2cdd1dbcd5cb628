// Memory that the driver allocates by itself: device memory by 2 MiB pages, small blocks packed 512 bytes apart; pinned memory.

#include "test/fakes/memory.h"

#include "test/fakes/raw_memory.h"
#include "test/fakes/state.h"

#include <unistd.h>

#include <algorithm>
#include <cstring>

namespace fake {
namespace {

constexpr size_t small_limit = size_t{1} << 20;
constexpr size_t host_page = 4096;

size_t round_up(size_t bytes, size_t unit) { return (bytes + unit - 1) / unit * unit; }

bool of_device(Kind kind) { return kind == Kind::device || kind == Kind::async; }

struct IpcNote {
    uint64_t magic;
    int process;
    int file;
    uint64_t offset; ///< of the pages
    size_t pages;
    size_t into; ///< of the block in its pages
    size_t bytes;
    int device;
    uint64_t serial;
};
static_assert(sizeof(IpcNote) <= sizeof(CUipcMemHandle));
constexpr uint64_t ipc_magic = 0x73696d6970633031;

} // namespace

int Memory::file(int location) {
    auto found = files_.find(location);
    if (found != files_.end()) return found->second;
    return files_[location] = raw::make_file();
}

bool Memory::take_extent(Extent& extent) {
    Device* device = state().device(extent.device);
    if (device && extent.bytes > device->total - std::min(device->used, device->total)) return false;
    if (file(extent.device) < 0) return false;
    uint64_t& end = file_ends_[extent.device];
    extent.offset = end + raw::note_bytes;
    end += raw::note_bytes + extent.bytes;
    if (device) device->used += extent.bytes;
    return true;
}

void Memory::drop_extent(const Extent& extent) {
    raw::punch(file(extent.device), extent.offset, extent.bytes);
    if (Device* device = state().device(extent.device)) device->used -= extent.bytes;
}

CUresult Memory::allocate(uintptr_t* out, size_t bytes, Context& context, Kind kind, unsigned flags) {
    if (bytes > (size_t{1} << 47)) return CUDA_ERROR_OUT_OF_MEMORY;
    Allocation a;
    a.bytes = bytes;
    a.kind = kind;
    a.context = context.root;
    a.device = context.device->ordinal;
    a.flags = flags;
    a.buffer_id = ++next_id_;
    CUresult code = !of_device(kind)       ? allocate_host(a)
                    : bytes <= small_limit ? allocate_small(a, round_up(bytes, 512))
                                           : allocate_pages(a, round_up(bytes, page_bytes));
    if (code != CUDA_SUCCESS) return code;
    allocations_[a.start] = a;
    *out = a.start;
    return CUDA_SUCCESS;
}

CUresult Memory::allocate_pages(Allocation& a, size_t rounded) {
    Extent extent{a.device, 0, rounded};
    if (!take_extent(extent)) return CUDA_ERROR_OUT_OF_MEMORY;
    a.start = a.page = raw::reserve(rounded, page_bytes, 0);
    if (a.start == 0 || !raw::map_file(a.start, rounded, file(a.device), extent.offset)) {
        drop_extent(extent);
        return CUDA_ERROR_OUT_OF_MEMORY;
    }
    own_pages_[a.start] = extent;
    return CUDA_SUCCESS;
}

CUresult Memory::allocate_small(Allocation& a, size_t rounded) {
    auto fits = [&](SharedPage& page, uintptr_t start) {
        if (page.context != a.context) return false;
        for (auto gap = page.gaps.begin(); gap != page.gaps.end(); ++gap) {
            if (gap->second < rounded) continue;
            a.page = start;
            a.start = start + gap->first;
            size_t rest = gap->second - rounded;
            size_t after = gap->first + rounded;
            page.gaps.erase(gap);
            if (rest) page.gaps[after] = rest;
            return true;
        }
        return false;
    };
    for (auto& [start, page] : shared_pages_)
        if (fits(page, start)) return CUDA_SUCCESS;
    Allocation whole = a;
    if (CUresult code = allocate_pages(whole, page_bytes)) return code;
    SharedPage& page = shared_pages_[whole.start];
    page.extent = own_pages_[whole.start];
    page.context = a.context;
    page.gaps[0] = page_bytes;
    own_pages_.erase(whole.start);
    fits(page, whole.start);
    return CUDA_SUCCESS;
}

CUresult Memory::allocate_host(Allocation& a) {
    a.start = a.page = raw::map_anonymous(round_up(a.bytes, host_page));
    return a.start ? CUDA_SUCCESS : CUDA_ERROR_OUT_OF_MEMORY;
}

CUresult Memory::register_host(uintptr_t start, size_t bytes, Context& context, unsigned flags) {
    auto next = allocations_.lower_bound(start);
    if (allocation(start) || (next != allocations_.end() && next->first < start + bytes))
        return allocation(start) && allocation(start)->kind == Kind::registered
                   ? CUDA_ERROR_HOST_MEMORY_ALREADY_REGISTERED
                   : CUDA_ERROR_INVALID_VALUE;
    Allocation a;
    a.start = a.page = start;
    a.bytes = bytes;
    a.kind = Kind::registered;
    a.context = context.root;
    a.device = context.device->ordinal;
    a.flags = flags;
    a.buffer_id = ++next_id_;
    allocations_[start] = a;
    return CUDA_SUCCESS;
}

const Allocation* Memory::allocation(uintptr_t address) const {
    auto next = allocations_.upper_bound(address);
    if (next == allocations_.begin()) return nullptr;
    --next;
    return address < next->first + next->second.bytes ? &next->second : nullptr;
}

CUresult Memory::free(uintptr_t start) {
    auto found = allocations_.find(start);
    if (found == allocations_.end()) return CUDA_ERROR_INVALID_VALUE;
    Allocation a = found->second;
    allocations_.erase(found);
    release_allocation(a);
    return CUDA_SUCCESS;
}

void Memory::release_allocation(const Allocation& a) {
    if (a.kind == Kind::registered) return;
    if (a.kind == Kind::pinned || a.kind == Kind::managed) {
        raw::unmap(a.start, round_up(a.bytes, host_page));
        return;
    }
    if (a.kind == Kind::ipc) {
        raw::unmap(a.page, own_pages_[a.page].bytes);
        own_pages_.erase(a.page);
        return;
    }
    auto shared = shared_pages_.find(a.page);
    if (shared == shared_pages_.end()) {
        Extent extent = own_pages_[a.page];
        own_pages_.erase(a.page);
        raw::unmap(a.page, extent.bytes);
        drop_extent(extent);
        return;
    }
    SharedPage& page = shared->second;
    auto gap = page.gaps.emplace(a.start - a.page, round_up(a.bytes, 512)).first;
    auto next = std::next(gap);
    if (next != page.gaps.end() && gap->first + gap->second == next->first) {
        gap->second += next->second;
        page.gaps.erase(next);
    }
    if (gap != page.gaps.begin()) {
        auto before = std::prev(gap);
        if (before->first + before->second == gap->first) {
            before->second += gap->second;
            page.gaps.erase(gap);
        }
    }
    if (page.gaps.begin()->second != page_bytes) return;
    raw::unmap(a.page, page_bytes);
    drop_extent(page.extent);
    shared_pages_.erase(shared);
}

void Memory::free_all(Context& context) {
    for (auto it = allocations_.begin(); it != allocations_.end();) {
        Allocation a = it->second;
        if (a.context != &context) {
            ++it;
            continue;
        }
        it = allocations_.erase(it);
        release_allocation(a);
    }
}

CUresult Memory::ipc_handle(CUipcMemHandle* out, uintptr_t address) {
    const Allocation* a = allocation(address);
    if (!a || a->kind != Kind::device) return CUDA_ERROR_INVALID_VALUE;
    auto shared = shared_pages_.find(a->page);
    const Extent& extent = shared != shared_pages_.end() ? shared->second.extent : own_pages_[a->page];
    IpcNote note{ipc_magic,          ::getpid(), file(a->device), extent.offset, extent.bytes,
                 a->start - a->page, a->bytes,   a->device,       a->buffer_id};
    std::memset(out, 0, sizeof *out);
    std::memcpy(out, &note, sizeof note);
    return CUDA_SUCCESS;
}

CUresult Memory::ipc_open(uintptr_t* out, const CUipcMemHandle& handle, Context& context) {
    IpcNote note;
    std::memcpy(&note, &handle, sizeof note);
    if (note.magic != ipc_magic) return CUDA_ERROR_INVALID_VALUE;
    if (note.process == ::getpid()) return CUDA_ERROR_INVALID_CONTEXT;
    int other = raw::open_of_process(note.process, note.file);
    uintptr_t pages = other < 0 ? 0 : raw::reserve(note.pages, page_bytes, 0);
    bool mapped = pages != 0 && raw::map_file(pages, note.pages, other, note.offset);
    if (other >= 0) raw::close_file(other);
    if (!mapped) return CUDA_ERROR_MAP_FAILED;
    own_pages_[pages] = {note.device, note.offset, note.pages};
    Allocation a;
    a.start = pages + note.into;
    a.page = pages;
    a.bytes = note.bytes;
    a.kind = Kind::ipc;
    a.context = context.root;
    a.device = note.device;
    a.buffer_id = ++next_id_;
    allocations_[a.start] = a;
    *out = a.start;
    return CUDA_SUCCESS;
}

CUresult Memory::ipc_close(uintptr_t address) {
    const Allocation* a = allocation(address);
    if (!a || a->start != address || a->kind != Kind::ipc) return CUDA_ERROR_INVALID_VALUE;
    return free(address);
}

void Memory::count(SimBalance& out) const {
    out.handles = references_;
    out.reservations = reservations_.size();
    out.maps = mappings_.size();
    for (const auto& [start, a] : allocations_) {
        if (a.kind == Kind::pinned) ++out.pinned;
        if (of_device(a.kind) || a.kind == Kind::managed) ++out.allocations;
    }
}

void Memory::reset() {
    for (const auto& [start, a] : std::map<uintptr_t, Allocation>(allocations_)) free(start);
    for (const auto& [start, bytes] : reservations_) raw::unmap(start, bytes);
    for (const auto& [location, file] : files_) raw::close_file(file);
    *this = Memory();
}

} // namespace fake
