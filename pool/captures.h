#pragma once
// Stream captures that are open in the process, and the handshake that keeps context records away from them.
//
//   thread A (begin-capture)   open + 1 | wait until no record is going on in the context | driver begin
//   thread B (a free)          recording + 1 | open = 0? no: recording - 1, the epoch stays open
//                                            |          yes: record, recording - 1
//
// Each side writes first and reads second (sequentially consistent), so either B sees A's capture or A sees B's record.
// Nobody waits for a capture. A begin waits for records in its own context only: they take microseconds, or as long as
// another thread's native free, for which a begin-capture in that context waits natively, too (80 of 80 ms measured).
//
// Why: a record that overlaps a begin-capture crashes inside the driver (5 of 5 runs without exclusion), and a record while
// a capture is open kills the capture in every mode. Why for the whole process and not for each context: a capture reaches
// the streams of other contexts through events, without a call that names it.
// The count goes down after the driver's end, whatever that returns, unless the stream is still capturing then: after 908
// (wrong thread) and 901 (invalidated) the capture is over in the driver (measured).
// Captures are remembered one by one: an end or a destroyed stream must only count for the capture that it ended.

#include <atomic>
#include <cstdint>
#include <cuda.h>

namespace cistern::pool::captures {

/// Captures open anywhere in the process. While 0 no call of the program can be refused because of one.
unsigned open() noexcept;

/// Permission to record for a scope; never waits. `going_on` counts the records of one context.
class Recording {
public:
    explicit Recording(std::atomic<unsigned>& going_on) noexcept;
    ~Recording();
    Recording(const Recording&) = delete;
    Recording& operator=(const Recording&) = delete;
    explicit operator bool() const noexcept { return allowed_; }

private:
    std::atomic<unsigned>& going_on_;
    bool allowed_;
};

/// Before the driver's begin-capture. Returns the capture's serial number. A begin that is going to fail, because the
/// stream is in a capture already, counts as well until the driver has said so. If the host has no memory to remember the
/// capture it counts as open for ever, which costs memory but no capture.
uint64_t begin(CUstream stream, CUcontext context);
/// The capture with this serial has ended or never began; 0 and unknown ones are ignored.
void end(uint64_t serial) noexcept;
/// Serial of the oldest capture that is open on `stream` (as the calling thread means it), 0 if there is none.
uint64_t on(CUstream stream, CUcontext context) noexcept;
/// The context has ended, its captures with it.
void end_all_of(CUcontext context) noexcept;

} // namespace cistern::pool::captures
