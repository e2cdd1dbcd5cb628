#include "config/config.h"
#include "config/grammar.h"
#include "test/catch.h"

#include <cstdlib>
#include <string>
#include <unistd.h>

using cistern::config::expand_pattern;

TEST_CASE("file patterns expand", "[config]") {
    char host[256] = {};
    REQUIRE(gethostname(host, sizeof host - 1) == 0);
    REQUIRE(setenv("CISTERN_TEST_NAME", "job%p", 1) == 0);
    unsetenv("CISTERN_TEST_NONE");
    const std::string pid = std::to_string(getpid());
    CHECK(expand_pattern("/tmp/plain") == "/tmp/plain");
    CHECK(expand_pattern("") == "");
    CHECK(expand_pattern("a.%p.b") == "a." + pid + ".b");
    CHECK(expand_pattern("%h") == host);
    CHECK(expand_pattern("100%%") == "100%");
    CHECK(expand_pattern("%%p") == "%p");
    CHECK(expand_pattern("%q{CISTERN_TEST_NAME}/%p") ==
          "job%p/" + pid); // what comes from a variable is not expanded again
    CHECK(expand_pattern("[%q{CISTERN_TEST_NONE}]") == "[]");
    const std::string first = expand_pattern("%n");
    CHECK(expand_pattern("%n") != first);
    CHECK(expand_pattern("%") == "%");
    CHECK(expand_pattern("%z") == "%z");
    CHECK(expand_pattern("%q{") == "%q{");
}

TEST_CASE("only known sequences make a valid pattern", "[config]") {
    for (const char* good : {"", "x", "%p", "%h%n", "%%", "%q{A}", "%%%p"}) {
        INFO(good);
        CHECK(cistern::config::pattern_is_valid(good));
    }
    for (const char* bad : {"%", "%z", "a%", "%%%", "%q", "%q{", "%q{}", "%qA}", "%P"}) {
        INFO(bad);
        CHECK_FALSE(cistern::config::pattern_is_valid(bad));
    }
}
