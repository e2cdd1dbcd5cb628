#pragma once
// The pool of one context: memory, reuse order and captures brought together.
//
// Way of a block:   allocate -> used -> free -> pending -> (event of its epoch done) -> ready -> allocate
//
// Locks, in this order, none held over a call that can wait for the device:
//   harvest_   one thread queries at a time; the others find its result instead of asking again
//   growth_    (in DeviceMemory) one thread maps or unmaps at a time
//   lock_      bookkeeping of blocks and epochs; no driver call under it
// Objects of this class are never destroyed: a thread may still hold a pointer to the pool of a context that has ended.

#include "pool/captures.h"
#include "pool/counters.h"
#include "pool/device_memory.h"
#include "pool/outcome.h"
#include "pool/reuse_order.h"
#include "pool/spin_lock.h"

#include <atomic>
#include <chrono>
#include <functional>
#include <memory>
#include <mutex>

namespace cistern::pool {

class ContextPool {
public:
    ContextPool(CUcontext context, CUdevice device, bool primary);
    ContextPool(const ContextPool&) = delete;
    ContextPool& operator=(const ContextPool&) = delete;

    CUcontext context() const noexcept { return context_; }
    CUdevice device() const noexcept { return device_; }
    bool primary() const noexcept { return primary_; }
    /// Whether `context`, which is alive, is the one that this pool was made for and not a later one with its handle.
    bool serves(CUcontext context) const noexcept { return context == context_ && driver::context_id(context) == id_; }
    bool gone() const noexcept { return gone_.load(std::memory_order_acquire); }

    /// The context is current. `*address` only on served success.
    Outcome allocate(size_t bytes, Address* address);
    /// Whatever context is current.
    Outcome free(Address address);
    /// Stream-ordered: `stream` belongs to `stream_pool`'s context.
    Outcome free_in_stream(Address address, CUstream stream, ContextPool& stream_pool);
    bool find(Address address, Address* start, size_t* requested);

    /// Closes the open epoch: inside the free that wants it, or elsewhere (before a begin-capture, when memory is short),
    /// which makes it a late one.
    void close_epoch(bool in_free);
    /// Before a capture begins in this context: closes the open epoch, and makes sure that what the capture parks can be got
    /// back on a full card.
    void prepare_for_capture();
    /// After the capture was counted: returns when no record is going on in this context.
    void await_records() noexcept;
    /// Brackets a synchronise of the context by the program: see ReuseOrder::advance and credit.
    uint64_t before_synchronize();
    void after_synchronize(uint64_t number, CUresult result);

    /// Asks for the oldest closed epoch. True if something became ready or an event was recycled.
    bool harvest_one();
    void harvest_all();
    size_t trim();
    /// Mapped bytes that no used block occupies, whole 2 MiB pages.
    size_t idle_bytes();
    void extend_access(driver::DeviceMask devices);

    /// From here on no thread of the pool touches the context's events; returns when the last has left.
    void depart() noexcept;
    void stay() noexcept { leaving_.fetch_sub(1); }
    /// The context has ended: memory goes back to the driver, every address is foreign.
    void end();

private:
    /// Keeps the context from departing while the pool makes driver calls on its events.
    class Use;
    using Clock = std::chrono::steady_clock;

    static constexpr size_t low_events = 16; ///< fewer spare events: an allocation makes a batch
    Address take_ready(size_t bytes, bool* more_events);
    Address harvest_and_take(size_t bytes);
    Outcome find_memory(size_t bytes, Address* address);
    Address last_steps(size_t bytes, size_t* rounded);
    Address one_last_try(size_t bytes, Clock::time_point deadline, size_t* rounded);
    bool could_fit(size_t bytes);
    bool open_memory();
    void ensure_events();
    void record(Epoch* epoch);
    Outcome take_back(Address address, bool* close);
    void close_quietly() noexcept;
    void wait_as_natively();
    bool wait_oldest();
    CUresult wait_unless_leaving(CUevent event);
    void wait_a_while(Clock::time_point deadline, const std::function<bool()>& enough);
    bool barrier();
    void keep_dummy();
    void barrier_if_due();
    bool settle(Epoch* epoch, CUresult result);
    std::vector<Freed> make_own_ready();
    static void make_foreign_ready(const std::vector<Freed>& foreign);
    void note(CUresult result) noexcept;
    void note_fault(CUresult result) noexcept;
    size_t pending_bytes();
    size_t open_bytes();
    size_t closed_bytes();
    CUevent event_for_stream();
    void give_back(CUevent event);
    void now_in_use(size_t bytes) noexcept;
    void now_pending() noexcept;

    /// How frees wait where they do.
    struct Waits {
        bool every_free; ///< DALI_USE_DEFERRED_DEALLOC=0
        bool in_batches; ///< no context events in this driver
        bool empty() const noexcept { return !every_free && !in_batches; }
    };

    const CUcontext context_;
    const CUdevice device_;
    const bool primary_;
    const unsigned long long id_;
    const size_t total_;
    const size_t pending_bound_;
    const Waits waits_;

    std::mutex harvest_;
    SpinLock lock_;
    ReuseOrder order_;                     ///< guarded by lock_
    std::vector<Freed> ready_;             ///< scratch, guarded by lock_; keeps its capacity
    std::unique_ptr<DeviceMemory> memory_; ///< set once under opening_, ended under lock_
    size_t in_use_ = 0;                    ///< guarded by lock_
    std::mutex opening_;
    std::atomic<bool> opened_{false};
    std::atomic<bool> usable_{true}; ///< VMM works on this device
    std::atomic<bool> dead_{false};  ///< sticky error seen: everything is forwarded for its code
    std::atomic<int> leaving_{0};    ///< departures going on; one that ends in `end` stays counted
    std::atomic<bool> gone_{false};
    std::atomic<int> users_{0};
    std::atomic<unsigned> recording_{0}; ///< context records going on: see captures.h
    std::atomic<CUdeviceptr> dummy_{
        0};                 ///< native allocation for the next barrier: drivers without context events, and captures
    PoolCounters counters_; ///< written under lock_
};

} // namespace cistern::pool
