// libearly_reuse.so: an allocator that is wrong on purpose. It keeps freed device memory and hands it out again at once,
// without asking whether earlier work is over. Preloaded instead of the product it has to make the F08 programs report
// wrong bytes; if it does not, those programs prove nothing.

#include "doors.h"

#include <map>
#include <mutex>

namespace {

std::mutex mutex;
std::map<CUdeviceptr, size_t>& live() {
    static auto* blocks = new std::map<CUdeviceptr, size_t>;
    return *blocks;
}
std::multimap<size_t, CUdeviceptr>& cached() {
    static auto* blocks = new std::multimap<size_t, CUdeviceptr>;
    return *blocks;
}

enum Index { index_alloc, index_pitch, index_free, index_free_async, index_free_async_ptsz };

template <class Function> Function next(Index i) { return reinterpret_cast<Function>(doors::next_of(doors::slots[i])); }

/// A cached block that is large enough, but not so large that the cache would soon be empty.
bool from_cache(CUdeviceptr* out, size_t bytes) {
    std::lock_guard lock(mutex);
    auto found = cached().lower_bound(bytes);
    if (found == cached().end() || found->first > bytes * 16) return false;
    *out = found->second;
    live()[*out] = found->first;
    cached().erase(found);
    return true;
}

CUresult alloc(CUdeviceptr* out, size_t bytes) {
    if (out && bytes && from_cache(out, bytes)) return CUDA_SUCCESS;
    const CUresult result = next<CUresult (*)(CUdeviceptr*, size_t)>(index_alloc)(out, bytes);
    if (result == CUDA_SUCCESS && bytes) {
        std::lock_guard lock(mutex);
        live()[*out] = bytes;
    }
    return result;
}

CUresult pitch(CUdeviceptr* out, size_t* pitch_out, size_t width, size_t height, unsigned) {
    *pitch_out = (width + 511) / 512 * 512;
    return alloc(out, *pitch_out * height);
}

bool keep(CUdeviceptr p) {
    std::lock_guard lock(mutex);
    auto found = live().find(p);
    if (found == live().end()) return false;
    cached().emplace(found->second, p);
    live().erase(found);
    return true;
}

CUresult release(CUdeviceptr p) { return keep(p) ? CUDA_SUCCESS : next<CUresult (*)(CUdeviceptr)>(index_free)(p); }
CUresult release_async(CUdeviceptr p, CUstream s) {
    return keep(p) ? CUDA_SUCCESS : next<CUresult (*)(CUdeviceptr, CUstream)>(index_free_async)(p, s);
}
CUresult release_async_ptsz(CUdeviceptr p, CUstream s) {
    return keep(p) ? CUDA_SUCCESS : next<CUresult (*)(CUdeviceptr, CUstream)>(index_free_async_ptsz)(p, s);
}

} // namespace

void doors::first_use() {}

doors::Slot doors::slots[] = {
    {"cuMemAlloc_v2", "cuMemAlloc", 3020, 0, reinterpret_cast<void*>(alloc), {nullptr}},
    {"cuMemAllocPitch_v2", "cuMemAllocPitch", 3020, 0, reinterpret_cast<void*>(pitch), {nullptr}},
    {"cuMemFree_v2", "cuMemFree", 3020, 0, reinterpret_cast<void*>(release), {nullptr}},
    {"cuMemFreeAsync", "cuMemFreeAsync", 11020, 0, reinterpret_cast<void*>(release_async), {nullptr}},
    {"cuMemFreeAsync_ptsz",
     "cuMemFreeAsync",
     11020,
     CU_GET_PROC_ADDRESS_PER_THREAD_DEFAULT_STREAM,
     reinterpret_cast<void*>(release_async_ptsz),
     {nullptr}},
    {nullptr, nullptr, 0, 0, nullptr, {nullptr}}};
