#!/bin/sh
# Builds cistern, and runs one program natively and preloaded. With a GPU and nvcc: a CUDA program, equal results and both times.
# Otherwise: a driver-API program on the simulated GPU, equal results, driver calls saved and memory mapped.
. "$(dirname -- "$0")/common.sh"
set -eu

out=build/demo
mkdir -p "$out"

build() {
    scripts/setup.sh >"$out/build.log" 2>&1 || { cat "$out/build.log"; exit 1; }
    choose_compiler
    preset=$(release_preset)
    echo "building ($out/build.log) ..."
    if ! { cmake --preset "$preset" && cmake --build --preset "$preset" --target cistern sim_cuda cistern_demo; } >>"$out/build.log" 2>&1; then
        tail -30 "$out/build.log"
        exit 1
    fi
}

nvcc_path() { command -v nvcc || ls /usr/local/cuda/bin/nvcc 2>/dev/null; }

has_gpu() { command -v nvidia-smi >/dev/null && nvidia-smi -L 2>/dev/null | grep -q '^GPU'; }

# A figure of the statistics, which are one line of JSON.
figure() { sed -n "s/.*\"$1\": *\([0-9]*\).*/\1/p" "$out/stats.json"; }

compare() {
    echo "natively : $(cat "$out/native.txt")"
    echo "preloaded: $(cat "$out/pooled.txt")"
    if ! cmp -s "$out/native.txt" "$out/pooled.txt"; then
        echo "demo: the results differ" >&2
        exit 1
    fi
    served=$(figure alloc_served)
    if [ "${served:-0}" -eq 0 ]; then
        echo "demo: the pool served nothing; results are equal because nothing was pooled" >&2
        exit 1
    fi
    echo "equal results. The pool served $served allocations and $(figure free_served) frees; most memory mapped: $(($(figure mapped_bytes_peak) / 1048576)) MiB"
}

on_gpu() {
    nvidia-smi -L | sed -n '1s/ (UUID.*//p'
    "$(nvcc_path)" -O2 -o "$out/demo_cuda" scripts/demo/demo.cu
    "$out/demo_cuda" >/dev/null 2>&1 # the first run of a process on a machine pays for loading the driver
    "$out/demo_cuda" >"$out/native.txt" 2>"$out/native.ms"
    rm -f "$out/stats.json"
    scripts/cistern run --stats "json:$out/stats.json" -- "$out/demo_cuda" >"$out/pooled.txt" 2>"$out/pooled.ms"
    compare
    echo "time: natively $(cat "$out/native.ms") ms, preloaded $(cat "$out/pooled.ms") ms"
}

# Calls that the simulated driver counted. The query for the current context is left out: it costs some nanoseconds on a real
# driver, and the pool makes one for every call that it serves.
calls() { awk '$1 != "total" && $1 != "cuCtxGetCurrent" { n += $2 } END { print n + 0 }' "$out/$1.calls"; }
memory_calls() {
    awk '/^cuMem(Alloc|Free|Create|Release|Map|Unmap|SetAccess|AddressReserve|AddressFree)/ { n += $2 } END { print n + 0 }' "$out/$1.calls"
}

on_simulated_gpu() {
    echo "no GPU (or no nvcc) on this machine: the simulated GPU stands in. It shows results and calls; speed is not shown."
    LD_LIBRARY_PATH=$root/build/release/test/fakes${LD_LIBRARY_PATH:+:$LD_LIBRARY_PATH}
    export LD_LIBRARY_PATH
    SIM_SUMMARY=$out/native.calls build/release/demo/cistern_demo >"$out/native.txt"
    rm -f "$out/stats.json"
    SIM_SUMMARY=$out/pooled.calls scripts/cistern run --stats "json:$out/stats.json" -- build/release/demo/cistern_demo >"$out/pooled.txt"
    compare
    native=$(calls native)
    pooled=$(calls pooled)
    echo "driver calls: natively $native, preloaded $pooled: $((native - pooled)) saved"
    echo "those among them that give, map or take memory: natively $(memory_calls native), preloaded $(memory_calls pooled)"
}

build
if has_gpu && nvcc_path >/dev/null; then on_gpu; else on_simulated_gpu; fi
