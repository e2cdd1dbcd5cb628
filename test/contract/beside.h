#pragma once
// A second thread of the program, for steps that may block.

#include <cuda.h>

#include <atomic>
#include <chrono>
#include <functional>
#include <thread>

namespace cistern::test {

/// Runs `act` with `context` current. The destructor waits for its end. Nothing in `act` may use Catch2's macros.
class Beside {
public:
    Beside(CUcontext context, std::function<void()> act)
        : thread_([this, context, work = std::move(act)] {
              cuCtxSetCurrent(context);
              work();
              done_.store(true);
          }) {}
    ~Beside() { thread_.join(); }
    Beside(const Beside&) = delete;
    Beside& operator=(const Beside&) = delete;

    bool done() const { return done_.load(); }
    bool done_within(std::chrono::milliseconds patience) const {
        const auto deadline = std::chrono::steady_clock::now() + patience;
        while (!done() && std::chrono::steady_clock::now() < deadline)
            std::this_thread::sleep_for(std::chrono::milliseconds(1));
        return done();
    }

private:
    std::atomic<bool> done_{false};
    std::thread thread_;
};

constexpr std::chrono::milliseconds a_moment{200};
constexpr std::chrono::milliseconds much_too_long{5000};
constexpr uint64_t long_time = 1'000'000'000; ///< virtual nanoseconds

} // namespace cistern::test
