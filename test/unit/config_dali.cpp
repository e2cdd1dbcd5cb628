// DALI's variables mean here what they mean in DALI. Expectations are written by hand from DALI's rules.

#include "test/catch.h"
#include "test/unit/config_support.h"

#include <clocale>
#include <cstdlib>

using cistern::config::Settings;
using config_test::parse;

namespace {

struct BoolRow {
    const char* text;
    bool on;
    bool reported;
};

const BoolRow bool_rows[] = {
    {"", false, true},
    {"0", false, false},
    {"1", true, false},
    {"00", false, false},
    {"2", true, false},
    {"-1", true, false},
    {"+1", true, false},
    {" 1", true, false},
    {"1 ", true, false},
    {"1abc", true, true},
    {"true", false, true},
    {"TRUE", false, true},
    {"yes", false, true},
    {"on", false, true},
    {"false", false, true},
    {"no", false, true},
    {"off", false, true},
    {"0x1", false, true},
    {"+", false, true},
    {"--1", false, true},
    {"2147483648", true, true},                                 // wraps to the smallest int
    {"4294967296", false, true},                                // wraps to 0
    {"4294967297", true, true},                                 // wraps to 1
    {"1000000000000000000000000000000000000000", true, true},   // saturates, cut to -1
    {"-1000000000000000000000000000000000000000", false, true}, // saturates, cut to 0
};

struct Switch {
    const char* name;
    bool Settings::*field;
    bool fallback;
};

const Switch switches[] = {
    {"DALI_USE_DEVICE_MEM_POOL", &Settings::device_mem_pool, true},
    {"DALI_USE_VMM", &Settings::vmm, true},
    {"DALI_USE_PINNED_MEM_POOL", &Settings::pinned_mem_pool, true},
    {"DALI_USE_CUDA_MALLOC_ASYNC", &Settings::cuda_malloc_async, false},
    {"DALI_USE_DEFERRED_DEALLOC", &Settings::deferred_dealloc, true},
    {"DALI_RESTRICT_PINNED_MEM", &Settings::restrict_pinned_mem, false},
};

struct FactorRow {
    const char* text;
    double value;
    bool reported;
};

// Lines about options without effect in this version are apart: they say so in those words.
bool reports_value(const config_test::Result& result) {
    return result.says("as in DALI") || result.says("not a number") || result.says("too large") ||
           result.says("empty") || result.says("digits");
}

} // namespace

TEST_CASE("F12 every boolean means what atoi makes of it", "[config]") {
    for (const Switch& s : switches) {
        for (const BoolRow& row : bool_rows) {
            INFO(s.name << "=\"" << row.text << '"');
            const auto result = parse({std::string(s.name) + "=" + row.text});
            CHECK(result.settings.*s.field == row.on);
            CHECK(reports_value(result) == row.reported);
            if (row.reported) {
                CHECK(result.says(s.name));
                CHECK(result.says(std::string("using ") + (row.on ? "1" : "0")));
            }
        }
    }
}

TEST_CASE("F12 unset booleans keep their defaults and say nothing", "[config]") {
    const auto result = parse({"HOME=/root", "NOEQUALS", "=odd"});
    for (const Switch& s : switches) {
        INFO(s.name);
        CHECK(result.settings.*s.field == s.fallback);
    }
    CHECK(result.messages.empty());
}

TEST_CASE("F12 all combinations of the three device switches", "[config]") {
    struct Row {
        int pool, vmm, async; // -1: unset
        bool pool_on, vmm_on, clash;
    };
    const Row rows[] = {
        {-1, -1, -1, true, true, false}, {-1, -1, 0, true, true, false}, {-1, -1, 1, false, false, false},
        {-1, 0, -1, true, false, false}, {-1, 0, 0, true, false, false}, {-1, 0, 1, false, false, false},
        {-1, 1, -1, true, true, false},  {-1, 1, 0, true, true, false},  {-1, 1, 1, false, false, true},
        {0, -1, -1, false, true, false}, {0, -1, 0, false, true, false}, {0, -1, 1, false, false, false},
        {0, 0, -1, false, false, false}, {0, 0, 0, false, false, false}, {0, 0, 1, false, false, false},
        {0, 1, -1, false, true, false},  {0, 1, 0, false, true, false},  {0, 1, 1, false, false, true},
        {1, -1, -1, true, true, false},  {1, -1, 0, true, true, false},  {1, -1, 1, false, false, true},
        {1, 0, -1, true, false, false},  {1, 0, 0, true, false, false},  {1, 0, 1, false, false, true},
        {1, 1, -1, true, true, false},   {1, 1, 0, true, true, false},   {1, 1, 1, false, false, true},
    };
    for (const Row& row : rows) {
        std::vector<std::string> environment;
        const auto add = [&](const char* name, int value) {
            if (value >= 0) {
                environment.push_back(std::string(name) + "=" + std::to_string(value));
            }
        };
        add("DALI_USE_DEVICE_MEM_POOL", row.pool);
        add("DALI_USE_VMM", row.vmm);
        add("DALI_USE_CUDA_MALLOC_ASYNC", row.async);
        INFO("pool " << row.pool << " vmm " << row.vmm << " async " << row.async);
        const auto result = parse(environment);
        CHECK(result.settings.device_mem_pool == row.pool_on);
        CHECK(result.settings.vmm == row.vmm_on);
        CHECK(result.settings.cuda_malloc_async == (row.async == 1));
        CHECK(result.says("clashes") == row.clash);
        CHECK_FALSE(result.settings.refused);
    }
}

TEST_CASE("F12 the published image's three switches: one winner, one line about the clash", "[config]") {
    const std::vector<std::string> image = {"DALI_USE_DEVICE_MEM_POOL=1", "DALI_USE_CUDA_MALLOC_ASYNC=1",
                                            "DALI_USE_VMM=1"};
    const auto result = parse(image);
    CHECK(result.settings.cuda_malloc_async);
    CHECK_FALSE(result.settings.device_mem_pool);
    CHECK_FALSE(result.settings.vmm);
    CHECK(result.says("DALI_USE_CUDA_MALLOC_ASYNC clashes with DALI_USE_DEVICE_MEM_POOL and DALI_USE_VMM"));
    CHECK(result.says("allocations go to the driver"));
    CHECK(result.lines() == 2);

    auto strict = image;
    strict.emplace_back("CISTERN_STRICT=1");
    CHECK(parse(strict).settings.refused);
}

TEST_CASE("F13 growth factors: atof, clamp to 1 to 4", "[config]") {
    const FactorRow rows[] = {
        {"1", 1.0, false},     {"1.5", 1.5, false}, {"4", 4.0, false},   {"0.5", 1.0, true},      {"-2", 1.0, true},
        {"1000", 4.0, true},   {"inf", 4.0, true},  {"-inf", 1.0, true}, {"nan", 1.0, true},      {"NAN(1)", 1.0, true},
        {"1e400", 4.0, true},  {"abc", 1.0, true},  {"", 1.0, true},     {"1,5", 1.0, true},      {"1.25k", 1.25, true},
        {"2.0x", 2.0, true},   {" 2", 2.0, false},  {"2 ", 2.0, false},  {"0x1.8p1", 3.0, false}, {"25e-1", 2.5, false},
        {"1e-400", 1.0, true},
    };
    for (const FactorRow& row : rows) {
        INFO('"' << row.text << '"');
        const auto both = parse({std::string("DALI_BUFFER_GROWTH_FACTOR=") + row.text});
        CHECK(both.settings.host_growth_factor == Approx(row.value));
        CHECK(both.settings.device_growth_factor == Approx(row.value));
        CHECK(reports_value(both) == row.reported);
        const auto host = parse({std::string("DALI_HOST_BUFFER_GROWTH_FACTOR=") + row.text});
        CHECK(host.settings.host_growth_factor == Approx(row.value));
        CHECK(host.settings.device_growth_factor == Approx(1.0));
        const auto device = parse({std::string("DALI_DEVICE_BUFFER_GROWTH_FACTOR=") + row.text});
        CHECK(device.settings.host_growth_factor == Approx(1.0));
        CHECK(device.settings.device_growth_factor == Approx(row.value));
    }
}

TEST_CASE("F13 the specific factor wins over the general one, wherever it stands", "[config]") {
    const auto result = parse({"DALI_HOST_BUFFER_GROWTH_FACTOR=3", "DALI_BUFFER_GROWTH_FACTOR=2"});
    CHECK(result.settings.host_growth_factor == Approx(3.0));
    CHECK(result.settings.device_growth_factor == Approx(2.0));
    const auto smaller = parse({"DALI_BUFFER_GROWTH_FACTOR=2", "DALI_DEVICE_BUFFER_GROWTH_FACTOR=1.25"});
    CHECK(smaller.settings.host_growth_factor == Approx(2.0));
    CHECK(smaller.settings.device_growth_factor == Approx(1.25));
    const auto nan = parse({"DALI_BUFFER_GROWTH_FACTOR=2", "DALI_DEVICE_BUFFER_GROWTH_FACTOR=nan"});
    CHECK(nan.settings.device_growth_factor == Approx(2.0)); // NaN counts as unset
}

TEST_CASE("F13 shrink threshold: atof, clamp to 0 to 1, and whether it was set", "[config]") {
    struct Row {
        const char* text;
        double value;
        bool set;
    };
    const Row rows[] = {{"0.5", 0.5, true}, {"-0.5", 0.0, true}, {"2.0", 1.0, true}, {"abc", 0.0, true},
                        {"", 0.0, true},    {"nan", 0.9, false}, {"1", 1.0, true},   {"0", 0.0, true}};
    for (const Row& row : rows) {
        INFO('"' << row.text << '"');
        const auto result = parse({std::string("DALI_HOST_BUFFER_SHRINK_THRESHOLD=") + row.text});
        CHECK(result.settings.host_shrink_threshold == Approx(row.value));
        CHECK(result.settings.host_shrink_threshold_set == row.set);
    }
    CHECK(parse({}).settings.host_shrink_threshold == Approx(0.9));
    CHECK_FALSE(parse({}).settings.host_shrink_threshold_set);
}

TEST_CASE("F13 sizes: digits, then one k or M, or the default", "[config]") {
    constexpr size_t fallback = size_t{32} << 20;
    struct Row {
        const char* text;
        size_t value;
        bool reported;
    };
    const Row rows[] = {
        {"0", 0, false},
        {"1", 1, false},
        {"64k", 65536, false},
        {"2M", size_t{2} << 20, false},
        {"007M", size_t{7} << 20, false},
        {"2m", fallback, true},
        {"2K", fallback, true},
        {"2G", fallback, true},
        {"1G", fallback, true},
        {"2MB", fallback, true},
        {"2 M", fallback, true},
        {"32 M", fallback, true},
        {" 32M", fallback, true},
        {"2M ", fallback, true},
        {"M", 0, true},
        {"k", 0, true},
        {"kM", fallback, true},
        {"-1", fallback, true},
        {"+1", fallback, true},
        {"0x10", fallback, true},
        {"1.5M", fallback, true},
        {"", fallback, true},
        {"9223372036854775807", 9223372036854775807U, false},
        {"9223372036854775807M", fallback, true},
        {"9223372036854775808", fallback, true},
        {"18446744073709551616", fallback, true},
        {"8796093022207M", 9223372036853727232U, false},
        {"8796093022208M", fallback, true},
        {"1111111111111111111111111111111111111111111111111111111111111111111111111111111111111111111111111111",
         fallback, true},
    };
    for (const Row& row : rows) {
        INFO('"' << row.text << '"');
        const auto result = parse({std::string("DALI_MALLOC_POOL_THRESHOLD=") + row.text});
        CHECK(result.settings.malloc_pool_threshold == row.value);
        CHECK((reports_value(result) || result.says("without a number")) == row.reported);
    }
}

TEST_CASE("F13 a locale with a decimal comma changes nothing", "[config]") {
    const char* folder = std::getenv("CISTERN_TEST_LOCALES");
    INFO("the build makes the locale; ctest passes its folder");
    REQUIRE(folder != nullptr);
    REQUIRE(setenv("LOCPATH", folder, 1) == 0);
    REQUIRE(std::setlocale(LC_ALL, "de_DE.utf8") != nullptr);
    REQUIRE(std::strtod("1,5", nullptr) == Approx(1.5)); // the comma really is in force
    CHECK(parse({"DALI_BUFFER_GROWTH_FACTOR=1.5"}).settings.host_growth_factor == Approx(1.5));
    CHECK(parse({"DALI_BUFFER_GROWTH_FACTOR=1.5"}).says("as in DALI") == false);
    CHECK(parse({"DALI_BUFFER_GROWTH_FACTOR=1,5"}).settings.host_growth_factor == Approx(1.0));
    const char* environment[] = {"DALI_BUFFER_GROWTH_FACTOR=1.5", nullptr};
    CHECK(cistern::config::effective_dump(environment).find("DALI_BUFFER_GROWTH_FACTOR=1.5 ") != std::string::npos);
}
