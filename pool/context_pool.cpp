// Memory side of a context pool: allocation, free, the last steps before out of memory.
#include "pool/context_pool.h"

#include "config/config.h"
#include "config/log.h"
#include "pool/context_use.h"
#include "pool/counters.h"
#include "pool/nap.h"
#include "pool/registry.h"
#include "pool/ticks.h"

#include <algorithm>
#include <thread>

namespace cistern::pool {
namespace {

/// Share of the card that may be pending before an allocation waits: large enough that a program which runs some
/// steps ahead never waits, small enough that it cannot take the card (README, "Settings", has the measurement).
constexpr size_t default_pending_share = 32;

size_t pending_bound_for(size_t total) {
    const config::Settings& settings = config::settings();
    if (settings.pending_bound != 0) return settings.pending_bound;
    if (settings.pending_share != 0) return total / 100 * settings.pending_share;
    return total / default_pending_share;
}

/// A block this large closes its epoch at once: what may lie about unrecorded is a matter of the card's size.
size_t close_block_for(size_t total) {
    constexpr size_t share = 8192; // 16 MiB on cards of 128 GiB and more
    return std::clamp(total / share, ReuseOrder::close_block_bytes, ReuseOrder::close_bytes);
}

} // namespace

ContextPool::ContextPool(CUcontext context, CUdevice device, bool primary)
    : context_(context), device_(device), primary_(primary), id_(driver::context_id(context)),
      total_(driver::total_memory(device)),
      pending_bound_(pending_bound_for(total_)), waits_{!config::settings().deferred_dealloc,
                                                        !driver::has_context_events()},
      order_(close_block_for(total_)) {
    counters_.enlist();
}

void ContextPool::now_in_use(size_t bytes) noexcept {
    in_use_ = bytes;
    PoolCounters::set(counters_.in_use_bytes, counters_.in_use_bytes_peak, bytes);
}

void ContextPool::now_pending() noexcept {
    PoolCounters::set(counters_.pending_bytes, counters_.pending_bytes_peak, order_.pending_bytes());
}

bool ContextPool::open_memory() {
    if (opened_.load(std::memory_order_acquire)) return usable_.load(std::memory_order_relaxed);
    const std::lock_guard opening(opening_);
    if (opened_.load(std::memory_order_relaxed)) return usable_.load(std::memory_order_relaxed);
    std::unique_ptr<DeviceMemory> memory = DeviceMemory::open(device_, total_, lock_);
    if (memory) {
        registry::claim_addresses(memory->base(), memory->reserved_bytes(), this);
    } else {
        usable_.store(false);
        log::write(log::Level::info, "device %d has no usable virtual memory management: native allocations", device_);
    }
    {
        const std::lock_guard lock(lock_);
        memory_ = std::move(memory);
        opened_.store(true);
    }
    if (usable_.load() && !driver::has_context_events()) keep_dummy();
    // After publishing: a device whose first context appears now sees either `opened` or our look at the devices.
    if (usable_.load()) memory_->extend_access(registry::peers_with_contexts(device_));
    return usable_.load(std::memory_order_relaxed);
}

Outcome ContextPool::allocate(size_t bytes, Address* address) {
    if (leaving_.load(std::memory_order_relaxed) != 0) return Outcome::forward(Reason::leaving_context);
    if (dead_.load(std::memory_order_relaxed)) return Outcome::forward(Reason::dead_context);
    if (bytes > total_) return Outcome::forward(Reason::too_large);
    bool more_events = true;
    const Address ready = take_ready(bytes, &more_events);
    if (ready && !more_events) {
        *address = ready;
        return Outcome::done();
    }
    const Use use(*this);
    if (use && more_events) ensure_events();
    if (ready) {
        *address = ready;
        return Outcome::done();
    }
    if (!use) return Outcome::forward(Reason::leaving_context);
    if (!open_memory()) return Outcome::forward(Reason::no_vmm);
    Address found = 0; // the program's variable stays as it is unless the call is served
    const Outcome outcome = find_memory(bytes, &found);
    if (outcome.served()) *address = found;
    return outcome;
}

Address ContextPool::take_ready(size_t bytes, bool* more_events) {
    const std::lock_guard lock(lock_);
    *more_events = order_.spare_events() < low_events;
    size_t rounded = 0;
    const Address address = memory_ ? memory_->take(bytes, &rounded) : 0;
    if (address) {
        PoolCounters::add(counters_.alloc_hits);
        now_in_use(in_use_ + rounded);
    }
    return address;
}

Address ContextPool::harvest_and_take(size_t bytes) {
    bool more_events = false;
    while (harvest_one())
        if (const Address address = take_ready(bytes, &more_events)) return address;
    return 0;
}

Outcome ContextPool::find_memory(size_t bytes, Address* address) {
    if ((*address = harvest_and_take(bytes)) != 0) return Outcome::done();
    if (open_bytes() >= order_.close_block()) {
        close_epoch(false); // parked by a capture that has ended, or by another thread's begin-capture
        if ((*address = harvest_and_take(bytes)) != 0) return Outcome::done();
    }
    // Host wait (a) of the design: more pending than the bound, and an epoch that a native free would have waited for.
    while (pending_bytes() >= pending_bound_ && wait_oldest()) {
        bool more_events = false;
        count(counters().bound_waits);
        if ((*address = take_ready(bytes, &more_events)) != 0) return Outcome::done();
        if ((*address = harvest_and_take(bytes)) != 0) return Outcome::done();
    }
    size_t rounded = 0;
    const CUresult result = memory_->grow(bytes, false, address, &rounded);
    if (result != CUDA_SUCCESS && result != CUDA_ERROR_OUT_OF_MEMORY && memory_->mapped_now() == 0) {
        usable_.store(false);
        log::write(log::Level::info, "device %d refuses virtual memory (error %d): native allocations", device_,
                   result);
        return Outcome::forward(Reason::no_vmm);
    }
    if (*address == 0) *address = last_steps(bytes, &rounded);
    if (*address == 0) return Outcome::forward(dead_.load() ? Reason::dead_context : Reason::out_of_memory);
    const std::lock_guard lock(lock_);
    now_in_use(in_use_ + rounded);
    return Outcome::done();
}

Address ContextPool::last_steps(size_t bytes, size_t* rounded) {
    constexpr int most_tries = 20; // threads that all look for the same last bytes keep each other moving
    // Work in another thread's stream may outlive any patience: late epochs and other contexts get this much in all.
    const Clock::time_point deadline = Clock::now() + std::chrono::seconds(10);
    for (int tries = 0;; ++tries) {
        const uint64_t before = DeviceMemory::transits().of_others;
        const Address address = one_last_try(bytes, deadline, rounded);
        const DeviceMemory::Transits now = DeviceMemory::transits();
        if (address || dead_.load() || tries == most_tries || (!now.going_on && now.of_others == before))
            return address;
        std::this_thread::yield();
    }
}

Address ContextPool::one_last_try(size_t bytes, Clock::time_point deadline, size_t* rounded) {
    // Host wait (c) of the design. Each step gives memory that the next growth can use; the order is by harm: what is
    // idle here, what is idle in other pools, what a native free would have waited for, what it would not.
    Address address = 0;
    const auto squeeze = [&] {
        harvest_all();
        return memory_->grow(bytes, true, &address, rounded) == CUDA_SUCCESS;
    };
    // Trims this pool, too: wholly free handles that fit nowhere come back in the sizes that do.
    const auto squeeze_all = [&] {
        registry::for_each([&](ContextPool& pool) {
            if (pool.device() == device_) pool.trim();
        });
        return squeeze();
    };
    if (!could_fit(bytes)) return 0; // so that a program which tries sizes does not empty the pool
    if (squeeze() || squeeze_all()) return address;
    while (wait_oldest()) {
        count(counters().last_waits);
        if (squeeze() || squeeze_all()) return address;
    }
    wait_a_while(deadline, squeeze_all);
    return address;
}

bool ContextPool::could_fit(size_t bytes) {
    constexpr size_t rounding = size_t{4} << 20; // idle bytes are whole pages, rounded down
    size_t free = 0;
    if (driver::free_memory(&free) != CUDA_SUCCESS) return false;
    registry::for_each([&](ContextPool& pool) {
        if (pool.device() == device_) free += pool.idle_bytes() + rounding;
    });
    return free >= bytes;
}

Outcome ContextPool::take_back(Address address, bool* close) {
    const std::lock_guard lock(lock_);
    size_t bytes = 0;
    if (!memory_) return Outcome::forward(Reason::foreign_pointer);
    order_.make_room(); // whatever throws does so before the block changes its state
    if (!memory_->set_pending(address, &bytes)) {
        // Natively a free straight after a stream-ordered one of the same pointer succeeds, until the stream has passed it.
        if (order_.is_freed_in_stream(address)) return Outcome::done();
        return Outcome::forward(Reason::invalid_pointer);
    }
    now_in_use(in_use_ - bytes);
    const uint64_t now = ticks::now();
    order_.add({address, bytes, this});
    now_pending();
    *close = order_.wants_close(bytes, now);
    return Outcome::done();
}

Outcome ContextPool::free(Address address) {
    if (dead_.load(std::memory_order_relaxed)) return Outcome::forward(Reason::dead_context);
    bool close = false;
    const Outcome outcome = take_back(address, &close);
    if (!outcome.served() || (!close && waits_.empty())) return outcome;
    const Use use(*this); // a context that is leaving takes blocks back without touching its events
    if (!use) return outcome;
    if (waits_.every_free)
        wait_as_natively();
    else if (waits_.in_batches)
        barrier_if_due();
    else
        close_quietly();
    return outcome;
}

Outcome ContextPool::free_in_stream(Address address, CUstream stream, ContextPool& stream_pool) {
    const Use use(stream_pool);
    if (dead_.load(std::memory_order_relaxed)) return Outcome::forward(Reason::dead_context);
    Address start = 0;
    size_t requested = 0;
    if (!find(address, &start, &requested) || start != address) return Outcome::forward(Reason::invalid_pointer);
    CUevent event = use ? stream_pool.event_for_stream() : nullptr;
    if (!event) return free(address); // ready later than the stream would allow, but no less safe
    const CUresult result = driver::record_stream(event, stream);
    if (result == CUDA_ERROR_INVALID_HANDLE) { // a stream that takes no event of this context: no fault of the context
        stream_pool.give_back(event);
        return free(address);
    }
    stream_pool.note(result);
    size_t bytes = 0;
    if (result == CUDA_SUCCESS) {
        const std::lock_guard lock(lock_);
        if (memory_ && memory_->set_pending(address, &bytes)) now_in_use(in_use_ - bytes);
    }
    const std::lock_guard lock(stream_pool.lock_);
    if (bytes == 0) { // refused by the driver, or freed by another thread meanwhile: an error of the program
        stream_pool.order_.add_event(event);
        return result == CUDA_SUCCESS ? Outcome::forward(Reason::invalid_pointer) : Outcome::done(result);
    }
    stream_pool.order_.add_stream_free({address, bytes, this}, event);
    stream_pool.now_pending();
    return Outcome::done();
}

CUevent ContextPool::event_for_stream() {
    {
        const std::lock_guard lock(lock_);
        if (CUevent event = order_.take_event()) return event;
    }
    ensure_events(); // may block beside a native free, so only where there is none
    const std::lock_guard lock(lock_);
    return order_.take_event();
}

void ContextPool::give_back(CUevent event) {
    const std::lock_guard lock(lock_);
    order_.add_event(event);
}

bool ContextPool::find(Address address, Address* start, size_t* requested) {
    const std::lock_guard lock(lock_);
    return memory_ && memory_->find(address, start, requested);
}

size_t ContextPool::trim() {
    const Use use(*this);
    if (!use || !opened_.load(std::memory_order_acquire) || !usable_.load()) return 0;
    harvest_all();
    return memory_->trim();
}

size_t ContextPool::idle_bytes() {
    constexpr size_t page = size_t{2} << 20;
    const std::lock_guard lock(lock_);
    if (!memory_) return 0;
    const size_t used = (in_use_ + page - 1) / page * page;
    // The dummy's page would be free natively.
    const size_t mapped = memory_->mapped_bytes() + (dummy_.load() ? page : 0);
    return mapped > used ? (mapped - used) / page * page : 0;
}

void ContextPool::extend_access(driver::DeviceMask devices) {
    const Use use(*this);
    if (use && opened_.load() && usable_.load()) memory_->extend_access(devices);
}

void ContextPool::depart() noexcept {
    leaving_.fetch_add(1);
    while (users_.load() != 0) nap();
}

void ContextPool::end() {
    std::vector<Freed> foreign;
    std::unique_ptr<DeviceMemory> memory;
    registry::forget(this);
    captures::end_all_of(context_);
    {
        const std::lock_guard lock(lock_);
        gone_.store(true, std::memory_order_release);
        ready_.clear();
        order_.abandon(ready_);
        memory = std::move(memory_);
        now_in_use(0);
        foreign = make_own_ready();
    }
    make_foreign_ready(foreign); // blocks of other contexts' pools whose stream-ordered frees waited for this one
    if (!memory) return;
    registry::claim_addresses(memory->base(), memory->reserved_bytes(), nullptr);
    memory->release_all();
}

} // namespace cistern::pool
