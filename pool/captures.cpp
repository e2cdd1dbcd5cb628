#include "pool/captures.h"

#include <algorithm>

namespace cistern::pool {

std::atomic<unsigned> Captures::process_{0};

Captures::Key Captures::key_of(CUstream stream) noexcept {
    static thread_local char self;
    return {stream, stream == CU_STREAM_PER_THREAD ? &self : nullptr};
}

bool Captures::add(CUstream stream) {
    const std::lock_guard lock(mutex_);
    const Key key = key_of(stream);
    if (std::find(streams_.begin(), streams_.end(), key) != streams_.end()) return false;
    streams_.push_back(key);
    open_.fetch_add(1);
    process_.fetch_add(1);
    return true;
}

void Captures::remove(CUstream stream) noexcept {
    const std::lock_guard lock(mutex_);
    const auto found = std::find(streams_.begin(), streams_.end(), key_of(stream));
    if (found == streams_.end()) return;
    streams_.erase(found);
    open_.fetch_sub(1);
    process_.fetch_sub(1);
}

void Captures::clear() noexcept {
    const std::lock_guard lock(mutex_);
    open_.fetch_sub(static_cast<unsigned>(streams_.size()));
    process_.fetch_sub(static_cast<unsigned>(streams_.size()));
    streams_.clear();
}

} // namespace cistern::pool
