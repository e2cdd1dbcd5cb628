// F08: a block is freed while work on it is still running, and memory is asked for and overwritten at once elsewhere.
//
//     victim stream  |--- spin ---|-- write old pattern to p --|
//     host           free(p)  q = alloc()
//     other stream             |- write new pattern to q -|          later: every byte of q must be the new pattern
//
// If q were given p's memory early, the victim's late write would land in q.

#include "driver_api.h"
#include "gpu_common.cuh"
#include "gpu_tests.h"

#include <cub/device/device_scan.cuh>

#include <thread>
#include <vector>

namespace cistern::gpu_test {
namespace {

constexpr unsigned char old_pattern = 0xA5, new_pattern = 0x11;
constexpr double spin_us = 200;
constexpr size_t largest = size_t{64} << 20;
constexpr size_t copy_to_host_limit = size_t{2} << 20;

enum class Work { nonblocking, blocking, legacy, per_thread, graph, copy_h2d, copy_d2d, copy_d2h, library, count_ };
constexpr const char* work_names[] = {"nonblocking", "blocking", "legacy",   "per_thread", "graph",
                                      "copy_h2d",    "copy_d2d", "copy_d2h", "library"};
enum class Take { same, smaller, larger, many, other_thread, driver_call, pitch, count_ };
constexpr const char* take_names[] = {"same", "smaller", "larger", "many", "other_thread", "driver_call", "pitch"};

struct Block {
    unsigned char* start;
    size_t bytes;
};

struct Seen {
    long long rounds = 0, in_flight = 0, early = 0, recycled = 0;
};

class Bench {
public:
    Bench() {
        CHECK_CUDA(cudaMalloc(&source_, largest));
        CHECK_CUDA(cudaMemset(source_, old_pattern, largest));
        CHECK_CUDA(cudaHostAlloc(&host_, largest, cudaHostAllocDefault));
        memset(host_, old_pattern, largest);
        CHECK_CUDA(cudaHostAlloc(&back_, copy_to_host_limit, cudaHostAllocMapped));
        CHECK_CUDA(cub::DeviceScan::InclusiveSum(nullptr, scratch_bytes_, source_, source_, static_cast<int>(largest)));
        CHECK_CUDA(cudaMalloc(&scratch_, scratch_bytes_));
        CHECK_CUDA(cudaDeviceSynchronize());
    }

    /// `rounds` rounds of one combination; returns the number of wrong bytes.
    unsigned long long run(Work work, Take take, int rounds, Seen& seen) {
        wrong_.reset();
        for (int i = 0; i < rounds; i++) round(work, take, size_of(work, i), seen);
        CHECK_CUDA(cudaDeviceSynchronize());
        return wrong_.value();
    }

private:
    static size_t size_of(Work work, int i) {
        constexpr size_t sizes[] = {4096, 192 << 10, 1 << 20, 3 << 20, 24 << 20};
        const size_t bytes = i % 25 == 24 ? largest : sizes[i % 5];
        return work == Work::copy_d2h && bytes > copy_to_host_limit ? copy_to_host_limit : bytes;
    }

    cudaStream_t stream_of(Work work) const {
        if (work == Work::blocking) return blocking_;
        if (work == Work::legacy) return cudaStreamLegacy;
        if (work == Work::per_thread) return cudaStreamPerThread;
        return victim_;
    }

    /// Submits a spin and then the late access to `p`.
    void submit(Work work, Block p) {
        const cudaStream_t s = stream_of(work);
        if (work == Work::graph) return submit_graph(p);
        if (work == Work::copy_d2h) fill(p.start, p.bytes, old_pattern, s);
        spin(spin_us, s);
        switch (work) {
        case Work::copy_h2d:
            CHECK_CUDA(cudaMemcpyAsync(p.start, host_, p.bytes, cudaMemcpyHostToDevice, s));
            break;
        case Work::copy_d2d:
            CHECK_CUDA(cudaMemcpyAsync(p.start, source_, p.bytes, cudaMemcpyDeviceToDevice, s));
            break;
        case Work::copy_d2h:
            CHECK_CUDA(cudaMemcpyAsync(back_, p.start, p.bytes, cudaMemcpyDeviceToHost, s));
            break;
        case Work::library: {
            size_t scratch = scratch_bytes_;
            CHECK_CUDA(
                cub::DeviceScan::InclusiveSum(scratch_, scratch, source_, p.start, static_cast<int>(p.bytes), s));
            break;
        }
        default:
            fill(p.start, p.bytes, old_pattern, s);
        }
    }

    void submit_graph(Block p) {
        cudaGraph_t graph;
        CHECK_CUDA(cudaStreamBeginCapture(victim_, cudaStreamCaptureModeThreadLocal));
        spin(spin_us, victim_);
        fill(p.start, p.bytes, old_pattern, victim_);
        CHECK_CUDA(cudaStreamEndCapture(victim_, &graph));
        CHECK_CUDA(cudaGraphInstantiate(&exec_, graph, 0));
        CHECK_CUDA(cudaGraphDestroy(graph));
        CHECK_CUDA(cudaGraphLaunch(exec_, victim_));
    }

    static unsigned char* take_one(Take take, size_t& bytes) {
        void* q = nullptr;
        if (take == Take::driver_call) {
            CUdeviceptr address = 0;
            CHECK_CUDA(driver().cuMemAlloc(&address, bytes));
            q = reinterpret_cast<void*>(address);
        } else if (take == Take::pitch) {
            size_t pitch = 0;
            const size_t rows = bytes / 4096;
            CHECK_CUDA(cudaMallocPitch(&q, &pitch, 4096, rows));
            bytes = pitch * rows;
        } else {
            CHECK_CUDA(cudaMalloc(&q, bytes));
        }
        return static_cast<unsigned char*>(q);
    }

    void take_and_fill(Take take, size_t bytes) {
        taken_.clear();
        const int count = take == Take::many ? 8 : 1;
        for (int i = 0; i < count; i++) {
            size_t n = bytes;
            if (take == Take::smaller) n = bytes / 2 + 40;
            if (take == Take::larger) n = bytes + bytes / 2 + 8;
            if (take == Take::many) n = bytes / 8;
            unsigned char* q = take_one(take, n);
            taken_.push_back({q, n});
            CHECK_CUDA(cudaMemsetAsync(q, new_pattern, n, other_));
        }
    }

    void round(Work work, Take take, size_t bytes, Seen& seen) {
        Block p{nullptr, bytes};
        CHECK_CUDA(cudaMalloc(&p.start, bytes));
        bool recycled = victims_.met(p.start, bytes);
        submit(work, p);
        seen.in_flight += cudaStreamQuery(stream_of(work)) == cudaErrorNotReady;
        CHECK_CUDA(cudaFree(p.start));
        if (take == Take::other_thread)
            std::thread([&] { take_and_fill(take, bytes); }).join();
        else
            take_and_fill(take, bytes);
        CHECK_CUDA(cudaStreamSynchronize(other_));
        CHECK_CUDA(cudaDeviceSynchronize());
        for (const Block& q : taken_) {
            check(q.start, q.bytes, new_pattern, wrong_.device(), other_);
            seen.early += overlaps(q.start, q.bytes, p.start, p.bytes);
            recycled = recycled || victims_.met(q.start, q.bytes);
        }
        if (work == Work::copy_d2h) check(back_, bytes, old_pattern, wrong_.device(), other_);
        CHECK_CUDA(cudaStreamSynchronize(other_));
        seen.recycled += recycled;
        seen.rounds++;
        victims_.add(p.start, bytes);
        finish();
    }

    void finish() {
        for (const Block& q : taken_) CHECK_CUDA(cudaFree(q.start));
        if (exec_) CHECK_CUDA(cudaGraphExecDestroy(exec_));
        exec_ = nullptr;
    }

    cudaStream_t victim_ = new_stream(), other_ = new_stream(), blocking_ = new_stream(cudaStreamDefault);
    cudaGraphExec_t exec_ = nullptr;
    unsigned char *source_ = nullptr, *host_ = nullptr, *back_ = nullptr;
    void* scratch_ = nullptr;
    size_t scratch_bytes_ = 0;
    std::vector<Block> taken_;
    Victims victims_; // of earlier rounds, whose work is over
    WrongBytes wrong_;
};

} // namespace

void reuse(Report& report, int rounds) {
    if (rounds <= 0) rounds = 100;
    CHECK_CUDA(cudaSetDevice(0));
    Bench bench;
    unsigned long long total = 0;
    Seen all;
    for (int w = 0; w < static_cast<int>(Work::count_); w++) {
        Seen seen;
        const auto start = Clock::now();
        for (int t = 0; t < static_cast<int>(Take::count_); t++) {
            const auto wrong = bench.run(static_cast<Work>(w), static_cast<Take>(t), rounds, seen);
            report.result(std::string(work_names[w]) + "/" + take_names[t], static_cast<long long>(wrong));
            total += wrong;
        }
        report.varying(std::string(work_names[w]) + ".seconds", seconds_since(start));
        report.varying(std::string(work_names[w]) + ".in_flight_share", double(seen.in_flight) / double(seen.rounds));
        all.rounds += seen.rounds;
        all.in_flight += seen.in_flight;
        all.early += seen.early;
        all.recycled += seen.recycled;
    }
    report.varying("rounds", static_cast<double>(all.rounds));
    report.varying("rounds_per_variant", rounds);
    report.varying("in_flight_share", double(all.in_flight) / double(all.rounds));
    report.varying("same_address_at_once", static_cast<double>(all.early));
    report.varying("recycled_share", double(all.recycled) / double(all.rounds));
    if (total) report.fail("wrong bytes: " + std::to_string(total));
}

} // namespace cistern::gpu_test
