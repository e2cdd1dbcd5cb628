#pragma once
// Waiting inside a call of the program. None of it is a cancellation point: a thread that is cancelled in here would unwind
// through functions that hold the program's call half done.

#include <ctime>
#include <pthread.h>

namespace cistern::pool {

class Uncancellable {
public:
    Uncancellable() noexcept { pthread_setcancelstate(PTHREAD_CANCEL_DISABLE, &before_); }
    ~Uncancellable() { pthread_setcancelstate(before_, nullptr); }
    Uncancellable(const Uncancellable&) = delete;
    Uncancellable& operator=(const Uncancellable&) = delete;

private:
    int before_ = 0;
};

inline void nap(long microseconds = 20) noexcept {
    const Uncancellable waiting;
    const timespec time{0, microseconds * 1000};
    nanosleep(&time, nullptr);
}

} // namespace cistern::pool
