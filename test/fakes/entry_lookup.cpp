// Entry points: cuGetProcAddress in both ABIs, error names, and the names that are only there to be found.

#include "test/fakes/calls.h"

#include "test/fakes/lifecycle.h"
#include "test/fakes/variant.h"

#include <cstdlib>
#include <string_view>

using namespace fake;

// Addresses of all entry points, whatever their signature.
#define X(name, base, version, variant) extern "C" void address_of_##name() __asm__(#name);
SIM_ALL_ENTRIES(X)
#undef X

namespace {

struct Row {
    const char* name;
    std::string_view base;
    int version;
    Variant variant;
    void (*address)();
};

const Row rows[] = {
#define X(name, base, version, variant) {#name, #base, version, Variant::variant, &address_of_##name},
    SIM_ALL_ENTRIES(X)
#undef X
};

/// All rows of a base name, oldest ABI first.
const std::vector<const Row*>* rows_of(const char* base) {
    static const auto* const index = [] {
        auto* map = new std::unordered_map<std::string_view, std::vector<const Row*>>;
        for (const Row& row : rows) (*map)[row.base].push_back(&row);
        return map;
    }();
    auto found = index->find(base);
    return found == index->end() ? nullptr : &found->second;
}

int driver_version() {
    int configured = state().config.driver_version;
    return configured ? configured : variant_driver_version;
}

bool exists(const Row& row) {
    return row.version <= driver_version() && variant_exports(row.name, row.version) &&
           state().config.missing.count(row.name) == 0;
}

/// The newest ABI of one kind (plain, or of the per-thread stream) that is not newer than `version`.
const Row* newest(const std::vector<const Row*>& all, int version, bool per_thread) {
    const Row* best = nullptr;
    for (const Row* row : all) {
        bool fits = exists(*row) && row->version <= version && (row->variant != Variant::plain) == per_thread;
        if (fits && (!best || row->version > best->version)) best = row;
    }
    return best;
}

/// status: 0 found, 1 unknown name, 2 the version is too low.
void* look_up(const char* base, int version, uint64_t flags, int& status) {
    status = 1;
    const std::vector<const Row*>* all = rows_of(base);
    if (!all) return nullptr;
    for (const Row* row : *all)
        if (exists(*row)) status = 2;
    const Row* best = newest(*all, version, false);
    if (flags & 2) {
        const Row* twin = newest(*all, version, true);
        if (twin && (!best || twin->version >= best->version)) best = twin;
    }
    if (!best) return nullptr;
    status = 0;
    return reinterpret_cast<void*>(best->address);
}

/// What both ABIs refuse. Success: look up.
CUresult bad_query(const char* symbol, void** out, int version, uint64_t flags) {
    State& s = state();
    if (!out || !symbol) {
        Lock lock(s.mutex);
        s.referee.report(Violation::bad_call, "cuGetProcAddress with a null pointer");
        return CUDA_ERROR_INVALID_VALUE;
    }
    if ((flags & ~uint64_t{3}) != 0) return CUDA_ERROR_INVALID_VALUE;
    return version / 1000 > driver_version() / 1000 ? CUDA_ERROR_INVALID_VALUE : CUDA_SUCCESS;
}

} // namespace

FAKE(cuGetProcAddress_v2, const char* symbol, void** out, int version, cuuint64_t flags, int* found) {
    lifecycle::ensure_configured();
    CUresult result = before_call(Fn::cuGetProcAddress_v2);
    if (result == CUDA_SUCCESS) result = bad_query(symbol, out, version, flags);
    if (result == CUDA_SUCCESS) {
        int status = 0;
        *out = look_up(symbol, version, flags, status);
        if (found) *found = status;
    }
    after_call(Fn::cuGetProcAddress_v2, result);
    return result;
}

FAKE(cuGetProcAddress, const char* symbol, void** out, int version, cuuint64_t flags) {
    lifecycle::ensure_configured();
    CUresult result = before_call(Fn::cuGetProcAddress);
    if (result == CUDA_SUCCESS) result = bad_query(symbol, out, version, flags);
    if (result == CUDA_SUCCESS) {
        int status = 0;
        void* address = look_up(symbol, version, flags, status);
        if (address)
            *out = address;
        else
            result = CUDA_ERROR_NOT_FOUND;
    }
    after_call(Fn::cuGetProcAddress, result);
    return result;
}

FAKE(cuGetExportTable, const void** table, const CUuuid* id) {
    CUresult result = before_call(Fn::cuGetExportTable);
    if (result == CUDA_SUCCESS) result = table && id ? CUDA_ERROR_NOT_FOUND : CUDA_ERROR_INVALID_VALUE;
    after_call(Fn::cuGetExportTable, result);
    return result;
}

namespace {

struct ErrorText {
    int code;
    const char* name;
    const char* text;
};
const ErrorText error_texts[] = {
    {0, "CUDA_SUCCESS", "no error"},
    {1, "CUDA_ERROR_INVALID_VALUE", "invalid argument"},
    {2, "CUDA_ERROR_OUT_OF_MEMORY", "out of memory"},
    {3, "CUDA_ERROR_NOT_INITIALIZED", "initialization error"},
    {4, "CUDA_ERROR_DEINITIALIZED", "driver shutting down"},
    {100, "CUDA_ERROR_NO_DEVICE", "no CUDA-capable device is detected"},
    {101, "CUDA_ERROR_INVALID_DEVICE", "invalid device ordinal"},
    {201, "CUDA_ERROR_INVALID_CONTEXT", "invalid device context"},
    {400, "CUDA_ERROR_INVALID_HANDLE", "invalid resource handle"},
    {401, "CUDA_ERROR_ILLEGAL_STATE", "the operation cannot be performed in the present state"},
    {500, "CUDA_ERROR_NOT_FOUND", "named symbol not found"},
    {600, "CUDA_ERROR_NOT_READY", "device not ready"},
    {700, "CUDA_ERROR_ILLEGAL_ADDRESS", "an illegal memory access was encountered"},
    {709, "CUDA_ERROR_CONTEXT_IS_DESTROYED", "context is destroyed"},
    {800, "CUDA_ERROR_NOT_PERMITTED", "operation not permitted"},
    {801, "CUDA_ERROR_NOT_SUPPORTED", "operation not supported"},
    {900, "CUDA_ERROR_STREAM_CAPTURE_UNSUPPORTED", "operation not permitted when stream is capturing"},
    {901, "CUDA_ERROR_STREAM_CAPTURE_INVALIDATED", "operation failed due to a previous error during capture"},
};

CUresult error_text(Fn fn, CUresult code, const char** out, const char* ErrorText::*field) {
    CUresult result = before_call(fn);
    if (result == CUDA_SUCCESS && !out) result = CUDA_ERROR_INVALID_VALUE;
    if (result == CUDA_SUCCESS) {
        *out = "unlisted error";
        for (const ErrorText& one : error_texts)
            if (one.code == static_cast<int>(code)) *out = one.*field;
    }
    after_call(fn, result);
    return result;
}

CUresult only_a_name(Fn fn) {
    CUresult result = before_call(fn);
    if (result == CUDA_SUCCESS) result = CUDA_ERROR_NOT_SUPPORTED;
    after_call(fn, result);
    return result;
}

} // namespace

FAKE(cuGetErrorName, CUresult code, const char** out) {
    return error_text(Fn::cuGetErrorName, code, out, &ErrorText::name);
}
FAKE(cuGetErrorString, CUresult code, const char** out) {
    return error_text(Fn::cuGetErrorString, code, out, &ErrorText::text);
}

#define X(name, base, version, variant)                                                                                \
    FAKE(name) { return only_a_name(Fn::name); }
SIM_NAMES_ONLY(X)
#undef X
