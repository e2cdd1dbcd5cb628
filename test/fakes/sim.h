#pragma once
// Controls of the simulated GPU. The simulated GPU is a libcuda.so.1 of its own; these functions are exported by the same
// library beside the driver's names: link with the CMake target `sim_cuda`, or look them up with dlsym on its handle.
//
// Time is virtual (nanoseconds, starts at 1000) and moves only by sim_advance, by sim_auto_advance, and by host waits: a thread
// that waits for work of known length moves the clock to its end instead of sleeping; a thread that waits for work behind a
// closed gate really blocks until another thread opens it.
//
// Every function may be called from any thread at any time, also before cuInit, unless said otherwise.

#include <cuda.h>

#include <stddef.h>
#include <stdint.h>

#ifdef __cplusplus
extern "C" {
#endif

/* ---- Work ------------------------------------------------------------------------------------------------------- */

enum {
    SIM_READ = 1,  /* the work reads the range */
    SIM_WRITE = 2, /* the work writes the range: when it completes, every byte becomes `pattern` */
    SIM_VERIFY =
        4, /* with SIM_READ: when it completes (before its writes) every byte must be `expected`, else "wrong_bytes" */
    SIM_FOREIGN = 8, /* a use that a native free would not wait for (a peer's work): the referee ignores it */
    SIM_EDGES =
        16 /* only the first and last 64 bytes are really written and verified (speed); the whole range is in use */
};

typedef struct SimRange {
    CUdeviceptr ptr; /* device address, or a pinned host address */
    size_t bytes;
    unsigned flags;
    unsigned char pattern;
    unsigned char expected;
} SimRange;

typedef struct SimGate SimGate; /* closed when created; work behind a closed gate does not complete */

/* Submits work ("a kernel") to `stream` (null: legacy; CU_STREAM_LEGACY, CU_STREAM_PER_THREAD understood) in the context of
   the stream, or in the calling thread's current context for the three built-in streams. Runs in stream order.
   duration 0 is allowed. In a capturing stream it becomes a graph node (its gate included). Returns what cuLaunchKernel would. */
CUresult sim_submit(CUstream stream, const SimRange* ranges, size_t count, uint64_t duration_ns, SimGate* gate);

SimGate* sim_gate_create(void);
void sim_gate_open(SimGate* gate);    /* idempotent; wakes every thread that waits for the work behind it */
void sim_gate_destroy(SimGate* gate); /* opens it first; the pointer is dead afterwards */

uint64_t sim_now(void);
void sim_advance(uint64_t ns);
void sim_auto_advance(uint64_t ns_per_call); /* every driver call moves the clock by so much; 0 switches it off */
size_t sim_unfinished(CUcontext context);    /* unfinished works of a context, null: of all */
void sim_kernel_duration(uint64_t ns);       /* of cuLaunchKernel; default 1000 */
void sim_copy_duration(uint64_t ns);         /* of asynchronous copies and memsets; default 1000 */
void sim_stream_limit(unsigned launches);    /* launches that a stream takes before the launcher blocks; default 1021 */
void sim_race_window(unsigned us);  /* record and begin-capture last so long (real time): makes races visible */
int sim_blocked_threads(void);      /* threads that sleep inside the driver at this moment */
int sim_captures_open(void);        /* captures begun and not ended, invalidated ones included */
void sim_wait_host_functions(void); /* until no host function is running or due */

/* ---- Memory seen from the test ---------------------------------------------------------------------------------- */

int sim_check(CUdeviceptr ptr, size_t bytes,
              unsigned char pattern); /* 1: every byte equals pattern; 0: not, or not mapped */
int sim_fill(CUdeviceptr ptr, size_t bytes, unsigned char pattern); /* at once, by the host; 0 if not mapped */

/* ---- Referee ----------------------------------------------------------------------------------------------------- */

/* Kinds of violations. sim_violations takes the name. */
#define SIM_KINDS(X)                                                                                                   \
    X(early_reuse, "a block was claimed although unfinished work still uses it")                                       \
    X(early_reuse_pinned, "a pinned block was claimed although unfinished work still uses it")                         \
    X(claim_overlap, "a claimed block overlaps another claimed block")                                                 \
    X(claim_unmapped, "a claimed block is not wholly mapped and accessible")                                           \
    X(unmap_busy, "memory was unmapped, freed or moved although unfinished work uses it")                              \
    X(unmap_claimed, "memory was unmapped or moved although somebody owns it")                                         \
    X(export_busy, "free memory was exported or registered although unfinished work uses it")                          \
    X(capture_killed, "a capture was invalidated by a call that the program did not make")                             \
    X(record_races_capture, "a context record or wait overlapped a begin-capture in its context: the driver crashes")  \
    X(late_wait, "waited for a record that was made outside every free")                                               \
    X(query_while_recording, "an event was queried while a record on it was going on")                                 \
    X(unrecorded_query, "an event was queried that was never recorded")                                                \
    X(recycled_busy_event, "a context record reused an event whose earlier record is unfinished")                      \
    X(query_dead_event, "an event of a dead context was queried: the driver crashes")                                  \
    X(foreign_wait, "a host wait inside one context for work of another")                                              \
    X(wrong_abi, "an entry point of the 32-bit era was called")                                                        \
    X(no_access, "work used memory that its device has no access to")                                                  \
    X(wrong_bytes, "work read other bytes than expected")                                                              \
    X(bad_call, "arguments that crash the real driver")

/* The test owns [ptr, ptr+bytes) from now on (call right after the allocation returned). Reports early_reuse,
   claim_overlap, claim_unmapped. Returns 1 if nothing was reported. */
int sim_claim(CUdeviceptr ptr, size_t bytes);
int sim_claim_pinned(void* ptr, size_t bytes);
/* The test gives the block up (call right before the free). 1: unfinished work uses it; 0: none; -1: not claimed. */
int sim_disclaim(CUdeviceptr ptr);

/* Brackets (per thread, nestable) round a free as the program makes it: a context record made by this thread in between
   is prompt, any other is late. */
void sim_note_free_begin(void);
void sim_note_free_end(void);
void sim_allow_late_waits(int yes); /* the last step before out of memory is going on */
/* Brackets (per thread, nestable) round driver calls that the program itself makes: captures that they kill, events that
   they query or wait for are the program's own affair. */
void sim_program_begin(void);
void sim_program_end(void);

unsigned long sim_violations(const char* kind_or_null); /* count of one kind, or of all */
size_t sim_report(char* text,
                  size_t size); /* one line per violation (the first 200), null-terminated; returns the length needed */
void sim_clear_violations(void);
void sim_abort_on_violation(int yes); /* print it and abort; also SIM_CRASH=1 */
unsigned long
sim_stale_queries(void); /* queries that read done again after somebody had read done already (no violation) */

typedef struct SimBalance {
    unsigned long handles;      /* physical handles: created + imported + retained - released */
    unsigned long reservations; /* address ranges reserved and not freed */
    unsigned long maps;         /* mappings and not unmapped */
    unsigned long allocations;  /* native device allocations alive */
    unsigned long pinned;       /* native pinned allocations alive */
    unsigned long events;       /* events created and not destroyed */
    unsigned long streams;      /* streams likewise */
    size_t used_bytes;          /* physical device memory in use, all devices */
} SimBalance;
void sim_balance(SimBalance* out);

/* ---- Configuration and faults ------------------------------------------------------------------------------------ */

/* Back to the state before cuInit: contexts, memory, faults, violations, counters are gone, the environment is read again.
   No other thread may be inside the driver. Handles and addresses from before are dead. */
void sim_reset(void);

/* From now on the nth call (1 = the next) of the exported name fails with code; nth 0: every call. A new rule for the same
   function replaces the old one. The failing call has no other effect. */
void sim_fail(const char* function, int nth, CUresult code);
void sim_clear_failures(void);
void sim_set_attribute(CUdevice device, CUdevice_attribute attribute, int value);
void sim_set_total_mb(CUdevice device, size_t mb);
void sim_set_peer(CUdevice from, CUdevice to, int can); /* default: all devices are peers */
void sim_poison(int yes);                               /* failing calls fill their outputs with 0xA5 */
/* Sticky device fault (700) in a context: query, record, free fail at once, allocations once notice_ns have passed. */
void sim_fault(CUcontext context, uint64_t notice_ns);

/* ---- Call log ------------------------------------------------------------------------------------------------------ */

unsigned long sim_calls(const char* function); /* calls of one exported name (0 for an unknown one) */
unsigned long sim_calls_total(void);
void sim_clear_calls(void);
const char* sim_env_at_init(const char* name); /* value when cuInit was first called, or null */

#ifdef __cplusplus
}
#endif
