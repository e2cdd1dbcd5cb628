#include "test/fakes/calls.h"

#include "test/fakes/lifecycle.h"
#include "test/fakes/log.h"

namespace fake {
namespace {

/// Calls that work in every process, initialised or not.
bool works_always(Fn fn) {
    switch (fn) {
    case Fn::cuInit:
    case Fn::cuDriverGetVersion:
    case Fn::cuGetErrorName:
    case Fn::cuGetErrorString:
    case Fn::cuGetProcAddress:
    case Fn::cuGetProcAddress_v2:
    case Fn::cuGetExportTable:
        return true;
    default:
        return false;
    }
}

bool works_in_host_function(Fn fn) { return fn == Fn::cuEventQuery || works_always(fn); }

} // namespace

CUresult before_call(Fn fn) {
    CUresult injected = log::count(fn);
    if (injected != CUDA_SUCCESS) return injected;
    if (!works_always(fn)) {
        CUresult life = lifecycle::check();
        if (life != CUDA_SUCCESS) return life;
    }
    if (this_thread().in_host_function && !works_in_host_function(fn)) return CUDA_ERROR_NOT_PERMITTED;
    return CUDA_SUCCESS;
}

void after_call(Fn fn, CUresult result) { log::result(fn, result); }

bool poison_outputs() { return lifecycle::poisons(); }

CUresult Frame::current(Context*& out) const {
    out = t.top();
    if (!out) return CUDA_ERROR_INVALID_CONTEXT;
    if (!out->alive) return CUDA_ERROR_CONTEXT_IS_DESTROYED;
    return CUDA_SUCCESS;
}

} // namespace fake
