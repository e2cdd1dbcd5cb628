#pragma once
// Stream captures that are open in one context, and the gate that keeps context records away from begin-capture.
//
//   thread A (begin-capture)   gate exclusive | count +1 | driver begin | count -1 if it failed | gate open
//   thread B (a free)          gate shared, try: refused meanwhile -> the epoch stays open; nobody waits for a capture
//
// A record that overlaps a begin crashes inside the driver (5 of 5 runs unlocked, 0 of 3000 captures with a lock); a
// record while a capture is open kills the capture in every mode. So: record only under the shared gate with count 0.
// The count goes up before the driver's begin and down after its end, whatever that returns: a capture that was
// invalidated or ended by the wrong thread (908) is over in the driver as well (measured). Streams are remembered one by
// one, because an end-capture on a stream that is not capturing must not count.

#include <atomic>
#include <cuda.h>
#include <mutex>
#include <shared_mutex>
#include <vector>

namespace cistern::pool {

class Captures {
public:
    /// Captures open anywhere in the process. While 0 no call of the program can be refused because of one.
    static unsigned open_in_process() noexcept { return process_.load(std::memory_order_seq_cst); }
    unsigned open() const noexcept { return open_.load(std::memory_order_seq_cst); }

    std::shared_mutex& gate() noexcept { return gate_; }

    /// With the gate held exclusively, before the driver's begin-capture. False if the stream is in a capture already
    /// (then the driver's begin is going to fail and the open capture stays counted).
    bool add(CUstream stream);
    /// The capture of `stream` has ended or never began. Unknown streams are ignored.
    void remove(CUstream stream) noexcept;
    /// The context has ended, its captures with it.
    void clear() noexcept;

private:
    /// The per-thread stream is a different one in every thread.
    struct Key {
        CUstream stream;
        const void* thread;
        bool operator==(const Key&) const = default;
    };
    static Key key_of(CUstream stream) noexcept;

    static std::atomic<unsigned> process_;
    std::atomic<unsigned> open_{0};
    std::shared_mutex gate_;
    std::mutex mutex_; ///< guards streams_
    std::vector<Key> streams_;
};

} // namespace cistern::pool
