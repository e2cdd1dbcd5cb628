// The log: silent unless asked, whole lines, one file for each process.

#include "config/log.h"
#include "test/catch.h"
#include "test/unit/child_process.h"
#include "test/unit/config_support.h"

#include <cerrno>
#include <cstdio>
#include <cstdlib>
#include <fcntl.h>
#include <fstream>
#include <sstream>
#include <sys/syscall.h>
#include <thread>

using cistern::config::settings;
using cistern::log::Level;
using namespace cistern; // log:: alone would be the function of <cmath>

namespace {

/// A folder that goes away with the test.
class Folder {
public:
    Folder() { REQUIRE(mkdtemp(path_) != nullptr); }
    ~Folder() {
        const std::string command = std::string("rm -rf ") + path_;
        const int ignored = std::system(command.c_str());
        static_cast<void>(ignored);
    }
    Folder(const Folder&) = delete;
    Folder& operator=(const Folder&) = delete;
    std::string operator/(const std::string& name) const { return std::string(path_) + "/" + name; }

private:
    char path_[32] = "/tmp/cistern-log-XXXXXX";
};

std::string content(const std::string& path) {
    std::ifstream file(path);
    std::ostringstream text;
    text << file.rdbuf();
    return text.str();
}

} // namespace

TEST_CASE("the log is silent before settings are read, and without CISTERN_LOG", "[log]") {
    const auto child = child_process::run([] {
        log::write(Level::error, "too early");
        static_cast<void>(settings());
        log::write(Level::error, "not asked for");
        return !log::enabled(Level::error) && !log::enabled(Level::off);
    });
    CHECK(child.ok());
    CHECK(child.errors.empty());
}

TEST_CASE("a level lets itself and the more severe ones through", "[log]") {
    const auto child = child_process::run([] {
        setenv("CISTERN_LOG", "warn", 1);
        static_cast<void>(settings());
        errno = 5;
        log::write(Level::error, "one %d", 1);
        log::write(Level::warn, "two %s {} {0}", "%s");
        log::write(Level::info, "three");
        return log::enabled(Level::warn) && !log::enabled(Level::info) && errno == 5;
    });
    CHECK(child.ok());
    INFO(child.errors);
    CHECK(child.errors.find(" error] one 1\n") != std::string::npos);
    CHECK(child.errors.find(" warn] two %s {} {0}\n") != std::string::npos);
    CHECK(child.errors.find("three") == std::string::npos);
    CHECK(child.errors.rfind("[cistern ", 0) == 0);
}

TEST_CASE("a line that is too long is cut, not broken", "[log]") {
    const auto child = child_process::run([] {
        setenv("CISTERN_LOG", "debug", 1);
        static_cast<void>(settings());
        log::write(Level::debug, "%s", std::string(5000, 'y').c_str());
        log::boot(std::string(5000, 'z').c_str());
        return true;
    });
    CHECK(child.ok());
    size_t lines = 0;
    for (const char c : child.errors) {
        lines += c == '\n' ? 1U : 0U;
    }
    CHECK(lines == 3); // build line, long line, boot line
    CHECK(child.errors.size() < 2000);
    CHECK(child.errors.back() == '\n');
}

TEST_CASE("a log file is made by the first line, appended to, and not shared with a child", "[log]") {
    const Folder folder;
    const auto child = child_process::run([&folder] {
        setenv("CISTERN_LOG", ("info:" + (folder / "log")).c_str(), 1);
        static_cast<void>(settings());
        log::write(Level::info, "parent");
        const pid_t forked = fork();
        if (forked == 0) {
            log::write(Level::info, "child");
            _exit(0);
        }
        int status = 0;
        waitpid(forked, &status, 0);
        log::write(Level::info, "again");
        std::rename((folder / ("log." + std::to_string(forked))).c_str(), (folder / "child").c_str());
        return true;
    });
    CHECK(child.ok());
    CHECK(child.errors.empty());
    const std::string parent_text = content(folder / "log");
    const std::string child_text = content(folder / "child");
    INFO(parent_text << "---\n" << child_text);
    CHECK(parent_text.find("cistern build: ") != std::string::npos);
    CHECK(parent_text.find(" info] parent\n") != std::string::npos);
    CHECK(parent_text.find(" info] again\n") != std::string::npos);
    CHECK(parent_text.find(" info] child\n") == std::string::npos);
    CHECK(child_text.find(" info] child\n") != std::string::npos);
    CHECK(child_text.find("parent") == std::string::npos);
}

TEST_CASE("a log file that cannot be opened is one line, and stderr instead", "[log]") {
    const auto child = child_process::run([] {
        setenv("CISTERN_LOG", "warn:/nonexistent/folder/log", 1);
        static_cast<void>(settings());
        log::write(Level::warn, "first");
        log::write(Level::warn, "second");
        return true;
    });
    CHECK(child.ok());
    INFO(child.errors);
    CHECK(child.errors.find("cannot open \"/nonexistent/folder/log\"") != std::string::npos);
    CHECK(child.errors.find("cannot open") == child.errors.rfind("cannot open"));
    CHECK(child.errors.find(" warn] first\n") != std::string::npos);
    CHECK(child.errors.find(" warn] second\n") != std::string::npos);
}

TEST_CASE("eight threads write whole lines, also while the process forks", "[log]") {
    const Folder folder;
    constexpr int threads = 8;
    constexpr int rounds = 100;
    const auto child = child_process::run([&folder] {
        setenv("CISTERN_LOG", ("warn:" + (folder / "log")).c_str(), 1);
        static_cast<void>(settings());
        std::vector<std::thread> writers;
        for (int t = 0; t < threads; ++t) {
            writers.emplace_back([t] {
                for (int i = 0; i < rounds; ++i) {
                    log::write(Level::warn, "thread %d line %d end", t, i);
                }
            });
        }
        bool ok = true;
        for (int i = 0; i < 10; ++i) {
            const pid_t forked = fork();
            if (forked == 0) {
                log::write(Level::warn, "child"); // must not find a lock that some thread of the parent held
                // Past the sanitizers, which would miss the parent's threads here and call them leaked.
                syscall(SYS_exit_group, 0);
            }
            int status = -1;
            waitpid(forked, &status, 0);
            ok = ok && status == 0;
        }
        for (std::thread& writer : writers) {
            writer.join();
        }
        return ok;
    });
    INFO(child.errors);
    CHECK(child.ok());
    std::istringstream lines(content(folder / "log"));
    int whole = 0;
    for (std::string line; std::getline(lines, line);) {
        whole += line.rfind("[cistern ", 0) == 0 && line.size() > 4 && line.substr(line.size() - 4) == " end" ? 1 : 0;
    }
    CHECK(whole == threads * rounds);
}

TEST_CASE("a closed stderr does no harm", "[log]") {
    const auto child = child_process::run([] {
        close(STDERR_FILENO);
        setenv("CISTERN_LOG", "trace", 1);
        setenv("DALI_USE_VMM", "true", 1);
        static_cast<void>(settings());
        log::write(Level::trace, "into nothing");
        return true;
    });
    CHECK(child.ok());
}
