// The only file that includes spdlog. One logger object of our own, never spdlog's registry: the program may have its own
// spdlog, whose loggers are none of our business.
//
// What makes it safe inside a stranger's process:
// - no lock and no shared buffer: a line is put together on the stack of its thread and leaves in one write, so a fork
//   at any moment leaves nothing locked in the child;
// - nothing is destroyed: exit handlers may still log;
// - the file is opened with the first line, close-on-exec, for appending; a child process opens its own.

#define SPDLOG_HEADER_ONLY
#define FMT_HEADER_ONLY
#define SPDLOG_NO_THREAD_ID
#define SPDLOG_NO_ATOMIC_LEVELS
// Exceptions come through to write(), which ends them. spdlog's own handler would format a text with the time for stderr,
// and bring fmt's floating point code, and with some compilers libm.
#define SPDLOG_NO_EXCEPTIONS
#include <spdlog/logger.h>
#include <spdlog/sinks/sink.h>

#include "config/build_info.h"
#include "config/config.h"
#include "config/log_start.h"
#include "config/options.h"

#include <atomic>
#include <cerrno>
#include <cstdarg>
#include <cstdio>
#include <fcntl.h>
#include <memory>
#include <new>
#include <string>
#include <unistd.h>

namespace cistern::log {

namespace {

constexpr spdlog::level::level_enum to_spdlog(Level level) noexcept {
    switch (level) {
    case Level::error:
        return spdlog::level::err;
    case Level::warn:
        return spdlog::level::warn;
    case Level::info:
        return spdlog::level::info;
    case Level::debug:
        return spdlog::level::debug;
    case Level::trace:
        return spdlog::level::trace;
    case Level::off:
        break;
    }
    return spdlog::level::off;
}

constexpr const char* name_of(spdlog::level::level_enum level) noexcept {
    switch (level) {
    case spdlog::level::err:
        return "error";
    case spdlog::level::warn:
        return "warn";
    case spdlog::level::info:
        return "info";
    case spdlog::level::debug:
        return "debug";
    default:
        return "trace";
    }
}

/// A descriptor together with the process that opened it, in one word so that both change at once.
// Aligned to its size: clang then knows that one instruction moves it.
struct alignas(8) Target {
    int fd;
    pid_t owner;
};

class DescriptorSink final : public spdlog::sinks::sink {
public:
    explicit DescriptorSink(std::string pattern) : pattern_(std::move(pattern)) {}

    void log(const spdlog::details::log_msg& message) override {
        spdlog::memory_buf_t line;
        // By hand, for the same reason.
        const std::string prefix = "[cistern " + std::to_string(getpid()) + " " + name_of(message.level) + "] ";
        line.append(prefix.data(), prefix.data() + prefix.size());
        line.append(message.payload.data(), message.payload.data() + message.payload.size());
        line.push_back('\n');
        const ssize_t ignored = ::write(descriptor(), line.data(), line.size());
        static_cast<void>(ignored); // a full disk must not disturb the program
    }
    void flush() override {}
    void set_pattern(const std::string&) override {}
    void set_formatter(std::unique_ptr<spdlog::formatter>) override {}

private:
    /// stderr; or the file, opened by the first line of this process.
    int descriptor() {
        if (pattern_.empty()) {
            return STDERR_FILENO;
        }
        const pid_t self = getpid();
        Target seen = target_.load(std::memory_order_acquire);
        if (seen.owner == self) {
            return seen.fd;
        }
        const Target opened{open_file(seen.owner != 0), self};
        if (target_.compare_exchange_strong(seen, opened, std::memory_order_acq_rel)) {
            return opened.fd;
        }
        if (opened.fd != STDERR_FILENO) {
            ::close(opened.fd); // another thread was faster
        }
        return seen.fd;
    }

    /// A forked child whose pattern has no %p would share its parent's file: it gets the number appended.
    int open_file(bool forked) {
        std::string path = config::expand_pattern(pattern_);
        if (forked && pattern_.find("%p") == std::string::npos) {
            path += '.' + std::to_string(getpid());
        }
        const int fd = ::open(path.c_str(), O_WRONLY | O_CREAT | O_APPEND | O_CLOEXEC | O_NOFOLLOW, 0644);
        if (fd < 0) {
            boot(("CISTERN_LOG: cannot open " + config::quoted(path.c_str()) + "; logging to stderr").c_str());
            return STDERR_FILENO;
        }
        return fd;
    }

    std::string pattern_;
    std::atomic<Target> target_{Target{-1, 0}};
};

std::atomic<int> threshold{static_cast<int>(Level::off)};
alignas(spdlog::logger) unsigned char logger_storage[sizeof(spdlog::logger)];

spdlog::logger& logger() noexcept { return *std::launder(reinterpret_cast<spdlog::logger*>(logger_storage)); }

} // namespace

void start(const std::string& specification) noexcept {
    if (specification.empty()) {
        return;
    }
    try {
        const config::Target target = config::split_target(config::log_words, specification);
        auto* made = new (logger_storage) spdlog::logger("cistern", std::make_shared<DescriptorSink>(target.pattern));
        made->set_level(spdlog::level::trace);
        threshold.store(static_cast<int>(target.word), std::memory_order_release);
    } catch (...) {
        boot("CISTERN_LOG: no memory for the log; it stays off");
    }
    write(Level::info, "%s", config::build_info());
}

bool enabled(Level level) noexcept {
    return level != Level::off && static_cast<int>(level) <= threshold.load(std::memory_order_acquire);
}

void write(Level level, const char* format, ...) noexcept {
    if (!enabled(level)) {
        return;
    }
    const int saved_errno = errno;
    char text[1024];
    va_list arguments;
    va_start(arguments, format);
    const int length = std::vsnprintf(text, sizeof text, format, arguments);
    va_end(arguments);
    if (length >= 0) {
        const size_t kept = static_cast<size_t>(length) < sizeof text ? static_cast<size_t>(length) : sizeof text - 1;
        try {
            logger().log(to_spdlog(level), spdlog::string_view_t(text, kept));
        } catch (...) { // no memory for a line: the line is lost, the program is not disturbed
        }
    }
    errno = saved_errno;
}

} // namespace cistern::log
