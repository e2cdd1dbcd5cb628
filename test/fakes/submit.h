#pragma once
// From an entry point to a work in a stream.

#include "test/fakes/calls.h"

namespace fake {

/// Finds the stream of a call and whether its context is usable.
CUresult find_stream(const Frame& f, CUstream handle, Stream*& out);

/// A launch in `handle`: into the capture or into the stream; blocks where the driver would. `made` (may be null) gets the
/// work, or null if it became a graph node.
CUresult launch(const Frame& f, CUstream handle, const GraphNode& node, WorkPtr* made = nullptr);

WorkPtr make_work(const GraphNode& node);
WorkPtr make_marker();

/// 700 once the fault of a context has been noticed.
CUresult noticed_fault(const State& s, const Context& c);

} // namespace fake
