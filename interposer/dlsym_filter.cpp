// What the assembly stub of dlsym asks. Until a name has turned out to be one of ours nothing outside this object is
// called, except once dlvsym and dlsym to find the next dlsym: allocators and sanitizers call dlsym while they start.

#include "interposer/slots.h"

#include <dlfcn.h>

extern "C" {
extern const char __ehdr_start[] __attribute__((visibility("hidden")));
extern const char _end[] __attribute__((visibility("hidden")));
}

namespace cistern::interposer {
namespace {

/// Both in registers. `jump` set: continue there with the caller's arguments and return address; else return `value`.
struct Answer {
    void* value;
    void* jump;
};

bool may_be_ours(void* handle, const char* name, const void* caller) noexcept {
    if (handle == RTLD_NEXT || handle == RTLD_DEFAULT || name == nullptr) {
        return false;
    }
    if (name[0] != 'c' || name[1] != 'u' || name[2] < 'A' || name[2] > 'Z') {
        return false;
    }
    return caller < static_cast<const void*>(__ehdr_start) || caller >= static_cast<const void*>(_end);
}

/// The real look-up comes last, so that the program finds dlerror as without us.
void* look_up(Slot slot, void* handle, const char* name, Dlsym lookup) noexcept {
    bind_driver(nullptr);
    void* found = lookup(handle, name);
    if (found == nullptr || found == hook_address(slot)) {
        return found;
    }
    if (!bind_driver(found) || !is_of_a_driver(slot, handle, found)) {
        return lookup(handle, name); // once more, so that dlerror stays as the program's look-up leaves it
    }
    learn(slot, found);
    doors().dlsym_substituted.fetch_add(1, std::memory_order_relaxed);
    return hook_address(slot);
}

} // namespace

extern "C" __attribute__((visibility("hidden"))) Answer cistern_dlsym_filter(void* handle, const char* name,
                                                                             const void* caller) noexcept;

Answer cistern_dlsym_filter(void* handle, const char* name, const void* caller) noexcept {
    const Dlsym lookup = next_dlsym();
    if (may_be_ours(handle, name, caller)) {
        const Slot slot = slot_of_export(name);
        if (slot != Slot::count_ && lookup != nullptr) {
            return {look_up(slot, handle, name, lookup), nullptr};
        }
    }
    return {nullptr, reinterpret_cast<void*>(lookup)};
}

} // namespace cistern::interposer
