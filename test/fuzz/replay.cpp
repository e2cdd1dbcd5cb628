// Runs the fuzz target on inputs of a fixed sequence. Use: fuzz_config_replay COUNT [planted]

#include "config/options.h"
#include "test/fuzz/fuzz_config.h"

#include <array>
#include <csignal>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <string>
#include <unistd.h>

namespace {

/// Small, the same everywhere; quality does not matter here.
class Sequence {
public:
    size_t below(size_t n) noexcept {
        state_ = state_ * 6364136223846793005U + 1442695040888963407U;
        return static_cast<size_t>(state_ >> 33) % n;
    }

private:
    uint64_t state_ = 7;
};

constexpr std::array pieces = {
    "0",   "1",    "-1",  "true", "4",    "1.5",     "nan",     "inf",    "1e400", "9999999999999999999",
    "k",   "M",    "G",   "KiB",  "%",    "%p",      "%q{",     "}",      ":",     ",",
    "dev", "json", "off", "info", "fast", "tight",   "emulate", "native", " ",     "\t",
    "=",   "\n",   "0x",  "\xff", "\"",   "pinned:", "1,5",     "",       "..",    "e-5"};

std::string input(Sequence& sequence) {
    std::string text;
    const auto options = cistern::config::options();
    for (size_t lines = 1 + sequence.below(4); lines != 0; --lines) {
        std::string name = options[sequence.below(options.size())].name;
        if (sequence.below(8) == 0) {
            name.erase(sequence.below(name.size()), 1);
        }
        text += name + '=';
        for (size_t n = sequence.below(4); n != 0; --n) {
            text += pieces[sequence.below(pieces.size())];
        }
        for (size_t n = sequence.below(16) == 0 ? sequence.below(80) : 0; n != 0; --n) {
            text += static_cast<char>(sequence.below(256));
        }
        text += '\n';
    }
    return text;
}

/// The target aborts like any fuzz target; a checker ends with exit code 1.
void end_with_one(int) { _exit(1); }

} // namespace

int main(int argc, char** argv) {
    const long count = argc > 1 ? std::strtol(argv[1], nullptr, 10) : 0;
    fuzz_plant_fault = argc > 2 && std::strcmp(argv[2], "planted") == 0;
    std::signal(SIGABRT, end_with_one);
    Sequence sequence;
    for (long i = 0; i < count; ++i) {
        const std::string text = input(sequence);
        LLVMFuzzerTestOneInput(reinterpret_cast<const uint8_t*>(text.data()), text.size());
    }
    std::printf("%ld inputs\n", count);
    return count > 0 ? 0 : 2;
}
