#include "doors.h"

#include <dlfcn.h>
#include <string.h>

extern "C" {
__attribute__((visibility("hidden"))) void* doors_target(void* handle, const char* name);
__attribute__((visibility("hidden"))) void* doors_lookup(void* handle, const char* name);
}

namespace doors {
namespace {

using Dlsym = void* (*)(void*, const char*);
using GetV1 = CUresult (*)(const char*, void**, int, cuuint64_t);
using GetV2 = CUresult (*)(const char*, void**, int, cuuint64_t, CUdriverProcAddressQueryResult*);

std::atomic<Dlsym> next_dlsym{nullptr};
std::atomic<GetV1> next_v1{nullptr};
std::atomic<GetV2> next_v2{nullptr};

/// The dlsym that follows in the chain of preloads. dlvsym passes over objects without symbol versions, so libc's own is
/// found first and then asked for the next one, with this object as the caller.
Dlsym the_next_dlsym() {
    Dlsym found = next_dlsym.load(std::memory_order_relaxed);
    if (found) return found;
    auto of_libc = reinterpret_cast<Dlsym>(dlvsym(RTLD_NEXT, "dlsym", "GLIBC_2.2.5"));
    found = reinterpret_cast<Dlsym>(of_libc(RTLD_NEXT, "dlsym"));
    if (!found) found = of_libc;
    next_dlsym.store(found, std::memory_order_relaxed);
    return found;
}

void use_once() {
    static std::atomic<bool> used{false};
    if (!used.exchange(true)) first_use();
}

void* hand_out(Slot& slot, void* found) {
    void* none = nullptr;
    slot.next.compare_exchange_strong(none, found);
    use_once();
    return slot.hook;
}

CUresult get_v1(const char* name, void** out, int version, cuuint64_t flags);
CUresult get_v2(const char* name, void** out, int version, cuuint64_t flags, CUdriverProcAddressQueryResult* status);

/// What the program is given instead of `found`, which an entry-point query for `name` returned.
void* substitute(const char* name, int version, cuuint64_t flags, void* found) {
    if (!strcmp(name, "cuGetProcAddress")) {
        if (version >= 12000) {
            next_v2.store(reinterpret_cast<GetV2>(found));
            return reinterpret_cast<void*>(get_v2);
        }
        next_v1.store(reinterpret_cast<GetV1>(found));
        return reinterpret_cast<void*>(get_v1);
    }
    const bool per_thread = flags & CU_GET_PROC_ADDRESS_PER_THREAD_DEFAULT_STREAM;
    Slot* best = nullptr; // the per-thread variant stands after the plain one in the table
    for (Slot* s = slots; s->exported; s++)
        if (!strcmp(name, s->base) && version >= s->from_version && (!s->needs_flags || per_thread)) best = s;
    return best ? hand_out(*best, found) : found;
}

CUresult get_v1(const char* name, void** out, int version, cuuint64_t flags) {
    const CUresult result = next_v1.load()(name, out, version, flags);
    if (result == CUDA_SUCCESS && out && *out) *out = substitute(name, version, flags, *out);
    return result;
}

CUresult get_v2(const char* name, void** out, int version, cuuint64_t flags, CUdriverProcAddressQueryResult* status) {
    const CUresult result = next_v2.load()(name, out, version, flags, status);
    if (result == CUDA_SUCCESS && out && *out) *out = substitute(name, version, flags, *out);
    return result;
}

bool is_ours(const char* name) {
    if (name[0] != 'c' || name[1] != 'u') return false;
    if (!strcmp(name, "cuGetProcAddress") || !strcmp(name, "cuGetProcAddress_v2")) return true;
    for (Slot* s = slots; s->exported; s++)
        if (!strcmp(name, s->exported)) return true;
    return false;
}

} // namespace

void* next_of(Slot& slot) {
    void* next = slot.next.load(std::memory_order_relaxed);
    if (next) return next;
    next = the_next_dlsym()(RTLD_NEXT, slot.exported);
    if (next) hand_out(slot, next);
    return slot.next.load(std::memory_order_relaxed);
}

} // namespace doors

using namespace doors;

/// Where the assembly jumps to: our look-up for a hooked name in an explicit handle, the next dlsym for all else.
void* doors_target(void* handle, const char* name) {
    Dlsym next = the_next_dlsym();
    if (handle == RTLD_NEXT || handle == RTLD_DEFAULT || !name || !is_ours(name)) return reinterpret_cast<void*>(next);
    return reinterpret_cast<void*>(doors_lookup);
}

void* doors_lookup(void* handle, const char* name) {
    void* found = the_next_dlsym()(handle, name);
    if (!found) return nullptr;
    if (!strcmp(name, "cuGetProcAddress")) return substitute("cuGetProcAddress", 11030, 0, found);
    if (!strcmp(name, "cuGetProcAddress_v2")) return substitute("cuGetProcAddress", 12000, 0, found);
    for (Slot* s = slots; s->exported; s++)
        if (!strcmp(name, s->exported)) return hand_out(*s, found);
    return found;
}
