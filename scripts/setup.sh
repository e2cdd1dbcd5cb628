#!/bin/sh
# Installs what building and testing need on Debian 12, Ubuntu 22.04 and 24.04. Does nothing where all is there. Without root it
# names what is missing, and how to get it.
. "$(dirname -- "$0")/common.sh"
set -eu

say() { printf 'setup: %s\n' "$*"; }

# program package
programs='cmake cmake
ninja ninja-build
g++ g++
git git
python3 python3
ctags universal-ctags
clang-format-14 clang-format-14
strace strace
qemu-aarch64 qemu-user
aarch64-linux-gnu-g++ g++-aarch64-linux-gnu
patch patch
readelf binutils
localedef libc-bin'

# file package
files='/usr/include/spdlog/spdlog.h libspdlog-dev
/usr/include/fmt/format.h libfmt-dev
/usr/share/i18n/locales/de_DE locales'

has_catch2() { [ -e /usr/include/catch2/catch.hpp ] || [ -e /usr/include/catch2/catch_all.hpp ]; }

has_compiler() {
    choose_compiler
    major=$("${CXX:-g++}" -dumpversion 2>/dev/null | cut -d. -f1)
    [ "${major:-0}" -ge 12 ]
}

has_cmake() {
    version=$(cmake --version 2>/dev/null | sed -n '1s/[^0-9]*\([0-9]*\)\.\([0-9]*\).*/\1 \2/p')
    # shellcheck disable=SC2086 # two words on purpose
    set -- ${version:-0 0}
    [ "$1" -gt 3 ] || { [ "$1" -eq 3 ] && [ "$2" -ge 25 ]; }
}

has_cuda_headers() {
    for folder in "${CUDA_HOME:-/usr/local/cuda}/include" /usr/local/cuda/include /usr/include; do
        header_is_new_enough "$folder/cuda.h" && return 0
    done
    python3 cmake/wheel_headers.py build/cuda-headers 2>/dev/null | while read -r folder; do
        header_is_new_enough "$folder/cuda.h" && echo yes
    done | grep -q yes
}

header_is_new_enough() {
    number=$(sed -n 's/^#define CUDA_VERSION *\([0-9]*\).*/\1/p' "$1" 2>/dev/null)
    [ "${number:-0}" -ge 12000 ]
}

missing_packages() {
    echo "$programs" | while read -r program package; do
        command -v "$program" >/dev/null || [ "$program-$(clang_format_version)" = clang-format-14-14 ] || echo "$package"
    done
    echo "$files" | while read -r file package; do
        [ -e "$file" ] || echo "$package"
    done
    has_catch2 || echo catch2
    has_compiler || echo g++-12
}

clang_format_version() { clang-format --version 2>/dev/null | sed 's/.*version \([0-9]*\).*/\1/'; }

# pip for what the distribution has too old or not at all.
need_pip() { has_cmake && has_cuda_headers || echo python3-venv python3-pip; }

install_packages() {
    if [ "$(id -u)" -ne 0 ] || ! command -v apt-get >/dev/null; then
        say "missing: $*"
        say "on Debian or Ubuntu, as root: apt-get install $*"
        exit 1
    fi
    say "installing $*"
    export DEBIAN_FRONTEND=noninteractive
    apt-get update -q </dev/null >/dev/null
    # shellcheck disable=SC2068
    apt-get install -q -y --no-install-recommends $@ </dev/null >/dev/null
}

packages=$(missing_packages | sort -u | tr '\n' ' ')
if ! has_cmake || ! has_cuda_headers; then
    python3 -c 'import venv, ensurepip' 2>/dev/null && python3 -m pip --version >/dev/null 2>&1 || packages="$packages $(need_pip)"
fi
# shellcheck disable=SC2086 # a list of words
[ -z "${packages# }" ] || install_packages $packages

if ! has_cmake; then
    say "cmake is older than 3.25: putting a newer one into build/tools"
    python3 -m venv build/tools
    build/tools/bin/pip install -q 'cmake>=3.25,<4' </dev/null
fi
if ! has_cuda_headers; then
    say "no CUDA headers of 12.0 or newer: putting those of the wheel nvidia-cuda-runtime into build/cuda-headers"
    python3 -m pip install -q --no-deps --target build/cuda-headers nvidia-cuda-runtime </dev/null
fi
say "everything is there"
