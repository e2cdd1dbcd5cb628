#pragma once
// Shared by the GPU programs: kernels that take a known time, fill and check memory, and error handling.
// Every spin is bounded by ten seconds, so that a mistake ends as a failed test and never as a stuck card.

#include <cuda_runtime.h>

#include <chrono>
#include <cstdint>
#include <cstdio>
#include <cstdlib>

namespace cistern::gpu_test {

/// For calls that have to succeed for the test to mean anything: ends the program with a word on stderr.
#define CHECK_CUDA(call)                                                                                               \
    do {                                                                                                               \
        const auto code_of_call = (call);                                                                              \
        if (static_cast<int>(code_of_call) != 0) {                                                                     \
            fprintf(stderr, "%s:%d: %s gave %d\n", __FILE__, __LINE__, #call, static_cast<int>(code_of_call));         \
            exit(1);                                                                                                   \
        }                                                                                                              \
    } while (0)

using Clock = std::chrono::steady_clock;
inline double seconds_since(Clock::time_point start) {
    return std::chrono::duration<double>(Clock::now() - start).count();
}

constexpr long long spin_bound_ns = 10'000'000'000LL;

static __device__ __forceinline__ long long global_ns() {
    long long t;
    asm volatile("mov.u64 %0, %globaltimer;" : "=l"(t));
    return t;
}

static __global__ void spin_kernel(long long ns) {
    const long long start = global_ns();
    const long long limit = ns < spin_bound_ns ? ns : spin_bound_ns;
    while (global_ns() - start < limit) {
    }
}

/// Fills `bytes` bytes with `value`. Any size and alignment; 16 bytes at a time where the start allows it.
static __global__ void fill_kernel(unsigned char* to, size_t bytes, unsigned char value) {
    const size_t thread = blockIdx.x * size_t{blockDim.x} + threadIdx.x;
    const size_t threads = size_t{gridDim.x} * blockDim.x;
    const unsigned word = value * 0x01010101u;
    const size_t wide = reinterpret_cast<uintptr_t>(to) % 16 == 0 ? bytes / 16 : 0;
    for (size_t i = thread; i < wide; i += threads)
        reinterpret_cast<uint4*>(to)[i] = make_uint4(word, word, word, word);
    for (size_t i = wide * 16 + thread; i < bytes; i += threads) to[i] = value;
}

/// Adds the number of bytes that are not `value` to `*wrong`.
static __global__ void check_kernel(const unsigned char* from, size_t bytes, unsigned char value,
                                    unsigned long long* wrong) {
    const size_t thread = blockIdx.x * size_t{blockDim.x} + threadIdx.x;
    const size_t threads = size_t{gridDim.x} * blockDim.x;
    const unsigned word = value * 0x01010101u;
    const size_t wide = reinterpret_cast<uintptr_t>(from) % 16 == 0 ? bytes / 16 : 0;
    unsigned long long bad = 0;
    for (size_t i = thread; i < wide; i += threads) {
        const uint4 v = reinterpret_cast<const uint4*>(from)[i];
        if (v.x == word && v.y == word && v.z == word && v.w == word) continue;
        for (int b = 0; b < 16; b++) bad += from[i * 16 + b] != value;
    }
    for (size_t i = wide * 16 + thread; i < bytes; i += threads) bad += from[i] != value;
    if (bad) atomicAdd(wrong, bad);
}

inline int blocks_for(size_t bytes) {
    const size_t blocks = bytes / (256 * 16) + 1;
    return static_cast<int>(blocks < 264 ? blocks : 264);
}
inline void fill(void* to, size_t bytes, unsigned char value, cudaStream_t stream) {
    fill_kernel<<<blocks_for(bytes), 256, 0, stream>>>(static_cast<unsigned char*>(to), bytes, value);
}
inline void check(const void* from, size_t bytes, unsigned char value, unsigned long long* wrong, cudaStream_t stream) {
    check_kernel<<<blocks_for(bytes), 256, 0, stream>>>(static_cast<const unsigned char*>(from), bytes, value, wrong);
}
inline void spin(double microseconds, cudaStream_t stream) {
    spin_kernel<<<1, 1, 0, stream>>>(static_cast<long long>(microseconds * 1000));
}

/// A count of wrong bytes that checking kernels add to. It lives in pinned host memory, so that it is no part of what
/// is under test.
class WrongBytes {
public:
    WrongBytes() {
        CHECK_CUDA(cudaHostAlloc(reinterpret_cast<void**>(&host_), 64, cudaHostAllocMapped | cudaHostAllocPortable));
        *host_ = 0;
    }
    unsigned long long* device() const { return host_; } // unified addressing: the same address on every device
    unsigned long long value() const { return *static_cast<volatile unsigned long long*>(host_); }
    void reset() { *host_ = 0; }

private:
    unsigned long long* host_ = nullptr;
};

inline bool overlaps(const void* a, size_t a_bytes, const void* b, size_t b_bytes) {
    const auto x = reinterpret_cast<uintptr_t>(a), y = reinterpret_cast<uintptr_t>(b);
    return x < y + b_bytes && y < x + a_bytes;
}

/// Memory that was freed under running work in earlier rounds. Meeting it again shows that memory is recycled at all;
/// without that, a test for early reuse would pass on an allocator that never reuses anything.
class Victims {
public:
    void add(const void* start, size_t bytes) {
        ranges_[next_++ % kept] = {start, bytes};
        if (used_ < kept) used_++;
    }
    bool met(const void* start, size_t bytes) const {
        for (size_t i = 0; i < used_; i++)
            if (overlaps(start, bytes, ranges_[i].start, ranges_[i].bytes)) return true;
        return false;
    }

private:
    struct Range {
        const void* start;
        size_t bytes;
    };
    static constexpr size_t kept = 64;
    Range ranges_[kept] = {};
    size_t used_ = 0, next_ = 0;
};

inline cudaStream_t new_stream(unsigned flags = cudaStreamNonBlocking) {
    cudaStream_t stream;
    CHECK_CUDA(cudaStreamCreateWithFlags(&stream, flags));
    return stream;
}

} // namespace cistern::gpu_test
