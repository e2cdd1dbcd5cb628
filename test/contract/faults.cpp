// The n-th driver call fails: the program gets its memory by another way or error 2, and nothing is lost.
#include "test/catch.h"
#include "test/contract/program.h"

#include <random>

using namespace cistern;
using namespace cistern::test;

namespace {

/// Allocations, frees and trims, while a failure lies in wait.
struct Mix {
    int out_of_memory = 0;
    int wrong_codes = 0;
    int wrong_frees = 0;
};

Mix mixed_operations(CUstream stream, uint64_t seed) {
    std::mt19937_64 random(seed);
    std::vector<std::pair<CUdeviceptr, size_t>> live;
    Mix mix;
    for (int i = 0; i < 80; ++i) {
        const size_t bytes = size_t{1} << (6 + random() % 20);
        CUdeviceptr ptr = 0;
        const CUresult result = mem_alloc(&ptr, bytes);
        if (result == CUDA_SUCCESS) {
            sim_claim(ptr, bytes);
            const SimRange range{ptr, bytes, SIM_WRITE | SIM_EDGES, 1, 0};
            (void)sim_submit(stream, &range, 1, 1000, nullptr);
            live.emplace_back(ptr, bytes);
        } else if (result == CUDA_ERROR_OUT_OF_MEMORY) {
            ++mix.out_of_memory;
        } else {
            ++mix.wrong_codes;
        }
        if (live.size() > 6 || (!live.empty() && random() % 2 == 0)) {
            const size_t which = random() % live.size();
            sim_disclaim(live[which].first);
            if (mem_free(live[which].first) != CUDA_SUCCESS) ++mix.wrong_frees;
            live.erase(live.begin() + static_cast<std::ptrdiff_t>(which));
        }
        if (i % 20 == 19) pool::trim();
        sim_advance(2000);
    }
    for (const auto& [ptr, bytes] : live) {
        sim_disclaim(ptr);
        if (mem_free(ptr) != CUDA_SUCCESS) ++mix.wrong_frees;
    }
    return mix;
}

void fail_every_call_of(const char* function, bool context_dies) {
    REQUIRE(start());
    CUcontext home = use_primary();
    sim_auto_advance(100);
    const SimBalance before = balance();
    for (CUresult code :
         {CUDA_ERROR_OUT_OF_MEMORY, CUDA_ERROR_INVALID_VALUE, CUDA_ERROR_NOT_SUPPORTED, CUDA_ERROR_UNKNOWN})
        for (int nth = 1; nth <= 20; ++nth) {
            INFO(function << " " << nth << " " << code);
            CUcontext context = create_context();
            CUstream stream = make_stream();
            sim_fail(function, nth, code);
            const Mix mix = mixed_operations(stream, static_cast<uint64_t>(nth));
            sim_clear_failures();
            CHECK(mix.wrong_codes == 0);
            CHECK(mix.out_of_memory <= 1);
            // A context that the driver calls broken forwards the frees of its blocks, too.
            if (!context_dies || code == CUDA_ERROR_OUT_OF_MEMORY) CHECK(mix.wrong_frees == 0);
            CUdeviceptr next = 0;
            CHECK(mem_alloc(&next, 3 * MiB) == CUDA_SUCCESS);
            CHECK(mem_free(next) == CUDA_SUCCESS);
            CHECK(destroy_context(context) == CUDA_SUCCESS);
            cuCtxSetCurrent(home);
            check_balance(before);
        }
    check_referee();
}

} // namespace

TEST_CASE("F17 contract: cuMemCreate fails") { fail_every_call_of("cuMemCreate", false); }
TEST_CASE("F17 contract: cuMemAddressReserve fails") { fail_every_call_of("cuMemAddressReserve", false); }
TEST_CASE("F17 contract: cuMemMap fails") { fail_every_call_of("cuMemMap", false); }
TEST_CASE("F17 contract: cuMemSetAccess fails") { fail_every_call_of("cuMemSetAccess", false); }
TEST_CASE("F17 contract: cuMemUnmap fails") { fail_every_call_of("cuMemUnmap", false); }
TEST_CASE("F17 contract: cuEventCreate fails") { fail_every_call_of("cuEventCreate", false); }
TEST_CASE("F17 contract: cuCtxRecordEvent fails") { fail_every_call_of("cuCtxRecordEvent", true); }
