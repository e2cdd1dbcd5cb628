#include "pool/captures.h"

#include <algorithm>
#include <atomic>
#include <mutex>
#include <vector>

namespace cistern::pool::captures {
namespace {

struct Capture {
    CUstream stream;
    const void* thread; ///< the per-thread stream is a different one in every thread
    CUcontext context;  ///< and in every context
    uint64_t serial;
};

std::atomic<unsigned> open_count{0};
std::mutex changing;
uint64_t last_serial = 0; ///< guarded by changing

/// Guarded by changing; never destroyed, streams may be destroyed by exit handlers.
std::vector<Capture>& list() {
    static auto* captures = new std::vector<Capture>;
    return *captures;
}

const void* this_thread() noexcept {
    static thread_local char self;
    return &self;
}

bool is_same(const Capture& capture, CUstream stream, CUcontext context) noexcept {
    if (capture.stream != stream) return false;
    return stream != CU_STREAM_PER_THREAD || (capture.thread == this_thread() && capture.context == context);
}

template <class Which> void remove(Which which) noexcept {
    const std::lock_guard lock(changing);
    std::vector<Capture>& captures = list();
    const auto kept = std::remove_if(captures.begin(), captures.end(), which);
    open_count.fetch_sub(static_cast<unsigned>(captures.end() - kept));
    captures.erase(kept, captures.end());
}

} // namespace

unsigned open() noexcept { return open_count.load(); }

Recording::Recording(std::atomic<unsigned>& going_on) noexcept : going_on_(going_on) {
    going_on_.fetch_add(1);
    allowed_ = open_count.load() == 0;
}

Recording::~Recording() { going_on_.fetch_sub(1); }

uint64_t begin(CUstream stream, CUcontext context) {
    const std::lock_guard lock(changing);
    open_count.fetch_add(1);
    list().push_back({stream, this_thread(), context, ++last_serial});
    return last_serial;
}

void end(uint64_t serial) noexcept {
    if (serial != 0) remove([=](const Capture& capture) { return capture.serial == serial; });
}

uint64_t on(CUstream stream, CUcontext context) noexcept {
    const std::lock_guard lock(changing);
    for (const Capture& capture : list())
        if (is_same(capture, stream, context)) return capture.serial;
    return 0;
}

void end_all_of(CUcontext context) noexcept {
    remove([=](const Capture& capture) { return capture.context == context; });
}

} // namespace cistern::pool::captures
