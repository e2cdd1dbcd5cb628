#pragma once
// Settings of the simulated GPU from SIM_* variables (README.md lists them), and faults set by a test.

#include "test/fakes/fake_cuda.h"

#include <map>
#include <set>
#include <string>
#include <vector>

namespace fake {

struct Config {
    int devices = 1;
    bool no_device = false;
    size_t total_mb = 4096;
    std::string peers = "all";
    int driver_version = 0; ///< 0: the variant's
    std::set<std::string> missing;
    bool poison = false;
    bool crash = false;
    bool early_shutdown = false; ///< at the exit handler that cuInit registers, not when the library is unloaded
    bool abort_on_violation = false;
    unsigned race_window_us = 0;
    uint64_t auto_advance = 0;
    uint64_t kernel_ns = 1000;
    uint64_t copy_ns = 1000;
    unsigned stream_limit = 1021;
    std::map<std::string, CUresult> refuse; ///< rdma, fd, fabric, host_numa
    struct Attribute {
        int device; ///< -1: all
        int attribute;
        int value;
    };
    std::vector<Attribute> attributes;

    /// Reads the environment; also sets the failure rules of SIM_FAIL.
    static Config from_environment();
};

} // namespace fake
