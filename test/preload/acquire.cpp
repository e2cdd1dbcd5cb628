// A real CUDA runtime on the simulated GPU: it gets through all its look-ups and then refuses to work, because the
// simulated driver lacks the runtime's private handshake. Natively and under the preload it has to get equally far and
// to ask for the same functions in the same order (recorder.cpp writes them down). Linked once with the static, once with the shared one.

#include <cuda_runtime_api.h>

#include <cstdio>
#include <dlfcn.h>
#include <initializer_list>

int main() {
    // The runtime unloads the driver when it gives up; the object keeps it.
    void* const library = dlopen("libcuda.so.1", RTLD_NOW);
    int count = -1;
    std::printf("devices: %d", static_cast<int>(cudaGetDeviceCount(&count)));
    void* p = nullptr;
    std::printf(" malloc %d", static_cast<int>(cudaMalloc(&p, 1 << 20)));
    std::printf(" last %d\n", static_cast<int>(cudaGetLastError()));
    const auto calls =
        library == nullptr ? nullptr : reinterpret_cast<unsigned long (*)(const char*)>(dlsym(library, "sim_calls"));
    if (calls == nullptr) {
        std::printf("no simulated driver\n");
        return 3;
    }
    for (const char* name :
         {"cuGetProcAddress", "cuGetProcAddress_v2", "cuInit", "cuGetExportTable", "cuMemAlloc_v2"}) {
        std::printf("%s %lu\n", name, calls(name));
    }
    return calls("cuGetProcAddress_v2") > 100 ? 0 : 4;
}
