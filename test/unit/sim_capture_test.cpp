// Stream captures: result codes and fates as measured.

#include "test/unit/sim_world.h"

namespace {

constexpr CUresult refused = CUDA_ERROR_STREAM_CAPTURE_UNSUPPORTED;
const CUstreamCaptureMode modes[] = {CU_STREAM_CAPTURE_MODE_GLOBAL, CU_STREAM_CAPTURE_MODE_THREAD_LOCAL,
                                     CU_STREAM_CAPTURE_MODE_RELAXED};

struct Outcome {
    CUresult call;
    CUresult end;
    size_t nodes;
};

/// begin, kernel, call, kernel, end.
Outcome during(CUstreamCaptureMode mode, bool other_thread, const std::function<CUresult()>& call) {
    Outcome out{};
    CUstream s = World::stream();
    REQUIRE(cuStreamBeginCapture(s, mode) == CUDA_SUCCESS);
    REQUIRE(submit_nothing(s, 10) == CUDA_SUCCESS);
    if (other_thread)
        Other([&] { out.call = call(); }).join();
    else
        out.call = call();
    submit_nothing(s, 10);
    CUgraph graph = nullptr;
    out.end = cuStreamEndCapture(s, &graph);
    if (graph) {
        cuGraphGetNodes(graph, nullptr, &out.nodes);
        cuGraphDestroy(graph);
    }
    CHECK(sim_captures_open() == 0);
    return out;
}

void expect(bool other_thread, const std::function<CUresult()>& call, const bool (&dead)[3]) {
    for (int i = 0; i < 3; ++i) {
        INFO("mode " << i);
        Outcome out = during(modes[i], other_thread, call);
        CHECK(out.call == (dead[i] ? refused : CUDA_SUCCESS));
        CHECK(out.end == (dead[i] ? CUDA_ERROR_STREAM_CAPTURE_INVALIDATED : CUDA_SUCCESS));
        CHECK(out.nodes == (dead[i] ? 0u : 2u));
    }
}

} // namespace

TEST_CASE("sim capture: native allocation and free") {
    World w;
    auto allocate = [] {
        CUdeviceptr p = 0;
        return cuMemAlloc(&p, 256);
    };
    auto host_allocate = [] {
        void* p = nullptr;
        return cuMemHostAlloc(&p, 256, 0);
    };
    CUdeviceptr spare = 0;
    REQUIRE(cuMemAlloc(&spare, 256) == CUDA_SUCCESS);
    auto release = [] { return cuMemFree(0); };
    expect(false, allocate, {true, true, false});
    expect(true, allocate, {true, false, false});
    expect(false, host_allocate, {true, true, false});
    expect(false, release, {true, true, false});
    expect(true, release, {true, false, false});
    expect(false, [] { return cuMemFreeHost(nullptr); }, {true, true, false});
}

TEST_CASE("sim capture: zero sizes and foreign pointers give the capture's code where native would") {
    World w;
    Vmm m;
    CUdeviceptr p = 0;
    CHECK(during(modes[0], false, [&] { return cuMemAlloc(&p, 0); }).call == refused);
    CHECK(during(modes[2], false, [&] { return cuMemAlloc(&p, 0); }).call == CUDA_ERROR_INVALID_VALUE);
    CHECK(during(modes[0], false, [&] { return cuMemFree(m.ptr); }).call == refused);
    CHECK(during(modes[2], false, [&] { return cuMemFree(m.ptr); }).call == CUDA_ERROR_INVALID_VALUE);
    Outcome async = during(modes[0], false, [&] { return cuMemFreeAsync(m.ptr, World::stream()); });
    CHECK(async.call == refused);
    CHECK(async.end == CUDA_ERROR_STREAM_CAPTURE_INVALIDATED);
}

TEST_CASE("sim capture: harmless calls") {
    World w;
    CUevent e = World::event();
    CUstream unrelated = World::stream();
    expect(false,
           [] {
               Vmm made;
               return CUDA_SUCCESS;
           },
           {false, false, false});
    expect(false,
           [] {
               size_t a = 0, b = 0;
               return cuMemGetInfo(&a, &b);
           },
           {false, false, false});
    expect(false, [=] { return cuEventRecord(e, unrelated); }, {false, false, false});
    expect(true,
           [] {
               Vmm made;
               return CUDA_SUCCESS;
           },
           {false, false, false});
}

TEST_CASE("sim capture: queries, context records and synchronise") {
    World w;
    CUevent e = World::event();
    REQUIRE(cuEventRecord(e, World::stream()) == CUDA_SUCCESS);
    auto query = [=] { return cuEventQuery(e); };
    auto record = [=, &w] { return cuCtxRecordEvent(w.context, e); };
    expect(false, query, {true, true, false});
    expect(true, query, {true, false, false});
    expect(false, record, {true, true, true});
    expect(true, record, {true, true, true});
    expect(false, [] { return cuCtxSynchronize(); }, {true, true, true});
}

TEST_CASE("sim capture: relaxed interaction saves queries and frees, not context calls") {
    World w;
    CUevent e = World::event();
    REQUIRE(cuEventRecord(e, World::stream()) == CUDA_SUCCESS);
    auto relaxed = [](const std::function<CUresult()>& call) {
        return [call] {
            CUstreamCaptureMode mode = CU_STREAM_CAPTURE_MODE_RELAXED;
            cuThreadExchangeStreamCaptureMode(&mode);
            CUresult result = call();
            cuThreadExchangeStreamCaptureMode(&mode);
            return result;
        };
    };
    for (bool other : {false, true}) {
        expect(other, relaxed([=] { return cuEventQuery(e); }), {false, false, false});
        expect(other, relaxed([=] { return cuEventSynchronize(e); }), {false, false, false});
        expect(other, relaxed([] { return cuMemFree(0); }), {false, false, false});
        expect(other, relaxed([=, &w] { return cuCtxRecordEvent(w.context, e); }), {true, true, true});
    }
}

TEST_CASE("sim capture: of another device") {
    World w(2);
    CUevent e = World::event();
    REQUIRE(cuCtxRecordEvent(w.context, e) == CUDA_SUCCESS);
    World::use(1);
    // A query of device 0's event kills a global capture on device 1; a context record there does not touch it.
    expect(false, [=] { return cuEventQuery(e); }, {true, true, false});
    expect(false, [=, &w] { return cuCtxRecordEvent(w.context, e); }, {false, false, false});
}

TEST_CASE("sim capture: how captures end") {
    World w;
    CUstream s = World::stream();
    CUgraph graph = nullptr;
    CHECK(cuStreamEndCapture(s, &graph) == CUDA_ERROR_ILLEGAL_STATE);
    CHECK(cuStreamBeginCapture(nullptr, CU_STREAM_CAPTURE_MODE_GLOBAL) == refused);
    REQUIRE(cuStreamBeginCapture(s, CU_STREAM_CAPTURE_MODE_GLOBAL) == CUDA_SUCCESS);
    CHECK(cuStreamBeginCapture(s, CU_STREAM_CAPTURE_MODE_GLOBAL) == CUDA_ERROR_ILLEGAL_STATE);
    CUresult wrong = CUDA_SUCCESS;
    Other([&] { wrong = cuStreamEndCapture(s, &graph); }).join();
    CHECK(wrong == CUDA_ERROR_STREAM_CAPTURE_WRONG_THREAD);
    CHECK(sim_captures_open() == 1);
    CHECK(cuCtxSynchronize() == refused);
    CHECK(submit_nothing(s, 1) == CUDA_ERROR_STREAM_CAPTURE_INVALIDATED);
    CHECK(cuCtxSynchronize() == refused); // until it is ended
    CUstreamCaptureStatus status{};
    CHECK(cuStreamIsCapturing(s, &status) == CUDA_SUCCESS);
    CHECK(status == CU_STREAM_CAPTURE_STATUS_INVALIDATED);
    CHECK(cuStreamEndCapture(s, &graph) == CUDA_ERROR_STREAM_CAPTURE_INVALIDATED);
    CHECK(graph == nullptr);
    CHECK(cuCtxSynchronize() == CUDA_SUCCESS);

    REQUIRE(cuStreamBeginCapture(s, CU_STREAM_CAPTURE_MODE_GLOBAL) == CUDA_SUCCESS);
    CHECK(cuStreamDestroy(s) == CUDA_SUCCESS);
    CHECK(sim_captures_open() == 0);
    CHECK(cuCtxSynchronize() == CUDA_SUCCESS);

    CUstream of_dead_thread = World::stream();
    Other([=] { cuStreamBeginCapture(of_dead_thread, CU_STREAM_CAPTURE_MODE_GLOBAL); }).join();
    CHECK(cuCtxSynchronize() == refused);
}

TEST_CASE("sim capture: forks, joins and illegal dependencies") {
    World w;
    CUstream a = World::stream();
    CUstream b = World::stream();
    CUevent e = World::event();
    CUevent back = World::event();
    CUgraph graph = nullptr;
    size_t nodes = 0;
    auto fork = [&] {
        REQUIRE(cuStreamBeginCapture(a, CU_STREAM_CAPTURE_MODE_RELAXED) == CUDA_SUCCESS);
        REQUIRE(submit_nothing(a, 1) == CUDA_SUCCESS);
        REQUIRE(cuEventRecord(e, a) == CUDA_SUCCESS);
        REQUIRE(cuStreamWaitEvent(b, e, 0) == CUDA_SUCCESS);
        REQUIRE(submit_nothing(b, 1) == CUDA_SUCCESS);
    };
    fork();
    CHECK(cuStreamEndCapture(b, &graph) == CUDA_ERROR_STREAM_CAPTURE_UNMATCHED);
    CHECK(cuStreamEndCapture(a, &graph) == CUDA_ERROR_STREAM_CAPTURE_UNJOINED);
    fork();
    REQUIRE(cuEventRecord(back, b) == CUDA_SUCCESS);
    REQUIRE(cuStreamWaitEvent(a, back, 0) == CUDA_SUCCESS);
    REQUIRE(cuStreamEndCapture(a, &graph) == CUDA_SUCCESS);
    CHECK(cuGraphGetNodes(graph, nullptr, &nodes) == CUDA_SUCCESS);
    CHECK(nodes == 2);
    CHECK(cuEventQuery(e) == CUDA_ERROR_CAPTURED_EVENT);

    CUevent outside = World::event();
    REQUIRE(cuEventRecord(outside, b) == CUDA_SUCCESS);
    REQUIRE(cuStreamBeginCapture(a, CU_STREAM_CAPTURE_MODE_RELAXED) == CUDA_SUCCESS);
    CHECK(cuStreamWaitEvent(a, outside, 0) == CUDA_ERROR_STREAM_CAPTURE_ISOLATION);
    CHECK(cuStreamEndCapture(a, &graph) == CUDA_ERROR_STREAM_CAPTURE_INVALIDATED);

    CUstream blocking = World::stream(CU_STREAM_DEFAULT);
    REQUIRE(cuStreamBeginCapture(blocking, CU_STREAM_CAPTURE_MODE_RELAXED) == CUDA_SUCCESS);
    CHECK(submit_nothing(nullptr, 1) == CUDA_ERROR_STREAM_CAPTURE_IMPLICIT);
    CHECK(cuStreamEndCapture(blocking, &graph) == CUDA_ERROR_STREAM_CAPTURE_INVALIDATED);
}

TEST_CASE("sim capture: graphs replay their work") {
    World w;
    Vmm m;
    CUstream s = World::stream();
    CUgraph graph = nullptr;
    CUgraphExec exec = nullptr;
    REQUIRE(cuStreamBeginCapture(s, CU_STREAM_CAPTURE_MODE_GLOBAL) == CUDA_SUCCESS);
    REQUIRE(submit(s, m.ptr, 4096, 500, 9) == CUDA_SUCCESS);
    REQUIRE(cuMemcpyDtoDAsync(m.ptr + 4096, m.ptr, 4096, s) == CUDA_SUCCESS);
    REQUIRE(cuStreamEndCapture(s, &graph) == CUDA_SUCCESS);
    CHECK(sim_unfinished(nullptr) == 0); // nothing ran yet
    REQUIRE(cuGraphInstantiate(&exec, graph, 0) == CUDA_SUCCESS);
    REQUIRE(cuGraphDestroy(graph) == CUDA_SUCCESS);
    CUevent e = World::event();
    REQUIRE(cuGraphLaunch(exec, s) == CUDA_SUCCESS);
    REQUIRE(cuCtxRecordEvent(w.context, e) == CUDA_SUCCESS);
    CHECK(cuEventQuery(e) == CUDA_ERROR_NOT_READY);
    CHECK(sim_claim(m.ptr, 64) == 0); // the referee sees a graph's work
    REQUIRE(cuStreamSynchronize(s) == CUDA_SUCCESS);
    CHECK(cuEventQuery(e) == CUDA_SUCCESS);
    CHECK(sim_check(m.ptr, 8192, 9) == 1);
    CHECK(cuGraphExecDestroy(exec) == CUDA_SUCCESS);
}
