// Entry points: primary contexts, contexts, green contexts.

#include "test/fakes/submit.h"

#include "test/fakes/lifecycle.h"

#include <algorithm>

using namespace fake;

static CUcontext handle(Context* c) { return reinterpret_cast<CUcontext>(c); }

/// A context argument: null means the current one.
static CUresult named_context(const Frame& f, CUcontext given, Context*& out) {
    if (!given) return f.current(out);
    out = f.s.context(given);
    if (!out) return CUDA_ERROR_INVALID_CONTEXT;
    return out->alive ? CUDA_SUCCESS : CUDA_ERROR_CONTEXT_IS_DESTROYED;
}

FAKE(cuDevicePrimaryCtxRetain, CUcontext* out, CUdevice device) {
    return call(
        Fn::cuDevicePrimaryCtxRetain,
        [&](Frame& f) -> CUresult {
            Device* d = f.s.device(device);
            if (!d) return CUDA_ERROR_INVALID_DEVICE;
            if (!out) return CUDA_ERROR_INVALID_VALUE;
            d->primary->alive = true;
            ++d->primary->retained;
            *out = handle(d->primary);
            return CUDA_SUCCESS;
        },
        out);
}

// Two names, one address, as in the real driver.
FAKE(cuDevicePrimaryCtxRelease_v2, CUdevice device) {
    return call(Fn::cuDevicePrimaryCtxRelease_v2, [&](Frame& f) -> CUresult {
        Device* d = f.s.device(device);
        if (!d) return CUDA_ERROR_INVALID_DEVICE;
        if (d->primary->retained == 0) return CUDA_ERROR_INVALID_CONTEXT;
        if (--d->primary->retained == 0) f.s.end_context(f.lock, *d->primary);
        return CUDA_SUCCESS;
    });
}
extern "C" __attribute__((visibility("default"), alias("cuDevicePrimaryCtxRelease_v2")))
CUresult fake_cuDevicePrimaryCtxRelease(CUdevice) __asm__("cuDevicePrimaryCtxRelease");

static CUresult reset_primary(Fn fn, CUdevice device) {
    return call(fn, [&](Frame& f) -> CUresult {
        Device* d = f.s.device(device);
        if (!d) return CUDA_ERROR_INVALID_DEVICE;
        d->primary->retained = 0;
        if (d->primary->alive) f.s.end_context(f.lock, *d->primary);
        return CUDA_SUCCESS;
    });
}
FAKE(cuDevicePrimaryCtxReset, CUdevice device) { return reset_primary(Fn::cuDevicePrimaryCtxReset, device); }
FAKE(cuDevicePrimaryCtxReset_v2, CUdevice device) { return reset_primary(Fn::cuDevicePrimaryCtxReset_v2, device); }

FAKE(cuDevicePrimaryCtxGetState, CUdevice device, unsigned* flags, int* active) {
    return call(
        Fn::cuDevicePrimaryCtxGetState,
        [&](Frame& f) -> CUresult {
            Device* d = f.s.device(device);
            if (!d) return CUDA_ERROR_INVALID_DEVICE;
            if (!flags || !active) return CUDA_ERROR_INVALID_VALUE;
            *flags = d->primary->flags;
            *active = d->primary->alive ? 1 : 0;
            return CUDA_SUCCESS;
        },
        flags, active);
}

static CUresult set_primary_flags(Fn fn, CUdevice device, unsigned flags) {
    return call(fn, [&](Frame& f) -> CUresult {
        Device* d = f.s.device(device);
        if (!d) return CUDA_ERROR_INVALID_DEVICE;
        d->primary->flags = flags;
        return CUDA_SUCCESS;
    });
}
FAKE(cuDevicePrimaryCtxSetFlags, CUdevice device, unsigned flags) {
    return set_primary_flags(Fn::cuDevicePrimaryCtxSetFlags, device, flags);
}
FAKE(cuDevicePrimaryCtxSetFlags_v2, CUdevice device, unsigned flags) {
    return set_primary_flags(Fn::cuDevicePrimaryCtxSetFlags_v2, device, flags);
}

static CUresult create_context(Fn fn, CUcontext* out, unsigned flags, CUdevice device) {
    return call(
        fn,
        [&](Frame& f) -> CUresult {
            Device* d = f.s.device(device);
            if (!d) return CUDA_ERROR_INVALID_DEVICE;
            if (!out) return CUDA_ERROR_INVALID_VALUE;
            Context* made = f.s.make_context(*d, nullptr);
            made->flags = flags;
            f.t.stack.push_back(made);
            *out = handle(made);
            return CUDA_SUCCESS;
        },
        out);
}
FAKE(cuCtxCreate, CUcontext* out, unsigned flags, CUdevice device) {
    return create_context(Fn::cuCtxCreate, out, flags, device);
}
FAKE(cuCtxCreate_v2, CUcontext* out, unsigned flags, CUdevice device) {
    return create_context(Fn::cuCtxCreate_v2, out, flags, device);
}
FAKE(cuCtxCreate_v3, CUcontext* out, void*, int, unsigned flags, CUdevice device) {
    return create_context(Fn::cuCtxCreate_v3, out, flags, device);
}
FAKE(cuCtxCreate_v4, CUcontext* out, void*, unsigned flags, CUdevice device) {
    return create_context(Fn::cuCtxCreate_v4, out, flags, device);
}

static CUresult destroy_context(Fn fn, CUcontext given) {
    return call(fn, [&](Frame& f) -> CUresult {
        Context* c = f.s.context(given);
        if (!c || c->primary || c->green) return CUDA_ERROR_INVALID_CONTEXT;
        if (!c->alive) return CUDA_ERROR_CONTEXT_IS_DESTROYED;
        f.s.end_context(f.lock, *c);
        if (f.t.top() == c) f.t.stack.pop_back();
        return CUDA_SUCCESS;
    });
}
FAKE(cuCtxDestroy, CUcontext c) { return destroy_context(Fn::cuCtxDestroy, c); }
FAKE(cuCtxDestroy_v2, CUcontext c) { return destroy_context(Fn::cuCtxDestroy_v2, c); }
FAKE(cuCtxDetach, CUcontext c) { return destroy_context(Fn::cuCtxDetach, c); }

FAKE(cuCtxAttach, CUcontext* out, unsigned) {
    return call(
        Fn::cuCtxAttach,
        [&](Frame& f) -> CUresult {
            Context* c = nullptr;
            if (CUresult code = f.current(c)) return code;
            if (!out) return CUDA_ERROR_INVALID_VALUE;
            *out = handle(c);
            return CUDA_SUCCESS;
        },
        out);
}

static CUresult push(Fn fn, CUcontext given) {
    return call(fn, [&](Frame& f) -> CUresult {
        Context* c = f.s.context(given);
        if (!c) return CUDA_ERROR_INVALID_CONTEXT;
        f.t.stack.push_back(c);
        return CUDA_SUCCESS;
    });
}
FAKE(cuCtxPushCurrent, CUcontext c) { return push(Fn::cuCtxPushCurrent, c); }
FAKE(cuCtxPushCurrent_v2, CUcontext c) { return push(Fn::cuCtxPushCurrent_v2, c); }

static CUresult pop(Fn fn, CUcontext* out) {
    return call(
        fn,
        [&](Frame& f) -> CUresult {
            if (!f.t.top()) return CUDA_ERROR_INVALID_CONTEXT;
            if (out) *out = handle(f.t.top());
            f.t.stack.pop_back();
            return CUDA_SUCCESS;
        },
        out);
}
FAKE(cuCtxPopCurrent, CUcontext* out) { return pop(Fn::cuCtxPopCurrent, out); }
FAKE(cuCtxPopCurrent_v2, CUcontext* out) { return pop(Fn::cuCtxPopCurrent_v2, out); }

FAKE(cuCtxSetCurrent, CUcontext given) {
    return call(Fn::cuCtxSetCurrent, [&](Frame& f) -> CUresult {
        Context* c = given ? f.s.context(given) : nullptr;
        if (given && !c) return CUDA_ERROR_INVALID_CONTEXT;
        if (!f.t.stack.empty()) f.t.stack.pop_back();
        if (c) f.t.stack.push_back(c);
        return CUDA_SUCCESS;
    });
}

FAKE(cuCtxGetCurrent, CUcontext* out) {
    return call(
        Fn::cuCtxGetCurrent,
        [&](Frame& f) -> CUresult {
            if (!out) return CUDA_ERROR_INVALID_VALUE;
            *out = handle(f.t.top());
            return CUDA_SUCCESS;
        },
        out);
}

static CUresult context_device(Fn fn, CUdevice* out, CUcontext given) {
    return call(
        fn,
        [&](Frame& f) -> CUresult {
            Context* c = nullptr;
            if (CUresult code = named_context(f, given, c)) return code;
            if (!out) return CUDA_ERROR_INVALID_VALUE;
            *out = c->device->ordinal;
            return CUDA_SUCCESS;
        },
        out);
}
FAKE(cuCtxGetDevice, CUdevice* out) { return context_device(Fn::cuCtxGetDevice, out, nullptr); }
FAKE(cuCtxGetDevice_v2, CUdevice* out, CUcontext c) { return context_device(Fn::cuCtxGetDevice_v2, out, c); }

static CUresult synchronize(Fn fn, CUcontext given) {
    return call(fn, [&](Frame& f) -> CUresult {
        Context* c = nullptr;
        if (CUresult code = named_context(f, given, c)) return code;
        if (c->root->faulted) return CUDA_ERROR_ILLEGAL_ADDRESS;
        if (CUresult code = f.s.context_wide_call(*c, f.t, "cuCtxSynchronize", true)) return code;
        f.s.timeline.wait(f.lock, f.s.everything(*c));
        return c->root->faulted ? CUDA_ERROR_ILLEGAL_ADDRESS : CUDA_SUCCESS;
    });
}
FAKE(cuCtxSynchronize) { return synchronize(Fn::cuCtxSynchronize, nullptr); }
FAKE(cuCtxSynchronize_v2, CUcontext c) { return synchronize(Fn::cuCtxSynchronize_v2, c); }

FAKE(cuCtxGetApiVersion, CUcontext given, unsigned* version) {
    return call(
        Fn::cuCtxGetApiVersion,
        [&](Frame& f) -> CUresult {
            Context* c = nullptr;
            if (CUresult code = named_context(f, given, c)) return code;
            if (!version) return CUDA_ERROR_INVALID_VALUE;
            *version = c->version;
            return CUDA_SUCCESS;
        },
        version);
}

FAKE(cuCtxGetFlags, unsigned* flags) {
    return call(
        Fn::cuCtxGetFlags,
        [&](Frame& f) -> CUresult {
            Context* c = nullptr;
            if (CUresult code = f.current(c)) return code;
            if (!flags) return CUDA_ERROR_INVALID_VALUE;
            *flags = c->flags;
            return CUDA_SUCCESS;
        },
        flags);
}

FAKE(cuCtxGetId, CUcontext given, unsigned long long* id) {
    return call(
        Fn::cuCtxGetId,
        [&](Frame& f) -> CUresult {
            Context* c = nullptr;
            if (CUresult code = named_context(f, given, c)) return code;
            if (!id) return CUDA_ERROR_INVALID_VALUE;
            *id = c->legacy->id;
            return CUDA_SUCCESS;
        },
        id);
}

FAKE(cuCtxGetStreamPriorityRange, int* least, int* greatest) {
    return call(Fn::cuCtxGetStreamPriorityRange, [&](Frame& f) -> CUresult {
        Context* c = nullptr;
        if (CUresult code = f.current(c)) return code;
        if (least) *least = 0;
        if (greatest) *greatest = -5;
        return CUDA_SUCCESS;
    });
}

FAKE(cuCtxEnablePeerAccess, CUcontext peer, unsigned flags) {
    return call(Fn::cuCtxEnablePeerAccess, [&](Frame& f) -> CUresult {
        Context* c = nullptr;
        Context* other = nullptr;
        if (CUresult code = f.current(c)) return code;
        if (CUresult code = named_context(f, peer, other)) return code;
        if (flags != 0) return CUDA_ERROR_INVALID_VALUE;
        if (c->device == other->device || !f.s.can_access(c->device->ordinal, other->device->ordinal))
            return CUDA_ERROR_PEER_ACCESS_UNSUPPORTED;
        return c->peers.insert(other).second ? CUDA_SUCCESS : CUDA_ERROR_PEER_ACCESS_ALREADY_ENABLED;
    });
}

FAKE(cuCtxDisablePeerAccess, CUcontext peer) {
    return call(Fn::cuCtxDisablePeerAccess, [&](Frame& f) -> CUresult {
        Context* c = nullptr;
        Context* other = nullptr;
        if (CUresult code = f.current(c)) return code;
        if (CUresult code = named_context(f, peer, other)) return code;
        return c->peers.erase(other) ? CUDA_SUCCESS : CUDA_ERROR_PEER_ACCESS_NOT_ENABLED;
    });
}

// --- Green contexts. CUgreenCtx, the resource descriptor and CUdevResource are younger than the oldest header, hence void*.

FAKE(cuDeviceGetDevResource, CUdevice device, void* resource, int type) {
    return call(Fn::cuDeviceGetDevResource, [&](Frame& f) -> CUresult {
        if (!f.s.device(device)) return CUDA_ERROR_INVALID_DEVICE;
        if (!resource || type != 1) return CUDA_ERROR_INVALID_VALUE;
        unsigned* words = static_cast<unsigned*>(resource);
        std::fill(words, words + 36, 0u); // type, 92 bytes of padding, 48 bytes of union
        words[0] = 1;
        words[24] = 132; // smCount
        return CUDA_SUCCESS;
    });
}

FAKE(cuDevResourceGenerateDesc, void** description, void* resources, unsigned count) {
    static char description_of_all;
    return call(
        Fn::cuDevResourceGenerateDesc,
        [&](Frame&) -> CUresult {
            if (!description || !resources || count == 0) return CUDA_ERROR_INVALID_VALUE;
            *description = &description_of_all;
            return CUDA_SUCCESS;
        },
        description);
}

FAKE(cuGreenCtxCreate, void** out, void* description, CUdevice device, unsigned flags) {
    return call(
        Fn::cuGreenCtxCreate,
        [&](Frame& f) -> CUresult {
            Device* d = f.s.device(device);
            if (!d) return CUDA_ERROR_INVALID_DEVICE;
            if (!out || !description || flags != 1) return CUDA_ERROR_INVALID_VALUE;
            d->primary->alive = true;
            ++d->primary->retained;
            Context* green = f.s.make_context(*d, d->primary);
            d->primary->greens.push_back(green);
            *out = green;
            return CUDA_SUCCESS;
        },
        out);
}

static Context* green_context(const Frame& f, void* given) {
    Context* c = f.s.context(static_cast<CUcontext>(given));
    return c && c->green ? c : nullptr;
}

FAKE(cuCtxFromGreenCtx, CUcontext* out, void* given) {
    return call(
        Fn::cuCtxFromGreenCtx,
        [&](Frame& f) -> CUresult {
            Context* green = green_context(f, given);
            if (!green) return CUDA_ERROR_INVALID_CONTEXT;
            if (!out) return CUDA_ERROR_INVALID_VALUE;
            *out = handle(green);
            return CUDA_SUCCESS;
        },
        out);
}

FAKE(cuGreenCtxDestroy, void* given) {
    return call(Fn::cuGreenCtxDestroy, [&](Frame& f) -> CUresult {
        Context* green = green_context(f, given);
        if (!green) return CUDA_ERROR_INVALID_CONTEXT;
        if (!green->alive) return CUDA_ERROR_CONTEXT_IS_DESTROYED;
        Context& primary = *green->root;
        for (Stream* stream : green->streams)
            if (!f.s.timeline.done(stream->tail)) primary.orphans.push_back(stream->tail);
        primary.greens.erase(std::remove(primary.greens.begin(), primary.greens.end(), green), primary.greens.end());
        green->alive = false;
        if (--primary.retained == 0) f.s.end_context(f.lock, primary);
        return CUDA_SUCCESS;
    });
}
