#include "config/grammar.h"

#include <clocale>
#include <cmath>
#include <cstdint>
#include <cstdlib>
#include <cstring>
#include <limits>
#include <locale.h>
#include <string_view>

namespace cistern::config {

namespace {

using std::string_view;

// The character classes of the C locale. <cctype> would ask the locale that the program has set.
constexpr bool is_digit(char c) noexcept { return c >= '0' && c <= '9'; }
constexpr bool is_blank(char c) noexcept { return c == ' ' || (c >= '\t' && c <= '\r'); }
constexpr char lower(char c) noexcept { return c >= 'A' && c <= 'Z' ? static_cast<char>(c - 'A' + 'a') : c; }

bool equal_any_case(string_view a, string_view b) noexcept {
    if (a.size() != b.size()) {
        return false;
    }
    for (size_t i = 0; i < a.size(); ++i) {
        if (lower(a[i]) != lower(b[i])) {
            return false;
        }
    }
    return true;
}

Parsed plain(const Value& value) { return {Verdict::plain, value, ""}; }
Parsed surprising(const Value& value, const char* remark) { return {Verdict::surprising, value, remark}; }
Parsed unusable(const char* remark) { return {Verdict::unusable, {}, remark}; }

bool only_blanks(const char* text) noexcept {
    while (is_blank(*text)) {
        ++text;
    }
    return *text == '\0';
}

/// Decimal digits at the front of `text`. False if there are none or the number does not fit; `rest` is what follows.
bool take_number(string_view text, size_t& number, string_view& rest) noexcept {
    size_t i = 0;
    number = 0;
    for (; i < text.size() && is_digit(text[i]); ++i) {
        if (__builtin_mul_overflow(number, size_t{10}, &number) ||
            __builtin_add_overflow(number, static_cast<size_t>(text[i] - '0'), &number)) {
            return false;
        }
    }
    rest = text.substr(i);
    return i != 0;
}

bool shift_fits(size_t number, unsigned shift) noexcept {
    return number <= static_cast<size_t>(std::numeric_limits<int64_t>::max()) >> shift;
}

// --- DALI's grammars

Parsed parse_dali_bool(const char* text) {
    Value value;
    value.flag = dali_atoi(text) != 0;
    if (*text == '\0') {
        return surprising(value, "empty means off, as in DALI");
    }
    const char* p = text;
    while (is_blank(*p)) {
        ++p;
    }
    if (*p == '+' || *p == '-') {
        ++p;
    }
    if (!is_digit(*p)) {
        return surprising(value, "not a number, which means off, as in DALI; write 0 or 1");
    }
    size_t number = 0;
    string_view rest;
    if (!take_number(p, number, rest) || number > static_cast<size_t>(std::numeric_limits<int>::max())) {
        return surprising(value, "out of the range of an int, read as in DALI; write 0 or 1");
    }
    if (!only_blanks(rest.data())) {
        return surprising(value, "only the number at the front counts, as in DALI");
    }
    return plain(value);
}

/// strtod in the C locale: the program may have set another one, and "1.5" must not become 1 then.
double c_strtod(const char* text, char** end) noexcept {
    const locale_t c_locale =
        newlocale(LC_ALL_MASK, "C", nullptr); // glibc hands out its static object: nothing to free
    return c_locale == nullptr ? std::strtod(text, end) : strtod_l(text, end, c_locale);
}

Parsed parse_dali_number(const char* text, double low, double high) {
    char* end = nullptr;
    const double number = c_strtod(text, &end);
    if (std::isnan(number)) {
        return unusable("not a number");
    }
    Value value;
    value.number = number < low ? low : number > high ? high : number;
    if (*text == '\0') {
        return surprising(value, "empty is read as 0 and clamped, as in DALI");
    }
    if (end == text) {
        return surprising(value, "no number is read as 0 and clamped, as in DALI");
    }
    if (!only_blanks(end)) {
        return surprising(value, "only the number at the front counts, with a point, as in DALI");
    }
    if (value.number < number || value.number > number) {
        return surprising(value, "clamped, as in DALI");
    }
    return plain(value);
}

Parsed parse_dali_size(const char* text) {
    if (*text == '\0') {
        return unusable("empty");
    }
    const size_t length = std::strlen(text);
    const char last = text[length - 1];
    const unsigned shift = last == 'k' ? 10 : last == 'M' ? 20 : 0;
    const string_view digits(text, shift != 0 ? length - 1 : length);
    Value value;
    if (digits.empty()) {
        return surprising(value, "a unit without a number is read as 0, as in DALI");
    }
    string_view rest;
    for (const char c : digits) {
        if (!is_digit(c)) {
            return unusable("not digits with one k or M at the end at most");
        }
    }
    if (!take_number(digits, value.bytes, rest) || !shift_fits(value.bytes, shift)) {
        return unusable("too large");
    }
    value.bytes <<= shift;
    return plain(value);
}

// --- Our grammars: what is not exactly one of the accepted forms is unusable.

Parsed parse_own_bool(string_view text) {
    Value value;
    for (const string_view word : {"1", "true", "yes", "on"}) {
        value.flag = value.flag || equal_any_case(text, word);
    }
    bool known = value.flag;
    for (const string_view word : {"0", "false", "no", "off"}) {
        known = known || equal_any_case(text, word);
    }
    return known ? plain(value) : unusable("not one of 0, 1, true, false, yes, no, on, off");
}

/// Shift of a unit, or -1.
int unit_shift(string_view unit) noexcept {
    if (unit.empty()) {
        return 0;
    }
    if (unit.size() != 1 && !equal_any_case(unit.substr(1), "iB")) {
        return -1;
    }
    switch (lower(unit[0])) {
    case 'k':
        return 10;
    case 'm':
        return 20;
    case 'g':
        return 30;
    case 't':
        return 40;
    default:
        return -1;
    }
}

const char* take_own_size(string_view text, size_t& bytes) noexcept {
    string_view unit;
    if (text.empty() || !is_digit(text[0])) {
        return "not a size: digits, then K, M, G or T (KiB, MiB, ...) at most";
    }
    if (!take_number(text, bytes, unit)) {
        return "too large";
    }
    const int shift = unit_shift(unit);
    if (shift < 0) {
        return "not a size: digits, then K, M, G or T (KiB, MiB, ...) at most";
    }
    if (!shift_fits(bytes, static_cast<unsigned>(shift))) {
        return "too large";
    }
    bytes <<= shift;
    return bytes == 0 ? "zero is no size" : nullptr;
}

Parsed parse_own_size(string_view text) {
    Value value;
    const char* problem = take_own_size(text, value.bytes);
    return problem == nullptr ? plain(value) : unusable(problem);
}

Parsed parse_own_share(string_view text) {
    if (text.empty() || text.back() != '%') {
        return parse_own_size(text);
    }
    Value value;
    size_t percent = 0;
    string_view rest;
    if (!take_number(text, percent, rest) || rest != "%" || percent < 1 || percent > 100) {
        return unusable("not a share from 1% to 100%");
    }
    value.percent = static_cast<unsigned>(percent);
    return plain(value);
}

Parsed parse_own_seconds(string_view text) {
    Value value;
    size_t seconds = 0;
    string_view rest;
    if (!take_number(text, seconds, rest) || !rest.empty() || seconds > 86400) {
        return unusable("not a number of seconds from 0 to 86400");
    }
    value.seconds = static_cast<unsigned>(seconds);
    return plain(value);
}

/// Next word of a list with blanks; empty at the end.
string_view next_word(string_view& words) noexcept {
    const size_t end = words.find(' ');
    const string_view word = words.substr(0, end);
    words = end == string_view::npos ? string_view() : words.substr(end + 1);
    return word;
}

/// Index of `text` among the words, or -1; `last` tells whether it is the last one.
int word_index(string_view words, string_view text, bool& last) noexcept {
    for (int i = 0; !words.empty(); ++i) {
        if (equal_any_case(next_word(words), text)) {
            last = words.empty();
            return i;
        }
    }
    return -1;
}

constexpr const char* unknown_word = "not one of the words known here";

Parsed parse_word(string_view words, string_view text, Kind kind) {
    const size_t colon = kind == Kind::own_word ? string_view::npos : text.find(':');
    bool last = false;
    const int index = word_index(words, text.substr(0, colon), last);
    if (index < 0) {
        return unusable(unknown_word);
    }
    Value value;
    value.word = static_cast<unsigned>(index);
    value.text = std::string(text);
    if (colon == string_view::npos) {
        return plain(value);
    }
    const string_view tail = text.substr(colon + 1);
    if (kind == Kind::own_target) {
        return !tail.empty() && pattern_is_valid(std::string(tail)) ? plain(value)
                                                                    : unusable("not a file pattern after the colon");
    }
    if (!last) {
        return unusable("no size goes with this word");
    }
    const char* problem = take_own_size(tail, value.bytes);
    return problem == nullptr ? plain(value) : unusable(problem);
}

Parsed parse_own_sizes(string_view words, string_view text) {
    Value value;
    while (true) {
        const size_t comma = text.find(',');
        const string_view item = text.substr(0, comma);
        const size_t colon = item.find(':');
        bool last = false;
        const int index = colon == string_view::npos ? -1 : word_index(words, item.substr(0, colon), last);
        if (index < 0 || index > 1) {
            return unusable("not a list of word:SIZE");
        }
        if (const char* problem = take_own_size(item.substr(colon + 1), value.sizes[index])) {
            return unusable(problem);
        }
        if (comma == string_view::npos) {
            return plain(value);
        }
        text = text.substr(comma + 1);
    }
}

Parsed parse_own_path(string_view text) {
    Value value;
    value.text = std::string(text);
    if (text.empty()) {
        return unusable("empty");
    }
    return pattern_is_valid(value.text) ? plain(value) : unusable("unknown % sequence");
}

} // namespace

int dali_atoi(const char* text) noexcept {
    while (is_blank(*text)) {
        ++text;
    }
    const bool negative = *text == '-';
    if (*text == '+' || *text == '-') {
        ++text;
    }
    // glibc: strtol, which saturates, then cut to an int.
    constexpr auto top = std::numeric_limits<int64_t>::max();
    int64_t number = 0;
    for (; is_digit(*text); ++text) {
        const int64_t digit = *text - '0';
        int64_t next = 0;
        if (__builtin_mul_overflow(number, int64_t{10}, &next) || __builtin_add_overflow(next, digit, &next)) {
            return static_cast<int>(
                static_cast<uint32_t>(negative ? static_cast<uint64_t>(top) + 1 : static_cast<uint64_t>(top)));
        }
        number = next;
    }
    const auto bits = static_cast<uint64_t>(number);
    return static_cast<int>(static_cast<uint32_t>(negative ? ~bits + 1 : bits));
}

Target split_target(const char* words, const std::string& text) {
    Target target;
    const size_t colon = text.find(':');
    bool last = false;
    const int index = word_index(words, string_view(text).substr(0, colon), last);
    target.word = index < 0 ? 0 : static_cast<unsigned>(index);
    if (colon != std::string::npos) {
        target.pattern = text.substr(colon + 1);
    }
    return target;
}

Parsed parse_value(Kind kind, const char* words, const char* text) {
    switch (kind) {
    case Kind::dali_bool:
        return parse_dali_bool(text);
    case Kind::dali_factor:
        return parse_dali_number(text, 1.0, 4.0);
    case Kind::dali_ratio:
        return parse_dali_number(text, 0.0, 1.0);
    case Kind::dali_size:
        return parse_dali_size(text);
    case Kind::own_bool:
        return parse_own_bool(text);
    case Kind::own_size:
        return parse_own_size(text);
    case Kind::own_share:
        return parse_own_share(text);
    case Kind::own_seconds:
        return parse_own_seconds(text);
    case Kind::own_word:
    case Kind::own_target:
    case Kind::own_sized:
        return parse_word(words, text, kind);
    case Kind::own_sizes:
        return parse_own_sizes(words, text);
    case Kind::own_path:
        return parse_own_path(text);
    }
    return unusable("internal: no such grammar");
}

} // namespace cistern::config
