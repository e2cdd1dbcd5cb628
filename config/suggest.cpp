// Which variable did the user mean?

#include "config/options.h"

#include <algorithm>
#include <array>
#include <cstring>
#include <string_view>

namespace cistern::config {

namespace {

using std::string_view;

/// DALI's variables that are not ours to honour: no word about them, however near they are to one that is.
constexpr std::array dali_others = {
    string_view("DALI_GDS_CHUNK_SIZE"),
    string_view("DALI_DISABLE_NVML"),
    string_view("DALI_USE_EXEC2"),
    string_view("DALI_ODIRECT_ALIGNMENT"),
    string_view("DALI_ODIRECT_LEN_ALIGNMENT"),
    string_view("DALI_ODIRECT_CHUNK_SIZE"),
    string_view("DALI_AFFINITY_MASK"),
    string_view("DALI_PRELOAD_PLUGINS"),
    string_view("DALI_EXTRA_PATH"),
    string_view("DALI_S3_NO_VERIFY_SSL"),
};

/// Variables of the tests, not of the object.
constexpr string_view test_prefix = "CISTERN_TEST_";

constexpr size_t longest = 64;

/// Number of letters to insert, delete or replace; `longest` if one of the names is too long to be meant.
size_t distance(string_view a, string_view b) noexcept {
    if (a.size() >= longest || b.size() >= longest) {
        return longest;
    }
    std::array<size_t, longest> row{};
    for (size_t j = 0; j <= b.size(); ++j) {
        row[j] = j;
    }
    for (size_t i = 1; i <= a.size(); ++i) {
        size_t diagonal = row[0];
        row[0] = i;
        for (size_t j = 1; j <= b.size(); ++j) {
            const size_t above = row[j];
            row[j] = std::min({above + 1, row[j - 1] + 1, diagonal + (a[i - 1] == b[j - 1] ? 0U : 1U)});
            diagonal = above;
        }
    }
    return row[b.size()];
}

size_t common_front(string_view a, string_view b) noexcept {
    const size_t top = std::min(a.size(), b.size());
    size_t n = 0;
    while (n < top && a[n] == b[n]) {
        ++n;
    }
    return n;
}

/// The option of this family that is nearest to `name`, if it is within `limit`.
const Option* nearest(string_view name, string_view family, size_t limit) noexcept {
    const Option* best = nullptr;
    size_t best_distance = limit + 1;
    for (const Option& option : options()) {
        if (!string_view(option.name).starts_with(family)) {
            continue;
        }
        const size_t d = distance(name, option.name);
        if (d < best_distance) {
            best = &option;
            best_distance = d;
        }
    }
    return best;
}

const char* suggest_own(string_view name) noexcept {
    constexpr string_view family = "CISTERN_";
    if (name.starts_with(test_prefix)) {
        return nullptr;
    }
    if (const Option* option = nearest(name, family, 3)) {
        return option->name;
    }
    // CISTERN_STATISTICS is far from CISTERN_STATS by letters, yet begins with the same word.
    for (const Option& option : options()) {
        if (common_front(name, option.name) >= family.size() + 4) {
            return option.name;
        }
    }
    return "";
}

} // namespace

const char* suggestion(const char* name, size_t length) noexcept {
    const string_view text(name, length);
    if (find_option(name, length) != nullptr) {
        return nullptr;
    }
    if (text.starts_with("CISTERN_")) {
        return suggest_own(text);
    }
    if (!text.starts_with("DALI_") || std::find(dali_others.begin(), dali_others.end(), text) != dali_others.end()) {
        return nullptr;
    }
    const Option* option = nearest(text, "DALI_", 2);
    return option == nullptr ? nullptr : option->name;
}

} // namespace cistern::config
