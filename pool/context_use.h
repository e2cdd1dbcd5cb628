#pragma once
// Presence of a thread inside a context pool while it makes driver calls on the context's events.
//
//   thread A (any operation)   users + 1 | leaving? -> users - 1, no driver call | ... | users - 1
//   thread B (reset, destroy)  leaving = true | wait until users = 0 | forward the call
//
// Both sides write first and read second (sequentially consistent), so either A sees leaving or B sees A.

#include "pool/context_pool.h"

namespace cistern::pool {

class ContextPool::Use {
public:
    explicit Use(ContextPool& pool) noexcept : pool_(pool) {
        pool_.users_.fetch_add(1);
        present_ = pool_.leaving_.load() == 0;
        if (!present_) pool_.users_.fetch_sub(1);
    }
    ~Use() {
        if (present_) pool_.users_.fetch_sub(1);
    }
    Use(const Use&) = delete;
    Use& operator=(const Use&) = delete;
    explicit operator bool() const noexcept { return present_; }

private:
    ContextPool& pool_;
    bool present_;
};

} // namespace cistern::pool
