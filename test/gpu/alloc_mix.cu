// Client: what a malloc and a free cost through whatever serves them.
//   alloc_mix pair BYTES N [THREADS]    through the runtime, nothing else running
//   alloc_mix pairk BYTES N [THREADS]   a kernel on the block between the two calls
//   alloc_mix rand N                    random sizes 2^8 to 2^27, random lifetimes, seed 7
//   alloc_mix dpair                     driver interface, all sizes, idle and behind short kernels
//   alloc_mix span BYTES N SECONDS      driver interface, behind one kernel that outlasts the loop

#include "gpu_common.cuh"
#include "report.h"

#include <cuda.h>

#include <dlfcn.h>

#include <algorithm>
#include <cmath>
#include <cstring>
#include <random>
#include <thread>
#include <vector>

using namespace cistern::gpu_test;

namespace {

using Alloc = CUresult (*)(CUdeviceptr*, size_t);
using Free = CUresult (*)(CUdeviceptr);

struct Driver {
    Alloc alloc = nullptr;
    Free free = nullptr;
    Driver() {
        using Get = CUresult (*)(const char*, void**, int, cuuint64_t, CUdriverProcAddressQueryResult*);
        void* library = dlopen("libcuda.so.1", RTLD_NOW);
        auto get = library ? reinterpret_cast<Get>(dlsym(library, "cuGetProcAddress_v2")) : nullptr;
        if (!get) exit(2);
        CHECK_CUDA(get("cuMemAlloc", reinterpret_cast<void**>(&alloc), 3020, 0, nullptr));
        CHECK_CUDA(get("cuMemFree", reinterpret_cast<void**>(&free), 3020, 0, nullptr));
    }
};

double ns_since(Clock::time_point start) { return seconds_since(start) * 1e9; }

double median(std::vector<double> values) {
    std::sort(values.begin(), values.end());
    return values[values.size() / 2];
}

/// What two readings of the clock with nothing between them cost.
double clock_cost_ns() {
    std::vector<double> costs;
    for (int i = 0; i < 2001; i++) costs.push_back(ns_since(Clock::now()));
    return median(costs);
}

void pairs(Report& report, bool with_kernel, size_t bytes, int count, int thread_count) {
    std::vector<std::thread> team;
    CHECK_CUDA(cudaFree(nullptr));
    const auto start = Clock::now();
    for (int t = 0; t < thread_count; t++)
        team.emplace_back([=] {
            cudaStream_t stream = new_stream();
            for (int i = 0; i < count; i++) {
                void* p = nullptr;
                CHECK_CUDA(cudaMalloc(&p, bytes));
                if (with_kernel) fill_kernel<<<1, 32, 0, stream>>>(static_cast<unsigned char*>(p), 32, 1);
                CHECK_CUDA(cudaFree(p));
            }
            CHECK_CUDA(cudaStreamSynchronize(stream));
        });
    for (auto& t : team) t.join();
    report.result("pairs", static_cast<long long>(count) * thread_count);
    report.varying("ns_per_pair_and_thread", ns_since(start) / count);
    report.varying("pairs_per_us", double(count) * thread_count / ns_since(start) * 1e3);
}

struct Live {
    void* start;
    size_t bytes;
};

void random_mix(Report& report, int steps) {
    std::mt19937_64 random(7);
    std::vector<Live> live;
    std::vector<double> latencies;
    latencies.reserve(static_cast<size_t>(steps));
    size_t now = 0, peak = 0, sum = 0;
    constexpr size_t limit = size_t{64} << 30;
    CHECK_CUDA(cudaFree(nullptr));
    const double clock_ns = clock_cost_ns();
    const auto start = Clock::now();
    for (int i = 0; i < steps; i++) {
        if (live.empty() || ((random() & 1) && now < limit)) {
            Live b{nullptr, static_cast<size_t>(std::exp2(8 + double(random() % 1000) / 1000 * 19))};
            const auto before = Clock::now();
            CHECK_CUDA(cudaMalloc(&b.start, b.bytes));
            latencies.push_back(ns_since(before));
            live.push_back(b);
            peak = std::max(peak, now += b.bytes);
            sum += b.bytes;
        } else {
            const size_t pick = random() % live.size();
            const auto before = Clock::now();
            CHECK_CUDA(cudaFree(live[pick].start));
            latencies.push_back(ns_since(before));
            now -= live[pick].bytes;
            live[pick] = live.back();
            live.pop_back();
        }
    }
    const double loop_ns = ns_since(start);
    std::sort(latencies.begin(), latencies.end());
    double total = 0;
    for (double l : latencies) total += l;
    size_t free_bytes = 0, card = 0;
    CHECK_CUDA(cudaMemGetInfo(&free_bytes, &card));
    report.result("live", static_cast<long long>(now));
    report.result("peak", static_cast<long long>(peak));
    report.result("allocated", static_cast<long long>(sum));
    const auto at = [&](double share) { return latencies[static_cast<size_t>(share * (steps - 1))] / 1e3; };
    report.varying("us_per_step", loop_ns / steps / 1e3); // generator and clock included
    report.varying("us_per_operation", std::max(0.0, total / steps - clock_ns) / 1e3);
    report.varying("p50_us", at(0.5));
    report.varying("p99_us", at(0.99));
    report.varying("p99.9_us", at(0.999));
    report.varying("max_us", at(1));
    report.varying("used_on_card_mib", double((card - free_bytes) >> 20));
}

/// Pairs with nothing running, without a clock inside the loop.
double idle_pair_ns(const Driver& d, size_t bytes) {
    CUdeviceptr p = 0;
    const auto batch = [&](int count) {
        const auto start = Clock::now();
        for (int i = 0; i < count; i++) {
            CHECK_CUDA(d.alloc(&p, bytes));
            CHECK_CUDA(d.free(p));
        }
        return ns_since(start) / count;
    };
    const double first = batch(50);
    const int count = std::clamp(static_cast<int>(1.5e7 / first), 50, 20000);
    std::vector<double> means;
    for (int i = 0; i < 5; i++) means.push_back(batch(count));
    return median(means);
}

struct Busy {
    double call_ns;  ///< median of alloc + free, clock taken off, when the host is never far ahead of the card
    double loop_us;  ///< per step of the loop with both calls, the host free to run ahead
    double plain_us; ///< the same loop on one block
};

__global__ void timed_kernel(unsigned char* p, long long ns) {
    const long long start = global_ns();
    while (global_ns() - start < ns) {
    }
    *p = 1;
}

/// The free-running loop. With a null driver nothing is allocated: every step uses `block`.
double loop_us(const Driver* d, CUdeviceptr block, size_t bytes, double kernel_us, int count, cudaStream_t stream) {
    CHECK_CUDA(cudaDeviceSynchronize());
    const auto start = Clock::now();
    for (int i = 0; i < count; i++) {
        CUdeviceptr p = block;
        if (d) CHECK_CUDA(d->alloc(&p, bytes));
        timed_kernel<<<1, 1, 0, stream>>>(reinterpret_cast<unsigned char*>(p), static_cast<long long>(kernel_us * 1e3));
        if (d) CHECK_CUDA(d->free(p));
    }
    CHECK_CUDA(cudaStreamSynchronize(stream));
    return ns_since(start) / 1e3 / count;
}

Busy behind_kernels(const Driver& d, size_t bytes, double kernel_us, int count, cudaStream_t stream, double clock_ns) {
    std::vector<double> calls;
    cudaEvent_t passed[2];
    for (auto& e : passed) CHECK_CUDA(cudaEventCreateWithFlags(&e, cudaEventDisableTiming));
    for (int i = 0; i < count; i++) {
        CUdeviceptr p = 0;
        CHECK_CUDA(cudaEventSynchronize(passed[i % 2])); // the kernel before the last one is over, the last one is not
        auto start = Clock::now();
        CHECK_CUDA(d.alloc(&p, bytes));
        const double alloc_ns = ns_since(start);
        timed_kernel<<<1, 1, 0, stream>>>(reinterpret_cast<unsigned char*>(p), static_cast<long long>(kernel_us * 1e3));
        CHECK_CUDA(cudaEventRecord(passed[i % 2], stream));
        start = Clock::now();
        CHECK_CUDA(d.free(p));
        calls.push_back(alloc_ns + ns_since(start) - 2 * clock_ns);
    }
    CHECK_CUDA(cudaDeviceSynchronize());
    CUdeviceptr block = 0;
    CHECK_CUDA(d.alloc(&block, bytes));
    std::vector<double> plain, with;
    for (int i = 0; i < 3; i++) {
        plain.push_back(loop_us(nullptr, block, bytes, kernel_us, count, stream));
        with.push_back(loop_us(&d, 0, bytes, kernel_us, count, stream));
    }
    CHECK_CUDA(d.free(block));
    for (auto& e : passed) CHECK_CUDA(cudaEventDestroy(e));
    return {median(calls), median(with), median(plain)};
}

void driver_pairs(Report& report) {
    CHECK_CUDA(cudaFree(nullptr));
    const Driver d;
    cudaStream_t stream = new_stream();
    const double clock_ns = clock_cost_ns();
    report.varying("clock_ns", clock_ns);
    spin(1, stream); // loads the module before anything is timed
    CHECK_CUDA(cudaStreamSynchronize(stream));
    int cells = 0;
    for (size_t bytes : {size_t{256}, size_t{4} << 10, size_t{64} << 10, size_t{256} << 10, size_t{1} << 20,
                         size_t{4} << 20, size_t{64} << 20, size_t{256} << 20}) {
        const std::string name = std::to_string(bytes);
        report.varying(name + ".idle_ns", idle_pair_ns(d, bytes));
        for (double kernel_us : {5.0, 20.0, 100.0}) {
            const int count = kernel_us > 50 ? 200 : 600;
            const Busy b = behind_kernels(d, bytes, kernel_us, count, stream, clock_ns);
            const std::string cell = name + ".kernel_" + std::to_string(static_cast<int>(kernel_us)) + "us";
            report.varying(cell + ".call_ns", b.call_ns);
            report.varying(cell + ".loop_us", b.loop_us);
            report.varying(cell + ".plain_us", b.plain_us);
            cells++;
        }
    }
    report.result("cells", cells);
}

/// All frees happen under one kernel, so no block can come back before it ends. The kernel ends by itself.
void spanning(Report& report, size_t bytes, int count, double seconds) {
    CHECK_CUDA(cudaFree(nullptr));
    const Driver d;
    cudaStream_t stream = new_stream();
    spin(std::min(seconds, 10.0) * 1e6, stream);
    const auto start = Clock::now();
    double slowest = 0;
    for (int i = 0; i < count; i++) {
        CUdeviceptr p = 0;
        const auto before = Clock::now();
        CHECK_CUDA(d.alloc(&p, bytes));
        CHECK_CUDA(d.free(p));
        slowest = std::max(slowest, ns_since(before));
    }
    const double loop = seconds_since(start);
    const bool outlasted = cudaStreamQuery(stream) == cudaErrorNotReady;
    CHECK_CUDA(cudaDeviceSynchronize());
    report.result("pairs", count);
    report.varying("loop_seconds", loop);
    report.varying("kernel_outlasted_loop", outlasted);
    report.varying("slowest_us", slowest / 1e3);
}

} // namespace

int main(int argc, char** argv) {
    const std::string mode = argc > 1 ? argv[1] : "";
    Report report;
    if ((mode == "pair" || mode == "pairk") && argc >= 4)
        pairs(report, mode == "pairk", strtoull(argv[2], nullptr, 10), atoi(argv[3]), argc > 4 ? atoi(argv[4]) : 1);
    else if (mode == "rand" && argc >= 3)
        random_mix(report, atoi(argv[2]));
    else if (mode == "dpair")
        driver_pairs(report);
    else if (mode == "span" && argc >= 5)
        spanning(report, strtoull(argv[2], nullptr, 10), atoi(argv[3]), atof(argv[4]));
    else {
        fprintf(stderr, "usage: alloc_mix pair|pairk BYTES N [THREADS] | rand N | dpair | span BYTES N SECONDS\n");
        return 2;
    }
    return report.print();
}
