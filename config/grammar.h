#pragma once
// How the text of a variable becomes a value. Pure functions: no environment, no locale, no global state, nothing printed.

#include <cstddef>
#include <string>

namespace cistern::config {

/// The grammars. dali_*: what DALI's own parser does with the same text, because the environment may reach both.
enum class Kind : unsigned char {
    dali_bool,   ///< atoi, not zero is on
    dali_factor, ///< atof, clamped to [1, 4]
    dali_ratio,  ///< atof, clamped to [0, 1]
    dali_size,   ///< digits, then one k or M at most
    own_bool,    ///< 0 1 true false yes no on off
    own_size,    ///< digits, then K M G T at most, then iB at most
    own_share,   ///< own_size, or 1% to 100%
    own_seconds, ///< digits
    own_word,    ///< one of the words of the grammar
    own_target,  ///< one of the words, then ":file pattern" at most
    own_sized,   ///< one of the words; the last of them may be followed by ":own_size"
    own_sizes,   ///< list of "word:own_size" with commas
    own_path     ///< anything but nothing; % sequences have to be known ones
};

/// What a text means. Which member counts depends on the kind.
struct Value {
    bool flag = false;        ///< *_bool
    double number = 0;        ///< dali_factor, dali_ratio
    size_t bytes = 0;         ///< *_size, own_share, own_sized
    unsigned percent = 0;     ///< own_share
    unsigned seconds = 0;     ///< own_seconds
    unsigned word = 0;        ///< own_word, own_target, own_sized: index into the words
    size_t sizes[2] = {0, 0}; ///< own_sizes, by index of the word
    std::string text;         ///< own_target, own_path: the text itself
};

enum class Verdict : unsigned char {
    plain,      ///< means what it seems to mean
    surprising, ///< usable, but a reader may expect something else; `remark` says what
    unusable    ///< the option keeps its default; `remark` says why
};

struct Parsed {
    Verdict verdict = Verdict::plain;
    Value value;
    const char* remark = "";
};

/// `words` lists the words of a kind that has some, separated by blanks.
Parsed parse_value(Kind kind, const char* words, const char* text);

/// C's atoi with saturation and wrap as glibc has it on 64 bits, whatever the locale.
int dali_atoi(const char* text) noexcept;

/// Parts of an own_target: index of the word, and the file pattern (empty: none).
struct Target {
    unsigned word = 0;
    std::string pattern;
};
/// `text` must have passed parse_value as own_target with the same words.
Target split_target(const char* words, const std::string& text);

/// Whether every % of a file pattern starts a sequence that expand_pattern knows.
bool pattern_is_valid(const std::string& pattern) noexcept;

} // namespace cistern::config
