#include "test/fakes/referee.h"

#include "test/fakes/state.h"

#include <cstdarg>
#include <cstdio>
#include <cstdlib>
#include <cstring>

namespace fake {
namespace {

struct KindText {
    const char* name;
    const char* text;
};
constexpr KindText kinds[] = {
#define X(name, text) {#name, text},
    SIM_KINDS(X)
#undef X
};

constexpr size_t kept_lines = 200;
constexpr size_t edge_bytes = 64;

bool overlaps(const SimRange& range, uintptr_t start, size_t bytes) {
    return range.ptr < start + bytes && start < range.ptr + range.bytes;
}

// The parts of a range that are really written and compared.
template <class Do> void touched(const SimRange& range, Do&& act) {
    if (!(range.flags & SIM_EDGES) || range.bytes <= 2 * edge_bytes) {
        act(static_cast<uintptr_t>(range.ptr), range.bytes);
        return;
    }
    act(static_cast<uintptr_t>(range.ptr), edge_bytes);
    act(static_cast<uintptr_t>(range.ptr + range.bytes - edge_bytes), edge_bytes);
}

unsigned long long hex(uintptr_t value) { return value; }

} // namespace

void Referee::report(Violation kind, const char* format, ...) {
    const KindText& k = kinds[static_cast<int>(kind)];
    ++counts_[static_cast<int>(kind)];
    char detail[300];
    va_list list;
    va_start(list, format);
    std::vsnprintf(detail, sizeof detail, format, list);
    va_end(list);
    if (lines_.size() < kept_lines) lines_.push_back(std::string(k.name) + ": " + k.text + ": " + detail + "\n");
    if (!abort_on_violation) return;
    std::fprintf(stderr, "sim: %s: %s: %s\n", k.name, k.text, detail);
    std::abort();
}

const Work* Referee::user(uintptr_t start, size_t bytes, bool skip_claimed) const {
    for (const WorkPtr& work : state().timeline.unfinished())
        for (const SimRange& range : work->ranges) {
            if ((range.flags & SIM_FOREIGN) || !overlaps(range, start, bytes)) continue;
            if (skip_claimed && claimed(range.ptr, range.bytes)) continue;
            return work.get();
        }
    return nullptr;
}

bool Referee::claimed(uintptr_t start, size_t bytes) const {
    auto next = claims_.lower_bound(start);
    if (next != claims_.end() && next->first < start + bytes) return true;
    return next != claims_.begin() && std::prev(next)->second.end > start;
}

bool Referee::claim(uintptr_t start, size_t bytes, bool pinned, int device) {
    bool good = true;
    if (const Work* work = user(start, bytes)) {
        report(pinned ? Violation::early_reuse_pinned : Violation::early_reuse, "[%llx, +%zu), work %llu", hex(start),
               bytes, static_cast<unsigned long long>(work->seq));
        good = false;
    }
    if (claimed(start, bytes)) {
        report(Violation::claim_overlap, "[%llx, +%zu)", hex(start), bytes);
        good = false;
    }
    const Memory& memory = state().memory;
    bool mapped = device < 0 ? memory.touchable(start, bytes) : memory.accessible(start, bytes, device);
    if (!mapped) {
        report(Violation::claim_unmapped, "[%llx, +%zu), device %d", hex(start), bytes, device);
        good = false;
    }
    claims_[start] = {start + bytes, pinned};
    return good;
}

int Referee::disclaim(uintptr_t start) {
    auto found = claims_.find(start);
    if (found == claims_.end()) return -1;
    size_t bytes = found->second.end - start;
    claims_.erase(found);
    return user(start, bytes) ? 1 : 0;
}

void Referee::leaving(uintptr_t start, size_t bytes, const char* what) {
    if (this_thread().program_depth > 0) return;
    if (const Work* work = user(start, bytes))
        report(Violation::unmap_busy, "%s [%llx, +%zu), work %llu", what, hex(start), bytes,
               static_cast<unsigned long long>(work->seq));
    if (claimed(start, bytes)) report(Violation::unmap_claimed, "%s [%llx, +%zu)", what, hex(start), bytes);
}

void Referee::sharing(uintptr_t start, size_t bytes, const char* what) {
    if (this_thread().program_depth > 0) return;
    if (const Work* work = user(start, bytes, true))
        report(Violation::export_busy, "%s [%llx, +%zu), work %llu", what, hex(start), bytes,
               static_cast<unsigned long long>(work->seq));
}

void Referee::completing(Work& work) {
    const Memory& memory = state().memory;
    for (const SimRange& range : work.ranges) {
        constexpr unsigned check = SIM_READ | SIM_VERIFY;
        if ((range.flags & check) != check) continue;
        touched(range, [&](uintptr_t start, size_t bytes) {
            if (!memory.touchable(start, bytes) || !device_equals(start, bytes, range.expected))
                report(Violation::wrong_bytes, "[%llx, +%zu) is not all %02x, work %llu", hex(start), bytes,
                       range.expected, static_cast<unsigned long long>(work.seq));
        });
    }
    for (const SimRange& range : work.ranges) {
        if (!(range.flags & SIM_WRITE)) continue;
        touched(range, [&](uintptr_t start, size_t bytes) {
            if (memory.touchable(start, bytes)) device_fill(start, bytes, range.pattern);
        });
    }
}

void Referee::querying(Event& event, const Thread& t) {
    if (t.program_depth > 0) return;
    if (event.recording > 0 && event.recorder != t.id)
        report(Violation::query_while_recording, "thread %d, recording thread %d", t.id, event.recorder);
    else if (!event.recorded)
        report(Violation::unrecorded_query, "thread %d", t.id);
    if (event.recorded && event.seen_done) ++stale_queries;
}

void Referee::waiting(const Event& event, const Thread& t, const Context* current) {
    if (t.program_depth > 0 || allow_late_waits || state().timeline.done(event.work)) return;
    if (event.by_context && event.late) report(Violation::late_wait, "thread %d", t.id);
    if (current && current->root != event.context->root) report(Violation::foreign_wait, "thread %d", t.id);
}

void Referee::recording(const Event& event) {
    if (!state().timeline.done(event.work)) report(Violation::recycled_busy_event, "event recorded again while busy");
}

unsigned long Referee::violations(const char* kind) const {
    unsigned long sum = 0;
    for (size_t i = 0; i < std::size(kinds); ++i)
        if (!kind || std::strcmp(kind, kinds[i].name) == 0) sum += counts_[i];
    return sum;
}

std::string Referee::text() const {
    std::string all;
    for (const std::string& line : lines_) all += line;
    return all;
}

void Referee::clear() {
    for (unsigned long& count : counts_) count = 0;
    lines_.clear();
    stale_queries = 0;
}

void Referee::clear_all() { *this = Referee(); }

} // namespace fake
