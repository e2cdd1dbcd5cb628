#include "test/fakes/config.h"

#include "test/fakes/log.h"
#include "test/fakes/sim.h"

#include <cstdlib>
#include <cstring>
#include <sstream>

namespace fake {
namespace {

const char* text(const char* name) {
    const char* value = std::getenv(name);
    return value && *value ? value : nullptr;
}

unsigned long long number(const char* name, unsigned long long otherwise) {
    const char* value = text(name);
    return value ? std::strtoull(value, nullptr, 0) : otherwise;
}

std::vector<std::string> split(const char* list, char separator) {
    std::vector<std::string> parts;
    std::stringstream stream(list ? list : "");
    for (std::string part; std::getline(stream, part, separator);)
        if (!part.empty()) parts.push_back(part);
    return parts;
}

// function:nth:code, nth '*' for every call
void failure_rules(const char* list) {
    for (const std::string& rule : split(list, ',')) {
        std::vector<std::string> part = split(rule.c_str(), ':');
        if (part.size() != 3) continue;
        int nth = part[1] == "*" ? 0 : std::atoi(part[1].c_str());
        log::add_failure(part[0].c_str(), nth, static_cast<CUresult>(std::atoi(part[2].c_str())));
    }
}

// [device:]attribute=value
std::vector<Config::Attribute> attribute_rules(const char* list) {
    std::vector<Config::Attribute> rules;
    for (const std::string& rule : split(list, ',')) {
        size_t equals = rule.find('=');
        if (equals == std::string::npos) continue;
        size_t colon = rule.find(':');
        bool named = colon != std::string::npos && colon < equals;
        Config::Attribute one{-1, 0, std::atoi(rule.c_str() + equals + 1)};
        if (named) one.device = std::atoi(rule.c_str());
        one.attribute = std::atoi(rule.c_str() + (named ? colon + 1 : 0));
        rules.push_back(one);
    }
    return rules;
}

// name[:code]
std::map<std::string, CUresult> refusals(const char* list) {
    std::map<std::string, CUresult> rules{{"fabric", CUDA_ERROR_NOT_PERMITTED}};
    for (const std::string& rule : split(list, ',')) {
        size_t colon = rule.find(':');
        int code = colon == std::string::npos ? CUDA_ERROR_NOT_SUPPORTED : std::atoi(rule.c_str() + colon + 1);
        rules[rule.substr(0, colon)] = static_cast<CUresult>(code);
    }
    return rules;
}

} // namespace

Config Config::from_environment() {
    Config c;
    c.devices = static_cast<int>(number("SIM_DEVICES", 1));
    c.no_device = number("SIM_NO_DEVICE", 0) != 0;
    c.total_mb = number("SIM_TOTAL_MB", 4096);
    if (const char* peers = text("SIM_PEER")) c.peers = peers;
    c.driver_version = static_cast<int>(number("SIM_DRIVER_VERSION", 0));
    for (const std::string& name : split(text("SIM_MISSING"), ',')) c.missing.insert(name);
    c.poison = number("SIM_POISON", 0) != 0;
    c.crash = number("SIM_CRASH", 0) != 0;
    c.abort_on_violation = c.crash;
    c.early_shutdown = number("SIM_EARLY_SHUTDOWN", 0) != 0;
    c.race_window_us = static_cast<unsigned>(number("SIM_RACE_WINDOW_US", 0));
    c.auto_advance = number("SIM_AUTO_ADVANCE", 0);
    c.kernel_ns = number("SIM_KERNEL_NS", 1000);
    c.copy_ns = number("SIM_COPY_NS", 1000);
    c.stream_limit = static_cast<unsigned>(number("SIM_STREAM_LIMIT", 1021));
    c.refuse = refusals(text("SIM_REFUSE"));
    c.attributes = attribute_rules(text("SIM_ATTR"));
    failure_rules(text("SIM_FAIL"));
    return c;
}

} // namespace fake
