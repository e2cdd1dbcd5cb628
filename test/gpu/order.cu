// Programs whose kernels and threads depend on each other while memory is freed and allocated: an allocator that waits
// for, or orders, more than the driver would makes them hang; one that orders less corrupts them.

#include "gpu_common.cuh"
#include "gpu_tests.h"

#include <atomic>
#include <condition_variable>
#include <cstring>
#include <deque>
#include <mutex>
#include <random>
#include <thread>
#include <vector>

namespace cistern::gpu_test {
namespace {

/// Lives in mapped host memory; host and device exchange single words.
struct Mailbox {
    unsigned char* volatile pointer;
    volatile unsigned long long bytes;
    volatile int served; ///< the kernel got a pointer before its time was over
};

/// Waits up to `bound_ns` for a pointer in the mailbox, then fills what it points to.
__global__ void mailbox_kernel(Mailbox* box, unsigned char value, long long bound_ns) {
    __shared__ unsigned char* to; // one thread decides, so that the block never fills in part
    if (threadIdx.x == 0) {
        const long long start = global_ns();
        while (!box->pointer && global_ns() - start < bound_ns) {
        }
        to = box->pointer;
    }
    __syncthreads();
    if (!to) return;
    for (size_t i = threadIdx.x; i < box->bytes; i += blockDim.x) to[i] = value;
    __threadfence_system();
    __syncthreads();
    if (threadIdx.x == 0) box->served = 1;
}

/// Sets `mine`, then waits up to two seconds for `theirs`; counts a time-out.
__global__ void handshake_kernel(volatile int* mine, volatile int* theirs, int* timeouts) {
    *mine = 1;
    __threadfence_system();
    const long long start = global_ns();
    while (!*theirs)
        if (global_ns() - start > 2'000'000'000LL) {
            atomicAdd_system(timeouts, 1);
            return;
        }
}

template <class T> T* mapped() {
    T* words = nullptr;
    CHECK_CUDA(cudaHostAlloc(reinterpret_cast<void**>(&words), sizeof(T), cudaHostAllocMapped));
    memset(static_cast<void*>(words), 0, sizeof(T));
    return words;
}

} // namespace

// A kernel is submitted first. Then a block is freed while other work still writes it, and the kernel is given the
// address of a block that was allocated after that free. No order on the device can help here, since the kernel is
// already running: the allocator must not hand out the freed memory.
void mailbox(Report& report, int rounds) {
    if (rounds <= 0) rounds = 60;
    constexpr size_t bytes = 2 << 20;
    Mailbox* box = mapped<Mailbox>();
    cudaStream_t resident = new_stream(), writer = new_stream(), checker = new_stream();
    WrongBytes wrong;
    int served = 0;
    for (int i = 0; i < rounds; i++) {
        box->pointer = nullptr;
        box->bytes = bytes;
        box->served = 0;
        unsigned char *p, *q;
        CHECK_CUDA(cudaMalloc(&p, bytes));
        mailbox_kernel<<<1, 256, 0, resident>>>(box, 0x77, 12'000'000);
        spin(3000, writer);
        fill(p, bytes, 0xA5, writer);
        CHECK_CUDA(cudaFree(p)); // natively waits until the resident kernel gives up
        CHECK_CUDA(cudaMalloc(&q, bytes));
        box->pointer = q;
        CHECK_CUDA(cudaDeviceSynchronize());
        if (box->served) {
            check(q, bytes, 0x77, wrong.device(), checker);
            served++;
        }
        CHECK_CUDA(cudaStreamSynchronize(checker));
        CHECK_CUDA(cudaFree(q));
    }
    report.result("wrong", static_cast<long long>(wrong.value()));
    report.varying("served_share", double(served) / rounds);
    if (wrong.value()) report.fail("a resident kernel met memory that was still in use");
}

// Small frees are collected by a pool; the collection must never come to wait for a kernel that is itself waiting for
// one that the program will only submit after its next allocation.
//
//     host   free x n | launch A (waits for B) | alloc x n | launch B
//
void cross_wait(Report& report, int rounds) {
    if (rounds <= 0) rounds = 30;
    struct Flags {
        int a, b, timeouts;
    };
    Flags* flags = mapped<Flags>();
    cudaStream_t s1 = new_stream(), s2 = new_stream(), s3 = new_stream();
    constexpr size_t sizes[] = {4096, 256 << 10, 8 << 20};
    std::vector<void*> held;
    for (int i = 0; i < rounds; i++) {
        const size_t bytes = sizes[i % 3];
        const int count = i % 2 ? 40 : 90;
        flags->a = flags->b = 0;
        for (int k = 0; k < count; k++) {
            void* p;
            CHECK_CUDA(cudaMalloc(&p, bytes));
            held.push_back(p);
        }
        spin(500, s3);
        for (void* p : held) CHECK_CUDA(cudaFree(p));
        held.clear();
        handshake_kernel<<<1, 1, 0, s1>>>(&flags->a, &flags->b, &flags->timeouts);
        for (int k = 0; k < count; k++) {
            void* p;
            CHECK_CUDA(cudaMalloc(&p, bytes)); // natively an allocation does not wait
            held.push_back(p);
        }
        handshake_kernel<<<1, 1, 0, s2>>>(&flags->b, &flags->a, &flags->timeouts);
        CHECK_CUDA(cudaDeviceSynchronize());
        for (void* p : held) CHECK_CUDA(cudaFree(p));
        held.clear();
    }
    report.result("timeouts", flags->timeouts);
    if (flags->timeouts) report.fail("an allocation waited for a kernel that needed a later launch");
}

namespace {

struct Parcel {
    unsigned char* start;
    size_t bytes;
    unsigned char tag;
    cudaEvent_t filled;
};

class Queue {
public:
    void push(Parcel p) {
        std::lock_guard lock(mutex_);
        parcels_.push_back(p);
        ready_.notify_one();
    }
    Parcel pop() {
        std::unique_lock lock(mutex_);
        ready_.wait(lock, [&] { return !parcels_.empty(); });
        Parcel p = parcels_.front();
        parcels_.pop_front();
        return p;
    }

private:
    std::mutex mutex_;
    std::condition_variable ready_;
    std::deque<Parcel> parcels_;
};

void produce(Queue& queue, int seed, int rounds) {
    std::mt19937_64 random(static_cast<unsigned long long>(seed));
    cudaStream_t stream = new_stream();
    for (int i = 0; i < rounds; i++) {
        Parcel p{nullptr, 512 + random() % (size_t{3} << 20), static_cast<unsigned char>(random()), nullptr};
        CHECK_CUDA(cudaMalloc(&p.start, p.bytes));
        CHECK_CUDA(cudaEventCreateWithFlags(&p.filled, cudaEventDisableTiming));
        fill(p.start, p.bytes, p.tag, stream);
        CHECK_CUDA(cudaEventRecord(p.filled, stream));
        queue.push(p);
    }
}

/// Frees while its own checking kernel is running.
void consume(Queue& queue, WrongBytes& wrong, int rounds) {
    cudaStream_t stream = new_stream();
    for (int i = 0; i < rounds; i++) {
        Parcel p = queue.pop();
        CHECK_CUDA(cudaStreamWaitEvent(stream, p.filled, 0));
        if (i % 4 == 0) spin(100, stream);
        check(p.start, p.bytes, p.tag, wrong.device(), stream);
        CHECK_CUDA(cudaFree(p.start));
        CHECK_CUDA(cudaEventDestroy(p.filled));
    }
    CHECK_CUDA(cudaStreamSynchronize(stream));
}

} // namespace

void producer_consumer(Report& report, int rounds) {
    if (rounds <= 0) rounds = 1500;
    CHECK_CUDA(cudaFree(nullptr));
    Queue queues[4];
    WrongBytes wrong;
    std::vector<std::thread> threads;
    for (int i = 0; i < 4; i++) {
        threads.emplace_back([&, i] { produce(queues[i], i + 1, rounds); });
        threads.emplace_back([&, i] { consume(queues[i], wrong, rounds); });
    }
    for (auto& t : threads) t.join();
    CHECK_CUDA(cudaDeviceSynchronize());
    report.result("wrong", static_cast<long long>(wrong.value()));
    report.varying("blocks", 4.0 * rounds);
    if (wrong.value()) report.fail("a consumer read something else than was produced");
}

namespace {

struct Live {
    unsigned char* start;
    size_t bytes;
    unsigned char tag;
};

/// One thread of the mix. A block is checked, then overwritten with a poison, and freed while both are running.
long long mix(int seed, int rounds, WrongBytes& wrong) {
    std::mt19937_64 random(static_cast<unsigned long long>(seed));
    cudaStream_t stream = new_stream();
    std::vector<Live> live;
    long long busy_frees = 0;
    for (int i = 0; i < rounds; i++) {
        if (live.size() < 4 || (live.size() < 48 && random() % 2)) {
            const int power = static_cast<int>(8 + random() % 16); // up to 16 MiB
            Live b{nullptr, (size_t{1} << power) + random() % (size_t{1} << power),
                   static_cast<unsigned char>(random())};
            CHECK_CUDA(cudaMalloc(&b.start, b.bytes));
            fill(b.start, b.bytes, b.tag, stream);
            live.push_back(b);
            continue;
        }
        const size_t pick = random() % live.size();
        const Live b = live[pick];
        live[pick] = live.back();
        live.pop_back();
        if (random() % 4 == 0) spin(50, stream);
        check(b.start, b.bytes, b.tag, wrong.device(), stream);
        fill(b.start, b.bytes, 0xEE, stream);
        busy_frees += cudaStreamQuery(stream) == cudaErrorNotReady;
        CHECK_CUDA(cudaFree(b.start));
    }
    for (const Live& b : live) {
        check(b.start, b.bytes, b.tag, wrong.device(), stream);
        CHECK_CUDA(cudaFree(b.start));
    }
    CHECK_CUDA(cudaStreamSynchronize(stream));
    return busy_frees;
}

} // namespace

void threads(Report& report, int rounds) {
    if (rounds <= 0) rounds = 3000;
    CHECK_CUDA(cudaFree(nullptr));
    WrongBytes wrong;
    std::atomic<long long> busy{0};
    std::vector<std::thread> team;
    for (int i = 0; i < 8; i++) team.emplace_back([&, i] { busy += mix(i + 1, rounds, wrong); });
    for (auto& t : team) t.join();
    CHECK_CUDA(cudaDeviceSynchronize());
    report.result("wrong", static_cast<long long>(wrong.value()));
    report.varying("frees_under_work", static_cast<double>(busy.load()));
    if (wrong.value()) report.fail("a block held something else than its owner wrote");
}

void async_free(Report& report, int rounds) {
    if (rounds <= 0) rounds = 200;
    constexpr size_t sizes[] = {64 << 10, 4 << 20, 32 << 20};
    cudaStream_t s1 = new_stream(), s2 = new_stream();
    WrongBytes wrong;
    Victims victims;
    int recycled = 0;
    for (int i = 0; i < rounds; i++) {
        const size_t bytes = sizes[i % 3];
        unsigned char *p, *q;
        CHECK_CUDA(cudaMalloc(&p, bytes));
        spin(300, s1);
        fill(p, bytes, 0xA5, s1);
        CHECK_CUDA(cudaFreeAsync(p, i % 4 == 3 ? cudaStreamPerThread : s1));
        if (i % 4 == 3)
            CHECK_CUDA(cudaDeviceSynchronize()); // freed in another stream than its work: the program's duty
        CHECK_CUDA(cudaMalloc(&q, bytes));
        CHECK_CUDA(cudaMemsetAsync(q, 0x11, bytes, s2));
        CHECK_CUDA(cudaStreamSynchronize(s2));
        CHECK_CUDA(cudaDeviceSynchronize());
        check(q, bytes, 0x11, wrong.device(), s2);
        CHECK_CUDA(cudaStreamSynchronize(s2));
        recycled += victims.met(p, bytes) || victims.met(q, bytes);
        victims.add(p, bytes);
        CHECK_CUDA(cudaFree(q));
    }
    report.result("wrong", static_cast<long long>(wrong.value()));
    report.varying("recycled_share", double(recycled) / rounds);
    if (wrong.value()) report.fail("memory freed in stream order came back too early");
}

} // namespace cistern::gpu_test
