// F21: allocation and free while a stream capture is open, in every mode, on both kinds of stream, from the capturing
// and from another thread. One line per cell: code of the call, code of EndCapture, nodes, and whether two replays gave
// the right data. Which codes are right is what the native run says.

#include "driver_api.h"
#include "gpu_common.cuh"
#include "gpu_tests.h"

#include <algorithm>
#include <atomic>
#include <thread>
#include <vector>

namespace cistern::gpu_test {
namespace {

constexpr int words = 1024;

__global__ void step_kernel(unsigned* data, unsigned factor, unsigned add) {
    const unsigned i = blockIdx.x * blockDim.x + threadIdx.x;
    if (i < words) data[i] = data[i] * factor + add;
}

/// Words in mapped host memory, no part of what is under test. Also loads the kernels, outside of any capture.
unsigned* mapped_words() {
    unsigned* data = nullptr;
    CHECK_CUDA(cudaHostAlloc(reinterpret_cast<void**>(&data), words * sizeof(unsigned), cudaHostAllocMapped));
    step_kernel<<<1, 1>>>(data, 1, 0);
    fill(data, 64, 0, nullptr);
    CHECK_CUDA(cudaDeviceSynchronize());
    return data;
}

/// What the captured calls work on. Prepared before the capture, tidied up after it.
struct Things {
    void *victim = nullptr, *async_victim = nullptr, *pinned = nullptr;
    void *made = nullptr, *made_pinned = nullptr;
    CUdeviceptr made_by_driver = 0, victim_of_driver = 0;
};

struct Call {
    const char* name;
    int (*run)(Things&);
};

int allocate(Things& t, size_t bytes) { return static_cast<int>(cudaMalloc(&t.made, bytes)); }

constexpr size_t hit_bytes = 3 << 20, miss_bytes = size_t{192} << 20;

const Call calls[] = {
    {"none", [](Things&) { return 0; }},
    {"malloc_hit", [](Things& t) { return allocate(t, hit_bytes); }},
    {"malloc_small", [](Things& t) { return allocate(t, 1000); }},
    {"malloc_miss", [](Things& t) { return allocate(t, miss_bytes); }},
    {"free", [](Things& t) { return static_cast<int>(cudaFree(t.victim)); }},
    {"host_alloc", [](Things& t) { return static_cast<int>(cudaHostAlloc(&t.made_pinned, 8192, 0)); }},
    {"host_free", [](Things& t) { return static_cast<int>(cudaFreeHost(t.pinned)); }},
    {"pitch",
     [](Things& t) {
         size_t pitch;
         return static_cast<int>(cudaMallocPitch(&t.made, &pitch, 1000, 100));
     }},
    {"driver_alloc", [](Things& t) { return static_cast<int>(driver().cuMemAlloc(&t.made_by_driver, 1 << 20)); }},
    {"driver_free", [](Things& t) { return static_cast<int>(driver().cuMemFree(t.victim_of_driver)); }},
    {"free_null", [](Things&) { return static_cast<int>(cudaFree(nullptr)); }},
    {"driver_free_null", [](Things&) { return static_cast<int>(driver().cuMemFree(0)); }},
    {"driver_alloc_zero", [](Things& t) { return static_cast<int>(driver().cuMemAlloc(&t.made_by_driver, 0)); }},
    {"free_async",
     [](Things& t) {
         const int code = static_cast<int>(cudaFreeAsync(t.async_victim, cudaStreamPerThread));
         // The driver takes a second free of the pointer for success and crashes later.
         if (code == 0) t.async_victim = nullptr;
         return code;
     }},
    {"mem_info",
     [](Things&) {
         size_t free_bytes, total;
         return static_cast<int>(cudaMemGetInfo(&free_bytes, &total));
     }},
};

void prepare(Things& t) {
    void* warm;
    CHECK_CUDA(cudaMalloc(&warm, hit_bytes));
    CHECK_CUDA(cudaFree(warm));
    CHECK_CUDA(cudaMalloc(&t.victim, 1 << 20));
    CHECK_CUDA(cudaMalloc(&t.async_victim, 1 << 20));
    CHECK_CUDA(cudaHostAlloc(&t.pinned, 8192, 0));
    CHECK_CUDA(driver().cuMemAlloc(&t.victim_of_driver, 1 << 20));
    CHECK_CUDA(cudaDeviceSynchronize());
}

/// Frees all that a cell may have left. A block that the cell freed gives an error here, which is taken off again.
void tidy(Things& t) {
    cudaFree(t.victim);
    cudaFree(t.async_victim);
    cudaFreeHost(t.pinned);
    driver().cuMemFree(t.victim_of_driver);
    if (t.made) cudaFree(t.made);
    if (t.made_pinned) cudaFreeHost(t.made_pinned);
    if (t.made_by_driver) driver().cuMemFree(t.made_by_driver);
    (void)cudaGetLastError();
    (void)cudaDeviceSynchronize();
}

/// Two replays of (x * 3 + 1), (x * 5 + 7) from 2. Returns 1 when the data is right, else 0, -1 when nothing was run.
int replay(cudaGraph_t graph, cudaStream_t stream, unsigned* data) {
    cudaGraphExec_t exec;
    if (!graph || cudaGraphInstantiate(&exec, graph, 0) != cudaSuccess) return -1;
    std::fill_n(data, words, 2u);
    unsigned expected = 2;
    for (int i = 0; i < 2; i++) {
        CHECK_CUDA(cudaGraphLaunch(exec, stream));
        expected = (expected * 3 + 1) * 5 + 7;
    }
    CHECK_CUDA(cudaStreamSynchronize(stream));
    CHECK_CUDA(cudaGraphExecDestroy(exec));
    return std::count(data, data + words, expected) == words;
}

void cell(Report& report, cudaStreamCaptureMode mode, bool blocking, bool other, const Call& call, unsigned* data) {
    constexpr const char* modes[] = {"global", "thread_local", "relaxed"};
    Things things;
    prepare(things);
    cudaStream_t stream = new_stream(blocking ? cudaStreamDefault : cudaStreamNonBlocking);
    CHECK_CUDA(cudaStreamBeginCapture(stream, mode));
    step_kernel<<<words / 256, 256, 0, stream>>>(data, 3, 1);
    int code = 0;
    if (other)
        std::thread([&] { code = call.run(things); }).join();
    else
        code = call.run(things);
    (void)cudaGetLastError();
    step_kernel<<<words / 256, 256, 0, stream>>>(data, 5, 7);
    const int launched = static_cast<int>(cudaGetLastError());
    cudaGraph_t graph = nullptr;
    const int fate = static_cast<int>(cudaStreamEndCapture(stream, &graph));
    (void)cudaGetLastError();
    size_t nodes = 0;
    if (graph) CHECK_CUDA(cudaGraphGetNodes(graph, nullptr, &nodes));
    const int data_right = replay(graph, stream, data);
    (void)cudaGetLastError();
    if (graph) CHECK_CUDA(cudaGraphDestroy(graph));
    CHECK_CUDA(cudaStreamDestroy(stream));
    tidy(things);
    report.result(std::string(modes[mode]) + (blocking ? "/blocking" : "/nonblocking") +
                      (other ? "/other/" : "/capturing/") + call.name,
                  {code, launched, fate, static_cast<long long>(nodes), data_right});
    if (data_right == 0) report.fail("a replay gave wrong data");
}

} // namespace

void capture_matrix(Report& report, int) {
    unsigned* data = mapped_words();
    constexpr cudaStreamCaptureMode modes[] = {cudaStreamCaptureModeGlobal, cudaStreamCaptureModeThreadLocal,
                                               cudaStreamCaptureModeRelaxed};
    for (auto mode : modes)
        for (bool blocking : {false, true})
            for (bool other : {false, true})
                for (const Call& call : calls) cell(report, mode, blocking, other, call, data);
}

namespace {

/// Allocates, works and frees until told to stop. Any error counts.
void churn(int seed, const std::atomic<bool>& stop, std::atomic<long long>& errors, std::atomic<long long>& done) {
    cudaStream_t stream = new_stream();
    unsigned long long state = static_cast<unsigned long long>(seed);
    while (!stop.load(std::memory_order_relaxed)) {
        state = state * 6364136223846793005ULL + 1442695040888963407ULL;
        const size_t bytes = 256 + (state >> 33) % (size_t{2} << 20);
        void* p = nullptr;
        errors += cudaMalloc(&p, bytes) != cudaSuccess;
        fill(p, bytes, 1, stream);
        errors += cudaFree(p) != cudaSuccess;
        done++;
    }
    errors += cudaStreamSynchronize(stream) != cudaSuccess;
}

/// One capture with an allocation's lifetime around it; true when it came out whole and gave the right data.
bool one_capture(int i, cudaStream_t stream, unsigned* data) {
    const auto mode = i % 2 ? cudaStreamCaptureModeRelaxed : cudaStreamCaptureModeThreadLocal;
    cudaGraph_t graph = nullptr;
    bool fine = cudaStreamBeginCapture(stream, mode) == cudaSuccess;
    step_kernel<<<words / 256, 256, 0, stream>>>(data, 3, 1);
    void* inside = nullptr;
    if (mode == cudaStreamCaptureModeRelaxed) fine &= cudaMalloc(&inside, 100000) == cudaSuccess;
    step_kernel<<<words / 256, 256, 0, stream>>>(data, 5, 7);
    if (inside) fine &= cudaFree(inside) == cudaSuccess;
    fine &= cudaStreamEndCapture(stream, &graph) == cudaSuccess;
    size_t nodes = 0;
    if (graph) fine &= cudaGraphGetNodes(graph, nullptr, &nodes) == cudaSuccess;
    fine &= nodes == 2;
    if (i % 10 == 0) fine &= replay(graph, stream, data) == 1;
    if (graph) cudaGraphDestroy(graph);
    (void)cudaGetLastError();
    return fine;
}

} // namespace

void capture_storm(Report& report, int rounds) {
    if (rounds <= 0) rounds = 1000;
    unsigned* data = mapped_words();
    cudaStream_t stream = new_stream();
    std::atomic<bool> stop{false};
    std::atomic<long long> errors{0}, done{0};
    std::vector<std::thread> team;
    for (int i = 0; i < 8; i++) team.emplace_back([&, i] { churn(i + 1, stop, errors, done); });
    long long harmed = 0;
    for (int i = 0; i < rounds; i++) harmed += !one_capture(i, stream, data);
    stop = true;
    for (auto& t : team) t.join();
    report.result("harmed", harmed);
    report.result("errors", errors.load());
    report.varying("captures", rounds);
    report.varying("pairs_meanwhile", static_cast<double>(done.load()));
    if (harmed || errors) report.fail("captures harmed or calls failed");
}

} // namespace cistern::gpu_test
