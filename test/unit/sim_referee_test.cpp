// Each rule of the referee: a wrong sequence that it reports, and the right one that it does not.

#include "test/unit/sim_world.h"

#include <unistd.h>

TEST_CASE("sim referee: early reuse") {
    World w;
    Vmm m;
    CUstream s = World::stream();
    REQUIRE(sim_claim(m.ptr, 4096) == 1);
    REQUIRE(submit(s, m.ptr + 1024, 16, 1000) == CUDA_SUCCESS);
    CHECK(sim_disclaim(m.ptr) == 1);
    SECTION("wrong: claimed while the work runs") {
        CHECK(sim_claim(m.ptr, 4096) == 0);
        CHECK(sim_violations("early_reuse") == 1);
        CHECK(sim_text().find("early_reuse") != std::string::npos);
    }
    SECTION("right: another range") {
        CHECK(sim_claim(m.ptr + 4096, 4096) == 1);
        CHECK(sim_claim(m.ptr, 1024) == 1); // ends where the work begins
        CHECK(sim_violations(nullptr) == 0);
    }
    SECTION("right: after the work") {
        sim_advance(1000);
        CHECK(sim_claim(m.ptr, 4096) == 1);
        CHECK(sim_disclaim(m.ptr) == 0);
        CHECK(sim_disclaim(m.ptr) == -1);
        CHECK(sim_violations(nullptr) == 0);
    }
}

TEST_CASE("sim referee: a use that native frees do not wait for is not counted") {
    World w;
    Vmm m;
    REQUIRE(submit(World::stream(), m.ptr, 16, 1000, 0, nullptr, SIM_READ | SIM_FOREIGN) == CUDA_SUCCESS);
    CHECK(sim_claim(m.ptr, 4096) == 1);
    CHECK(sim_violations(nullptr) == 0);
}

TEST_CASE("sim referee: early reuse of pinned memory, work of another context") {
    World w(2);
    void* host = nullptr;
    REQUIRE(cuMemHostAlloc(&host, 4096, 0) == CUDA_SUCCESS);
    World::use(1);
    REQUIRE(submit(World::stream(), reinterpret_cast<CUdeviceptr>(host), 64, 1000) == CUDA_SUCCESS);
    World::use(0);
    CHECK(sim_claim_pinned(host, 4096) == 0);
    CHECK(sim_violations("early_reuse_pinned") == 1);
    CHECK(sim_disclaim(reinterpret_cast<CUdeviceptr>(host)) == 1);
    sim_advance(1000);
    CHECK(sim_claim_pinned(host, 4096) == 1);
    CHECK(sim_violations(nullptr) == 1);
}

TEST_CASE("sim referee: overlapping and unmapped claims") {
    World w(2);
    Vmm m;
    REQUIRE(sim_claim(m.ptr, 4096) == 1);
    CHECK(sim_claim(m.ptr + 4096, 4096) == 1);
    CHECK(sim_violations(nullptr) == 0);
    CHECK(sim_claim(m.ptr + 4000, 10) == 0);
    CHECK(sim_violations("claim_overlap") == 1);
    CHECK(sim_claim(m.ptr + page - 10, 20) == 0);
    CHECK(sim_violations("claim_unmapped") == 1);
    World::use(1); // device 1 has no access entry
    CHECK(sim_claim(m.ptr + 64 * 1024, 20) == 0);
    CHECK(sim_violations("claim_unmapped") == 2);
}

TEST_CASE("sim referee: unmapping busy or owned memory") {
    World w;
    Vmm m;
    SECTION("wrong: busy") {
        REQUIRE(submit(World::stream(), m.ptr, 16, 1000) == CUDA_SUCCESS);
        CHECK(cuMemUnmap(m.ptr, m.bytes) == CUDA_SUCCESS); // the driver does not care
        CHECK(sim_violations("unmap_busy") == 1);
        sim_advance(1000); // the work finds its memory gone and does not crash the test
    }
    SECTION("wrong: owned") {
        REQUIRE(sim_claim(m.ptr + 4096, 4096) == 1);
        CHECK(cuMemUnmap(m.ptr, m.bytes) == CUDA_SUCCESS);
        CHECK(sim_violations("unmap_claimed") == 1);
    }
    SECTION("right: idle and free; or the program's own affair") {
        REQUIRE(submit(World::stream(), m.ptr, 16, 1000) == CUDA_SUCCESS);
        sim_advance(1000);
        CHECK(cuMemUnmap(m.ptr, m.bytes) == CUDA_SUCCESS);
        Vmm own;
        REQUIRE(submit(World::stream(), own.ptr, 16, 1000) == CUDA_SUCCESS);
        sim_program_begin();
        CHECK(cuMemUnmap(own.ptr, own.bytes) == CUDA_SUCCESS);
        sim_program_end();
        CHECK(sim_violations(nullptr) == 0);
    }
}

TEST_CASE("sim referee: exporting free memory that is still in use") {
    World w;
    Vmm m;
    auto share = [&] {
        int fd = -1;
        REQUIRE(cuMemExportToShareableHandle(&fd, m.handle, CU_MEM_HANDLE_TYPE_POSIX_FILE_DESCRIPTOR, 0) ==
                CUDA_SUCCESS);
        close(fd);
    };
    REQUIRE(sim_claim(m.ptr, 4096) == 1);
    REQUIRE(submit(World::stream(), m.ptr, 16, 1000) == CUDA_SUCCESS);
    share(); // the owner's own work
    CHECK(sim_violations(nullptr) == 0);
    sim_disclaim(m.ptr);
    share();
    CHECK(sim_violations("export_busy") == 1);
    sim_advance(1000);
    share();
    CHECK(sim_violations(nullptr) == 1);
}

TEST_CASE("sim referee: captures killed by calls that are not the program's") {
    World w;
    CUstream s = World::stream();
    CUevent e = World::event();
    REQUIRE(cuCtxRecordEvent(w.context, e) == CUDA_SUCCESS);
    REQUIRE(cuStreamBeginCapture(s, CU_STREAM_CAPTURE_MODE_THREAD_LOCAL) == CUDA_SUCCESS);
    SECTION("wrong: context record") {
        CHECK(cuCtxRecordEvent(w.context, e) == CUDA_ERROR_STREAM_CAPTURE_UNSUPPORTED);
        CHECK(sim_violations("capture_killed") == 1);
    }
    SECTION("wrong: query, wait, context synchronise") {
        CHECK(cuEventQuery(e) == CUDA_ERROR_STREAM_CAPTURE_UNSUPPORTED);
        CHECK(sim_violations("capture_killed") == 1); // later calls find it dead already
        CHECK(cuEventSynchronize(e) == CUDA_ERROR_STREAM_CAPTURE_UNSUPPORTED);
        CHECK(cuCtxSynchronize() == CUDA_ERROR_STREAM_CAPTURE_UNSUPPORTED);
        CHECK(sim_violations("capture_killed") == 1);
    }
    SECTION("right: relaxed, and the program's own") {
        CUstreamCaptureMode mode = CU_STREAM_CAPTURE_MODE_RELAXED;
        REQUIRE(cuThreadExchangeStreamCaptureMode(&mode) == CUDA_SUCCESS);
        CHECK(cuEventQuery(e) == CUDA_SUCCESS);
        REQUIRE(cuThreadExchangeStreamCaptureMode(&mode) == CUDA_SUCCESS);
        sim_program_begin();
        CHECK(cuEventQuery(e) == CUDA_ERROR_STREAM_CAPTURE_UNSUPPORTED);
        sim_program_end();
        CHECK(sim_violations(nullptr) == 0);
    }
}

TEST_CASE("sim referee: record racing with begin-capture") {
    World w;
    sim_race_window(100000);
    CUstream s = World::stream();
    CUevent e = World::event();
    auto begin = [s] {
        CUgraph graph = nullptr;
        cuStreamBeginCapture(s, CU_STREAM_CAPTURE_MODE_RELAXED);
        cuStreamEndCapture(s, &graph);
    };
    auto record = [&] { cuCtxRecordEvent(w.context, e); };
    // first:  enter ------ window ------ return
    // second:       enter ------ window ------ return
    auto overlap = [](const char* name, const std::function<void()>& first, const std::function<void()>& second) {
        Other other(first);
        REQUIRE(eventually([name] { return sim_calls(name) > 0; }));
        std::this_thread::sleep_for(std::chrono::milliseconds(5));
        second();
        other.join();
    };
    SECTION("wrong: a record while a capture begins") {
        overlap("cuStreamBeginCapture_v2", begin, record);
        CHECK(sim_violations("record_races_capture") == 1);
    }
    SECTION("wrong: a capture begins during a record") {
        overlap("cuCtxRecordEvent", record, begin);
        CHECK(sim_violations("record_races_capture") == 1);
    }
    SECTION("right: one after the other") {
        sim_race_window(1000);
        record();
        begin();
        record();
        CHECK(sim_violations(nullptr) == 0);
    }
}

TEST_CASE("sim referee: waiting for a late record, or for another context") {
    World w(2);
    CUstream s = World::stream();
    CUevent e = World::event();
    REQUIRE(submit_nothing(s, 1000) == CUDA_SUCCESS);
    auto prompt_record = [&] {
        sim_note_free_begin();
        REQUIRE(cuCtxRecordEvent(w.context, e) == CUDA_SUCCESS);
        sim_note_free_end();
    };
    SECTION("wrong: made outside every free") {
        REQUIRE(cuCtxRecordEvent(w.context, e) == CUDA_SUCCESS);
        CHECK(cuEventSynchronize(e) == CUDA_SUCCESS);
        CHECK(sim_violations("late_wait") == 1);
    }
    SECTION("wrong: another context is current") {
        prompt_record();
        World::use(1);
        CHECK(cuEventSynchronize(e) == CUDA_SUCCESS);
        CHECK(sim_violations("foreign_wait") == 1);
    }
    SECTION("right: made inside a free") {
        prompt_record();
        CHECK(cuEventSynchronize(e) == CUDA_SUCCESS);
        CHECK(sim_violations(nullptr) == 0);
    }
    SECTION("right: done, allowed, or the program's own") {
        REQUIRE(cuCtxRecordEvent(w.context, e) == CUDA_SUCCESS);
        sim_program_begin();
        CHECK(cuEventSynchronize(e) == CUDA_SUCCESS);
        sim_program_end();
        CHECK(cuEventSynchronize(e) == CUDA_SUCCESS); // done by now
        REQUIRE(submit_nothing(s, 1000) == CUDA_SUCCESS);
        REQUIRE(cuCtxRecordEvent(w.context, e) == CUDA_SUCCESS);
        sim_allow_late_waits(1);
        CHECK(cuEventSynchronize(e) == CUDA_SUCCESS);
        CHECK(sim_violations(nullptr) == 0);
    }
}

TEST_CASE("sim referee: queries of events that are not recorded yet") {
    World w;
    CUevent e = World::event();
    SECTION("wrong: never recorded") {
        CHECK(cuEventQuery(e) == CUDA_SUCCESS);
        CHECK(sim_violations("unrecorded_query") == 1);
    }
    SECTION("wrong: while the record goes on") {
        REQUIRE(cuCtxRecordEvent(w.context, e) == CUDA_SUCCESS);
        sim_race_window(50000);
        std::atomic<bool> done{false};
        Other other([&] {
            cuCtxRecordEvent(w.context, e);
            done = true;
        });
        CHECK(eventually([&] {
            cuEventQuery(e);
            return done || sim_violations("query_while_recording") > 0;
        }));
        other.join();
        CHECK(sim_violations("query_while_recording") > 0);
    }
    SECTION("right: afterwards") {
        REQUIRE(cuCtxRecordEvent(w.context, e) == CUDA_SUCCESS);
        CHECK(cuEventQuery(e) == CUDA_SUCCESS);
        CHECK(sim_violations(nullptr) == 0);
        CHECK(sim_stale_queries() == 0);
        CHECK(cuEventQuery(e) == CUDA_SUCCESS);
        CHECK(sim_stale_queries() == 1);
    }
}

TEST_CASE("sim referee: recording an event again") {
    World w;
    CUevent e = World::event();
    REQUIRE(submit_nothing(World::stream(), 1000) == CUDA_SUCCESS);
    REQUIRE(cuCtxRecordEvent(w.context, e) == CUDA_SUCCESS);
    SECTION("wrong: while it is busy") {
        REQUIRE(cuCtxRecordEvent(w.context, e) == CUDA_SUCCESS);
        CHECK(sim_violations("recycled_busy_event") == 1);
    }
    SECTION("right: when it is done") {
        sim_advance(1000);
        REQUIRE(cuCtxRecordEvent(w.context, e) == CUDA_SUCCESS);
        CHECK(sim_violations(nullptr) == 0);
    }
}

TEST_CASE("sim referee: events of a dead context") {
    World w;
    CUevent e = World::event();
    REQUIRE(cuDevicePrimaryCtxReset(0) == CUDA_SUCCESS);
    CHECK(cuCtxRecordEvent(w.context, e) == CUDA_ERROR_CONTEXT_IS_DESTROYED);
    CHECK(cuEventSynchronize(e) == CUDA_ERROR_CONTEXT_IS_DESTROYED);
    CHECK(sim_violations(nullptr) == 0);
    World::use(0); // a new primary with the same handle does not help
    CHECK(World::current() == w.context);
    CHECK(cuEventQuery(e) == CUDA_ERROR_CONTEXT_IS_DESTROYED);
    CHECK(sim_violations("query_dead_event") == 1);
    CHECK(cuEventDestroy(e) == CUDA_ERROR_CONTEXT_IS_DESTROYED);
}

TEST_CASE("sim referee: access without an entry, wrong bytes, old ABI") {
    World w(2);
    Vmm m;
    SECTION("wrong: another device") {
        World::use(1);
        CHECK(submit(World::stream(), m.ptr, 16, 10) == CUDA_ERROR_ILLEGAL_ADDRESS);
        CHECK(sim_violations("no_access") == 1);
    }
    SECTION("right: with an entry for both") {
        m.access({0, 1});
        World::use(1);
        CHECK(submit(World::stream(), m.ptr, 16, 10) == CUDA_SUCCESS);
        CHECK(sim_violations(nullptr) == 0);
    }
    SECTION("wrong and right bytes") {
        REQUIRE(sim_fill(m.ptr, 4096, 7) == 1);
        SimRange range{m.ptr, 4096, SIM_READ | SIM_VERIFY, 0, 7};
        REQUIRE(sim_submit(World::stream(), &range, 1, 10, nullptr) == CUDA_SUCCESS);
        sim_advance(10);
        CHECK(sim_violations(nullptr) == 0);
        REQUIRE(sim_submit(World::stream(), &range, 1, 10, nullptr) == CUDA_SUCCESS);
        sim_fill(m.ptr + 4095, 1, 8);
        sim_advance(10);
        CHECK(sim_violations("wrong_bytes") == 1);
    }
}

TEST_CASE("sim referee: a record on a green context misses the primary's work") {
    World w;
    // Looked up, because CUgreenCtx is younger than the oldest header.
    auto find = [](const char* name) {
        void* f = nullptr;
        CUdriverProcAddressQueryResult found{};
        REQUIRE(cuGetProcAddress(name, &f, 13000, 0, &found) == CUDA_SUCCESS);
        REQUIRE(f != nullptr);
        return f;
    };
    auto resource = reinterpret_cast<CUresult (*)(CUdevice, void*, int)>(find("cuDeviceGetDevResource"));
    auto describe = reinterpret_cast<CUresult (*)(void**, void*, unsigned)>(find("cuDevResourceGenerateDesc"));
    auto create = reinterpret_cast<CUresult (*)(void**, void*, CUdevice, unsigned)>(find("cuGreenCtxCreate"));
    auto convert = reinterpret_cast<CUresult (*)(CUcontext*, void*)>(find("cuCtxFromGreenCtx"));
    auto destroy = reinterpret_cast<CUresult (*)(void*)>(find("cuGreenCtxDestroy"));
    unsigned words[64];
    void* description = nullptr;
    void* green = nullptr;
    CUcontext as_context = nullptr;
    REQUIRE(resource(0, words, 1) == CUDA_SUCCESS);
    REQUIRE(describe(&description, words, 1) == CUDA_SUCCESS);
    REQUIRE(create(&green, description, 0, 1) == CUDA_SUCCESS);
    REQUIRE(convert(&as_context, green) == CUDA_SUCCESS);
    REQUIRE(submit_nothing(World::stream(), 1000) == CUDA_SUCCESS);
    CUevent of_primary = World::event();
    REQUIRE(cuCtxSetCurrent(as_context) == CUDA_SUCCESS);
    CUevent e = World::event();
    CUdeviceptr p = 0;
    REQUIRE(cuMemAlloc(&p, 100) == CUDA_SUCCESS);
    CUcontext owner = nullptr;
    REQUIRE(cuPointerGetAttribute(&owner, CU_POINTER_ATTRIBUTE_CONTEXT, p) == CUDA_SUCCESS);
    CHECK(owner == w.context);
    REQUIRE(cuCtxRecordEvent(as_context, e) == CUDA_SUCCESS);
    CHECK(cuEventQuery(e) == CUDA_SUCCESS);
    CHECK(cuCtxSynchronize() == CUDA_SUCCESS);
    CHECK(sim_unfinished(w.context) == 1);                  // the primary is still busy
    REQUIRE(submit_nothing(nullptr, 3000) == CUDA_SUCCESS); // on the green one
    REQUIRE(cuCtxRecordEvent(w.context, of_primary) == CUDA_SUCCESS);
    sim_advance(1000);
    CHECK(cuEventQuery(of_primary) == CUDA_ERROR_NOT_READY);
    CHECK(cuMemFree(p) == CUDA_SUCCESS); // waits for both
    CHECK(cuEventQuery(of_primary) == CUDA_SUCCESS);
    CHECK(cuCtxSetCurrent(w.context) == CUDA_SUCCESS);
    CHECK(destroy(green) == CUDA_SUCCESS);
}

TEST_CASE("sim referee: violations can be cleared") {
    World w;
    CUevent e = World::event();
    cuEventQuery(e);
    CHECK(sim_violations(nullptr) == 1);
    sim_clear_violations();
    CHECK(sim_violations(nullptr) == 0);
    CHECK(sim_text().size() == 1);
}
