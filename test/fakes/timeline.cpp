#include "test/fakes/timeline.h"

#include "test/fakes/state.h"

#include <algorithm>
#include <thread>

namespace fake {

void Timeline::submit(const WorkPtr& work, const std::vector<WorkPtr>& before) {
    work->seq = ++seq_;
    work->ready_at = now_;
    for (const WorkPtr& other : before) {
        if (done(other)) continue;
        if (other->resolved) {
            work->ready_at = std::max(work->ready_at, other->finish);
        } else {
            other->successors.push_back(work);
            ++work->waiting;
        }
    }
    if (!work->marker) {
        work->flight = flight_.size();
        flight_.push_back(work);
        ++work->context->unfinished;
        if (work->stream) ++work->stream->pending;
    }
    if (work->waiting == 0) begin(work);
    advance_to(now_);
}

/// All predecessors are known: the work is resolved, or hangs on its gate or host function.
void Timeline::begin(const WorkPtr& work) {
    if (work->gate && !work->gate->open) {
        work->gate->waiting.push_back(work);
    } else if (work->host_function) {
        ++host_due_;
        due_.push({work->ready_at, work->seq, work, true});
    } else {
        resolve(work, work->ready_at + work->duration);
    }
}

void Timeline::resolve(WorkPtr work, uint64_t finish) {
    work->resolved = true;
    work->finish = finish;
    if (!work->marker) due_.push({finish, work->seq, work, false});
    // Iterative: chains behind a gate can be long.
    std::vector<WorkPtr> open{std::move(work)};
    while (!open.empty()) {
        WorkPtr current = std::move(open.back());
        open.pop_back();
        std::vector<WorkPtr> next = std::move(current->successors);
        current->successors.clear();
        for (WorkPtr& follower : next) {
            follower->ready_at = std::max(follower->ready_at, current->finish);
            if (--follower->waiting != 0 || follower->resolved) continue;
            bool held = (follower->gate && !follower->gate->open) || follower->host_function;
            if (held) {
                begin(follower);
                continue;
            }
            follower->resolved = true;
            follower->finish = follower->ready_at + follower->duration;
            if (!follower->marker) due_.push({follower->finish, follower->seq, follower, false});
            open.push_back(std::move(follower));
        }
    }
}

void Timeline::advance_to(uint64_t time) {
    bool moved = time > now_;
    while (!due_.empty() && due_.top().time <= time) {
        Due due = due_.top();
        due_.pop();
        now_ = std::max(now_, due.time);
        if (due.host) --host_due_;
        if (due.host && !due.work->resolved)
            start_host_function(due.work);
        else if (!due.host && !due.work->completed)
            complete(*due.work);
        moved = true;
    }
    now_ = std::max(now_, time);
    if (moved) wake();
}

void Timeline::complete(Work& work) {
    State& s = state();
    s.referee.completing(work);
    if (work.action) work.action();
    work.action = nullptr;
    work.completed = true;
    leave_flight(work);
    --work.context->unfinished;
    if (work.stream) --work.stream->pending;
}

void Timeline::leave_flight(Work& work) {
    WorkPtr& last = flight_.back();
    last->flight = work.flight;
    std::swap(flight_[work.flight], last);
    work.flight = SIZE_MAX;
    flight_.pop_back();
}

void Timeline::open(SimGate& gate) {
    gate.open = true;
    std::vector<WorkPtr> waiting = std::move(gate.waiting);
    gate.waiting.clear();
    for (const WorkPtr& work : waiting) {
        work->gate = nullptr;
        if (work->resolved) continue; // abandoned
        // It ran at the gate until this moment.
        uint64_t end = std::max(now_, work->ready_at + work->duration);
        if (work->host_function) {
            begin(work);
        } else {
            resolve(work, end);
        }
    }
    advance_to(now_);
    wake();
}

void Timeline::wait(Lock& lock, const WorkPtr& work) {
    while (!done(work)) {
        if (work->resolved) {
            advance_to(work->finish);
        } else if (host_due_ > 0) {
            advance_to(due_.top().time);
        } else {
            sleep(lock);
        }
    }
}

void Timeline::sleep(Lock& lock) {
    ++sleepers_;
    changed_.wait(lock);
    --sleepers_;
}

void Timeline::wake() {
    if (sleepers_ > 0) changed_.notify_all();
}

void Timeline::abandon(const Context& root) {
    for (const WorkPtr& work : std::vector<WorkPtr>(flight_)) {
        if (work->context->root != &root) continue;
        work->ranges.clear();
        work->action = nullptr;
        if (work->resolved)
            work->finish = std::min(work->finish, now_);
        else
            resolve(work, now_);
    }
    advance_to(now_);
    wake();
}

void Timeline::reset() {
    now_ = 1000;
    due_ = {};
    host_due_ = 0;
    flight_.clear();
    host_queue_.clear();
}

void Timeline::start_host_function(const WorkPtr& work) {
    host_queue_.push_back(work);
    if (!host_thread_) {
        host_thread_ = true;
        std::thread([this] { host_loop(); }).detach();
    }
    host_wake_.notify_one();
}

/// Host functions run on a thread of the driver, never on the thread that happens to move the clock: that one may hold
/// locks of the program.
void Timeline::host_loop() {
    State& s = state();
    this_thread().in_host_function = true;
    Lock lock(s.mutex);
    for (;;) {
        while (host_queue_.empty()) host_wake_.wait(lock);
        WorkPtr work = host_queue_.front();
        host_queue_.pop_front();
        host_running_ = true;
        lock.unlock();
        work->host_function(work->host_data);
        lock.lock();
        host_running_ = false;
        if (!work->resolved) resolve(work, std::max(now_, work->ready_at));
        advance_to(now_);
        wake();
    }
}

} // namespace fake
