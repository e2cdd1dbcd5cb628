// Texts made from the table.

#include "config/build_info.h"
#include "test/catch.h"
#include "test/unit/config_support.h"

#include <cstring>
#include <set>

using namespace cistern::config;

TEST_CASE("the table is complete in every row and names nothing twice", "[config]") {
    std::set<std::string> names;
    for (const Option& option : options()) {
        INFO(option.name);
        CHECK(names.insert(option.name).second);
        const std::string name = option.name;
        CHECK((name.rfind("DALI_", 0) == 0 || name.rfind("CISTERN_", 0) == 0));
        CHECK(std::strlen(option.doc) > 0);
        CHECK(std::strlen(option.values) > 0);
        CHECK(std::strlen(option.fallback) > 0);
        CHECK(std::strlen(option.since) > 0);
        CHECK(find_option(option.name, std::strlen(option.name)) == &option);
    }
    CHECK(names.size() == 25);
    CHECK(find_option("CISTERN_LO", 10) == nullptr);
}

TEST_CASE("the Markdown table has a row for every option", "[config]") {
    const std::string text = options_markdown();
    for (const Option& option : options()) {
        INFO(option.name);
        CHECK(text.find(std::string("\n| `") + option.name + "` | ") != std::string::npos);
    }
}

TEST_CASE("what the dump prints can be set again, and means the same", "[config]") {
    const char* environment[] = {"DALI_USE_VMM=true",
                                 "DALI_BUFFER_GROWTH_FACTOR=1.2345",
                                 "DALI_MALLOC_POOL_THRESHOLD=3k",
                                 "CISTERN_PENDING=5%",
                                 "CISTERN_LIMIT=3G",
                                 "CISTERN_PREALLOC=pinned:1M,dev:1537",
                                 "CISTERN_IPC=native:4M",
                                 "CISTERN_LOG=debug:/tmp/%p",
                                 nullptr};
    const std::string dump = effective_dump(environment);
    INFO(dump);
    CHECK(dump.rfind("# cistern build: version=", 0) == 0);
    CHECK(dump.find("DALI_USE_VMM=0  # environment\n") != std::string::npos);
    CHECK(dump.find("DALI_USE_DEVICE_MEM_POOL=1  # default\n") != std::string::npos);
    CHECK(dump.find("DALI_BUFFER_GROWTH_FACTOR=1.2345  # environment, without effect in this version\n") !=
          std::string::npos);
    CHECK(dump.find("CISTERN_PREALLOC=dev:1537,pinned:1M  #") != std::string::npos);
    CHECK(dump.find("# DALI_USE_VMM=\"true\": ") != std::string::npos);

    std::vector<std::string> again;
    for (size_t begin = 0, end = 0; (end = dump.find('\n', begin)) != std::string::npos; begin = end + 1) {
        const std::string line = dump.substr(begin, end - begin);
        const size_t comment = line.find("  # ");
        if (line[0] != '#' && line[comment - 1] != '=') { // an empty value stands for "none" or "not given"
            again.push_back(line.substr(0, comment));
        }
    }
    const auto once_more = config_test::parse(again);
    CHECK(once_more.settings.vmm == false);
    CHECK(once_more.settings.host_growth_factor == Approx(1.2345));
    CHECK(once_more.settings.malloc_pool_threshold == 3072);
    CHECK(once_more.settings.pending_share == 5);
    CHECK(once_more.settings.limit == size_t{3} << 30);
    CHECK(once_more.settings.prealloc_device == 1537);
    CHECK(once_more.settings.ipc_native_from == size_t{4} << 20);
    CHECK(once_more.settings.log == "debug:/tmp/%p");
}

TEST_CASE("values are quoted so that a terminal is safe", "[config]") {
    CHECK(quoted("plain") == "\"plain\"");
    CHECK(quoted("a\x1b[31m\n\"\\\xc3") == "\"a?[31m????\"");
    CHECK(quoted(std::string(200, 'x').c_str()) == "\"" + std::string(60, 'x') + "...\"");
}

TEST_CASE("the build line has all its fields", "[config]") {
    const std::string line = build_info();
    for (const char* field : {"cistern build: version=", " commit=", " sources=", " config="}) {
        INFO(field);
        const size_t at = line.find(field);
        REQUIRE(at != std::string::npos);
        CHECK(line.size() > at + std::strlen(field));
        CHECK(line[at + std::strlen(field)] != ' ');
    }
}
