// Text made from the table: the README's list of options and the effective values.

#include "config/build_info.h"
#include "config/options.h"

#include <vector>

namespace cistern::config {

namespace {

/// Inside a Markdown table a bar would end the cell.
std::string cell(const char* text) {
    std::string out;
    for (; *text != '\0'; ++text) {
        out += *text == '|' ? "\\|" : std::string(1, *text);
    }
    return out;
}

constexpr bool is_plain(unsigned char c) noexcept { return c >= 0x20 && c < 0x7f && c != '"' && c != '\\'; }

} // namespace

std::string quoted(const char* text) {
    constexpr size_t most = 60;
    std::string out = "\"";
    for (size_t i = 0; text[i] != '\0'; ++i) {
        if (i == most) {
            return out + "...\"";
        }
        out += is_plain(static_cast<unsigned char>(text[i])) ? text[i] : '?';
    }
    return out + '"';
}

std::string options_markdown() {
    std::string out = "| variable | values | default | since | meaning |\n|---|---|---|---|---|\n";
    for (const Option& option : options()) {
        out += std::string("| `") + option.name + "` | " + cell(option.values) + " | " + cell(option.fallback) + " | " +
               option.since + " | " + cell(option.doc) + " |\n";
    }
    return out;
}

std::string effective_dump(const char* const* environment) {
    std::string messages;
    std::vector<Resolved> resolved;
    const Settings settings = resolve(environment, messages, resolved);
    std::string out = std::string("# ") + build_info() + '\n';
    for (const Resolved& r : resolved) {
        out += std::string(r.option->name) + '=' + r.option->show(settings) + "  # ";
        out += r.text == nullptr ? "default" : r.used ? "environment" : "default, the environment's value is unusable";
        out += is_effective(*r.option) ? "\n" : ", without effect in this version\n";
    }
    for (size_t begin = 0, end = 0; (end = messages.find('\n', begin)) != std::string::npos; begin = end + 1) {
        out += "# " + messages.substr(begin, end - begin) + '\n';
    }
    return out;
}

} // namespace cistern::config
