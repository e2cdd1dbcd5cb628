// cuGetProcAddress in both forms. The driver answers first and its result, status and error codes stay as they are; when
// it returned a function, that function is identified and exchanged for its hook. Identity, not name, decides: the
// driver has chosen among signatures by rules (version, per-thread stream) that need not be known here.

#include "interposer/hooks.h"

#include <dlfcn.h>

namespace cistern::interposer {
namespace {

void count(std::atomic<uint64_t>& counter) noexcept { counter.fetch_add(1, std::memory_order_relaxed); }

bool same(const char* a, const char* b) noexcept {
    while (*a != '\0' && *a == *b) {
        ++a;
        ++b;
    }
    return *a == *b;
}

/// The rows of the table that share one name of cuGetProcAddress stand together.
struct Family {
    size_t first = 0;
    size_t end = 0;
    bool empty() const noexcept { return first == end; }
};

Family family_of(const char* base) noexcept {
    Family f;
    for (size_t s = 0; s < slot_count; ++s) {
        if (same(info(static_cast<Slot>(s)).base, base)) {
            f.first = f.empty() ? s : f.first;
            f.end = s + 1;
        }
    }
    return f;
}

/// Whether `slot` is the signature that a driver gives for this version and these flags.
bool fits(Slot slot, const Family& family, int version, cuuint64_t flags) noexcept {
    const SlotInfo& row = info(slot);
    if (version < row.since || version >= row.until) {
        return false;
    }
    bool has_ptsz = false;
    for (size_t s = family.first; s < family.end; ++s) {
        has_ptsz = has_ptsz || info(static_cast<Slot>(s)).stream == StreamKind::ptsz;
    }
    const bool wants_ptsz = has_ptsz && (flags & CU_GET_PROC_ADDRESS_PER_THREAD_DEFAULT_STREAM) != 0;
    return wants_ptsz == (row.stream == StreamKind::ptsz);
}

/// By addresses that are known already. A driver may give two signatures one address; then the version decides.
Slot by_address(const Family& family, void* function, int version, cuuint64_t flags) noexcept {
    Slot found = Slot::count_;
    for (size_t s = family.first; s < family.end; ++s) {
        const auto slot = static_cast<Slot>(s);
        if (has_seen(slot, function) && (found == Slot::count_ || fits(slot, family, version, flags))) {
            found = slot;
        }
    }
    return found;
}

enum class Symbol { ours, other, none };

/// By the exported name of exactly this address, in whatever library it lies: under a profiler the function may be that
/// of a shim.
Symbol by_symbol(const Family& family, void* function, Slot& slot) noexcept {
    Dl_info where;
    if (dladdr(function, &where) == 0 || where.dli_sname == nullptr || where.dli_saddr != function) {
        return Symbol::none;
    }
    slot = slot_of_export(where.dli_sname);
    const auto s = static_cast<size_t>(slot);
    return s >= family.first && s < family.end ? Symbol::ours : Symbol::other;
}

/// By the versions at which signatures are known to have changed; beyond the newest known one anything may have.
Slot by_version(const Family& family, int version, cuuint64_t flags) noexcept {
    if (version > CISTERN_NEWEST_KNOWN_ABI) {
        return Slot::count_;
    }
    for (size_t s = family.first; s < family.end; ++s) {
        if (fits(static_cast<Slot>(s), family, version, flags)) {
            return static_cast<Slot>(s);
        }
    }
    return Slot::count_;
}

bool is_hook(const Family& family, const void* function) noexcept {
    for (size_t s = family.first; s < family.end; ++s) {
        if (hook_address(static_cast<Slot>(s)) == function) {
            return true;
        }
    }
    return false;
}

/// The function to hand out instead of `function`: its hook, or itself.
void* substitute(const char* base, void* function, int version, cuuint64_t flags) noexcept {
    const Family family = family_of(base);
    if (family.empty() || is_hook(family, function)) {
        return function;
    }
    bind_driver(function);
    Slot slot = by_address(family, function, version, flags);
    if (slot == Slot::count_) {
        const Symbol symbol = by_symbol(family, function, slot);
        if (symbol == Symbol::other) {
            count(doors().procaddress_other_abi);
            return function;
        }
        if (symbol == Symbol::none) {
            slot = by_version(family, version, flags);
        }
    }
    if (slot == Slot::count_) {
        count(doors().procaddress_unidentified);
        return function;
    }
    learn(slot, function);
    count(doors().procaddress_substituted);
    return hook_address(slot);
}

/// The five-argument form for a driver that has only the other one: reached by programs that found our export.
CUresult second_form_by_first(const char* symbol, void** function, int version, cuuint64_t flags, int* status) {
    if (symbol == nullptr || function == nullptr) {
        return CUDA_ERROR_INVALID_VALUE;
    }
    void* found = nullptr;
    const CUresult result = next::GetProcAddress(symbol, &found, version, flags);
    if (result != CUDA_SUCCESS && result != CUDA_ERROR_NOT_FOUND) {
        return result;
    }
    *function = result == CUDA_SUCCESS ? found : nullptr;
    if (status != nullptr) {
        *status = result == CUDA_SUCCESS ? CU_GET_PROC_ADDRESS_SUCCESS : CU_GET_PROC_ADDRESS_SYMBOL_NOT_FOUND;
    }
    return CUDA_SUCCESS;
}

bool driver_has(Slot slot) noexcept {
    Target target(slot);
    return target.function() != nullptr;
}

void exchange(CUresult result, const char* symbol, void** function, int version, cuuint64_t flags) noexcept {
    if (result == CUDA_SUCCESS && symbol != nullptr && function != nullptr && *function != nullptr) {
        *function = substitute(symbol, *function, version, flags);
    }
}

} // namespace

CUresult hook_GetProcAddress(const char* symbol, void** function, int version, cuuint64_t flags) {
    count(doors().procaddress_calls);
    const CUresult result = next::GetProcAddress(symbol, function, version, flags);
    exchange(result, symbol, function, version, flags);
    return result;
}

CUresult hook_GetProcAddress_v2(const char* symbol, void** function, int version, cuuint64_t flags, int* status) {
    count(doors().procaddress_calls);
    const bool native = driver_has(Slot::GetProcAddress_v2) || !driver_has(Slot::GetProcAddress);
    const CUresult result = native ? next::GetProcAddress_v2(symbol, function, version, flags, status)
                                   : second_form_by_first(symbol, function, version, flags, status);
    exchange(result, symbol, function, version, flags);
    return result;
}

} // namespace cistern::interposer
