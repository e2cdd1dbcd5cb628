#pragma once
// Watches over the promises that an allocator on top of the driver has to keep. Never changes what the driver does.

#include "test/fakes/objects.h"

#include <map>
#include <string>
#include <vector>

namespace fake {

struct Thread;
struct Graph;

enum class Violation : unsigned char {
#define X(name, text) name,
    SIM_KINDS(X)
#undef X
        count_
};

class Referee {
public:
    void report(Violation kind, const char* format, ...) __attribute__((format(printf, 3, 4)));

    bool claim(uintptr_t start, size_t bytes, bool pinned, int device);
    int disclaim(uintptr_t start);
    /// Before memory goes away or gets other physical memory behind it.
    void leaving(uintptr_t start, size_t bytes, const char* what);
    /// Before memory is given to others (export, registration).
    void sharing(uintptr_t start, size_t bytes, const char* what);
    /// A work's last moment: verifies what it read and writes its patterns.
    void completing(Work& work);

    void querying(Event& event, const Thread& t);
    void waiting(const Event& event, const Thread& t, const Context* current);
    void recording(const Event& event);

    unsigned long violations(const char* kind) const;
    std::string text() const;
    void clear();     ///< violations
    void clear_all(); ///< violations and claims
    bool abort_on_violation = false;
    bool allow_late_waits = false;
    unsigned long stale_queries = 0;

private:
    struct Claim {
        uintptr_t end;
        bool pinned;
    };
    /// An unfinished work that uses part of the range, or null.
    const Work* user(uintptr_t start, size_t bytes, bool skip_claimed = false) const;
    bool claimed(uintptr_t start, size_t bytes) const;

    std::map<uintptr_t, Claim> claims_;
    unsigned long counts_[static_cast<int>(Violation::count_)] = {};
    std::vector<std::string> lines_;
};

/// Byte operations on simulated memory. Never instrumented by a sanitizer: a "kernel" races with nobody.
void device_fill(uintptr_t start, size_t bytes, unsigned char pattern);
bool device_equals(uintptr_t start, size_t bytes, unsigned char pattern);
void device_copy(uintptr_t to, uintptr_t from, size_t bytes);

} // namespace fake
