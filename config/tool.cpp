// cistern_config_tool: what the command needs from the tables. Prints and ends; makes no CUDA call.

#include "config/build_info.h"
#include "config/config.h"

#include <cstdio>
#include <cstring>
#include <exception>
#include <string>
#include <unistd.h>

namespace {

int usage() {
    std::fputs("usage: cistern_config_tool options | effective | version\n"
               "  options    table of all options, Markdown\n"
               "  effective  effective values and where they come from; exit code 1 if a setting is wrong\n"
               "  version    version, commit and hashes of the sources\n",
               stderr);
    return 3;
}

int run(const char* verb) {
    if (std::strcmp(verb, "options") == 0) {
        std::fputs(cistern::config::options_markdown().c_str(), stdout);
        return 0;
    }
    if (std::strcmp(verb, "effective") == 0) {
        std::string messages;
        cistern::config::parse(environ, messages);
        std::fputs(cistern::config::effective_dump(environ).c_str(), stdout);
        return messages.empty() ? 0 : 1;
    }
    if (std::strcmp(verb, "version") == 0) {
        std::puts(cistern::config::build_info());
        return 0;
    }
    return usage();
}

} // namespace

int main(int argc, char** argv) {
    try {
        return argc == 2 ? run(argv[1]) : usage();
    } catch (const std::exception& error) {
        std::fprintf(stderr, "cistern_config_tool: %s\n", error.what());
        return 3;
    }
}
