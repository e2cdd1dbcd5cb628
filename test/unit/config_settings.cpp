// settings(): read once, by whoever comes first, from any thread.

#include "test/catch.h"
#include "test/unit/child_process.h"
#include "test/unit/config_support.h"

#include <cerrno>
#include <cstdlib>
#include <thread>
#include <vector>

using cistern::config::Settings;
using cistern::config::settings;

namespace {

size_t occurrences(const std::string& text, const std::string& part) {
    size_t n = 0;
    for (size_t at = text.find(part); at != std::string::npos; at = text.find(part, at + 1)) {
        ++n;
    }
    return n;
}

} // namespace

TEST_CASE("F12 later changes of the environment have no effect", "[config]") {
    const auto child = child_process::run([] {
        setenv("DALI_USE_VMM", "0", 1);
        const bool first = settings().vmm;
        setenv("DALI_USE_VMM", "1", 1);
        return !first && !settings().vmm;
    });
    CHECK(child.ok());
    CHECK(child.errors.empty());
}

TEST_CASE("eight threads get the same settings, and every line is printed once", "[config]") {
    const auto child = child_process::run([] {
        setenv("DALI_USE_VMM", "true", 1);
        setenv("CISTERN_STAT", "text", 1);
        std::vector<const Settings*> seen(8);
        std::vector<std::thread> threads;
        for (size_t i = 0; i < seen.size(); ++i) {
            threads.emplace_back([&seen, i] { seen[i] = &settings(); });
        }
        for (std::thread& thread : threads) {
            thread.join();
        }
        for (const Settings* s : seen) {
            if (s != &settings() || s->vmm) {
                return false;
            }
        }
        return true;
    });
    CHECK(child.ok());
    INFO(child.errors);
    CHECK(occurrences(child.errors, "\n") == 2);
    CHECK(occurrences(child.errors, "[cistern ") == 2);
    CHECK(occurrences(child.errors, " warn] DALI_USE_VMM=\"true\": ") == 1);
    CHECK(occurrences(child.errors, "did you mean CISTERN_STATS?") == 1);
}

TEST_CASE("CISTERN_LOG=off silences the lines about settings, not the settings", "[config]") {
    const auto child = child_process::run([] {
        setenv("DALI_USE_VMM", "true", 1);
        setenv("CISTERN_LOG", "off", 1);
        return !settings().vmm;
    });
    CHECK(child.ok());
    CHECK(child.errors.empty());
}

TEST_CASE("nothing is printed when nothing is wrong, and errno is left alone", "[config]") {
    const auto child = child_process::run([] {
        errno = 77;
        return settings().device_mem_pool && errno == 77;
    });
    CHECK(child.ok());
    CHECK(child.errors.empty());
}

TEST_CASE("settings survive the exit handlers of the process", "[config]") {
    const auto child = child_process::run([] {
        setenv("CISTERN_STATS", "json:/tmp/a-name-that-is-too-long-for-the-small-string-buffer", 1);
        std::atexit([] {
            if (settings().stats.size() < 40) {
                _exit(9);
            }
            _exit(0);
        });
        static_cast<void>(settings());
        std::exit(8);
        return false;
    });
    CHECK(child.ok());
}

TEST_CASE("F06 a child of fork has the settings too, read before or after", "[config]") {
    const auto child = child_process::run([] {
        setenv("DALI_USE_VMM", "0", 1);
        const pid_t before = fork();
        if (before == 0) {
            _exit(settings().vmm ? 1 : 0);
        }
        static_cast<void>(settings());
        const pid_t after = fork();
        if (after == 0) {
            _exit(settings().vmm ? 1 : 0);
        }
        int first = -1;
        int second = -1;
        waitpid(before, &first, 0);
        waitpid(after, &second, 0);
        return first == 0 && second == 0;
    });
    CHECK(child.ok());
}
