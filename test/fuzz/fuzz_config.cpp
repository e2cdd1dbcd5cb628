// Whatever stands in the environment: no crash, values in their ranges, one line of plain text for each surprise.

#include "test/fuzz/fuzz_config.h"

#include "config/config.h"
#include "config/grammar.h"

#include <algorithm>
#include <cstdio>
#include <cstdlib>
#include <string>
#include <vector>

bool fuzz_plant_fault = false;

namespace {

void hold(bool condition, const char* property) {
    if (!condition) {
        std::printf("property violated: %s\n", property);
        std::fflush(stdout);
        std::abort();
    }
}

std::vector<std::string> split(const std::string& text) {
    std::vector<std::string> parts(1);
    for (const char c : text) {
        if (c == '\n') {
            parts.emplace_back();
        } else if (c != '\0') { // no variable can hold one
            parts.back() += c;
        }
    }
    return parts;
}

void check(const cistern::config::Settings& s, const std::string& messages) {
    hold(s.host_growth_factor >= 1.0 && s.host_growth_factor <= 4.0, "growth factor outside [1, 4]");
    hold(s.device_growth_factor >= 1.0 && s.device_growth_factor <= 4.0, "growth factor outside [1, 4]");
    hold(s.host_shrink_threshold >= 0.0 && s.host_shrink_threshold <= 1.0, "shrink threshold outside [0, 1]");
    hold(s.pending_share <= 100 && s.limit_share <= 100, "share above 100%");
    hold(s.pending_bound == 0 || s.pending_share == 0, "a bound in bytes and as a share");
    hold(s.pending_bound <= SIZE_MAX / 2 && s.malloc_pool_threshold <= SIZE_MAX / 2,
         "size without room for arithmetic");
    hold(!s.cuda_malloc_async || (!s.device_mem_pool && !s.vmm), "two back ends at once");
    hold(!s.refused || s.strict, "refused without CISTERN_STRICT");
    hold(s.log.empty() || cistern::config::pattern_is_valid(s.log), "bad pattern of the log");
    hold(messages.empty() || messages.back() == '\n', "a line without an end");
    hold(std::count(messages.begin(), messages.end(), '\n') < 100, "a flood of lines");
    hold(std::all_of(messages.begin(), messages.end(), [](char c) { return c == '\n' || (c >= ' ' && c <= '~'); }),
         "a message that is not plain text");
    hold(cistern::config::expand_pattern(s.log).size() < s.log.size() + 100000, "an endless name");
}

} // namespace

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
    const std::vector<std::string> variables = split(std::string(reinterpret_cast<const char*>(data), size));
    std::vector<const char*> environment;
    for (const std::string& variable : variables) {
        environment.push_back(variable.c_str());
    }
    environment.push_back(nullptr);
    std::string messages;
    cistern::config::Settings settings = cistern::config::parse(environment.data(), messages);
    if (fuzz_plant_fault) {
        settings.host_growth_factor = 5.0;
    }
    check(settings, messages);
    hold(!cistern::config::effective_dump(environment.data()).empty(), "an empty dump");
    return 0;
}
