#!/bin/sh
# Runs every GPU test and client and writes results.json and run.log; see --help. Fails where it finds no GPU.
#   scripts/gpu.sh --label gpu --object build/release/libcistern.so --out DIR
#   scripts/gpu.sh --import DIR
here=$(CDPATH='' cd -- "$(dirname -- "$0")" && pwd) || exit 2
PYTHONDONTWRITEBYTECODE=1 PYTHONUNBUFFERED=1 exec python3 "$here/../test/gpu/run_gpu.py" "$@"
