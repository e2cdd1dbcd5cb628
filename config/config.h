#pragma once
// Settings: one table of options (config/options.cpp) drives parsing, documentation and dump. getenv stands nowhere else.

#include <cstddef>
#include <cstdint>
#include <string>

namespace cistern::config {

/// Effective values of every option. Names follow the variables; sizes in bytes.
struct Settings {
    // DALI_*
    bool device_mem_pool = true;
    bool vmm = true;
    bool pinned_mem_pool = true;
    bool cuda_malloc_async = false;
    bool deferred_dealloc = true; ///< false: waiting frees
    bool restrict_pinned_mem = false;
    double host_growth_factor = 1.0;
    double device_growth_factor = 1.0;
    double host_shrink_threshold = 0.9;
    bool host_shrink_threshold_set = false;
    size_t malloc_pool_threshold = size_t{32} << 20;
    // CISTERN_*
    bool disable = false;
    bool strict = false;
    std::string log;            ///< level[:file pattern], empty: errors and warnings about settings only
    std::string stats;          ///< text|json[:file pattern], empty: none
    size_t pending_bound = 0;   ///< CISTERN_PENDING in bytes; 0: default share of the card, or pending_share
    unsigned pending_share = 0; ///< CISTERN_PENDING in per cent of the card; 0: not given that way
    bool tight_footprint = false;
    // Parsed and shown, without effect until the table says otherwise (options.cpp, column `since`).
    double buffer_growth_factor = 1.0; ///< the generic factor; host_ and device_growth_factor include it
    size_t limit = 0;                  ///< CISTERN_LIMIT in bytes; 0: none, or limit_share
    unsigned limit_share = 0;          ///< CISTERN_LIMIT in per cent of the card
    size_t prealloc_device = 0;
    size_t prealloc_pinned = 0;
    unsigned trim_seconds = 0; ///< 0: never by itself
    bool meminfo_driver = false;
    bool ipc_native = false;
    size_t ipc_native_from = 0; ///< with ipc_native: allocations of this size and above
    bool keep_under_tools = false;
    std::string record; ///< file pattern
    std::string plan;   ///< file
    /// CISTERN_STRICT and at least one setting was unusable or clashing: pass-through for the whole process.
    bool refused = false;
};

/// The settings, read from the environment once, by the first caller. Thread-safe; later changes of the environment
/// have no effect. The first call prints at most one line per surprise on stderr (variable, value, what is used instead).
const Settings& settings() noexcept;

/// For tests: parse from an explicit environment (null-terminated array as in main's envp). Diagnostics go to `messages`.
Settings parse(const char* const* environment, std::string& messages);

/// Markdown table of all options (README), and effective values with their source, one per line.
std::string options_markdown();
std::string effective_dump(const char* const* environment);

/// File pattern of CISTERN_STATS / CISTERN_LOG expanded (%p pid, %h host, %n sequence, %q{VAR}, %%).
std::string expand_pattern(const std::string& pattern);

} // namespace cistern::config
