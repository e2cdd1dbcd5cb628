// A program as it might be anybody's: plain runtime API, a scratch buffer for every step, no pool of its own. The result goes to
// stdout, the time to stderr.

#include <chrono>
#include <cstdio>
#include <cstdlib>
#include <cuda_runtime.h>

#define CHECK(call)                                                                                                    \
    do {                                                                                                               \
        const cudaError_t code = (call);                                                                               \
        if (code != cudaSuccess) {                                                                                     \
            std::printf("%s: %s\n", #call, cudaGetErrorString(code));                                                  \
            std::exit(1);                                                                                              \
        }                                                                                                              \
    } while (0)

__global__ void fill(unsigned* data, size_t n, unsigned seed) {
    for (size_t i = blockIdx.x * size_t{blockDim.x} + threadIdx.x; i < n; i += size_t{gridDim.x} * blockDim.x) {
        data[i] = static_cast<unsigned>(i) * 2654435761u + seed;
    }
}

__global__ void add_up(const unsigned* data, size_t n, unsigned long long* sum) {
    unsigned long long part = 0;
    for (size_t i = blockIdx.x * size_t{blockDim.x} + threadIdx.x; i < n; i += size_t{gridDim.x} * blockDim.x) {
        part += data[i] ^ (i * 31);
    }
    atomicAdd(sum, part);
}

int main() {
    constexpr unsigned steps = 2000;
    unsigned long long* sum = nullptr;
    CHECK(cudaMalloc(&sum, sizeof *sum));
    CHECK(cudaMemset(sum, 0, sizeof *sum));
    const auto start = std::chrono::steady_clock::now();
    for (unsigned i = 0; i < steps; ++i) {
        const size_t n = size_t{4096} << (i * 7 % 11); // 16 KiB to 16 MiB
        unsigned* scratch = nullptr;
        unsigned* other = nullptr;
        CHECK(cudaMalloc(&scratch, n * sizeof *scratch));
        CHECK(cudaMalloc(&other, n * sizeof *other));
        fill<<<256, 256>>>(scratch, n, i);
        CHECK(cudaMemcpyAsync(other, scratch, n * sizeof *scratch, cudaMemcpyDeviceToDevice));
        add_up<<<256, 256>>>(other, n, sum);
        CHECK(cudaFree(scratch));
        CHECK(cudaFree(other));
    }
    unsigned long long result = 0;
    CHECK(cudaMemcpy(&result, sum, sizeof result, cudaMemcpyDeviceToHost));
    const std::chrono::duration<double, std::milli> time = std::chrono::steady_clock::now() - start;
    CHECK(cudaFree(sum));
    std::printf("%u steps, checksum %016llx\n", steps, result);
    std::fprintf(stderr, "%.1f\n", time.count());
    return 0;
}
