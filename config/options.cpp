#include "config/options.h"

#include <array>
#include <cstring>

namespace cistern::config {

namespace {

std::string show_flag(bool flag) { return flag ? "1" : "0"; }

/// Up to four decimals without trailing zeros. Not printf: its decimal point is the locale's.
std::string show_number(double number) {
    const auto scaled = static_cast<long>(number * 10000.0 + 0.5);
    std::string text = std::to_string(scaled / 10000) + '.' + std::to_string(10000 + scaled % 10000).substr(1);
    while (text.back() == '0' && text[text.size() - 2] != '.') {
        text.pop_back();
    }
    return text;
}

/// The largest unit that divides the size exactly.
std::string show_size(size_t bytes, const char* units) {
    const char* unit = "";
    char suffix[2] = {0, 0};
    for (unit = units; *unit != '\0' && bytes != 0 && bytes % 1024 == 0; ++unit) {
        suffix[0] = *unit;
        bytes /= 1024;
    }
    return std::to_string(bytes) + suffix;
}
std::string show_dali_size(size_t bytes) { return show_size(bytes, "kM"); }
std::string show_own_size(size_t bytes) { return show_size(bytes, "KMGT"); }

std::string show_share(size_t bytes, unsigned percent) {
    return percent != 0 ? std::to_string(percent) + "%" : bytes != 0 ? show_own_size(bytes) : "";
}

std::string show_prealloc(const Settings& s) {
    std::string text = s.prealloc_device != 0 ? "dev:" + show_own_size(s.prealloc_device) : "";
    if (s.prealloc_pinned != 0) {
        text += text.empty() ? "" : ",";
        text += "pinned:" + show_own_size(s.prealloc_pinned);
    }
    return text;
}

std::string show_ipc(const Settings& s) {
    std::string text = s.ipc_native ? "native" : "emulate";
    return s.ipc_native && s.ipc_native_from != 0 ? text + ":" + show_own_size(s.ipc_native_from) : text;
}

constexpr const char* bool_values = "0 or 1 (read by atoi)";
constexpr const char* own_bool_values = "0 or 1 (also true, false, yes, no, on, off)";
constexpr const char* now = "0.1";
constexpr const char* later = "later";

using S = Settings;
using V = Value;

// Order matters where two options set the same value: the later one wins, so the generic factor stands first.
constexpr std::array table = {
    Option{"DALI_USE_DEVICE_MEM_POOL", Kind::dali_bool, "", bool_values, "1", now,
           "device memory from the pool; 0: every allocation goes to the driver",
           [](S& s, const V& v) { s.device_mem_pool = v.flag; }, [](const S& s) { return show_flag(s.device_mem_pool); }},
    Option{"DALI_USE_VMM", Kind::dali_bool, "", bool_values, "1", now,
           "pool on virtual memory management; 0: every allocation goes to the driver (a pool over cuMemAlloc comes later)",
           [](S& s, const V& v) { s.vmm = v.flag; }, [](const S& s) { return show_flag(s.vmm); }},
    Option{"DALI_USE_DEFERRED_DEALLOC", Kind::dali_bool, "", bool_values, "1", now,
           "a free returns at once and the block is reused when earlier work is over; 0: waiting frees, as natively",
           [](S& s, const V& v) { s.deferred_dealloc = v.flag; }, [](const S& s) { return show_flag(s.deferred_dealloc); }},
    Option{"DALI_USE_PINNED_MEM_POOL", Kind::dali_bool, "", bool_values, "1", later,
           "pinned host memory from a pool; until then it comes from the driver",
           [](S& s, const V& v) { s.pinned_mem_pool = v.flag; }, [](const S& s) { return show_flag(s.pinned_mem_pool); }},
    Option{"DALI_USE_CUDA_MALLOC_ASYNC", Kind::dali_bool, "", bool_values, "0", later,
           "device memory from a memory pool of the driver instead of ours; until then every allocation goes to the driver",
           [](S& s, const V& v) { s.cuda_malloc_async = v.flag; },
           [](const S& s) { return show_flag(s.cuda_malloc_async); }},
    Option{"DALI_RESTRICT_PINNED_MEM", Kind::dali_bool, "", bool_values, "0", later,
           "no pinned memory beyond what is asked for; free pinned chunks go back at once",
           [](S& s, const V& v) { s.restrict_pinned_mem = v.flag; },
           [](const S& s) { return show_flag(s.restrict_pinned_mem); }},
    Option{"DALI_BUFFER_GROWTH_FACTOR", Kind::dali_factor, "", "number, clamped to 1 to 4", "1.0", later,
           "how much larger than needed a pool becomes when it grows: sets both factors below",
           [](S& s, const V& v) { s.buffer_growth_factor = s.host_growth_factor = s.device_growth_factor = v.number; },
           [](const S& s) { return show_number(s.buffer_growth_factor); }},
    Option{"DALI_HOST_BUFFER_GROWTH_FACTOR", Kind::dali_factor, "", "number, clamped to 1 to 4", "1.0", later,
           "growth factor of pinned and pageable pools", [](S& s, const V& v) { s.host_growth_factor = v.number; },
           [](const S& s) { return show_number(s.host_growth_factor); }},
    Option{"DALI_DEVICE_BUFFER_GROWTH_FACTOR", Kind::dali_factor, "", "number, clamped to 1 to 4", "1.0", later,
           "growth factor of device pools", [](S& s, const V& v) { s.device_growth_factor = v.number; },
           [](const S& s) { return show_number(s.device_growth_factor); }},
    Option{"DALI_HOST_BUFFER_SHRINK_THRESHOLD", Kind::dali_ratio, "", "number, clamped to 0 to 1", "0.9", later,
           "pageable pool, and the pinned pool if set: free chunks go back below this share in use",
           [](S& s, const V& v) {
               s.host_shrink_threshold = v.number;
               s.host_shrink_threshold_set = true;
           },
           [](const S& s) { return show_number(s.host_shrink_threshold); }},
    Option{"DALI_MALLOC_POOL_THRESHOLD", Kind::dali_size, "", "digits, then k or M at most", "32M", later,
           "pageable host memory only: requests above it come from a pool",
           [](S& s, const V& v) { s.malloc_pool_threshold = v.bytes; },
           [](const S& s) { return show_dali_size(s.malloc_pool_threshold); }},
    Option{"CISTERN_DISABLE", Kind::own_bool, "", own_bool_values, "0", now, "everything goes to the driver",
           [](S& s, const V& v) { s.disable = v.flag; }, [](const S& s) { return show_flag(s.disable); }},
    Option{"CISTERN_STRICT", Kind::own_bool, "", own_bool_values, "0", now,
           "a setting that is unusable, surprising, clashing or unknown sends everything to the driver",
           [](S& s, const V& v) { s.strict = v.flag; }, [](const S& s) { return show_flag(s.strict); }},
    Option{"CISTERN_LOG", Kind::own_target, log_words, "level[:file pattern]; off, error, warn, info, debug, trace",
           "lines about settings only", now,
           "log to stderr or a file; off: not even lines about settings. Patterns: %p process, %h host, %n sequence, "
           "%q{VAR} variable, %% per cent",
           [](S& s, const V& v) { s.log = v.text; }, [](const S& s) { return s.log; }},
    Option{"CISTERN_STATS", Kind::own_target, stats_words, "text or json, then [:file pattern]", "none", now,
           "counters at exit, to stderr or a file", [](S& s, const V& v) { s.stats = v.text; },
           [](const S& s) { return s.stats; }},
    Option{"CISTERN_PENDING", Kind::own_share, "", "size, or 1% to 100% of the card", "a share of the card", now,
           "freed memory that may wait for earlier work; beyond it an allocation waits",
           [](S& s, const V& v) {
               s.pending_bound = v.bytes;
               s.pending_share = v.percent;
           },
           [](const S& s) { return show_share(s.pending_bound, s.pending_share); }},
    Option{"CISTERN_FOOTPRINT", Kind::own_word, "fast tight", "fast or tight", "fast", later,
           "tight: small handles and early trimming, slower calls",
           [](S& s, const V& v) { s.tight_footprint = v.word == 1; },
           [](const S& s) { return std::string(s.tight_footprint ? "tight" : "fast"); }},
    Option{"CISTERN_LIMIT", Kind::own_share, "", "size, or 1% to 100% of the card", "none", later,
           "most memory that the pool of one device may map",
           [](S& s, const V& v) {
               s.limit = v.bytes;
               s.limit_share = v.percent;
           },
           [](const S& s) { return show_share(s.limit, s.limit_share); }},
    Option{"CISTERN_PREALLOC", Kind::own_sizes, "dev pinned", "dev:SIZE,pinned:SIZE (either may be missing)", "none", later,
           "memory that the pools map when they start",
           [](S& s, const V& v) {
               s.prealloc_device = v.sizes[0];
               s.prealloc_pinned = v.sizes[1];
           },
           show_prealloc},
    Option{"CISTERN_TRIM", Kind::own_seconds, "", "seconds, 0 to 86400", "0 (never)", later,
           "an idle process gives free memory back after this time; starts the one worker thread",
           [](S& s, const V& v) { s.trim_seconds = v.seconds; }, [](const S& s) { return std::to_string(s.trim_seconds); }},
    Option{"CISTERN_MEMINFO", Kind::own_word, "native driver", "native or driver", "native", later,
           "what cudaMemGetInfo calls free: native counts idle pool memory as free, driver does not",
           [](S& s, const V& v) { s.meminfo_driver = v.word == 1; },
           [](const S& s) { return std::string(s.meminfo_driver ? "driver" : "native"); }},
    Option{"CISTERN_IPC", Kind::own_sized, "emulate native", "emulate, native or native:SIZE", "emulate", later,
           "CUDA IPC of pool memory; native: allocations of SIZE and above are left to the driver",
           [](S& s, const V& v) {
               s.ipc_native = v.word == 1;
               s.ipc_native_from = v.bytes;
           },
           show_ipc},
    Option{"CISTERN_TOOLS", Kind::own_bool, "", own_bool_values, "0", later,
           "the pool stays on under compute-sanitizer", [](S& s, const V& v) { s.keep_under_tools = v.flag; },
           [](const S& s) { return show_flag(s.keep_under_tools); }},
    Option{"CISTERN_RECORD", Kind::own_path, "", "file pattern", "none", later, "record every allocation and free",
           [](S& s, const V& v) { s.record = v.text; }, [](const S& s) { return s.record; }},
    Option{"CISTERN_PLAN", Kind::own_path, "", "file", "none", later, "sizes to start with, made from a recording",
           [](S& s, const V& v) { s.plan = v.text; }, [](const S& s) { return s.plan; }},
};

} // namespace

std::span<const Option> options() noexcept { return table; }

const Option* find_option(const char* name, size_t length) noexcept {
    for (const Option& option : table) {
        if (std::strlen(option.name) == length && std::memcmp(option.name, name, length) == 0) {
            return &option;
        }
    }
    return nullptr;
}

bool is_effective(const Option& option) noexcept { return std::strcmp(option.since, later) != 0; }

} // namespace cistern::config
