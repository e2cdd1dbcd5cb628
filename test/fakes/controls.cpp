// The functions of sim.h.

#include "test/fakes/submit.h"

#include "test/fakes/lifecycle.h"
#include "test/fakes/log.h"

#include <algorithm>
#include <chrono>
#include <cstring>
#include <thread>

using namespace fake;

#define CONTROL extern "C" __attribute__((visibility("default")))

namespace {

/// Every control locks the state, and makes sure that the environment has been read.
struct Guard {
    Guard() { lifecycle::ensure_configured(); }
    State& s = state();
    Lock lock{configured()};

private:
    static std::mutex& configured() {
        lifecycle::ensure_configured();
        return state().mutex;
    }
};

} // namespace

CONTROL CUresult sim_submit(CUstream stream, const SimRange* ranges, size_t count, uint64_t duration_ns,
                            SimGate* gate) {
    if (CUresult life = lifecycle::check()) return life;
    if (this_thread().in_host_function) return CUDA_ERROR_NOT_PERMITTED;
    State& s = state();
    Lock lock(s.mutex);
    if (s.config.auto_advance) s.timeline.advance_to(s.timeline.now() + s.config.auto_advance);
    GraphNode node;
    node.ranges.assign(ranges, ranges + count);
    node.duration = duration_ns;
    node.gate = gate;
    return launch(Frame{s, lock, this_thread()}, stream, node);
}

CONTROL SimGate* sim_gate_create(void) {
    Guard g;
    g.s.gates.push_back(std::make_unique<SimGate>());
    return g.s.gates.back().get();
}

CONTROL void sim_gate_open(SimGate* gate) {
    Guard g;
    g.s.timeline.open(*gate);
}

CONTROL void sim_gate_destroy(SimGate* gate) {
    Guard g;
    // Kept until sim_reset: works and graphs may still name it. Open for good.
    g.s.timeline.open(*gate);
}

CONTROL uint64_t sim_now(void) {
    Guard g;
    return g.s.timeline.now();
}

CONTROL void sim_advance(uint64_t ns) {
    Guard g;
    g.s.timeline.advance_to(g.s.timeline.now() + ns);
}

CONTROL void sim_auto_advance(uint64_t ns_per_call) {
    Guard g;
    g.s.config.auto_advance = ns_per_call;
}

CONTROL size_t sim_unfinished(CUcontext context) {
    Guard g;
    Context* c = context ? g.s.context(context) : nullptr;
    return c ? c->unfinished : g.s.timeline.unfinished().size();
}

CONTROL void sim_kernel_duration(uint64_t ns) {
    Guard g;
    g.s.config.kernel_ns = ns;
}

CONTROL void sim_copy_duration(uint64_t ns) {
    Guard g;
    g.s.config.copy_ns = ns;
}

CONTROL void sim_stream_limit(unsigned launches) {
    Guard g;
    g.s.config.stream_limit = launches;
}

CONTROL void sim_race_window(unsigned us) {
    Guard g;
    g.s.config.race_window_us = us;
}

CONTROL int sim_blocked_threads(void) {
    Guard g;
    return g.s.timeline.sleepers();
}

CONTROL int sim_captures_open(void) {
    Guard g;
    return static_cast<int>(g.s.captures.size());
}

CONTROL void sim_wait_host_functions(void) {
    for (;;) {
        {
            Guard g;
            if (g.s.timeline.host_functions_idle()) return;
        }
        std::this_thread::sleep_for(std::chrono::microseconds(50));
    }
}

CONTROL int sim_check(CUdeviceptr ptr, size_t bytes, unsigned char pattern) {
    Guard g;
    return g.s.memory.touchable(ptr, bytes) && device_equals(ptr, bytes, pattern) ? 1 : 0;
}

CONTROL int sim_fill(CUdeviceptr ptr, size_t bytes, unsigned char pattern) {
    Guard g;
    if (!g.s.memory.touchable(ptr, bytes)) return 0;
    device_fill(ptr, bytes, pattern);
    return 1;
}

CONTROL int sim_claim(CUdeviceptr ptr, size_t bytes) {
    Guard g;
    Context* c = this_thread().top();
    return g.s.referee.claim(ptr, bytes, false, c ? c->device->ordinal : -1) ? 1 : 0;
}

CONTROL int sim_claim_pinned(void* ptr, size_t bytes) {
    Guard g;
    return g.s.referee.claim(reinterpret_cast<uintptr_t>(ptr), bytes, true, -1) ? 1 : 0;
}

CONTROL int sim_disclaim(CUdeviceptr ptr) {
    Guard g;
    return g.s.referee.disclaim(ptr);
}

CONTROL void sim_note_free_begin(void) { ++this_thread().free_depth; }
CONTROL void sim_note_free_end(void) { --this_thread().free_depth; }
CONTROL void sim_program_begin(void) { ++this_thread().program_depth; }
CONTROL void sim_program_end(void) { --this_thread().program_depth; }

CONTROL void sim_allow_late_waits(int yes) {
    Guard g;
    g.s.referee.allow_late_waits = yes != 0;
}

CONTROL unsigned long sim_violations(const char* kind_or_null) {
    Guard g;
    return g.s.referee.violations(kind_or_null);
}

CONTROL size_t sim_report(char* text, size_t size) {
    Guard g;
    std::string all = g.s.referee.text();
    if (text && size > 0) {
        size_t length = std::min(size - 1, all.size());
        std::memcpy(text, all.data(), length);
        text[length] = '\0';
    }
    return all.size() + 1;
}

CONTROL void sim_clear_violations(void) {
    Guard g;
    g.s.referee.clear();
}

CONTROL void sim_abort_on_violation(int yes) {
    Guard g;
    g.s.referee.abort_on_violation = yes != 0;
}

CONTROL unsigned long sim_stale_queries(void) {
    Guard g;
    return g.s.referee.stale_queries;
}

CONTROL void sim_balance(SimBalance* out) {
    Guard g;
    *out = SimBalance{};
    g.s.memory.count(*out);
    out->events = g.s.events_alive;
    out->streams = g.s.stream_handles.size();
    for (const Device& d : g.s.devices) out->used_bytes += d.used;
}

CONTROL void sim_reset(void) { lifecycle::reset(); }

CONTROL void sim_fail(const char* function, int nth, CUresult code) { log::add_failure(function, nth, code); }
CONTROL void sim_clear_failures(void) { log::clear_failures(); }

CONTROL void sim_set_attribute(CUdevice device, CUdevice_attribute attribute, int value) {
    Guard g;
    if (Device* d = g.s.device(device)) d->attributes[static_cast<int>(attribute)] = value;
}

CONTROL void sim_set_total_mb(CUdevice device, size_t mb) {
    Guard g;
    if (Device* d = g.s.device(device)) d->total = mb << 20;
}

CONTROL void sim_set_peer(CUdevice from, CUdevice to, int can) {
    Guard g;
    g.s.peers[{from, to}] = can != 0;
}

CONTROL void sim_poison(int yes) { lifecycle::set_poison(yes != 0); }

CONTROL void sim_fault(CUcontext context, uint64_t notice_ns) {
    Guard g;
    Context* c = g.s.context(context);
    if (!c) return;
    c->root->faulted = true;
    c->root->fault_noticed = g.s.timeline.now() + notice_ns;
    g.s.timeline.abandon(*c->root);
}

CONTROL unsigned long sim_calls(const char* function) { return log::calls(function); }
CONTROL unsigned long sim_calls_total(void) { return log::total(); }
CONTROL void sim_clear_calls(void) { log::clear_calls(); }
CONTROL const char* sim_env_at_init(const char* name) { return log::environment(name); }
