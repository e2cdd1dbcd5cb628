# shellcheck shell=sh
# Read by the other scripts: where the tree is, and which tools they use.

root=$(CDPATH='' cd -- "$(dirname -- "$0")/.." && pwd) || exit 1
cd "$root" || exit 1

# What setup.sh puts into the tree where a distribution's own is too old.
PATH=$root/build/tools/bin:$PATH
export PATH

# The newest gcc that is there, if the default one is older than 12.
choose_compiler() {
    [ -z "${CXX-}" ] || return 0
    major=$(g++ -dumpversion 2>/dev/null | cut -d. -f1)
    [ "${major:-0}" -lt 12 ] || return 0
    for version in 14 13 12; do
        if command -v "g++-$version" >/dev/null; then
            CC=gcc-$version CXX=g++-$version
            export CC CXX
            return 0
        fi
    done
}

# The preset that a script builds: the release one; in CI the same with warnings as errors.
release_preset() {
    if [ "${CI-}" = true ]; then echo ci; else echo release; fi
}
