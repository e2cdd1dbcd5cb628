// libcount_calls.so: an independent count of a program's allocation calls. Preloaded in front of the object under test,
// it counts each call and passes it on. At exit it writes one JSON line to the file named in COUNT_FILE (%p: pid).

#include "doors.h"

#include <inttypes.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

/// identifier, exported name, base name, version, needed flags, parameters, arguments
#define COUNTED(X)                                                                                                     \
    X(alloc, "cuMemAlloc_v2", "cuMemAlloc", 3020, 0, (CUdeviceptr * a, size_t b), (a, b))                              \
    X(alloc_pitch, "cuMemAllocPitch_v2", "cuMemAllocPitch", 3020, 0,                                                   \
      (CUdeviceptr * a, size_t * b, size_t c, size_t d, unsigned e), (a, b, c, d, e))                                  \
    X(free, "cuMemFree_v2", "cuMemFree", 3020, 0, (CUdeviceptr a), (a))                                                \
    X(free_async, "cuMemFreeAsync", "cuMemFreeAsync", 11020, 0, (CUdeviceptr a, CUstream b), (a, b))                   \
    X(free_async_ptsz, "cuMemFreeAsync_ptsz", "cuMemFreeAsync", 11020, CU_GET_PROC_ADDRESS_PER_THREAD_DEFAULT_STREAM,  \
      (CUdeviceptr a, CUstream b), (a, b))                                                                             \
    X(host_alloc, "cuMemHostAlloc", "cuMemHostAlloc", 2020, 0, (void** a, size_t b, unsigned c), (a, b, c))            \
    X(host_free, "cuMemFreeHost", "cuMemFreeHost", 2000, 0, (void* a), (a))

namespace {

enum Index {
#define X(id, ...) index_##id,
    COUNTED(X)
#undef X
        count_
};
constexpr const char* keys[] = {
#define X(id, ...) #id,
    COUNTED(X)
#undef X
};

std::atomic<uint64_t> counts[count_];
uint64_t at_exit[count_];
std::atomic<int> used_in{0};
bool exit_seen = false;

void write_counts(FILE* to, const char* name, const uint64_t* values) {
    fprintf(to, "\"%s\":{", name);
    for (int i = 0; i < count_; i++) fprintf(to, "%s\"%s\":%" PRIu64, i ? "," : "", keys[i], values[i]);
    fprintf(to, "}");
}

/// "counts" are those when exit began, "final" those now: a program may free memory in its last destructors.
void write_file() {
    const char* pattern = getenv("COUNT_FILE");
    if (!pattern || !used_in.load()) return;
    char path[1024], pid[20];
    snprintf(pid, sizeof pid, "%d", getpid());
    const char* mark = strstr(pattern, "%p");
    if (mark)
        snprintf(path, sizeof path, "%.*s%s%s", static_cast<int>(mark - pattern), pattern, pid, mark + 2);
    else
        snprintf(path, sizeof path, "%s", pattern);
    FILE* to = fopen(path, "w");
    if (!to) return;
    uint64_t final_counts[count_];
    for (int i = 0; i < count_; i++) final_counts[i] = counts[i].load();
    fprintf(to, "{\"pid\":%d,\"forked\":%s,", getpid(), getpid() == used_in.load() ? "false" : "true");
    write_counts(to, "counts", exit_seen ? at_exit : final_counts);
    fprintf(to, ",");
    write_counts(to, "final", final_counts);
    fprintf(to, "}\n");
    fclose(to);
}

void when_exit_begins() {
    for (int i = 0; i < count_; i++) at_exit[i] = counts[i].load();
    exit_seen = true;
    write_file();
}

__attribute__((destructor)) void at_unload() { write_file(); }

} // namespace

void doors::first_use() {
    used_in.store(getpid());
    atexit(when_exit_begins);
}

extern "C" {
#define X(id, exported, base, version, flags, parameters, arguments)                                                   \
    __attribute__((visibility("hidden"))) CUresult hook_##id parameters {                                              \
        counts[index_##id].fetch_add(1, std::memory_order_relaxed);                                                    \
        using Next = CUresult(*) parameters;                                                                           \
        void* next = doors::next_of(doors::slots[index_##id]);                                                         \
        return next ? reinterpret_cast<Next>(next) arguments : CUDA_ERROR_NOT_INITIALIZED;                             \
    }
COUNTED(X)
#undef X
}

doors::Slot doors::slots[] = {
#define X(id, exported, base, version, flags, parameters, arguments)                                                   \
    {exported, base, version, flags, reinterpret_cast<void*>(hook_##id), {nullptr}},
    COUNTED(X)
#undef X
        {nullptr, nullptr, 0, 0, nullptr, {nullptr}}};

// Programs that are linked with the driver directly reach the hooks by these names.
#undef cuMemAlloc
#undef cuMemAllocPitch
#undef cuMemFree
#define DIRECT(name, id) asm(".globl " name "\n.set " name ", hook_" #id "\n");
DIRECT("cuMemAlloc_v2", alloc)
DIRECT("cuMemAllocPitch_v2", alloc_pitch)
DIRECT("cuMemFree_v2", free)
DIRECT("cuMemFreeAsync", free_async)
DIRECT("cuMemFreeAsync_ptsz", free_async_ptsz)
DIRECT("cuMemHostAlloc", host_alloc)
DIRECT("cuMemFreeHost", host_free)
