#pragma once
// For the tests of config/: settings from a list of "NAME=value".

#include "config/config.h"
#include "config/options.h"

#include <initializer_list>
#include <string>
#include <vector>

namespace config_test {

struct Result {
    cistern::config::Settings settings;
    std::string messages;

    size_t lines() const {
        size_t n = 0;
        for (const char c : messages) {
            n += c == '\n' ? 1U : 0U;
        }
        return n;
    }
    bool says(const std::string& text) const { return messages.find(text) != std::string::npos; }
};

inline Result parse(std::vector<std::string> variables) {
    std::vector<const char*> environment;
    for (const std::string& variable : variables) {
        environment.push_back(variable.c_str());
    }
    environment.push_back(nullptr);
    Result result;
    result.settings = cistern::config::parse(environment.data(), result.messages);
    return result;
}

} // namespace config_test
