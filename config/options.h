#pragma once
// The one table of options. It drives parsing, the README's table, `cistern config`, and the suggestions for typing errors.

#include "config/config.h"
#include "config/grammar.h"

#include <cstddef>
#include <span>
#include <string>
#include <vector>

namespace cistern::config {

struct Option {
    const char* name;
    Kind kind;
    const char* words;    ///< for the kinds that have some: separated by blanks
    const char* values;   ///< accepted form, for people
    const char* fallback; ///< default, for people
    /// First version in which the option has an effect. "later": it is parsed, and a value that differs from what this
    /// version does is reported once.
    const char* since;
    const char* doc;
    void (*apply)(Settings&, const Value&);
    std::string (*show)(const Settings&); ///< effective value, in a form that could be set again
};

std::span<const Option> options() noexcept;
const Option* find_option(const char* name, size_t length) noexcept;

/// Whether this version acts on the option.
bool is_effective(const Option& option) noexcept;

/// Words of CISTERN_LOG and CISTERN_STATS in the order of their enumerators.
inline constexpr const char* log_words = "off error warn info debug trace";
inline constexpr const char* stats_words = "text json";

/// What was found for one option, in the order of the table.
struct Resolved {
    const Option* option;
    const char* text; ///< null: not in the environment
    bool used;        ///< false: the text was unusable, the default stands
};

/// parse() with the details. `messages` gets one line per surprise.
Settings resolve(const char* const* environment, std::string& messages, std::vector<Resolved>& resolved);

/// Nearest name for an unknown variable of ours, or for one that resembles a DALI variable honoured here.
/// Null: nothing to say (a name of somebody else). Empty: unknown name of ours without a likely neighbour.
const char* suggestion(const char* name, size_t length) noexcept;

/// `text` in quotes with what a terminal must not see replaced, cut after 60 characters.
std::string quoted(const char* text);

} // namespace cistern::config
