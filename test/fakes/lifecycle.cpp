#include "test/fakes/lifecycle.h"

#include "test/fakes/log.h"
#include "test/fakes/state.h"

#include <pthread.h>

#include <atomic>
#include <chrono>
#include <cstdio>
#include <cstdlib>
#include <deque>
#include <mutex>
#include <thread>

namespace fake {

State& state() {
    static State* const one = new State;
    return *one;
}

namespace {
std::atomic<uint64_t> generation{0}; // grows with sim_reset
}

Thread& this_thread() {
    // Never destroyed: exit handlers call the driver after the main thread's thread-local objects are gone.
    static std::mutex mutex;
    static auto* const all = new std::deque<Thread>;
    thread_local Thread* one = nullptr;
    if (!one) {
        std::lock_guard<std::mutex> lock(mutex);
        one = &all->emplace_back();
        one->id = static_cast<int>(all->size());
    }
    uint64_t now = generation.load(std::memory_order_relaxed);
    if (one->generation != now) {
        Thread fresh;
        fresh.id = one->id;
        fresh.generation = now;
        fresh.in_host_function = one->in_host_function;
        *one = fresh;
    }
    return *one;
}

namespace lifecycle {
namespace {

enum class Life : int { before, up, child, over };
std::atomic<Life> life{Life::before};
std::atomic<bool> poison_flag{false};
std::atomic<bool> configured{false};

void in_child() {
    if (life.load() != Life::before) life.store(Life::child);
}

void default_attributes(Device& d) {
    static const int values[][2] = {{1, 1024}, {2, 1024}, {10, 32}, {13, 1980000}, {14, 512}, {16, 132}, {19, 1},
                                    {31, 1},   {32, 32},  {33, 1},  {34, 0},       {41, 1},   {50, 0},   {51, 32},
                                    {75, 9},   {76, 0},   {83, 1},  {89, 1},       {101, 1},  {102, 1},  {103, 1},
                                    {110, 1},  {115, 1},  {119, 1}, {128, 1},      {134, 0},  {141, 1}};
    for (const int(&pair)[2] : values) d.attributes[pair[0]] = pair[1];
    d.attributes[33] = d.ordinal + 1; // PCI bus
}

void make_devices(State& s) {
    for (int i = 0; i < s.config.devices && i < max_devices; ++i) {
        Device& d = s.devices.emplace_back();
        d.ordinal = i;
        d.total = s.config.total_mb << 20;
        default_attributes(d);
        for (const Config::Attribute& rule : s.config.attributes)
            if (rule.device < 0 || rule.device == i) d.attributes[rule.attribute] = rule.value;
        d.primary = s.make_context(d, nullptr);
        d.primary->primary = true;
        d.primary->alive = false;
    }
    for (int from = 0; from < max_devices; ++from)
        for (int to = 0; to < max_devices; ++to) {
            char pair[32];
            std::snprintf(pair, sizeof pair, "%d-%d", from, to);
            bool can = s.config.peers == "all" || s.config.peers.find(pair) != std::string::npos;
            s.peers[{from, to}] = can && from != to;
        }
}

// The library's own shutdown: what still calls afterwards gets "deinitialized", as from the real driver.
__attribute__((destructor)) void shut_down() {
    if (life.load() == Life::child || !configured.load()) return;
    State& s = state();
    std::string more;
    {
        Lock lock(s.mutex);
        more = s.referee.text();
    }
    log::write_summary(more.c_str());
    if (life.load() == Life::up) life.store(Life::over);
}

} // namespace

CUresult check() {
    switch (life.load(std::memory_order_acquire)) {
    case Life::up:
        return CUDA_SUCCESS;
    case Life::over:
        return CUDA_ERROR_DEINITIALIZED;
    default:
        return CUDA_ERROR_NOT_INITIALIZED;
    }
}

void ensure_configured() {
    if (configured.load(std::memory_order_acquire)) return;
    State& s = state();
    Lock lock(s.mutex);
    if (configured.load(std::memory_order_relaxed)) return;
    s.config = Config::from_environment();
    poison_flag.store(s.config.poison);
    s.referee.abort_on_violation = s.config.abort_on_violation;
    make_devices(s);
    configured.store(true, std::memory_order_release);
}

CUresult initialise(unsigned flags) {
    if (life.load() == Life::child) return CUDA_ERROR_NOT_INITIALIZED;
    if (life.load() == Life::over) return CUDA_ERROR_DEINITIALIZED;
    log::remember_environment();
    ensure_configured();
    if (flags != 0) return CUDA_ERROR_INVALID_VALUE;
    bool early = false;
    {
        State& s = state();
        Lock lock(s.mutex);
        early = s.config.early_shutdown;
        if (s.config.no_device || s.config.devices == 0) return CUDA_ERROR_NO_DEVICE;
    }
    static std::once_flag once;
    std::call_once(once, [early] {
        pthread_atfork(nullptr, nullptr, in_child);
        if (early) std::atexit([] { life.store(Life::over); });
    });
    life.store(Life::up, std::memory_order_release);
    return CUDA_SUCCESS;
}

void reset() {
    State& s = state();
    {
        Lock lock(s.mutex);
        s.memory.reset();
        s.referee.clear_all();
        s.timeline.reset();
        generation.fetch_add(1);
        s.captures.clear();
        s.per_thread_streams.clear();
        s.context_handles.clear();
        s.stream_handles.clear();
        s.forget_handles();
        s.stream_pool.clear();
        s.contexts.clear();
        s.devices.clear();
        s.gates.clear();
        s.peers.clear();
        s.events_alive = 0;
        life.store(Life::before);
        configured.store(false);
    }
    log::clear_failures();
    log::clear_calls();
    log::forget_environment();
    poison_flag.store(false);
}

bool poisons() { return poison_flag.load(std::memory_order_relaxed); }
void set_poison(bool yes) { poison_flag.store(yes); }

void race_window(unsigned us) {
    if (us != 0) std::this_thread::sleep_for(std::chrono::microseconds(us));
}

} // namespace lifecycle
} // namespace fake
