#pragma once
// The reuse order of one context: which freed blocks are ready.
//
// Every free is stamped with the open epoch. Closing an epoch advances the number, then records one context event, which
// captures everything submitted to the context so far. When the event is done, every block with that stamp or an earlier
// one is ready, because the work that could touch it was submitted before its free, so before the record.
//
//   thread A   submit work on p   free(p): stamp e                         |
//   thread B                                        close: e -> e+1  record(event e)
//   thread C                                                               ...   query(event e) = done: p is ready
//
// Why the order "advance, then record" suffices: a free that read e took the lock before the advance, so its work is
// older than the record. A free that comes later reads e+1 and waits for the next event. With the two steps swapped a
// free between them would get stamp e although event e misses its work.
//
// Why records may overtake each other: of two closers of e and e+1, the one of e+1 may record first. That record is
// still younger than every free with stamp e, so "e+1 done" proves e. The reverse is never concluded.
//
// States of an epoch: open -> closing (number advanced, record on its way) -> closed (record returned 0) -> gone.
// Nobody queries a closing epoch: a fresh event reads as done, and a recycled one keeps its old "done".
// This class is bookkeeping: no driver calls. Not thread-safe: the caller holds the context pool's lock.

#include "pool/block.h"

#include <cuda.h>
#include <deque>
#include <memory>
#include <vector>

namespace cistern::pool {

class ContextPool;

/// A freed block that is not ready yet. The owner may be another context's pool (a stream-ordered free).
struct Freed {
    Address address = 0;
    size_t bytes = 0;
    ContextPool* owner = nullptr;
};

struct Epoch {
    enum class State : unsigned char { open, closing, closed };
    uint64_t number = 0;
    State state = State::open;
    /// Closed outside a free: it may have captured work that no free natively waited for, so it is queried only and never
    /// waited for without limit. (An epoch closed inside a free is prompt however old its other frees are: that last free
    /// natively waits for everything that the record captures.)
    bool late = false;
    bool of_stream = false; ///< a stream's event, covers this one free only
    bool proven = false;    ///< its frees are ready already; only the event is still to be seen done
    int holders = 0;        ///< threads that query or wait for the event: it is not recycled meanwhile
    CUevent event = nullptr;
    size_t bytes = 0;
    std::vector<Freed> freed;
};

class ReuseOrder {
public:
    // When a free closes the open epoch: so many frees, so many bytes, or so long after the last close. A close and the
    // question that it leads to cost 0.4 to 2 us (the caches are cold behind a kernel), ten times a pair without them.
    static constexpr size_t close_frees = 64;
    static constexpr size_t close_bytes = size_t{16} << 20;
    static constexpr size_t close_block_bytes = size_t{1}
                                                << 20; ///< a block this large closes at once, see the constructor
    static constexpr uint64_t close_microseconds = 500;
    static constexpr size_t many_epochs = 1024; ///< beyond, only frees and four times the bytes close an epoch

    /// `close_block`: bytes of a block that closes its epoch at once; large cards can afford more than the default.
    explicit ReuseOrder(size_t close_block = close_block_bytes);
    ~ReuseOrder();
    ReuseOrder(const ReuseOrder&) = delete;
    ReuseOrder& operator=(const ReuseOrder&) = delete;

    /// Takes the host memory that the next `add` needs; may throw, `add` after it does not.
    void make_room();
    /// A block was freed: stamps it with the open epoch.
    void add(const Freed& freed) noexcept;
    /// Whether this free should close the open epoch.
    bool wants_close(size_t bytes, uint64_t now) const noexcept;
    /// Advances the number and returns the epoch to record, or null if nothing is open or no event is spare.
    Epoch* begin_close(bool in_free, uint64_t now);
    /// Advances the number without an event: the returned number is covered by a synchronise that starts after this.
    /// 0 if nothing is pending.
    uint64_t advance(uint64_t now);
    /// The record of a closing epoch returned 0.
    void recorded(Epoch* epoch) noexcept;
    /// The record failed: its frees go back to the open epoch, the event is spare again.
    void reopen(Epoch* epoch);
    /// The same for a number that `advance` gave and no synchronise has proven.
    void reopen(uint64_t number);
    /// A stream-ordered free: `event`, taken by take_event, was recorded in the stream.
    void add_stream_free(const Freed& freed, CUevent event);

    /// Whether a stream-ordered free of this address is not ready yet.
    bool is_freed_in_stream(Address address) const noexcept;
    /// Oldest closed epoch whose event nobody has seen done, held for a query; null if none.
    Epoch* hold_oldest() noexcept;
    /// A stream-ordered free that is not ready yet, held for a query; another one each time. Null if none.
    Epoch* hold_next_stream_free() noexcept;
    /// Oldest closed epoch with frees that may be waited for without limit, held; null if none.
    Epoch* hold_waitable() noexcept;
    /// Ends a hold. If the event was seen done, appends every block that is ready now to `ready`.
    void release(Epoch* epoch, bool seen_done, std::vector<Freed>& ready);
    /// Everything stamped up to `number` is over (a synchronise that began after `advance` succeeded).
    void credit(uint64_t number, std::vector<Freed>& ready);
    /// The context has ended: all its work is over. Events are forgotten, never touched again.
    void abandon(std::vector<Freed>& ready);

    size_t pending_bytes() const noexcept { return pending_bytes_; }
    size_t open_bytes() const noexcept { return open_->bytes; }
    size_t close_block() const noexcept { return close_block_; }
    size_t open_frees() const noexcept { return open_->freed.size(); }
    size_t closed_epochs() const noexcept { return epochs_.size(); }
    size_t stream_frees() const noexcept { return stream_frees_.size(); }

    /// Events, created beforehand and recycled only when seen done; never destroyed while the context lives.
    size_t spare_events() const noexcept { return spare_events_.size(); }
    void add_event(CUevent event) { spare_events_.push_back(event); }
    CUevent take_event() noexcept;

private:
    Epoch* new_epoch();
    void remove(Epoch* epoch);
    void move_frees(Epoch* epoch, std::vector<Freed>& ready);
    void prove(uint64_t number, std::vector<Freed>& ready);

    const size_t close_block_;
    Epoch* open_ = nullptr;
    std::deque<Epoch*> epochs_;       ///< closing and closed, oldest first
    std::deque<Epoch*> stream_frees_; ///< each with its stream's event; no order among different streams
    std::vector<std::unique_ptr<Epoch>> storage_;
    std::vector<Epoch*> unused_;
    std::vector<CUevent> spare_events_;
    size_t pending_bytes_ = 0;
    uint64_t last_close_ = 0;
};

} // namespace cistern::pool
