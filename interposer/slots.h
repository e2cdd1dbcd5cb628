#pragma once
// Slots: what is known about each hooked driver function. Everything here is constant-initialised, takes no lock and
// allocates nothing, because it runs inside dlsym.

#include "interposer/table.h"

#include <cuda.h>

#include <atomic>
#include <cstddef>
#include <cstdint>

namespace cistern::interposer {

enum class Slot : unsigned char {
#define X(name, ...) name,
    CISTERN_HOOKS(X)
#undef X
        count_
};
constexpr size_t slot_count = static_cast<size_t>(Slot::count_);

enum class StreamKind : unsigned char { plain, ptsz };

/// The constant part of a slot: its row of the table.
struct SlotInfo {
    const char* exported; ///< "cuMemAlloc_v2"
    const char* base;     ///< "cuMemAlloc"
    int since;
    int until;
    StreamKind stream;
};
const SlotInfo& info(Slot slot) noexcept;

/// The slot of an exported name, or count_. Calls nothing outside this object.
Slot slot_of_export(const char* name) noexcept;

/// Address of our hook: never that of an interposer before us that exports the same name.
void* hook_address(Slot slot) noexcept;

/// What was found out at run time. `next` is the first function that was seen for the slot and is kept: it belongs to
/// the same chain as the door through which the program came.
struct SlotState {
    std::atomic<void*> next{nullptr};
    std::atomic<void*> driver{nullptr}; ///< the symbol of libcuda itself, null until bound or if it has none
    std::atomic<void*> seen[4]{};       ///< addresses known to be this function (real driver, a tool's shim, ...)
    std::atomic<bool> chained{false};   ///< there is more than one of them
};
SlotState& state(Slot slot) noexcept;

/// Notes that `function` is what `slot` names. Thread-safe; the first one becomes `next`.
void learn(Slot slot, void* function) noexcept;
bool has_seen(Slot slot, const void* function) noexcept;

using Dlsym = void* (*)(void*, const char*);

/// The C library's dlsym, for our own look-ups. Null only in a C library without it.
Dlsym real_dlsym() noexcept;

/// The dlsym that the program would reach without us: the C library's, or that of another interposer behind us.
Dlsym next_dlsym() noexcept;

/// Finds the driver library that is loaded already (it is never loaded by us), pins it, and fills `driver` of all slots.
/// `hint` is a function of the driver, for a driver under another file name; may be null. Cheap once it has succeeded.
/// May leave a message for dlerror behind, so the caller's own look-up has to follow it.
bool bind_driver(void* hint) noexcept;

/// Whether `function`, found under the slot's name through `handle`, is the driver's: looked up in the driver itself, seen
/// before, or part of a tool's shim of the whole driver. Other libraries may have functions of the same name.
bool is_of_a_driver(Slot slot, void* handle, void* function) noexcept;

/// Address of a function of the bound driver by exported name: the look-up that the pool works with.
void* driver_symbol(const char* exported_name) noexcept;

/// What this thread is doing at the moment. A tool's shim between us and the driver may have found the hooks by its own
/// look-up and call back into them; such a call was judged already and goes on without asking the pool.
struct Activity {
    bool in_pool;                    ///< the pool works on this thread
    unsigned char depth[slot_count]; ///< calls of each hook that were passed on and have not returned
};
extern constinit thread_local Activity activity;

inline bool nested(Slot slot) noexcept { return activity.in_pool || activity.depth[static_cast<size_t>(slot)] != 0; }

/// Calls the pool. Everything that the pool asks of the driver in `question` passes the hooks by, whatever its way.
template <class Question> auto asked(Question&& question) noexcept {
    struct Mark {
        bool before = activity.in_pool;
        Mark() noexcept { activity.in_pool = true; }
        ~Mark() { activity.in_pool = before; }
        Mark(const Mark&) = delete;
        Mark& operator=(const Mark&) = delete;
    } const mark;
    return question();
}

/// Chooses the function for one call of a hook: `next`, and each time that the call comes back to the hook another one
/// of those that were seen. Otherwise the hook and a shim would call each other for ever.
class Target {
public:
    explicit Target(Slot slot) noexcept;
    ~Target();
    Target(const Target&) = delete;
    Target& operator=(const Target&) = delete;
    void* function() const noexcept { return function_; }

    /// Answer when there is nothing to call: no device without a driver, not found in a driver without the function.
    static CUresult missing() noexcept;

private:
    void* function_;
    unsigned char& depth_;
};

/// Doors: how often each was used, for diagnosis.
#define CISTERN_DOORS(X)                                                                                               \
    X(dlsym_substituted, "look-ups by dlsym answered with a hook")                                                     \
    X(procaddress_calls, "calls of cuGetProcAddress in either form")                                                   \
    X(procaddress_substituted, "of these, answered with a hook")                                                       \
    X(procaddress_other_abi, "of these, left alone: an older signature that has no hook")                              \
    X(procaddress_unidentified, "of these, left alone: function of a hooked name that could not be identified")        \
    X(direct_calls, "slots first reached by an export, without a look-up")

struct Doors {
#define X(id, text) std::atomic<uint64_t> id{0};
    CISTERN_DOORS(X)
#undef X
};
Doors& doors() noexcept;

} // namespace cistern::interposer
