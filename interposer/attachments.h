#pragma once
// cuCtxDetach ends a context only if nobody called cuCtxAttach for it. Both are deprecated; the few attachments of a
// process are counted here because the driver has no way to ask.

#include <cuda.h>

namespace cistern::interposer::attachments {

/// At most 32 contexts; one more is not counted.
void add(CUcontext context) noexcept;
bool held(CUcontext context) noexcept;
void drop(CUcontext context) noexcept;
/// The context is gone: a later one may get the same handle.
void forget(CUcontext context) noexcept;

} // namespace cistern::interposer::attachments
