#include "pool/captures.h"

#include <algorithm>
#include <atomic>
#include <mutex>
#include <thread>
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
std::atomic<unsigned> recording{0};
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

Recording::Recording() noexcept {
    recording.fetch_add(1);
    allowed_ = open_count.load() == 0;
}

Recording::~Recording() { recording.fetch_sub(1); }

uint64_t begin(CUstream stream, CUcontext context) {
    uint64_t serial = 0;
    {
        const std::lock_guard lock(changing);
        for (const Capture& capture : list())
            if (is_same(capture, stream, context)) return 0;
        open_count.fetch_add(1);
        serial = ++last_serial;
        list().push_back({stream, this_thread(), context, serial});
    }
    while (recording.load() != 0) std::this_thread::yield();
    return serial;
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
