#!/bin/sh
# Sets up, builds, and runs the tests that need no GPU. At most ten minutes on two cores, installing packages apart.
. "$(dirname -- "$0")/common.sh"
set -eu

scripts/setup.sh
choose_compiler
preset=$(release_preset)
cmake --preset "$preset"
cmake --build --preset "$preset"
ctest --preset "$preset" -j "$(nproc)" "$@"
