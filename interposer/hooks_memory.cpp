// Allocation, free and size queries. Each hook asks the pool and calls next where the pool does not decide. Every call
// that arrives is counted exactly once, as served or as forwarded with its reason.

#include "interposer/hooks.h"
#include "interposer/lifecycle.h"

namespace cistern::interposer {
namespace {

using pool::Outcome;

Outcome counted_alloc(Outcome outcome) noexcept {
    pool::Counters& c = pool::counters();
    pool::count(outcome.served() ? c.alloc_served : c.alloc_forwarded[static_cast<int>(outcome.reason)]);
    return outcome;
}

Outcome counted_free(Outcome outcome, std::atomic<uint64_t>& served) noexcept {
    pool::count(outcome.served() ? served : pool::counters().free_forwarded[static_cast<int>(outcome.reason)]);
    return outcome;
}

/// A native allocation that succeeds before we saw cuInit: the program initialised the driver by a door that is not ours.
CUresult forwarded(const Outcome& outcome, CUresult result) noexcept {
    if (outcome.reason == pool::Reason::not_armed) {
        arm_if(result);
    }
    return result;
}

} // namespace

CUresult hook_MemAlloc_v2(CUdeviceptr* out, size_t bytes) {
    if (nested(Slot::MemAlloc_v2)) {
        return next::MemAlloc_v2(out, bytes);
    }
    const Outcome o = counted_alloc(ask([=] { return pool::allocate(out, bytes); }));
    return o.served() ? o.result : forwarded(o, next::MemAlloc_v2(out, bytes));
}

CUresult hook_MemAllocPitch_v2(CUdeviceptr* out, size_t* pitch, size_t width, size_t height, unsigned element) {
    if (nested(Slot::MemAllocPitch_v2)) {
        return next::MemAllocPitch_v2(out, pitch, width, height, element);
    }
    const Outcome o = counted_alloc(ask([=] { return pool::allocate_pitch(out, pitch, width, height, element); }));
    return o.served() ? o.result : forwarded(o, next::MemAllocPitch_v2(out, pitch, width, height, element));
}

CUresult hook_MemFree_v2(CUdeviceptr ptr) {
    if (nested(Slot::MemFree_v2)) {
        return next::MemFree_v2(ptr);
    }
    const Outcome o = counted_free(ask([=] { return pool::free(ptr); }), pool::counters().free_served);
    return o.served() ? o.result : next::MemFree_v2(ptr);
}

CUresult hook_MemFreeAsync(CUdeviceptr ptr, CUstream stream) {
    if (nested(Slot::MemFreeAsync)) {
        return next::MemFreeAsync(ptr, stream);
    }
    const Outcome o =
        counted_free(ask([=] { return pool::free_async(ptr, stream); }), pool::counters().free_async_served);
    return o.served() ? o.result : next::MemFreeAsync(ptr, stream);
}

CUresult hook_MemFreeAsync_ptsz(CUdeviceptr ptr, CUstream stream) {
    if (nested(Slot::MemFreeAsync_ptsz)) {
        return next::MemFreeAsync_ptsz(ptr, stream);
    }
    const CUstream meant = stream == nullptr ? CU_STREAM_PER_THREAD : stream;
    const Outcome o =
        counted_free(ask([=] { return pool::free_async(ptr, meant); }), pool::counters().free_async_served);
    return o.served() ? o.result : next::MemFreeAsync_ptsz(ptr, stream);
}

CUresult hook_MemGetAddressRange_v2(CUdeviceptr* base, size_t* bytes, CUdeviceptr ptr) {
    const Outcome o = ask([=] { return pool::address_range(base, bytes, ptr); });
    return o.served() ? o.result : next::MemGetAddressRange_v2(base, bytes, ptr);
}

CUresult hook_MemGetInfo_v2(size_t* free_bytes, size_t* total_bytes) {
    const bool again = nested(Slot::MemGetInfo_v2);
    const CUresult result = next::MemGetInfo_v2(free_bytes, total_bytes);
    if (again || result != CUDA_SUCCESS || free_bytes == nullptr || !pool_opened()) {
        return result;
    }
    const size_t sum = *free_bytes + asked([] { return pool::idle_bytes(); });
    *free_bytes = total_bytes != nullptr && sum > *total_bytes ? *total_bytes : sum;
    return result;
}

} // namespace cistern::interposer
