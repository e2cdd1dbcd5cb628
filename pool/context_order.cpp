// Order side of a context pool: closing epochs, asking for them, waiting for them. See reuse_order.h for the argument.
#include "pool/context_pool.h"

#include "pool/context_use.h"
#include "pool/counters.h"
#include "pool/nap.h"
#include "pool/registry.h"
#include "pool/ticks.h"

namespace cistern::pool {
namespace {

constexpr size_t event_batch = 32;
constexpr size_t backlog = 4; ///< outstanding epochs beyond which a close asks for the oldest
/// Without context events a barrier waits in the free; so many frees or bytes share one.
constexpr size_t barrier_frees = 64;
constexpr size_t barrier_bytes = size_t{1} << 30;
constexpr size_t dummy_bytes = 512;

/// Refusals because of a capture say nothing about the context's health.
bool is_capture_code(CUresult result) {
    return result >= CUDA_ERROR_STREAM_CAPTURE_UNSUPPORTED && result <= CUDA_ERROR_STREAM_CAPTURE_WRONG_THREAD;
}

} // namespace

void ContextPool::note(CUresult result) noexcept {
    const bool healthy = result == CUDA_SUCCESS || result == CUDA_ERROR_NOT_READY || is_capture_code(result) ||
                         result == CUDA_ERROR_OUT_OF_MEMORY;
    if (!healthy) dead_.store(true);
}

/// For results of the program's own calls, which may also fail without any harm to the context.
void ContextPool::note_fault(CUresult result) noexcept {
    switch (result) {
    case CUDA_ERROR_ILLEGAL_ADDRESS:
    case CUDA_ERROR_LAUNCH_TIMEOUT:
    case CUDA_ERROR_ASSERT:
    case CUDA_ERROR_HARDWARE_STACK_ERROR:
    case CUDA_ERROR_ILLEGAL_INSTRUCTION:
    case CUDA_ERROR_MISALIGNED_ADDRESS:
    case CUDA_ERROR_INVALID_ADDRESS_SPACE:
    case CUDA_ERROR_INVALID_PC:
    case CUDA_ERROR_LAUNCH_FAILED:
    case CUDA_ERROR_ECC_UNCORRECTABLE:
    case CUDA_ERROR_NVLINK_UNCORRECTABLE:
        dead_.store(true);
        break;
    default:
        break;
    }
}

size_t ContextPool::pending_bytes() {
    const std::lock_guard lock(lock_);
    return order_.pending_bytes();
}

size_t ContextPool::closed_bytes() {
    const std::lock_guard lock(lock_);
    return order_.pending_bytes() - order_.open_bytes();
}

size_t ContextPool::open_bytes() {
    const std::lock_guard lock(lock_);
    return order_.open_bytes();
}

/// Events are made ahead of need, in allocations only: creation may block beside a native free that waits, and a free
/// must not. The context is current for `allocate`; a stream-ordered free may come from elsewhere.
void ContextPool::ensure_events() {
    {
        const std::lock_guard lock(lock_);
        if (order_.spare_events() >= low_events) return;
    }
    const driver::Current current(context_);
    for (size_t i = 0; current && i < event_batch; ++i) {
        CUevent event = nullptr;
        if (driver::create_event(&event) != CUDA_SUCCESS) return;
        const std::lock_guard lock(lock_);
        order_.add_event(event);
    }
}

void ContextPool::record(Epoch* epoch) {
    CUresult result = CUDA_ERROR_STREAM_CAPTURE_UNSUPPORTED;
    {
        const captures::Recording recording(recording_); // refused: the frees stay parked in the open epoch
        if (recording) result = driver::record_context(context_, epoch->event);
    }
    note(result);
    const std::lock_guard lock(lock_);
    if (result == CUDA_SUCCESS)
        order_.recorded(epoch);
    else
        order_.reopen(epoch);
}

void ContextPool::close_epoch(bool in_free) {
    if (!driver::has_context_events() || captures::open() != 0) return;
    const Use use(*this);
    if (!use || dead_.load()) return;
    size_t outstanding = 0;
    bool no_event = false;
    const auto begin = [&] {
        const std::lock_guard lock(lock_);
        outstanding = order_.closed_epochs();
        no_event = order_.spare_events() == 0;
        return order_.begin_close(in_free, ticks::now());
    };
    Epoch* epoch = begin();
    if (no_event) {
        // Work that takes long holds every event, and the epoch has to be closed all the same: closed later it would be
        // late, and nobody could wait for it. Creating events may block here, but no longer than the native free would.
        harvest_one();
        ensure_events();
        epoch = begin();
    }
    if (epoch) record(epoch);
    // A program that allocates from ready memory only would never ask for its epochs. Asking for more than one per close
    // shrinks a backlog, so that the same few events and blocks are used again while they are in the caches.
    for (int asked = 0; outstanding > backlog && asked < 4 && harvest_one(); ++asked, --outstanding) {
    }
}

/// The block is taken back whatever happens here: without host memory its epoch stays open.
void ContextPool::close_quietly() noexcept {
    try {
        close_epoch(true);
    } catch (const std::bad_alloc&) {
    }
}

void ContextPool::prepare_for_capture() {
    close_epoch(false);
    if (opened_.load(std::memory_order_acquire) && usable_.load()) keep_dummy();
}

void ContextPool::await_records() noexcept {
    while (recording_.load() != 0) nap();
}

bool ContextPool::settle(Epoch* epoch, CUresult result) {
    note(result);
    std::vector<Freed> foreign;
    {
        const std::lock_guard lock(lock_);
        ready_.clear();
        order_.release(epoch, result == CUDA_SUCCESS, ready_);
        foreign = make_own_ready();
    }
    make_foreign_ready(foreign);
    return result == CUDA_SUCCESS;
}

bool ContextPool::harvest_one() {
    const std::lock_guard harvesting(harvest_);
    size_t stream_frees = 0; // once round the list: one stream's work says nothing of another's
    for (size_t i = 0; i <= stream_frees; ++i) {
        Epoch* epoch = nullptr;
        {
            const std::lock_guard lock(lock_);
            stream_frees = order_.stream_frees();
            epoch = i == 0 ? order_.hold_oldest() : order_.hold_next_stream_free();
        }
        if (!epoch && i > 0) return false;
        if (epoch && settle(epoch, driver::query_event(epoch->event))) return true;
    }
    return false;
}

void ContextPool::harvest_all() {
    while (!dead_.load() && harvest_one()) {
    }
}

bool ContextPool::wait_oldest() {
    Epoch* epoch = nullptr;
    {
        const std::lock_guard lock(lock_);
        epoch = order_.hold_waitable();
    }
    return epoch && settle(epoch, wait_unless_leaving(epoch->event));
}

/// Asks again and again instead of a wait in the driver, so that another thread's release or reset of the context does not
/// have to wait for the work too: it would not, natively.
CUresult ContextPool::wait_unless_leaving(CUevent event) {
    constexpr int without_sleep = 50;
    for (int asked = 0;; ++asked) {
        const CUresult result = driver::query_event(event);
        if (result != CUDA_ERROR_NOT_READY || leaving_.load() != 0) return result;
        if (asked >= without_sleep) nap();
    }
}

/// What must not be waited for without limit: late epochs, other contexts of the device, frees that a capture has parked.
void ContextPool::wait_a_while(Clock::time_point deadline, const std::function<bool()>& enough) {
    const bool events = driver::has_context_events();
    close_epoch(false);
    // What a capture has parked cannot be recorded; one native free of a dummy waits for it as the program's would have.
    const bool parked = open_bytes() > 0 && (captures::open() != 0 || !events);
    if (parked && barrier() && enough()) return;
    size_t pending = 1;
    while (pending > 0 && Clock::now() < deadline && !dead_.load() && leaving_.load() == 0) {
        pending = 0;
        bool progress = false;
        registry::for_each([&](ContextPool& pool) {
            if (pool.device() != device_) return;
            pool.close_epoch(false); // also what a capture had parked that has ended meanwhile
            const Use use(pool);
            if (use && !pool.dead_.load() && pool.harvest_one()) progress = true;
            // Without context events only that context's own frees bring its open epoch to an end: no use to ask for it.
            pending += events ? pool.pending_bytes() : pool.closed_bytes();
        });
        if (progress && enough()) return;
        if (!progress) nap(50);
    }
    enough(); // another thread may have seen the last event done
}

/// Where the barrier is the only way to get memory back, its dummy is allocated ahead: on a full card it could not be.
void ContextPool::keep_dummy() {
    const driver::Current current(context_);
    CUdeviceptr dummy = 0;
    if (!current || dummy_.load() || driver::native_allocate(&dummy, dummy_bytes) != CUDA_SUCCESS) return;
    CUdeviceptr none = 0;
    if (!dummy_.compare_exchange_strong(none, dummy)) driver::native_free(dummy);
}

bool ContextPool::barrier() {
    const driver::Current current(context_);
    if (!current) return false;
    CUdeviceptr dummy = dummy_.exchange(0);
    if (!dummy && driver::native_allocate(&dummy, dummy_bytes) != CUDA_SUCCESS) return false;
    const uint64_t number = before_synchronize();
    if (number == 0) { // nothing is pending: nothing to wait for
        CUdeviceptr none = 0;
        if (!dummy_.compare_exchange_strong(none, dummy)) driver::native_free(dummy);
        return false;
    }
    const CUresult result = driver::native_free(dummy);
    after_synchronize(number, result);
    keep_dummy();
    return result == CUDA_SUCCESS;
}

/// Drivers without context events: the wait stands inside a free, where native would wait as well, once for many.
void ContextPool::barrier_if_due() {
    {
        const std::lock_guard lock(lock_);
        const bool due = order_.open_frees() >= barrier_frees || order_.pending_bytes() >= barrier_bytes ||
                         order_.pending_bytes() >= pending_bound_;
        if (!due) return;
    }
    barrier();
}

/// Waiting frees: the same proof as a synchronise of the program. Advance, record, wait, credit.
void ContextPool::wait_as_natively() {
    count(counters().waiting_frees);
    CUevent event = nullptr;
    if (driver::has_context_events()) {
        const std::lock_guard lock(lock_);
        event = order_.take_event();
    }
    const uint64_t number = before_synchronize();
    CUresult result = CUDA_ERROR_STREAM_CAPTURE_UNSUPPORTED;
    if (event) {
        const captures::Recording recording(recording_);
        if (recording) result = driver::record_context(context_, event);
    }
    if (result == CUDA_SUCCESS) result = wait_unless_leaving(event);
    after_synchronize(number, result);
    if (event && (result == CUDA_SUCCESS || is_capture_code(result))) {
        const std::lock_guard lock(lock_);
        order_.add_event(event);
    }
    if (is_capture_code(result)) barrier();
}

uint64_t ContextPool::before_synchronize() {
    const std::lock_guard lock(lock_);
    return order_.advance(ticks::now());
}

void ContextPool::after_synchronize(uint64_t number, CUresult result) {
    note_fault(result); // natively the calls after a fault that the program has seen give its code
    if (number == 0) return;
    std::vector<Freed> foreign;
    {
        const std::lock_guard lock(lock_);
        ready_.clear();
        if (result == CUDA_SUCCESS)
            order_.credit(number, ready_);
        else
            order_.reopen(number);
        foreign = make_own_ready();
    }
    make_foreign_ready(foreign);
}

/// With lock_ held: the blocks in ready_ that are this pool's become ready; returns the others (rarely any).
std::vector<Freed> ContextPool::make_own_ready() {
    std::vector<Freed> foreign;
    for (const Freed& freed : ready_) {
        if (freed.owner != this)
            foreign.push_back(freed);
        else if (memory_)
            memory_->set_ready(freed.address);
    }
    now_pending();
    return foreign;
}

/// Without any lock: blocks of other contexts' pools.
void ContextPool::make_foreign_ready(const std::vector<Freed>& foreign) {
    for (const Freed& freed : foreign) {
        const std::lock_guard lock(freed.owner->lock_);
        if (freed.owner->memory_) freed.owner->memory_->set_ready(freed.address);
    }
}

} // namespace cistern::pool
