// From the environment to the settings of the process.

#include "config/config.h"

#include "config/log_start.h"
#include "config/options.h"

#include <cerrno>
#include <cstring>
#include <new>
#include <pthread.h>
#include <string>
#include <unistd.h>
#include <vector>

namespace cistern::config {

namespace {

/// Lines about settings. Bounded: a broken environment must not fill somebody's log.
class Messages {
public:
    explicit Messages(std::string& out) : out_(out) {}

    void add(const std::string& line) {
        constexpr unsigned most = 16;
        if (++count_ <= most) {
            out_ += line + '\n';
        } else if (count_ == most + 1) {
            out_ += "more settings are wrong; the first 16 were named\n";
        }
    }
    bool any() const noexcept { return count_ != 0; }

private:
    std::string& out_;
    unsigned count_ = 0;
};

/// Value of a variable: the first one counts, as for getenv.
const char* find_text(const char* const* environment, const char* name) noexcept {
    const size_t length = std::strlen(name);
    for (; environment != nullptr && *environment != nullptr; ++environment) {
        if (std::strncmp(*environment, name, length) == 0 && (*environment)[length] == '=') {
            return *environment + length + 1;
        }
    }
    return nullptr;
}

/// One option. `wrong` takes lines that count for CISTERN_STRICT.
Resolved resolve_option(const Option& option, const char* text, Settings& settings, Messages& wrong) {
    if (text == nullptr) {
        return {&option, nullptr, false};
    }
    const Parsed parsed = parse_value(option.kind, option.words, text);
    const bool used = parsed.verdict != Verdict::unusable;
    if (used) {
        option.apply(settings, parsed.value);
    }
    if (parsed.verdict != Verdict::plain) {
        const std::string shown = option.show(settings);
        wrong.add(std::string(option.name) + "=" + quoted(text) + ": " + parsed.remark + "; using " +
                  (used            ? shown
                   : shown.empty() ? std::string("the default, ") + option.fallback
                                   : shown));
    }
    return {&option, text, used};
}

bool set_and_on(const std::vector<Resolved>& resolved, const char* name) {
    const Option* option = find_option(name, std::strlen(name));
    for (const Resolved& r : resolved) {
        if (r.option == option) {
            return r.text != nullptr && dali_atoi(r.text) != 0;
        }
    }
    return false;
}

/// DALI refuses cudaMallocAsync together with a pool or VMM that was switched on explicitly, and lets it switch off the
/// ones that were not set. Here nothing is refused: cudaMallocAsync wins.
void settle_clash(const std::vector<Resolved>& resolved, Settings& settings, Messages& wrong) {
    if (!settings.cuda_malloc_async) {
        return;
    }
    settings.device_mem_pool = false;
    settings.vmm = false;
    const bool pool = set_and_on(resolved, "DALI_USE_DEVICE_MEM_POOL");
    const bool vmm = set_and_on(resolved, "DALI_USE_VMM");
    if (pool || vmm) {
        wrong.add(std::string("DALI_USE_CUDA_MALLOC_ASYNC clashes with ") + (pool ? "DALI_USE_DEVICE_MEM_POOL" : "") +
                  (pool && vmm ? " and " : "") + (vmm ? "DALI_USE_VMM" : "") +
                  ": cudaMallocAsync wins, using 0 for the other" + (pool && vmm ? "s" : ""));
    }
}

void report_unknown(const char* const* environment, Messages& wrong, std::vector<std::string>& notes) {
    for (; environment != nullptr && *environment != nullptr; ++environment) {
        const char* equals = std::strchr(*environment, '=');
        const size_t length = equals == nullptr ? 0 : static_cast<size_t>(equals - *environment);
        const char* meant = length == 0 ? nullptr : suggestion(*environment, length);
        if (meant == nullptr) {
            continue;
        }
        std::string line = quoted(std::string(*environment, length).c_str()) + " is not a setting";
        line += *meant == '\0' ? "" : std::string("; did you mean ") + meant + "?";
        // A near miss of a DALI name may be a variable of some DALI that this version has not heard of.
        if (std::strncmp(*environment, "CISTERN_", 8) == 0) {
            wrong.add(line + (*meant == '\0' ? "; ignored" : " Ignored."));
        } else {
            notes.push_back(line + " Ignored.");
        }
    }
}

/// A value that differs from what this version does. One that asks for what happens anyway is worth no line, and one that
/// has its line already, because it does not mean what it seems to, gets no second one.
void report_without_effect(const std::vector<Resolved>& resolved, std::vector<std::string>& notes) {
    Settings idle; // what this version does
    idle.pinned_mem_pool = false;
    idle.host_shrink_threshold = 0;
    for (const Resolved& r : resolved) {
        if (r.text == nullptr || !r.used || is_effective(*r.option)) {
            continue;
        }
        const Parsed parsed = parse_value(r.option->kind, r.option->words, r.text);
        if (parsed.verdict != Verdict::plain) {
            continue;
        }
        Settings asked = idle;
        r.option->apply(asked, parsed.value);
        if (r.option->show(asked) != r.option->show(idle)) {
            notes.push_back(std::string(r.option->name) + "=" + quoted(r.text) +
                            (asked.cuda_malloc_async ? " is not built in this version: allocations go to the driver"
                                                     : " has no effect in this version"));
        }
    }
}

// Never destroyed: exit handlers of the program may still allocate and free.
alignas(Settings) unsigned char settings_storage[sizeof(Settings)];
// pthread_once, unlike the guard of a function's static, is defined for a fork that happens while it runs.
pthread_once_t settings_once = PTHREAD_ONCE_INIT;

Settings& stored_settings() noexcept { return *std::launder(reinterpret_cast<Settings*>(settings_storage)); }

void print(const Settings& settings, const std::string& messages) {
    if (!settings.log.empty() && split_target(log_words, settings.log).word == 0) {
        return; // CISTERN_LOG=off
    }
    size_t begin = 0;
    for (size_t end = messages.find('\n'); end != std::string::npos; end = messages.find('\n', begin)) {
        log::boot(messages.substr(begin, end - begin).c_str());
        begin = end + 1;
    }
}

void read_environment() noexcept {
    const int saved_errno = errno; // we run inside a call of the program
    auto* settings = new (settings_storage) Settings;
    try {
        std::string messages;
        *settings = parse(environ, messages);
        print(*settings, messages);
    } catch (...) {
        settings->refused = true; // no host memory for the settings, so none for a pool
    }
    log::start(settings->log);
    errno = saved_errno;
}

} // namespace

Settings resolve(const char* const* environment, std::string& messages, std::vector<Resolved>& resolved) {
    Settings settings;
    Messages wrong(messages);
    std::vector<std::string> notes;
    resolved.clear();
    for (const Option& option : options()) {
        resolved.push_back(resolve_option(option, find_text(environment, option.name), settings, wrong));
    }
    settle_clash(resolved, settings, wrong);
    report_unknown(environment, wrong, notes);
    report_without_effect(resolved, notes);
    settings.refused = settings.strict && wrong.any();
    if (settings.refused) {
        notes.emplace_back("CISTERN_STRICT is set and a setting is wrong: everything goes to the driver");
    }
    for (const std::string& note : notes) {
        messages += note + '\n';
    }
    return settings;
}

Settings parse(const char* const* environment, std::string& messages) {
    std::vector<Resolved> resolved;
    return resolve(environment, messages, resolved);
}

const Settings& settings() noexcept {
    pthread_once(&settings_once, read_environment);
    return stored_settings();
}

} // namespace cistern::config
