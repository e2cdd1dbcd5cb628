// CISTERN_* settings: one grammar for each kind, anything else is one line and the default.

#include "test/catch.h"
#include "test/unit/config_support.h"

using config_test::parse;

TEST_CASE("own booleans: eight words in any case", "[config]") {
    for (const char* text : {"1", "true", "TRUE", "Yes", "on", "ON"}) {
        INFO(text);
        const auto result = parse({std::string("CISTERN_DISABLE=") + text});
        CHECK(result.settings.disable);
        CHECK(result.messages.empty());
    }
    for (const char* text : {"0", "false", "No", "off", "OFF"}) {
        INFO(text);
        const auto result = parse({std::string("CISTERN_DISABLE=") + text});
        CHECK_FALSE(result.settings.disable);
        CHECK(result.messages.empty());
    }
    for (const char* text : {"", "2", "-1", " 1", "1 ", "yess", "01", "enable", "\xff"}) {
        INFO(text);
        const auto result = parse({std::string("CISTERN_DISABLE=") + text});
        CHECK_FALSE(result.settings.disable);
        CHECK(result.lines() == 1);
        CHECK(result.says("CISTERN_DISABLE="));
        CHECK(result.says("not one of 0, 1, true, false, yes, no, on, off"));
        CHECK(result.says("using 0"));
    }
}

TEST_CASE("own sizes and shares", "[config]") {
    struct Row {
        const char* text;
        size_t bytes;
        unsigned percent;
        bool usable;
    };
    const Row rows[] = {
        {"1", 1, 0, true},
        {"4096", 4096, 0, true},
        {"64k", 65536, 0, true},
        {"64K", 65536, 0, true},
        {"64KiB", 65536, 0, true},
        {"64kib", 65536, 0, true},
        {"3M", size_t{3} << 20, 0, true},
        {"3MiB", size_t{3} << 20, 0, true},
        {"2G", size_t{2} << 30, 0, true},
        {"1T", size_t{1} << 40, 0, true},
        {"5%", 0, 5, true},
        {"100%", 0, 100, true},
        {"0%", 0, 0, false},
        {"101%", 0, 0, false},
        {"%", 0, 0, false},
        {"5%%", 0, 0, false},
        {"5 %", 0, 0, false},
        {"-5%", 0, 0, false},
        {"0", 0, 0, false},
        {"0G", 0, 0, false},
        {"", 0, 0, false},
        {"1.5G", 0, 0, false},
        {"1,5G", 0, 0, false},
        {"+1", 0, 0, false},
        {"-1", 0, 0, false},
        {" 1G", 0, 0, false},
        {"1G ", 0, 0, false},
        {"1 G", 0, 0, false},
        {"4Gi", 0, 0, false},
        {"4GB", 0, 0, false},
        {"G", 0, 0, false},
        {"0x10", 0, 0, false},
        {"8388607T", size_t{8388607} << 40, 0, true},
        {"8388608T", 0, 0, false},
        {"9223372036854775808", 0, 0, false},
        {"18446744073709551616", 0, 0, false},
        {"99999999999999999999999999999999999999999999T", 0, 0, false},
    };
    for (const Row& row : rows) {
        INFO('"' << row.text << '"');
        const auto result = parse({std::string("CISTERN_PENDING=") + row.text});
        CHECK(result.settings.pending_bound == row.bytes);
        CHECK(result.settings.pending_share == row.percent);
        CHECK(result.messages.empty() == row.usable);
        CHECK((row.usable || result.says("CISTERN_PENDING=")));
        CHECK((row.usable || result.says("using the default, a share of the card")));
    }
}

TEST_CASE("targets: a word, then a file pattern", "[config]") {
    for (const char* text :
         {"off", "error", "warn", "INFO", "debug", "trace", "debug:/tmp/%p.%h.%n", "info:a:b", "info:%q{X}%%"}) {
        INFO(text);
        const auto result = parse({std::string("CISTERN_LOG=") + text});
        CHECK(result.settings.log == text);
        CHECK(result.messages.empty());
    }
    for (const char* text :
         {"", "loud", "debug:", ":x", "debug:%", "debug:%z", "debug:%q", "debug:%q{", "debug:%q{}", "1", "info "}) {
        INFO(text);
        const auto result = parse({std::string("CISTERN_LOG=") + text});
        CHECK(result.settings.log.empty());
        CHECK(result.lines() == 1);
        CHECK(result.says("CISTERN_LOG="));
    }
    CHECK(parse({"CISTERN_STATS=json:/tmp/x.%p"}).settings.stats == "json:/tmp/x.%p");
    CHECK(parse({"CISTERN_STATS=TEXT"}).settings.stats == "TEXT");
    CHECK(parse({"CISTERN_STATS=csv"}).settings.stats.empty());
    CHECK(parse({"CISTERN_STATS=csv"}).says("using the default, none"));
    const auto target = cistern::config::split_target(cistern::config::stats_words, "json:/a:b");
    CHECK(target.word == 1);
    CHECK(target.pattern == "/a:b");
}

TEST_CASE("settings of a later version are parsed, and say once that they have no effect", "[config]") {
    CHECK(parse({"CISTERN_LIMIT=50%"}).settings.limit_share == 50);
    CHECK(parse({"CISTERN_LIMIT=2G"}).settings.limit == size_t{2} << 30);
    CHECK(parse({"CISTERN_FOOTPRINT=tight"}).settings.tight_footprint);
    CHECK(parse({"CISTERN_TRIM=30"}).settings.trim_seconds == 30);
    CHECK(parse({"CISTERN_MEMINFO=driver"}).settings.meminfo_driver);
    CHECK(parse({"CISTERN_TOOLS=on"}).settings.keep_under_tools);
    CHECK(parse({"CISTERN_RECORD=/tmp/%p.rec"}).settings.record == "/tmp/%p.rec");
    CHECK(parse({"CISTERN_PLAN=/tmp/plan"}).settings.plan == "/tmp/plan");
    const auto both = parse({"CISTERN_PREALLOC=dev:2G,pinned:64M"});
    CHECK(both.settings.prealloc_device == size_t{2} << 30);
    CHECK(both.settings.prealloc_pinned == size_t{64} << 20);
    CHECK(parse({"CISTERN_PREALLOC=pinned:1M"}).settings.prealloc_device == 0);
    const auto ipc = parse({"CISTERN_IPC=native:4M"});
    CHECK(ipc.settings.ipc_native);
    CHECK(ipc.settings.ipc_native_from == size_t{4} << 20);
    for (const char* bad :
         {"CISTERN_IPC=emulate:4M", "CISTERN_IPC=native:", "CISTERN_PREALLOC=dev", "CISTERN_PREALLOC=dev:1G,",
          "CISTERN_PREALLOC=gpu:1G", "CISTERN_TRIM=-1", "CISTERN_TRIM=1s", "CISTERN_TRIM=86401",
          "CISTERN_FOOTPRINT=tightest", "CISTERN_MEMINFO=", "CISTERN_RECORD=", "CISTERN_PLAN=%y"}) {
        INFO(bad);
        const auto result = parse({bad});
        CHECK(result.lines() == 1);
        CHECK(result.says("using"));
    }
    const auto set = parse({"CISTERN_LIMIT=50%"});
    CHECK(set.lines() == 1);
    CHECK(set.says("CISTERN_LIMIT=\"50%\" has no effect in this version"));
    CHECK(parse({"DALI_USE_PINNED_MEM_POOL=1"}).says("DALI_USE_PINNED_MEM_POOL=\"1\" has no effect in this version"));
    CHECK(parse({"DALI_DEVICE_BUFFER_GROWTH_FACTOR=9"}).lines() ==
          1); // clamped; not a second line for having no effect
    CHECK(parse({"DALI_DEVICE_BUFFER_GROWTH_FACTOR=2"}).lines() == 1);
}

TEST_CASE("asking for what this version does anyway is worth no line", "[config]") {
    CHECK(parse({"DALI_USE_PINNED_MEM_POOL=0", "DALI_USE_CUDA_MALLOC_ASYNC=0", "DALI_BUFFER_GROWTH_FACTOR=1",
                 "DALI_RESTRICT_PINNED_MEM=0", "CISTERN_FOOTPRINT=fast", "CISTERN_TRIM=0", "CISTERN_MEMINFO=native",
                 "CISTERN_IPC=emulate", "CISTERN_TOOLS=0", "DALI_MALLOC_POOL_THRESHOLD=32M"})
              .messages.empty());
}

TEST_CASE("unknown names: the nearest one is suggested, DALI's own others are left alone", "[config]") {
    struct Row {
        const char* variable;
        const char* meant; // null: no line
    };
    const Row rows[] = {
        {"CISTERN_DISABLED=1", "did you mean CISTERN_DISABLE?"},
        {"CISTERN_STAT=text", "did you mean CISTERN_STATS?"},
        {"CISTERN_STATISTICS=text", "did you mean CISTERN_STATS?"},
        {"CISTERN_LOGLEVEL=info", "\"CISTERN_LOGLEVEL\" is not a setting; ignored"},
        {"CISTERN_PENDNIG=5%", "did you mean CISTERN_PENDING?"},
        {"CISTERN_ZZZZZZZZ=1", "\"CISTERN_ZZZZZZZZ\" is not a setting; ignored"},
        {"CISTERN_=1", "is not a setting"},
        {"DALI_USE_VM=1", "did you mean DALI_USE_VMM?"},
        {"DALI_USE_DEVICE_MEMPOOL=1", "did you mean DALI_USE_DEVICE_MEM_POOL?"},
        {"DALI_BUFFER_GROWTH_FACTORS=1", "did you mean DALI_BUFFER_GROWTH_FACTOR?"},
        {"DALI_GDS_CHUNK_SIZE=2M", nullptr},
        {"DALI_DISABLE_NVML=1", nullptr},
        {"DALI_USE_EXEC2=1", nullptr},
        {"DALI_EXTRA_PATH=/x", nullptr},
        {"DALI_SOMETHING_ELSE=1", nullptr},
        {"CISTERN_TEST_X=2", nullptr},
        {"CISTERN=1", nullptr},
        {"MYCISTERN_LOG=1", nullptr},
        {"cistern_log=1", nullptr},
    };
    for (const Row& row : rows) {
        INFO(row.variable);
        const auto result = parse({row.variable});
        CHECK(result.lines() == (row.meant == nullptr ? 0U : 1U));
        CHECK((row.meant == nullptr || result.says(row.meant)));
    }
}

TEST_CASE("CISTERN_STRICT refuses on anything wrong, and on nothing else", "[config]") {
    for (const char* wrong : {"DALI_USE_VMM=true", "DALI_MALLOC_POOL_THRESHOLD=1G", "CISTERN_PENDING=lots",
                              "CISTERN_DISABLED=1", "DALI_BUFFER_GROWTH_FACTOR=9"}) {
        INFO(wrong);
        CHECK_FALSE(parse({wrong}).settings.refused);
        const auto strict = parse({wrong, "CISTERN_STRICT=1"});
        CHECK(strict.settings.refused);
        CHECK(strict.says("everything goes to the driver"));
        CHECK_FALSE(parse({wrong, "CISTERN_STRICT=0"}).settings.refused);
    }
    for (const char* fine :
         {"DALI_USE_VMM=0", "CISTERN_PENDING=5%", "DALI_USE_VM=1", "DALI_USE_EXEC2=1", "CISTERN_LIMIT=1G"}) {
        INFO(fine);
        CHECK_FALSE(parse({fine, "CISTERN_STRICT=1"}).settings.refused);
    }
}

TEST_CASE("a broken environment cannot flood stderr", "[config]") {
    std::vector<std::string> environment;
    for (int i = 0; i < 500; ++i) {
        environment.push_back("CISTERN_QQQQQQQQQ" + std::to_string(i) + "=1");
    }
    const auto result = parse(environment);
    CHECK(result.lines() == 17);
    CHECK(result.says("the first 16 were named"));
}

TEST_CASE("of a variable that is there twice the first one counts, as for getenv", "[config]") {
    CHECK_FALSE(parse({"DALI_USE_VMM=0", "DALI_USE_VMM=1"}).settings.vmm);
    CHECK(parse({"DALI_USE_VMM=1", "DALI_USE_VMM=0"}).settings.vmm);
}
