#pragma once
// Which pool: by context handle, by address, by device. Look-ups take no lock.

#include "pool/context_pool.h"

namespace cistern::pool::registry {

/// Pool of the context; created if new. Green contexts give the pool of their device's primary context. Null if the
/// context's device cannot be found out or host memory is short.
ContextPool* find_or_create(CUcontext context);
/// The same without creating.
ContextPool* find(CUcontext context) noexcept;
/// Pool of the device's primary context, null if it has none.
ContextPool* find_primary(CUdevice device) noexcept;
/// Pool whose reservation contains the address, null for foreign addresses.
ContextPool* owner_of(Address address) noexcept;

void note_green(CUcontext context);
bool is_green(CUcontext context) noexcept;
/// A context was created with this handle: it is not the green one that may have had the handle before.
void forget_green(CUcontext context) noexcept;

/// The reservation's addresses belong to the pool from now on, or to nobody.
void claim_addresses(Address base, size_t bytes, ContextPool* pool) noexcept;
/// The context has ended: its handle may name another one from now on.
void forget(ContextPool* pool) noexcept;

/// Every live pool, in no order. `visit` must not create or forget pools.
template <class F> void for_each(F visit);
ContextPool* first() noexcept;
ContextPool* next(ContextPool* pool) noexcept;

/// Devices that have a context in this process; adds one and extends access of the others' pools to it.
void context_on_device(CUdevice device);
/// Devices with a context that can access memory of `owner`, itself excluded.
driver::DeviceMask peers_with_contexts(CUdevice owner) noexcept;

template <class F> void for_each(F visit) {
    for (ContextPool* pool = first(); pool; pool = next(pool)) visit(*pool);
}

} // namespace cistern::pool::registry
