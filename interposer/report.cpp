#include "interposer/report.h"

#include "interposer/hooks.h"
#include "interposer/lifecycle.h"

#include "config/config.h"
#include "config/log.h"
#include "pool/counters.h"
#include "pool/pool.h"

#include <cistern_build_info.h>

#include <cstdlib>
#include <cstring>
#include <fcntl.h>
#include <string_view>
#include <unistd.h>

namespace cistern::interposer {
namespace {

constinit const char* asked_for = nullptr;
constinit pid_t asked_by = 0;

std::string doors_json() {
    std::string text = "{";
#define X(id, meaning)                                                                                                 \
    text += std::string(text.size() > 1 ? "," : "") +                                                                  \
            "\"" #id "\":" + std::to_string(doors().id.load(std::memory_order_relaxed));
    CISTERN_DOORS(X)
#undef X
    return text + "}";
}

std::string doors_text() {
    std::string text;
#define X(id, meaning)                                                                                                 \
    text += "  " #id " " + std::to_string(doors().id.load(std::memory_order_relaxed)) + "  " meaning "\n";
    CISTERN_DOORS(X)
#undef X
    return text;
}

void write_all(int file, const std::string& text) noexcept {
    size_t done = 0;
    while (done < text.size()) {
        const ssize_t n = write(file, text.data() + done, text.size() - done);
        if (n <= 0) {
            return;
        }
        done += static_cast<size_t>(n);
    }
}

void write_report() {
    const std::string_view asked = asked_for;
    const size_t colon = asked.find(':');
    const bool json = asked.substr(0, colon) == "json";
    const std::string text = json ? statistics_json() + "\n" : pool::counters_text() + doors_text();
    if (colon == std::string_view::npos) {
        write_all(STDERR_FILENO, text);
        return;
    }
    const std::string path = config::expand_pattern(std::string(asked.substr(colon + 1)));
    const int file = open(path.c_str(), O_WRONLY | O_CREAT | O_TRUNC | O_CLOEXEC, 0644);
    if (file < 0) {
        log::boot("cistern: the file that CISTERN_STATS names cannot be written\n");
        return;
    }
    write_all(file, text);
    close(file);
}

void at_exit() noexcept {
    // The copy of this registration that a child of fork inherited belongs to the parent's numbers.
    if (getpid() != asked_by) {
        return;
    }
    try {
        write_report();
    } catch (...) {
        log::boot("cistern: no memory for the summary at exit\n");
    }
}

} // namespace

std::string statistics_json() {
    std::string text = pool::counters_json();
    while (!text.empty() && text.back() != '}') {
        text.pop_back();
    }
    if (text.empty()) {
        return "{\"doors\":" + doors_json() + "}";
    }
    text.pop_back();
    return text + (text.size() > 1 ? "," : "") + "\"doors\":" + doors_json() + "}";
}

void report_at_exit(const char* stats) noexcept {
    asked_for = stats;
    asked_by = getpid();
    std::atexit(&at_exit);
}

} // namespace cistern::interposer

extern "C" {

const char* cistern_version(void) noexcept { return CISTERN_VERSION " " CISTERN_COMMIT " " CISTERN_SOURCES_HASH; }

size_t cistern_trim(void) noexcept {
    using namespace cistern;
    return interposer::pool_opened() ? interposer::asked([] { return pool::trim(); }) : 0;
}

size_t cistern_statistics(char* buffer, size_t size) noexcept {
    try {
        const std::string text = cistern::interposer::statistics_json();
        if (buffer != nullptr && size > 0) {
            const size_t n = text.size() < size ? text.size() : size - 1;
            std::memcpy(buffer, text.data(), n);
            buffer[n] = '\0';
        }
        return text.size();
    } catch (...) {
        return 0;
    }
}
}
