// File patterns: %p process, %h host, %n sequence, %q{VAR} variable, %% per cent.

#include "config/config.h"
#include "config/grammar.h"

#include <atomic>
#include <cstdlib>
#include <string>
#include <unistd.h>

namespace cistern::config {

namespace {

std::atomic<unsigned> sequence{0};

/// Length of the sequence that starts with the % at `at`, or 0 if it is not a known one.
size_t sequence_length(const std::string& pattern, size_t at) noexcept {
    if (at + 1 >= pattern.size()) {
        return 0;
    }
    switch (pattern[at + 1]) {
    case 'p':
    case 'h':
    case 'n':
    case '%':
        return 2;
    case 'q': {
        const size_t close = pattern.find('}', at);
        const bool named =
            at + 2 < pattern.size() && pattern[at + 2] == '{' && close != std::string::npos && close > at + 3;
        return named ? close - at + 1 : 0;
    }
    default:
        return 0;
    }
}

std::string host_name() {
    char name[256];
    if (gethostname(name, sizeof name) != 0) {
        return "localhost";
    }
    name[sizeof name - 1] = '\0';
    return name;
}

std::string expand_one(const std::string& text) {
    switch (text[1]) {
    case 'p':
        return std::to_string(getpid());
    case 'h':
        return host_name();
    case 'n':
        return std::to_string(sequence.fetch_add(1, std::memory_order_relaxed));
    case 'q': {
        const char* value = std::getenv(text.substr(3, text.size() - 4).c_str());
        return value == nullptr ? "" : value;
    }
    default:
        return "%";
    }
}

} // namespace

bool pattern_is_valid(const std::string& pattern) noexcept {
    for (size_t at = pattern.find('%'); at != std::string::npos; at = pattern.find('%', at)) {
        const size_t length = sequence_length(pattern, at);
        if (length == 0) {
            return false;
        }
        at += length;
    }
    return true;
}

std::string expand_pattern(const std::string& pattern) {
    std::string out;
    for (size_t at = 0; at < pattern.size();) {
        const size_t length = pattern[at] == '%' ? sequence_length(pattern, at) : 0;
        if (length == 0) {
            out += pattern[at++];
        } else {
            out += expand_one(pattern.substr(at, length));
            at += length;
        }
    }
    return out;
}

} // namespace cistern::config
