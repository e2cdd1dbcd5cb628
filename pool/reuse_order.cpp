#include "pool/reuse_order.h"

#include "pool/ticks.h"

#include <algorithm>

namespace cistern::pool {

ReuseOrder::ReuseOrder(size_t close_block) : close_block_(close_block) {
    open_ = new_epoch();
    open_->number = 1;
}

ReuseOrder::~ReuseOrder() = default;

Epoch* ReuseOrder::new_epoch() {
    if (unused_.empty()) {
        storage_.push_back(std::make_unique<Epoch>());
        return storage_.back().get();
    }
    Epoch* epoch = unused_.back();
    unused_.pop_back();
    std::vector<Freed> freed = std::move(epoch->freed); // keeps its capacity: no allocation per epoch
    freed.clear();
    *epoch = Epoch{};
    epoch->freed = std::move(freed);
    return epoch;
}

void ReuseOrder::make_room() {
    std::vector<Freed>& freed = open_->freed;
    if (freed.size() == freed.capacity()) freed.reserve(freed.size() < close_frees ? close_frees : 2 * freed.size());
}

void ReuseOrder::add(const Freed& freed) noexcept {
    open_->freed.push_back(freed);
    open_->bytes += freed.bytes;
    pending_bytes_ += freed.bytes;
}

bool ReuseOrder::wants_close(size_t bytes, uint64_t now) const noexcept {
    if (open_->freed.size() >= close_frees) return true;
    // So many events outstanding means a long kernel: more of them would only cost memory and queries.
    if (epochs_.size() >= many_epochs) return open_->bytes >= 4 * close_bytes;
    return bytes >= close_block_ || open_->bytes >= close_bytes ||
           now - last_close_ >= close_microseconds * ticks::per_microsecond();
}

Epoch* ReuseOrder::begin_close(bool in_free, uint64_t now) {
    if (open_->freed.empty() || spare_events_.empty()) return nullptr;
    Epoch* next = new_epoch();
    Epoch* epoch = open_;
    epochs_.push_back(epoch);
    next->number = epoch->number + 1;
    open_ = next;
    epoch->state = Epoch::State::closing;
    epoch->event = take_event();
    epoch->late = !in_free;
    last_close_ = now;
    return epoch;
}

uint64_t ReuseOrder::advance(uint64_t now) {
    if (pending_bytes_ == 0) return 0;
    Epoch* next = new_epoch();
    Epoch* epoch = open_;
    epochs_.push_back(epoch);
    next->number = epoch->number + 1;
    open_ = next;
    epoch->state = Epoch::State::closing;
    last_close_ = now;
    return epoch->number;
}

void ReuseOrder::recorded(Epoch* epoch) noexcept { epoch->state = Epoch::State::closed; }

void ReuseOrder::reopen(Epoch* epoch) {
    open_->freed.insert(open_->freed.end(), epoch->freed.begin(), epoch->freed.end());
    if (epoch->event) spare_events_.push_back(epoch->event);
    open_->bytes += epoch->bytes;
    remove(epoch);
}

void ReuseOrder::reopen(uint64_t number) {
    for (Epoch* epoch : epochs_)
        if (epoch->number == number) return reopen(epoch);
}

void ReuseOrder::add_stream_free(const Freed& freed, CUevent event) {
    Epoch* epoch = new_epoch();
    epoch->number = open_->number;
    epoch->state = Epoch::State::closed;
    epoch->of_stream = true;
    epoch->event = event;
    epoch->bytes = freed.bytes;
    epoch->freed.push_back(freed);
    stream_frees_.push_back(epoch);
    pending_bytes_ += freed.bytes;
}

bool ReuseOrder::is_freed_in_stream(Address address) const noexcept {
    return std::any_of(stream_frees_.begin(), stream_frees_.end(),
                       [=](const Epoch* epoch) { return !epoch->proven && epoch->freed.front().address == address; });
}

Epoch* ReuseOrder::hold_oldest() noexcept {
    for (Epoch* epoch : epochs_) {
        if (epoch->state != Epoch::State::closed) continue;
        ++epoch->holders;
        return epoch;
    }
    return nullptr;
}

Epoch* ReuseOrder::hold_next_stream_free() noexcept {
    if (stream_frees_.empty()) return nullptr;
    Epoch* epoch = stream_frees_.front();
    std::rotate(stream_frees_.begin(), stream_frees_.begin() + 1, stream_frees_.end());
    ++epoch->holders;
    return epoch;
}

Epoch* ReuseOrder::hold_waitable() noexcept {
    for (Epoch* epoch : epochs_) {
        if (epoch->state != Epoch::State::closed || epoch->proven || epoch->late) continue;
        ++epoch->holders;
        return epoch;
    }
    return nullptr;
}

void ReuseOrder::release(Epoch* epoch, bool seen_done, std::vector<Freed>& ready) {
    --epoch->holders;
    if (!seen_done) return;
    if (epoch->of_stream)
        move_frees(epoch, ready);
    else
        prove(epoch->number, ready);
    if (epoch->holders > 0) return; // the last holder will see it done, too, and recycle it
    spare_events_.push_back(epoch->event);
    remove(epoch);
}

void ReuseOrder::prove(uint64_t number, std::vector<Freed>& ready) {
    for (Epoch* epoch : epochs_) {
        if (epoch->number > number) break;
        move_frees(epoch, ready);
    }
    // A stream free with the same number was recorded before the advance to the next one, so it is covered as well.
    for (Epoch* epoch : stream_frees_)
        if (epoch->number <= number) move_frees(epoch, ready);
}

void ReuseOrder::credit(uint64_t number, std::vector<Freed>& ready) {
    prove(number, ready);
    // Epochs that `advance` made have no event to be seen done; their frees are ready, nothing is left of them.
    for (size_t i = 0; i < epochs_.size();) {
        Epoch* epoch = epochs_[i];
        if (epoch->number <= number && !epoch->event && epoch->freed.empty())
            remove(epoch);
        else
            ++i;
    }
}

void ReuseOrder::abandon(std::vector<Freed>& ready) {
    for (Epoch* epoch : epochs_) move_frees(epoch, ready);
    for (Epoch* epoch : stream_frees_) move_frees(epoch, ready);
    move_frees(open_, ready);
    epochs_.clear();
    stream_frees_.clear();
    spare_events_.clear();
}

CUevent ReuseOrder::take_event() noexcept {
    if (spare_events_.empty()) return nullptr;
    CUevent event = spare_events_.back();
    spare_events_.pop_back();
    return event;
}

void ReuseOrder::move_frees(Epoch* epoch, std::vector<Freed>& ready) {
    ready.insert(ready.end(), epoch->freed.begin(), epoch->freed.end());
    pending_bytes_ -= epoch->bytes;
    epoch->bytes = 0;
    epoch->freed.clear();
    epoch->proven = true;
}

void ReuseOrder::remove(Epoch* epoch) {
    std::deque<Epoch*>& list = epoch->of_stream ? stream_frees_ : epochs_;
    list.erase(std::find(list.begin(), list.end(), epoch));
    unused_.push_back(epoch);
}

} // namespace cistern::pool
