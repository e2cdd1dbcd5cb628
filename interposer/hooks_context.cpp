// Birth and death of contexts.

#include "interposer/hooks.h"
#include "interposer/lifecycle.h"

#include "interposer/attachments.h"

#include <atomic>

namespace cistern::interposer {
namespace {

/// A context that came to life also shows that the driver is initialised, whoever did that.
CUresult appeared(const CUcontext* out, CUdevice device, CUresult result) noexcept {
    arm_if(result);
    if (result == CUDA_SUCCESS) {
        if (out != nullptr && pool_opened()) {
            asked([=] { pool::context_created(*out); });
        }
        context_of_device_appeared(device);
    }
    return result;
}

/// References to primary contexts that were taken through us and not given back. A release that is not the last one must
/// not disturb the pool, and the driver has no way to ask which it is. Too low a number is harmless (the state decides
/// then), too high a one would miss the end of a context: so a reset, which may or may not keep references, sets it to 0.
constinit std::atomic<int> references[64];

std::atomic<int>* references_of(CUdevice device) noexcept {
    return device >= 0 && device < 64 ? &references[device] : nullptr;
}

void forget_references(CUdevice device) noexcept {
    if (std::atomic<int>* count = references_of(device)) {
        count->store(0);
    }
}

CUresult retained(const CUcontext* out, CUdevice device, CUresult result) noexcept {
    std::atomic<int>* count = references_of(device);
    if (result == CUDA_SUCCESS && count != nullptr) {
        count->fetch_add(1);
    }
    return appeared(out, device, result);
}

template <class Destroy> CUresult destroy(CUcontext context, Destroy&& call) noexcept {
    if (!pool_opened()) {
        return call();
    }
    pool::Departure departure = asked([=] { return pool::Departure(context); });
    const CUresult result = call();
    if (result == CUDA_SUCCESS) {
        attachments::forget(context);
        asked([&] { departure.gone(); });
    }
    return result;
}

template <class Reset> CUresult reset(CUdevice device, Reset&& call) noexcept {
    if (!pool_opened()) {
        const CUresult early = call();
        if (early == CUDA_SUCCESS) {
            forget_references(device);
        }
        return early;
    }
    pool::Departure departure = asked([=] { return pool::Departure::of_primary(device); });
    const CUresult result = call();
    if (result == CUDA_SUCCESS) {
        forget_references(device);
        asked([&] { departure.gone(); });
    }
    return result;
}

template <class Release> CUresult release_last(CUdevice device, Release&& call) noexcept {
    if (!pool_opened()) {
        return call();
    }
    pool::Departure departure = asked([=] { return pool::Departure::of_primary(device); });
    const CUresult result = call();
    if (result == CUDA_SUCCESS) {
        asked([&] { departure.decide_by_state(device); });
    }
    return result;
}

template <class Release> CUresult release(CUdevice device, Release&& call) noexcept {
    std::atomic<int>* count = references_of(device);
    const bool others_hold_it = count != nullptr && count->fetch_sub(1) > 1;
    const CUresult result = others_hold_it ? call() : release_last(device, call);
    if (result != CUDA_SUCCESS && count != nullptr) {
        count->fetch_add(1);
    }
    return result;
}

} // namespace

CUresult hook_Init(unsigned flags) noexcept {
    const CUresult result = next::Init(flags);
    arm_if(result);
    return result;
}

CUresult hook_CtxCreate(CUcontext* out, unsigned flags, CUdevice device) noexcept {
    return appeared(out, device, next::CtxCreate(out, flags, device));
}

CUresult hook_CtxCreate_v2(CUcontext* out, unsigned flags, CUdevice device) noexcept {
    return appeared(out, device, next::CtxCreate_v2(out, flags, device));
}

CUresult hook_CtxCreate_v3(CUcontext* out, void* affinity, int count, unsigned flags, CUdevice device) noexcept {
    return appeared(out, device, next::CtxCreate_v3(out, affinity, count, flags, device));
}

CUresult hook_CtxCreate_v4(CUcontext* out, void* parameters, unsigned flags, CUdevice device) noexcept {
    return appeared(out, device, next::CtxCreate_v4(out, parameters, flags, device));
}

CUresult hook_CtxAttach(CUcontext* out, unsigned flags) noexcept {
    const CUresult result = next::CtxAttach(out, flags);
    if (result == CUDA_SUCCESS && out != nullptr) {
        attachments::add(*out);
    }
    return result;
}

CUresult hook_CtxDetach(CUcontext context) noexcept {
    if (!attachments::held(context)) {
        return destroy(context, [=] { return next::CtxDetach(context); });
    }
    const CUresult result = next::CtxDetach(context);
    if (result == CUDA_SUCCESS) {
        attachments::drop(context);
    }
    return result;
}

CUresult hook_CtxDestroy(CUcontext context) noexcept {
    return destroy(context, [=] { return next::CtxDestroy(context); });
}

CUresult hook_CtxDestroy_v2(CUcontext context) noexcept {
    return destroy(context, [=] { return next::CtxDestroy_v2(context); });
}

CUresult hook_CtxFromGreenCtx(CUcontext* out, void* green) noexcept {
    const CUresult result = next::CtxFromGreenCtx(out, green);
    if (result == CUDA_SUCCESS && out != nullptr && pool_open()) {
        asked([=] { pool::green_context_appeared(*out); });
    }
    return result;
}

CUresult hook_DevicePrimaryCtxRetain(CUcontext* out, CUdevice device) noexcept {
    return retained(out, device, next::DevicePrimaryCtxRetain(out, device));
}

CUresult hook_DevicePrimaryCtxRelease(CUdevice device) noexcept {
    return release(device, [=] { return next::DevicePrimaryCtxRelease(device); });
}

CUresult hook_DevicePrimaryCtxRelease_v2(CUdevice device) noexcept {
    return release(device, [=] { return next::DevicePrimaryCtxRelease_v2(device); });
}

CUresult hook_DevicePrimaryCtxReset(CUdevice device) noexcept {
    return reset(device, [=] { return next::DevicePrimaryCtxReset(device); });
}

CUresult hook_DevicePrimaryCtxReset_v2(CUdevice device) noexcept {
    return reset(device, [=] { return next::DevicePrimaryCtxReset_v2(device); });
}

} // namespace cistern::interposer
