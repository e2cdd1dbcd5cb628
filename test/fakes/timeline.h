#pragma once
// The virtual clock and the works on it.
//
// Every work has predecessors. Once the ends of all of them are known its own end is known too (start + duration), even if it
// lies in the future: then it is *resolved*. Only a closed gate or a host function keeps a work unresolved. So asking whether
// a work is over is one comparison with the clock, and a host wait for resolved work moves the clock instead of sleeping.

#include "test/fakes/objects.h"

#include <condition_variable>
#include <deque>
#include <mutex>
#include <queue>

namespace fake {

using Lock = std::unique_lock<std::mutex>;

class Timeline {
public:
    uint64_t now() const { return now_; }
    uint64_t last_seq() const { return seq_; }
    bool done(const WorkPtr& work) const { return !work || (work->resolved && work->finish <= now_); }

    /// Adds `work` behind those of `before` that are not over. Effects of work that ends now happen at once.
    void submit(const WorkPtr& work, const std::vector<WorkPtr>& before);
    void advance_to(uint64_t time);
    void open(SimGate& gate);

    /// Until `work` is over: moves the clock, or sleeps while that depends on another thread.
    void wait(Lock& lock, const WorkPtr& work);
    /// One nap until something changed. Call in a loop.
    void sleep(Lock& lock);
    void wake();
    int sleepers() const { return sleepers_; }

    const std::vector<WorkPtr>& unfinished() const { return flight_; }
    /// A device fault: the works of a context end now, without effects.
    void abandon(const Context& root);
    /// Forgets every work (sim_reset). No thread may wait.
    void reset();
    bool host_functions_idle() const { return host_due_ == 0 && host_queue_.empty() && !host_running_; }

private:
    struct Due {
        uint64_t time;
        uint64_t seq;
        WorkPtr work;
        bool host; ///< a host function is due to start; else the work ends
        bool operator<(const Due& other) const { return time != other.time ? time > other.time : seq > other.seq; }
    };
    void begin(const WorkPtr& work);
    void resolve(WorkPtr work, uint64_t finish);
    void complete(Work& work);
    void leave_flight(Work& work);
    void start_host_function(const WorkPtr& work);
    void host_loop();

    uint64_t now_ = 1000;
    uint64_t seq_ = 0;
    std::priority_queue<Due> due_;
    unsigned host_due_ = 0; ///< host functions in due_, not started
    std::vector<WorkPtr> flight_;
    std::condition_variable changed_;
    int sleepers_ = 0;
    bool host_thread_ = false;
    bool host_running_ = false;
    std::deque<WorkPtr> host_queue_;
    std::condition_variable host_wake_;
};

} // namespace fake
