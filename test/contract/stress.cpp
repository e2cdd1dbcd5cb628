#include "test/contract/stress.h"

#include "test/contract/program.h"

#include <array>
#include <atomic>
#include <chrono>
#include <cmath>
#include <deque>
#include <mutex>
#include <random>
#include <thread>
#include <unordered_set>

namespace cistern::test::stress {
namespace {

constexpr unsigned streams_each = 3;
constexpr uint64_t call_ns = 300;      ///< virtual time that passes with every driver call
constexpr uint64_t round_ns = 200'000; ///< and in every round of the gatekeeper

struct Block {
    CUdeviceptr ptr = 0;
    size_t bytes = 0;
    unsigned context = 0;
    CUstream stream = nullptr;
    unsigned char pattern = 0;
    bool disclaimed = false; ///< a free of it was refused
};

/// Addresses that were handed out once.
class Seen {
public:
    /// Whether it was there already.
    bool add(CUdeviceptr ptr) {
        Part& part = parts_[(ptr >> 9) % parts_.size()];
        const std::lock_guard lock(part.mutex);
        return !part.set.insert(ptr).second;
    }

private:
    struct Part {
        std::mutex mutex;
        std::unordered_set<CUdeviceptr> set;
    };
    std::array<Part, 64> parts_;
};

/// Opens every gate a moment after it was made: a thread that waits behind one cannot do it itself. And lets time pass
/// for threads that only ask again and again.
class Gatekeeper {
public:
    Gatekeeper() : thread_([this] { loop(); }) {}
    ~Gatekeeper() {
        stop_.store(true);
        thread_.join();
    }
    Gatekeeper(const Gatekeeper&) = delete;
    Gatekeeper& operator=(const Gatekeeper&) = delete;
    SimGate* make() {
        SimGate* gate = sim_gate_create();
        const std::lock_guard lock(mutex_);
        closed_.push_back(gate);
        return gate;
    }

private:
    void loop() {
        std::deque<SimGate*> opened; // destroyed one round later: the maker may still be about to submit
        while (!stop_.load()) {
            std::this_thread::sleep_for(std::chrono::microseconds(100));
            sim_advance(round_ns);
            for (SimGate* gate : opened) sim_gate_destroy(gate);
            opened.clear();
            const std::lock_guard lock(mutex_);
            opened.swap(closed_);
            for (SimGate* gate : opened) sim_gate_open(gate);
        }
        for (auto* list : {&opened, &closed_})
            for (SimGate* gate : *list) sim_gate_destroy(gate);
    }

    std::mutex mutex_;
    std::deque<SimGate*> closed_;
    std::atomic<bool> stop_{false};
    std::thread thread_;
};

struct Mailbox {
    std::mutex mutex;
    std::vector<Block> blocks;
};

struct Shared {
    Plan plan;
    std::vector<CUcontext> contexts;
    std::deque<Mailbox> mailboxes;
    Seen seen;
    Gatekeeper gatekeeper;
    std::atomic<size_t> wanted_bytes{0}; ///< alive or being allocated
    std::atomic<unsigned> running{0};
    std::atomic<bool> failed{false}; ///< everybody stops: what is still allocated would only block the others
    std::mutex mutex;
    Result result; ///< guarded by mutex
};

class Worker {
public:
    Worker(Shared& shared, unsigned index) : shared_(shared), index_(index), random_(shared.plan.seed * 1000 + index) {
        for (CUcontext context : shared.contexts) {
            cuCtxSetCurrent(context);
            for (unsigned i = 0; i < streams_each; ++i)
                streams_.push_back(make_stream(i == 0 ? CU_STREAM_DEFAULT : CU_STREAM_NON_BLOCKING));
        }
        enter(index % static_cast<unsigned>(shared.contexts.size()));
        budget_ = shared.plan.card_bytes / 10 * 6 / shared.plan.threads;
        operations_ = shared.plan.operations / shared.plan.threads;
    }

    void run() {
        while (mine_.allocations + mine_.frees < operations_ && !shared_.failed.load()) step();
        while (!live_.empty() && !shared_.failed.load()) give_one(live_.size() - 1);
        shared_.running.fetch_sub(1);
        // Others still send blocks, which must not stay allocated until the end.
        while (shared_.running.load() != 0) {
            collect_mail();
            std::this_thread::sleep_for(std::chrono::microseconds(200));
        }
    }

    /// After every worker has come to its end.
    void finish() {
        alone_ = true;
        collect_mail();
        while (!live_.empty() && !shared_.failed.load()) give_one(live_.size() - 1);
        const std::lock_guard lock(shared_.mutex);
        Result& all = shared_.result;
        all.allocations += mine_.allocations;
        all.recycled += mine_.recycled;
        all.frees += mine_.frees;
        all.busy += mine_.busy;
        all.refused += mine_.refused;
        all.exhausted += mine_.exhausted;
        all.unjust += mine_.unjust;
        all.captures += mine_.captures;
        if (all.failure.empty()) all.failure = mine_.failure;
    }

private:
    uint64_t below(uint64_t n) { return random_() % n; }
    bool one_in(uint64_t n) { return below(n) == 0; }
    void expect(bool good, const char* what, CUresult result) {
        if (good || !mine_.failure.empty()) return;
        shared_.failed.store(true);
        mine_.failure = std::string(what) + ": " + std::to_string(result) + ", reason " +
                        std::to_string(static_cast<int>(last_reason()));
    }

    void enter(unsigned context) {
        context_ = context;
        cuCtxSetCurrent(shared_.contexts[context]);
    }
    CUstream any_stream() { return streams_[context_ * streams_each + below(streams_each)]; }

    void step() {
        if (shared_.contexts.size() > 1 && one_in(40)) enter(1 - context_);
        if (one_in(16)) collect_mail();
        const bool full = live_here_ >= budget_ || live_.size() >= 200;
        if (!full && below(100) < 52)
            take_one();
        else if (!live_.empty())
            give_one(below(live_.size()));
        if (one_in(3000)) synchronize_context();
        if (one_in(1500 * shared_.plan.threads)) capture();
        if (one_in(20000)) pool::trim();
    }

    void synchronize_context() {
        const CUresult result = synchronize();
        // Another thread's capture refuses this, whatever its mode, and dies of it.
        const bool captured = shared_.plan.threads > 1 && result == CUDA_ERROR_STREAM_CAPTURE_UNSUPPORTED;
        expect(result == CUDA_SUCCESS || captured, "cuCtxSynchronize", result);
    }

    size_t any_size() {                                                            // 1 B to 64 MiB, logarithmic
        if (one_in(4000)) return shared_.plan.card_bytes / 100 * (20 + below(15)); // drives the card to its limit
        const double exponent = static_cast<double>(random_()) / static_cast<double>(random_.max()) * 26;
        return static_cast<size_t>(std::exp2(exponent));
    }

    void submit(const Block& block, unsigned flags, SimGate* gate) {
        const SimRange range{block.ptr, block.bytes, flags | SIM_EDGES, block.pattern, block.pattern};
        const CUresult result = sim_submit(block.stream, &range, 1, below(30'000), gate);
        expect(result == CUDA_SUCCESS, "launch", result);
    }

    void take_one() {
        Block block;
        block.bytes = any_size();
        if (!allocate(block)) return;
        block.context = context_;
        block.stream = any_stream();
        block.pattern = static_cast<unsigned char>(random_());
        live_here_ += block.bytes;
        submit(block, SIM_WRITE, one_in(2000) ? shared_.gatekeeper.make() : nullptr);
        live_.push_back(block);
    }

    bool allocate(Block& block) {
        const size_t wanted = shared_.wanted_bytes.fetch_add(block.bytes) + block.bytes;
        const CUresult result = mem_alloc(&block.ptr, block.bytes);
        if (result == CUDA_SUCCESS) {
            sim_claim(block.ptr, block.bytes);
            ++mine_.allocations;
            if (shared_.seen.add(block.ptr)) ++mine_.recycled;
            return true;
        }
        const size_t later = shared_.wanted_bytes.fetch_sub(block.bytes);
        if (result == CUDA_ERROR_STREAM_CAPTURE_UNSUPPORTED)
            refused();
        else if (result == CUDA_ERROR_OUT_OF_MEMORY)
            exhausted(std::max(wanted, later));
        else
            expect(false, "cuMemAlloc", result);
        return false;
    }

    /// Another thread's global capture is open: let it come to its end.
    void refused() {
        ++mine_.refused;
        if (!capturing_) std::this_thread::sleep_for(std::chrono::microseconds(20));
    }

    void exhausted(size_t wanted) {
        ++mine_.exhausted;
        if (wanted < shared_.plan.card_bytes / 5 * 3) ++mine_.unjust;
        if (capturing_) return;
        collect_mail();
        for (int i = 0; i < 4 && !live_.empty(); ++i) give_one(below(live_.size()));
    }

    void give_one(size_t which) {
        Block block = live_[which];
        live_[which] = live_.back();
        live_.pop_back();
        live_here_ -= block.bytes;
        if (!block.disclaimed && below(100) < 70) submit(block, SIM_READ | SIM_VERIFY, nullptr);
        if (shared_.plan.threads > 1 && !alone_ && one_in(8)) return post(block);
        free_now(block, block.stream && one_in(20));
    }

    /// `async`: in the block's stream, which only its own thread knows not to be capturing.
    void free_now(Block block, bool async) {
        // After a refused free the block is still ours, but a second claim would see our own work on it.
        if (!block.disclaimed && sim_disclaim(block.ptr) == 1) ++mine_.busy;
        const CUresult result = async ? mem_free_async(block.ptr, block.stream) : mem_free(block.ptr);
        if (result == CUDA_ERROR_STREAM_CAPTURE_UNSUPPORTED) {
            refused();
            block.disclaimed = true;
            live_here_ += block.bytes;
            return live_.push_back(block);
        }
        expect(result == CUDA_SUCCESS, async ? "cuMemFreeAsync" : "cuMemFree", result);
        shared_.wanted_bytes.fetch_sub(block.bytes);
        ++mine_.frees;
    }

    void post(const Block& block) {
        Mailbox& box = shared_.mailboxes[(index_ + 1 + below(shared_.plan.threads - 1)) % shared_.plan.threads];
        const std::lock_guard lock(box.mutex);
        box.blocks.push_back(block);
    }

    void collect_mail() {
        std::vector<Block> blocks;
        {
            Mailbox& box = shared_.mailboxes[index_];
            const std::lock_guard lock(box.mutex);
            blocks.swap(box.blocks);
        }
        for (Block& block : blocks) {
            block.stream = nullptr; // another thread's: it may be capturing
            free_now(block, false);
        }
    }

    void capture() {
        constexpr CUstreamCaptureMode modes[] = {CU_STREAM_CAPTURE_MODE_GLOBAL, CU_STREAM_CAPTURE_MODE_THREAD_LOCAL,
                                                 CU_STREAM_CAPTURE_MODE_RELAXED};
        const CUstreamCaptureMode mode = modes[below(3)];
        const unsigned home = context_;
        CUstream stream = streams_[home * streams_each + 1]; // non-blocking: no quarrel with the legacy stream
        CUresult result = begin_capture(stream, mode);
        expect(result == CUDA_SUCCESS, "begin capture", result);
        if (result != CUDA_SUCCESS) return;
        ++mine_.captures;
        sim_submit(stream, nullptr, 0, 1000, nullptr);
        capturing_ = true;
        if (mode == CU_STREAM_CAPTURE_MODE_RELAXED) relaxed_work(stream);
        capturing_ = false;
        std::this_thread::yield();
        CUgraph graph = nullptr;
        result = end_capture(stream, &graph);
        // Another thread's synchronise kills it, and in global mode an allocation does, as natively. Whether the pool
        // itself killed one is the referee's business.
        const bool died = shared_.plan.threads > 1 && result == CUDA_ERROR_STREAM_CAPTURE_INVALIDATED;
        expect(result == CUDA_SUCCESS || died, "end capture", result);
        if (graph) cuGraphDestroy(graph);
    }

    /// Allocations and frees within the capture, none of which touches the capturing stream.
    void relaxed_work(CUstream capturing) {
        for (int i = 0; i < 6; ++i) {
            Block block;
            block.bytes = any_size();
            if (!allocate(block)) continue; // refused by another thread's global capture, or none left
            block.context = context_;
            block.stream = other_than(capturing);
            submit(block, SIM_WRITE, nullptr);
            free_now(block, false);
        }
    }

    CUstream other_than(CUstream stream) {
        CUstream other = any_stream();
        while (other == stream) other = any_stream();
        return other;
    }

    Shared& shared_;
    unsigned index_;
    unsigned context_ = 0;
    std::mt19937_64 random_;
    std::vector<CUstream> streams_;
    std::vector<Block> live_;
    size_t live_here_ = 0;
    bool capturing_ = false;
    bool alone_ = false; ///< the other threads have ended
    size_t budget_ = 0;
    uint64_t operations_ = 0;
    Result mine_;
};

} // namespace

Result run(const Plan& plan) {
    Shared shared;
    shared.plan = plan;
    shared.contexts.push_back(use_primary());
    if (plan.contexts > 1) shared.contexts.push_back(create_context());
    shared.mailboxes.resize(plan.threads);
    shared.running.store(plan.threads);
    sim_auto_advance(call_ns);
    std::deque<Worker> workers;
    for (unsigned i = 0; i < plan.threads; ++i) workers.emplace_back(shared, i);
    std::vector<std::thread> threads;
    for (unsigned i = 0; i < plan.threads; ++i)
        threads.emplace_back([&, i] {
            cuCtxSetCurrent(shared.contexts[i % shared.contexts.size()]);
            workers[i].run();
        });
    for (std::thread& thread : threads) thread.join();
    cuCtxSetCurrent(shared.contexts[0]);
    for (Worker& worker : workers) worker.finish();
    return shared.result;
}

} // namespace cistern::test::stress
