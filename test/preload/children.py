#!/usr/bin/env python3
"""What the object does to processes that have nothing to do with CUDA: nothing. Compares output, messages, exit status,
and by strace the files, threads and child processes of each command, natively and under the preload.

use: children.py --preload LIBRARY [--trace] [--case NAME]
"""

import argparse
import os
import re
import shutil
import subprocess
import sys
import tempfile

COMMANDS = {
    "true": ["true"],
    "false": ["false"],
    "bash": ["bash", "-c", "echo x; echo y >&2; exit 3"],
    "pipeline": ["bash", "-c", "x=0; for i in $(seq 25); do x=$(echo $i | cat); done; ls / | sort | wc -l; echo $x"],
    "git": ["git", "--version"],
    "python": [sys.executable, "-c", "import os, ctypes, threading; print(1); raise SystemExit(4)"],
    "closed stderr": ["bash", "-c", "exec 2>&-; ls /no/such/folder; echo $?"],
    "env -i": ["env", "-i", "/bin/sh", "-c", "echo cleared"],
    "bind now": ["env", "LD_BIND_NOW=1", "ls", "/"],
    "no library path": ["env", "LD_LIBRARY_PATH=", "sh", "-c", "echo $LD_LIBRARY_PATH"],
    "loader check": ["bash", "-c", "ldd /bin/true > /dev/null; echo $?"],
    "many": ["bash", "-c", "for i in 1 2 3 4 5 6 7 8 9 10; do true & done; wait; echo done"],
}
TRACED = ["true", "bash", "git", "python"]
# A question mark: not every architecture has it.
CALLS = ("openat,?open,?creat,?mkdir,mkdirat,memfd_create,clone,?clone3,?fork,?vfork,socket,?unlink,unlinkat,rt_sigaction,"
         "?shmget,timer_create")


def run(command, preload, prefix=()):
    env = {k: v for k, v in os.environ.items() if k != "LD_PRELOAD" and not k.startswith(("CISTERN_", "DALI_"))}
    full = list(command)
    if preload:
        # Under strace only the traced program is to be preloaded.
        if prefix:
            prefix = [*prefix, "-E", f"LD_PRELOAD={preload}"]
        else:
            env["LD_PRELOAD"] = preload
    return subprocess.run([*prefix, *full], env=env, stdin=subprocess.DEVNULL, capture_output=True, timeout=60,
                          check=False)


def compare(name, preload):
    native, mine = run(COMMANDS[name], ""), run(COMMANDS[name], preload)
    bad = 0
    for what in ("returncode", "stdout", "stderr"):
        if getattr(native, what) != getattr(mine, what):
            print(f"{name}: {what} differs: {getattr(native, what)!r} natively, {getattr(mine, what)!r} preloaded")
            bad = 1
    print(f"{name}: {'different' if bad else 'the same'}")
    return bad


def traced_calls(name, preload, folder):
    """Multiset of the interesting system calls, without what differs from run to run."""
    log = f"{folder}/log"
    done = run(COMMANDS[name], preload, ["strace", "-f", "-qq", "-o", log, "-e", f"trace={CALLS}"])
    lines = []
    if os.path.exists(log):
        with open(log, encoding="utf-8", errors="replace") as file:
            lines = file.read().splitlines()
    if not lines:
        sys.exit(f"strace saw nothing of {name}: {done.stderr.decode(errors='replace')}")
    calls = {}
    for line in lines:
        line = re.sub(r"^\d+ +", "", line)
        if "resumed>" in line or line.startswith(("+++", "---")):
            continue
        line = re.sub(r"0x[0-9a-f]+|\b\d{3,}\b", "N", line.split(" = ")[0])
        calls[line] = calls.get(line, 0) + 1
    return calls


def trace(name, preload):
    own = os.path.realpath(preload)
    with tempfile.TemporaryDirectory() as folder:
        native, mine = traced_calls(name, "", folder), traced_calls(name, preload, folder)
    more = {c: n - native.get(c, 0) for c, n in mine.items() if n > native.get(c, 0)}
    # The loader opens the object itself, once in each process.
    foreign = {c: n for c, n in more.items() if own not in c and preload not in c}
    for call, count in foreign.items():
        print(f"{name}: {count} more of {call}")
    print(f"{name}: {sum(native.values())} traced calls natively, {sum(mine.values())} preloaded")
    if not any(preload in c or own in c for c in more):
        print(f"{name}: the object was not even loaded")
        return 1
    return 1 if foreign else 0


def main():
    parser = argparse.ArgumentParser()
    parser.add_argument("--preload", required=True)
    parser.add_argument("--trace", action="store_true")
    parser.add_argument("--case", choices=[*COMMANDS], default=None)
    options = parser.parse_args()
    if not os.path.exists(options.preload):
        sys.exit(f"{options.preload} does not exist")
    if not options.trace:
        return max(compare(name, options.preload) for name in ([options.case] if options.case else COMMANDS))
    if shutil.which("strace") is None:
        sys.exit("strace is missing: apt-get install strace (scripts/setup.sh does it)")
    return max(trace(name, options.preload) for name in ([options.case] if options.case else TRACED))


sys.exit(main())
