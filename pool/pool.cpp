// The entrance: guards that every operation shares, then the context pool's own operation.
#include "pool/pool.h"

#include "config/config.h"
#include "config/log.h"
#include "pool/captures.h"
#include "pool/registry.h"

#include <new>

namespace cistern::pool {
namespace {

std::atomic<bool> opened{false};
std::atomic<bool> forked{false};
std::mutex opening;
bool tried = false;
bool usable = false; ///< guarded by opening until opened

ContextPool* as_pool(void* p) { return static_cast<ContextPool*>(p); }

/// Whether calls may be decided here at all.
bool active() noexcept { return opened.load(std::memory_order_acquire) && !forked.load(std::memory_order_relaxed); }

Reason inactive_reason() noexcept { return forked.load(std::memory_order_relaxed) ? Reason::forked : Reason::disabled; }

/// Runs `operation`; a shortage of host memory, the only thing that throws in here, becomes a forwarded call.
template <class Operation> Outcome guarded(Operation operation) noexcept {
    try {
        if (!active()) return Outcome::forward(inactive_reason());
        return operation();
    } catch (...) {
        return Outcome::forward(Reason::internal);
    }
}

template <class Operation> void quietly(Operation operation) noexcept {
    try {
        if (active()) operation();
    } catch (...) {
        log::boot("[cistern] out of host memory\n");
    }
}

/// The pool of the calling thread's context, or why there is none. The driver is asked on every call (about 10 ns):
/// inside host functions and after shut-down it refuses, and so do we.
Outcome current_pool(ContextPool** pool) {
    CUcontext context = nullptr;
    if (driver::current_context(&context) != CUDA_SUCCESS || !context) return Outcome::forward(Reason::no_context);
    if (captures::open() != 0 && driver::capture_refuses()) return Outcome::forward(Reason::capture);
    *pool = registry::find_or_create(context);
    return *pool ? Outcome::done() : Outcome::forward(Reason::no_context);
}

/// The pool that owns an address that is to be freed; null if the outcome is the answer already.
Outcome owning_pool(Address address, ContextPool** pool) {
    *pool = registry::owner_of(address);
    if (!*pool) return Outcome::forward(Reason::foreign_pointer);
    CUcontext context = nullptr;
    const CUresult asked = driver::current_context(&context);
    const bool refused = asked == CUDA_SUCCESS && captures::open() != 0 && driver::capture_refuses();
    if (asked != CUDA_SUCCESS || refused) *pool = nullptr;
    // A refusal is not forwarded: by the question the driver has refused a free and done to the capture what goes with it.
    // Asked again after another thread has ended that capture, it would not know our address and say 1.
    if (refused) return Outcome::done(CUDA_ERROR_STREAM_CAPTURE_UNSUPPORTED);
    return asked == CUDA_SUCCESS ? Outcome::done() : Outcome::forward(Reason::no_context);
}

/// Null if the driver does not say.
CUcontext context_of(CUstream stream) {
    CUcontext context = nullptr;
    return driver::stream_context(stream, &context) == CUDA_SUCCESS ? context : nullptr;
}

} // namespace

bool open(Lookup lookup) noexcept {
    if (opened.load(std::memory_order_acquire)) return true;
    try {
        const config::Settings& s = config::settings();
        const bool wanted = !s.disable && !s.refused && s.device_mem_pool && s.vmm && !s.cuda_malloc_async;
        const bool bound = wanted && driver::bind(lookup); // before the lock: see there
        const std::lock_guard lock(opening);
        if (tried) return usable;
        tried = true;
        usable = bound;
        opened.store(usable, std::memory_order_release);
        if (wanted && !usable) log::write(log::Level::info, "the driver lacks functions that a pool needs");
        return usable;
    } catch (...) {
        return false;
    }
}

void after_fork_in_child() noexcept { forked.store(true); }

Outcome allocate(CUdeviceptr* out, size_t bytes) noexcept {
    return guarded([&] {
        if (!out || bytes == 0) return Outcome::forward(Reason::bad_argument);
        ContextPool* pool = nullptr;
        const Outcome found = current_pool(&pool);
        return found.served() ? pool->allocate(bytes, out) : found;
    });
}

Outcome allocate_pitch(CUdeviceptr* out, size_t* pitch, size_t width, size_t height, unsigned element) noexcept {
    constexpr size_t native_pitch_unit = 512; // measured: 1, 100, 512 -> 512; 513 -> 1024; 4097 -> 4608
    const bool known_element = element == 4 || element == 8 || element == 16;
    size_t row = 0;
    size_t bytes = 0;
    if (!out || !pitch || width == 0 || height == 0 || !known_element ||
        __builtin_add_overflow(width, native_pitch_unit - 1, &row) ||
        __builtin_mul_overflow(row / native_pitch_unit * native_pitch_unit, height, &bytes))
        return Outcome::forward(active() ? Reason::bad_argument : inactive_reason());
    const Outcome outcome = allocate(out, bytes);
    if (outcome.served()) *pitch = row / native_pitch_unit * native_pitch_unit;
    return outcome;
}

Outcome free(CUdeviceptr ptr) noexcept {
    return guarded([&] {
        ContextPool* pool = nullptr;
        const Outcome found = owning_pool(ptr, &pool);
        return pool ? pool->free(ptr) : found;
    });
}

Outcome free_async(CUdeviceptr ptr, CUstream stream) noexcept {
    return guarded([&] {
        ContextPool* pool = registry::owner_of(ptr);
        if (!pool) return Outcome::forward(Reason::foreign_pointer);
        // Into a capturing stream native answers 1 and the capture lives; the driver says the same of our address.
        if (captures::open() != 0 && driver::is_capturing(stream)) return Outcome::forward(Reason::capture);
        const Outcome found = owning_pool(ptr, &pool);
        if (!pool) return found;
        CUcontext context = nullptr;
        const CUresult asked = driver::stream_context(stream, &context);
        if (asked != CUDA_SUCCESS) return Outcome::done(asked); // no such stream
        if (!context) return Outcome::forward(Reason::no_context);
        ContextPool* stream_pool = registry::find_or_create(context);
        if (!stream_pool) return pool->free(ptr); // waits for more than the stream: safe
        return pool->free_in_stream(ptr, stream, *stream_pool);
    });
}

Outcome address_range(CUdeviceptr* base, size_t* bytes, CUdeviceptr ptr) noexcept {
    return guarded([&] {
        ContextPool* pool = registry::owner_of(ptr);
        Address start = 0;
        size_t requested = 0;
        CUcontext context = nullptr;
        if (!pool) return Outcome::forward(Reason::foreign_pointer);
        if (driver::current_context(&context) != CUDA_SUCCESS || !context) return Outcome::forward(Reason::no_context);
        // The driver would answer with the whole handle behind an address that is no live block.
        if (!pool->find(ptr, &start, &requested)) return Outcome::done(CUDA_ERROR_NOT_FOUND);
        if (base) *base = start;
        if (bytes) *bytes = requested;
        return Outcome::done();
    });
}

size_t idle_bytes() noexcept {
    size_t idle = 0;
    quietly([&] {
        CUcontext context = nullptr;
        CUdevice device = 0;
        if (driver::current_context(&context) != CUDA_SUCCESS || !context) return;
        if (driver::current_device(&device) != CUDA_SUCCESS) return;
        registry::for_each([&](ContextPool& pool) {
            if (pool.device() == device) idle += pool.idle_bytes();
        });
    });
    return idle;
}

size_t trim() noexcept {
    size_t bytes = 0;
    quietly([&] {
        registry::for_each([&](ContextPool& pool) {
            pool.close_epoch(false); // what was freed last has no event yet
            bytes += pool.trim();
        });
    });
    return bytes;
}

BeginCapture::BeginCapture(CUstream stream) noexcept {
    quietly([&] {
        const CUcontext context = context_of(stream);
        ContextPool* pool = context ? registry::find_or_create(context) : nullptr;
        if (pool) pool->prepare_for_capture();
        serial_ = captures::begin(stream, context);
        if (pool) pool->await_records();
    });
}

void BeginCapture::began(CUresult result) noexcept {
    if (result != CUDA_SUCCESS) captures::end(serial_);
}

EndCapture::EndCapture(CUstream stream) noexcept : stream_(stream) {
    quietly([&] {
        if (captures::open() != 0) serial_ = captures::on(stream, context_of(stream));
    });
}

void EndCapture::ended(CUresult result) noexcept {
    if (serial_ == 0) return;
    const bool goes_on = result != CUDA_SUCCESS && driver::is_capturing(stream_);
    if (!goes_on) captures::end(serial_);
}

DestroyStream::DestroyStream(CUstream stream) noexcept {
    quietly([&] {
        if (captures::open() != 0) serial_ = captures::on(stream, context_of(stream));
    });
}

void DestroyStream::destroyed(CUresult result) noexcept {
    if (result == CUDA_SUCCESS) captures::end(serial_);
}

Synchronize::Synchronize(CUcontext context) noexcept {
    quietly([&] {
        if (!context && driver::current_context(&context) != CUDA_SUCCESS) return;
        // A green context's synchronise returns while the primary's other work runs: no credit.
        if (!context || registry::is_green(context)) return;
        ContextPool* pool = registry::find(context);
        if (!pool) return;
        epoch_ = pool->before_synchronize();
        context_ = pool;
    });
}

void Synchronize::returned(CUresult result) noexcept {
    if (context_) quietly([&] { as_pool(context_)->after_synchronize(epoch_, result); });
}

void context_appeared(CUdevice device) noexcept {
    quietly([&] { registry::context_on_device(device); });
}

void green_context_appeared(CUcontext green) noexcept {
    quietly([&] { registry::note_green(green); });
}

void context_created(CUcontext context) noexcept {
    quietly([&] { registry::forget_green(context); });
}

Departure::Departure(CUcontext context) noexcept {
    quietly([&] {
        if (!context && driver::current_context(&context) != CUDA_SUCCESS) return;
        begin(context, registry::find(context));
    });
}

Departure Departure::of_primary(CUdevice device) noexcept {
    Departure departure;
    quietly([&] {
        ContextPool* pool = registry::find_primary(device);
        const bool ask = !pool && captures::open() != 0; // the handle is needed for the captures that end with it
        departure.begin(pool ? pool->context() : ask ? driver::primary_context(device) : nullptr, pool);
    });
    return departure;
}

void Departure::begin(CUcontext handle, void* pool) noexcept {
    handle_ = handle;
    context_ = pool;
    if (pool) as_pool(pool)->depart();
}

Departure::Departure(Departure&& other) noexcept : context_(other.context_), handle_(other.handle_) {
    other.context_ = nullptr;
    other.handle_ = nullptr;
}

Departure::~Departure() { stays(); }

void Departure::stays() noexcept {
    if (context_) as_pool(context_)->stay();
    context_ = nullptr;
    handle_ = nullptr;
}

void Departure::gone() noexcept {
    if (handle_) captures::end_all_of(handle_);
    if (context_) quietly([&] { as_pool(context_)->end(); });
    context_ = nullptr;
    handle_ = nullptr;
}

void Departure::decide_by_state(CUdevice device) noexcept {
    if (!context_) {
        if (handle_ && driver::primary_context(device) != handle_) gone();
        return;
    }
    // Another thread may have made a new primary context meanwhile, with the same handle.
    const CUcontext now = driver::primary_context(device);
    if (now && as_pool(context_)->serves(now))
        stays();
    else
        gone();
}

} // namespace cistern::pool
