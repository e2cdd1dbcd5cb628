// Client: sorts with thrust, whose every call allocates and frees temporary storage with cudaMalloc and cudaFree.
// Arguments: [elements] [sorts]. Built with the static and with the shared runtime.

#include "gpu_common.cuh"
#include "report.h"

#include <thrust/device_vector.h>
#include <thrust/host_vector.h>
#include <thrust/sort.h>
#include <thrust/transform.h>

#include <algorithm>
#include <vector>

namespace {

struct Scramble {
    unsigned salt;
    __host__ __device__ unsigned operator()(unsigned i) const {
        unsigned x = i * 2654435761u + salt;
        x ^= x >> 15;
        return x * 2246822519u;
    }
};

/// A hash that depends on the order of the elements.
unsigned long long digest(const thrust::device_vector<unsigned>& values) {
    const thrust::host_vector<unsigned> host = values;
    unsigned long long h = 1469598103934665603ULL;
    for (unsigned v : host) h = (h ^ v) * 1099511628211ULL;
    return h;
}

} // namespace

int main(int argc, char** argv) {
    using namespace cistern::gpu_test;
    const unsigned count = argc > 1 ? static_cast<unsigned>(atoi(argv[1])) : 1u << 20;
    const int sorts = argc > 2 ? atoi(argv[2]) : 200;
    Report report;
    thrust::device_vector<unsigned> values(count);
    std::vector<double> times;
    unsigned long long mixed = 0;
    for (int i = 0; i < sorts; i++) {
        thrust::transform(thrust::counting_iterator<unsigned>(0), thrust::counting_iterator<unsigned>(count),
                          values.begin(), Scramble{static_cast<unsigned>(i)});
        CHECK_CUDA(cudaDeviceSynchronize());
        const auto start = Clock::now();
        thrust::sort(values.begin(), values.end());
        CHECK_CUDA(cudaDeviceSynchronize());
        times.push_back(seconds_since(start) * 1e3);
        if (i % 50 == 0) mixed = mixed * 31 + digest(values);
    }
    std::sort(times.begin(), times.end());
    report.result("elements", static_cast<long long>(count));
    report.result("digest", std::to_string(mixed));
    report.varying("ms_per_sort", times[times.size() / 2]);
    return report.print();
}
