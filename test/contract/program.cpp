#include "test/contract/program.h"

#include "test/catch.h"

#include <cstdlib>
#include <cstring>
#include <dlfcn.h>
#include <sys/wait.h>
#include <unistd.h>

namespace cistern::test {
namespace {

bool started = false;
thread_local pool::Reason reason = pool::Reason::served;

void* from_simulated_driver(const char* name) { return dlsym(RTLD_DEFAULT, name); }

void once(std::function<void()>& what) {
    const std::function<void()> now = std::move(what);
    what = nullptr;
    if (now) now();
}

CUresult record(CUcontext context, CUevent event) {
    static const auto next =
        reinterpret_cast<CUresult (*)(CUcontext, CUevent)>(from_simulated_driver("cuCtxRecordEvent"));
    once(during().before_record);
    const CUresult result = next(context, event);
    once(during().after_record);
    return result;
}

CUresult query(CUevent event) {
    once(during().before_query);
    return cuEventQuery(event);
}

CUresult create(CUevent* event, unsigned flags) {
    once(during().before_create);
    return cuEventCreate(event, flags);
}

/// What the pool looks its entry points up with.
void* for_the_pool(const char* name) {
    void* found = from_simulated_driver(name);
    if (found == nullptr) return nullptr;
    if (std::strcmp(name, "cuCtxRecordEvent") == 0) return reinterpret_cast<void*>(record);
    if (std::strcmp(name, "cuEventQuery") == 0) return reinterpret_cast<void*>(query);
    if (std::strcmp(name, "cuEventCreate") == 0) return reinterpret_cast<void*>(create);
    return found;
}

/// The pool's answer, or what the driver says to the program's own call.
template <class Native> CUresult settle(pool::Outcome outcome, Native native) {
    reason = outcome.reason;
    if (outcome.served()) return outcome.result;
    const AsProgram own;
    return native();
}

template <class Call> CUresult as_program(Call call) {
    const AsProgram own;
    return call();
}

} // namespace

bool start(Environment environment) {
    if (started) FAIL("one test case per process: run it through ctest or name it on the command line");
    started = true;
    for (const auto& [name, value] : environment) setenv(name, value, 1);
    if (cuInit(0) != CUDA_SUCCESS) FAIL("the simulated driver does not start");
    return pool::open(for_the_pool);
}

CUcontext use_primary(CUdevice device) {
    CUcontext context = nullptr;
    const AsProgram own;
    if (cuDevicePrimaryCtxRetain(&context, device) != CUDA_SUCCESS) FAIL("no primary context");
    pool::context_appeared(device);
    cuCtxSetCurrent(context);
    return context;
}

CUcontext create_context(CUdevice device) {
    using Create = CUresult (*)(CUcontext*, unsigned, CUdevice);
    const auto create = reinterpret_cast<Create>(from_simulated_driver("cuCtxCreate_v2"));
    CUcontext context = nullptr;
    const AsProgram own;
    if (create(&context, 0, device) != CUDA_SUCCESS) FAIL("no context");
    pool::context_created(context);
    pool::context_appeared(device);
    return context;
}

GreenContext create_green_context(CUdevice device) {
    // Looked up, because the types are younger than the oldest header.
    const auto create =
        reinterpret_cast<CUresult (*)(void**, void*, CUdevice, unsigned)>(from_simulated_driver("cuGreenCtxCreate"));
    const auto convert = reinterpret_cast<CUresult (*)(CUcontext*, void*)>(from_simulated_driver("cuCtxFromGreenCtx"));
    GreenContext green;
    int description = 0; // the simulated driver does not look at it
    const AsProgram own;
    if (create(&green.handle, &description, device, 1) != CUDA_SUCCESS) FAIL("no green context");
    if (convert(&green.context, green.handle) != CUDA_SUCCESS) FAIL("no view of the green context");
    pool::green_context_appeared(green.context);
    return green;
}

CUresult destroy_green_context(const GreenContext& green) {
    const auto destroy = reinterpret_cast<CUresult (*)(void*)>(from_simulated_driver("cuGreenCtxDestroy"));
    return as_program([=] { return destroy(green.handle); });
}

void leave_all_contexts() {
    CUcontext context = nullptr;
    while (cuCtxGetCurrent(&context) == CUDA_SUCCESS && context) cuCtxPopCurrent(&context);
}

CUresult destroy_context(CUcontext context) {
    pool::Departure departure(context);
    const CUresult result = as_program([=] { return cuCtxDestroy(context); });
    if (result == CUDA_SUCCESS) departure.gone();
    return result;
}

CUresult reset_primary(CUdevice device) {
    pool::Departure departure = pool::Departure::of_primary(device);
    const CUresult result = as_program([=] { return cuDevicePrimaryCtxReset(device); });
    if (result == CUDA_SUCCESS) departure.gone();
    return result;
}

CUresult release_primary(CUdevice device) {
    pool::Departure departure = pool::Departure::of_primary(device);
    const CUresult result = as_program([=] { return cuDevicePrimaryCtxRelease(device); });
    if (result == CUDA_SUCCESS) departure.decide_by_state(device);
    return result;
}

CUstream make_stream(unsigned flags) {
    CUstream stream = nullptr;
    const AsProgram own;
    if (cuStreamCreate(&stream, flags) != CUDA_SUCCESS) FAIL("no stream");
    return stream;
}

CUresult destroy_stream(CUstream stream) {
    pool::DestroyStream bracket(stream);
    const CUresult result = as_program([=] { return cuStreamDestroy(stream); });
    bracket.destroyed(result);
    return result;
}

During& during() {
    static During meetings;
    return meetings;
}

pool::Reason last_reason() noexcept { return reason; }

CUresult mem_alloc(CUdeviceptr* out, size_t bytes) {
    return settle(pool::allocate(out, bytes), [=] { return cuMemAlloc(out, bytes); });
}

CUresult mem_alloc_pitch(CUdeviceptr* out, size_t* pitch, size_t width, size_t height, unsigned element) {
    return settle(pool::allocate_pitch(out, pitch, width, height, element),
                  [=] { return cuMemAllocPitch(out, pitch, width, height, element); });
}

CUresult mem_free(CUdeviceptr ptr) {
    const InFree bracket;
    return settle(pool::free(ptr), [=] { return cuMemFree(ptr); });
}

CUresult mem_free_async(CUdeviceptr ptr, CUstream stream) {
    const InFree bracket;
    return settle(pool::free_async(ptr, stream), [=] { return cuMemFreeAsync(ptr, stream); });
}

CUresult address_range(CUdeviceptr* base, size_t* bytes, CUdeviceptr ptr) {
    return settle(pool::address_range(base, bytes, ptr), [=] { return cuMemGetAddressRange(base, bytes, ptr); });
}

CUresult mem_info(size_t* free, size_t* total) {
    const CUresult result = as_program([=] { return cuMemGetInfo(free, total); });
    if (result == CUDA_SUCCESS) *free += pool::idle_bytes();
    return result;
}

CUresult synchronize() {
    pool::Synchronize observation(nullptr);
    const CUresult result = as_program([] { return cuCtxSynchronize(); });
    observation.returned(result);
    return result;
}

CUresult begin_capture(CUstream stream, CUstreamCaptureMode mode) {
    pool::BeginCapture bracket(stream);
    const CUresult result = as_program([=] { return cuStreamBeginCapture(stream, mode); });
    bracket.began(result);
    return result;
}

CUresult end_capture(CUstream stream, CUgraph* graph) {
    pool::EndCapture bracket(stream);
    const CUresult result = as_program([=] { return cuStreamEndCapture(stream, graph); });
    bracket.ended(result);
    return result;
}

CUdeviceptr take(size_t bytes) {
    CUdeviceptr ptr = 0;
    const CUresult result = mem_alloc(&ptr, bytes);
    CHECK(result == CUDA_SUCCESS);
    if (result != CUDA_SUCCESS) return 0;
    sim_claim(ptr, bytes);
    return ptr;
}

int give(CUdeviceptr ptr) {
    const int busy = sim_disclaim(ptr);
    CHECK(mem_free(ptr) == CUDA_SUCCESS);
    return busy;
}

int give_async(CUdeviceptr ptr, CUstream stream) {
    const int busy = sim_disclaim(ptr);
    CHECK(mem_free_async(ptr, stream) == CUDA_SUCCESS);
    return busy;
}

void use(CUstream stream, CUdeviceptr ptr, size_t bytes, uint64_t nanoseconds, SimGate* gate) {
    const SimRange range{ptr, bytes, SIM_WRITE | SIM_EDGES, 0x5A, 0};
    CHECK(sim_submit(stream, &range, 1, nanoseconds, gate) == CUDA_SUCCESS);
}

bool child_of_fork_gets_not_initialized(CUdeviceptr ptr) {
    const pid_t child = fork();
    if (child == 0) {
        pool::after_fork_in_child();
        CUdeviceptr out = 0;
        const bool right =
            mem_alloc(&out, MiB) == CUDA_ERROR_NOT_INITIALIZED && last_reason() == pool::Reason::forked &&
            mem_free(ptr) == CUDA_ERROR_NOT_INITIALIZED && last_reason() == pool::Reason::forked &&
            mem_free_async(ptr, nullptr) == CUDA_ERROR_NOT_INITIALIZED && pool::trim() == 0 && pool::idle_bytes() == 0;
        _exit(right ? 0 : 1);
    }
    int status = -1;
    return child > 0 && waitpid(child, &status, 0) == child && WIFEXITED(status) && WEXITSTATUS(status) == 0;
}

uint64_t counter(const char* name) {
    const std::string json = pool::counters_json();
    const size_t at = json.find('"' + std::string(name) + "\": ");
    if (at == std::string::npos) FAIL("no counter " << name);
    return std::strtoull(json.c_str() + at + std::string(name).size() + 4, nullptr, 10);
}

uint64_t mapped() { return counter("mapped_bytes"); }

SimBalance balance() {
    SimBalance b{};
    sim_balance(&b);
    return b;
}

void check_balance(const SimBalance& kept) {
    const SimBalance now = balance();
    CHECK(now.handles == kept.handles);
    CHECK(now.maps == kept.maps);
    CHECK(now.reservations == kept.reservations);
    CHECK(now.allocations == kept.allocations);
    CHECK(now.used_bytes == kept.used_bytes);
}

void check_referee() {
    if (sim_violations(nullptr) == 0) {
        SUCCEED("the referee has nothing to report");
        return;
    }
    std::string text(sim_report(nullptr, 0) + 1, '\0');
    sim_report(text.data(), text.size());
    FAIL_CHECK("the referee reports " << sim_violations(nullptr) << ":\n" << text.c_str());
}

} // namespace cistern::test
