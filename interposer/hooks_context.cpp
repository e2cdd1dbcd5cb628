// Birth and death of contexts.

#include "interposer/hooks.h"
#include "interposer/lifecycle.h"

#include "interposer/attachments.h"

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

bool passes_by(Slot slot) noexcept { return nested(slot) || !pool_opened(); }

template <class Destroy> CUresult destroy(Slot slot, CUcontext context, Destroy&& call) {
    if (passes_by(slot)) {
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

template <class Reset> CUresult reset(Slot slot, CUdevice device, Reset&& call) {
    if (passes_by(slot)) {
        return call();
    }
    pool::Departure departure = asked([=] { return pool::Departure::of_primary(device); });
    const CUresult result = call();
    if (result == CUDA_SUCCESS) {
        asked([&] { departure.gone(); });
    }
    return result;
}

/// Whether this was the last reference only the state tells afterwards: references may have been taken by ways unseen here.
template <class Release> CUresult release(Slot slot, CUdevice device, Release&& call) {
    if (passes_by(slot)) {
        return call();
    }
    pool::Departure departure = asked([=] { return pool::Departure::of_primary(device); });
    const CUresult result = call();
    if (result == CUDA_SUCCESS) {
        asked([&] { departure.decide_by_state(device); });
    }
    return result;
}

} // namespace

CUresult hook_Init(unsigned flags) {
    const CUresult result = next::Init(flags);
    arm_if(result);
    return result;
}

CUresult hook_CtxCreate(CUcontext* out, unsigned flags, CUdevice device) {
    return appeared(out, device, next::CtxCreate(out, flags, device));
}

CUresult hook_CtxCreate_v2(CUcontext* out, unsigned flags, CUdevice device) {
    return appeared(out, device, next::CtxCreate_v2(out, flags, device));
}

CUresult hook_CtxCreate_v3(CUcontext* out, void* affinity, int count, unsigned flags, CUdevice device) {
    return appeared(out, device, next::CtxCreate_v3(out, affinity, count, flags, device));
}

CUresult hook_CtxCreate_v4(CUcontext* out, void* parameters, unsigned flags, CUdevice device) {
    return appeared(out, device, next::CtxCreate_v4(out, parameters, flags, device));
}

CUresult hook_CtxAttach(CUcontext* out, unsigned flags) {
    const CUresult result = next::CtxAttach(out, flags);
    if (result == CUDA_SUCCESS && out != nullptr) {
        attachments::add(*out);
    }
    return result;
}

CUresult hook_CtxDetach(CUcontext context) {
    if (!attachments::held(context)) {
        return destroy(Slot::CtxDetach, context, [=] { return next::CtxDetach(context); });
    }
    const CUresult result = next::CtxDetach(context);
    if (result == CUDA_SUCCESS) {
        attachments::drop(context);
    }
    return result;
}

CUresult hook_CtxDestroy(CUcontext context) {
    return destroy(Slot::CtxDestroy, context, [=] { return next::CtxDestroy(context); });
}

CUresult hook_CtxDestroy_v2(CUcontext context) {
    return destroy(Slot::CtxDestroy_v2, context, [=] { return next::CtxDestroy_v2(context); });
}

CUresult hook_CtxFromGreenCtx(CUcontext* out, void* green) {
    const CUresult result = next::CtxFromGreenCtx(out, green);
    if (result == CUDA_SUCCESS && out != nullptr && pool_open()) {
        asked([=] { pool::green_context_appeared(*out); });
    }
    return result;
}

CUresult hook_DevicePrimaryCtxRetain(CUcontext* out, CUdevice device) {
    return appeared(out, device, next::DevicePrimaryCtxRetain(out, device));
}

CUresult hook_DevicePrimaryCtxRelease(CUdevice device) {
    return release(Slot::DevicePrimaryCtxRelease, device, [=] { return next::DevicePrimaryCtxRelease(device); });
}

CUresult hook_DevicePrimaryCtxRelease_v2(CUdevice device) {
    return release(Slot::DevicePrimaryCtxRelease_v2, device, [=] { return next::DevicePrimaryCtxRelease_v2(device); });
}

CUresult hook_DevicePrimaryCtxReset(CUdevice device) {
    return reset(Slot::DevicePrimaryCtxReset, device, [=] { return next::DevicePrimaryCtxReset(device); });
}

CUresult hook_DevicePrimaryCtxReset_v2(CUdevice device) {
    return reset(Slot::DevicePrimaryCtxReset_v2, device, [=] { return next::DevicePrimaryCtxReset_v2(device); });
}

} // namespace cistern::interposer
