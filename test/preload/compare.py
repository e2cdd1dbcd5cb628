#!/usr/bin/env python3
"""Runs a program natively and under the preload and compares standard output, standard error and exit status.

use: compare.py --preload LIBRARY [options] -- PROGRAM [ARGUMENT...]
"""

import argparse
import difflib
import json
import os
import subprocess
import sys
import tempfile


def arguments():
    parser = argparse.ArgumentParser()
    parser.add_argument("--preload", required=True, help="the object under test")
    parser.add_argument("--before", default="", help="a library preloaded in both runs, in front of the object")
    parser.add_argument("--after", default="", help="likewise, behind the object")
    parser.add_argument("--env", action="append", default=[], metavar="NAME=VALUE", help="for both runs")
    parser.add_argument("--preload-env", action="append", default=[], metavar="NAME=VALUE", help="for the preloaded run")
    parser.add_argument("--counter", action="append", default=[], metavar="PATH>=NUMBER",
                        help="of the statistics that the preloaded run leaves behind")
    parser.add_argument("--expect-status", type=int, default=None)
    parser.add_argument("--timeout", type=float, default=60)
    parser.add_argument("--emulator", default="", help="command that runs programs of another architecture (qemu)")
    parser.add_argument("--ignore-stdout", action="store_true")
    parser.add_argument("program", nargs="+")
    return parser.parse_args()


def variables(options, preload, folder):
    """What the program is to find in its environment beside the test's own."""
    wanted = dict(pair.split("=", 1) for pair in options.env)
    libraries = [options.before, options.preload if preload else "", options.after]
    if any(libraries):
        wanted["LD_PRELOAD"] = ":".join(name for name in libraries if name)
    if preload:
        wanted["EXPECT_PRELOAD"] = "1"
        wanted.update(pair.split("=", 1) for pair in options.preload_env)
        if options.counter:
            wanted["CISTERN_STATS"] = f"json:{folder}/statistics"
    return wanted


def run(options, preload, folder):
    env = {k: v for k, v in os.environ.items() if k != "LD_PRELOAD" and not k.startswith(("CISTERN_", "DALI_"))}
    wanted = variables(options, preload, folder)
    command = options.emulator.split()
    if command:
        # The emulator is a program of this machine: what is meant for the program is handed over by option.
        for name, value in wanted.items():
            command += ["-E", f"{name}={value}"]
    else:
        env.update(wanted)
    try:
        done = subprocess.run([*command, *options.program], env=env, stdin=subprocess.DEVNULL, capture_output=True,
                              timeout=options.timeout, check=False)
    except subprocess.TimeoutExpired:
        sys.exit(f"{'preloaded' if preload else 'native'} run did not end within {options.timeout} s")
    return done


def check_counters(options, folder):
    if not options.counter:
        return 0
    try:
        with open(f"{folder}/statistics", encoding="utf-8") as file:
            statistics = json.load(file)
    except (OSError, ValueError) as error:
        print(f"no statistics: {error}")
        return 1
    bad = 0
    for rule in options.counter:
        relation = next(r for r in (">=", "<=", "=") if r in rule)
        path, number = rule.split(relation)
        value = statistics
        for key in path.split("."):
            value = value.get(key, 0) if isinstance(value, dict) else 0
        holds = {">=": value >= int(number), "<=": value <= int(number), "=": value == int(number)}[relation]
        if not holds:
            print(f"counter {path} is {value}, expected {relation} {number}")
            bad = 1
    if bad:
        print(json.dumps(statistics))
    return bad


def main():
    options = arguments()
    if not os.path.exists(options.preload):
        sys.exit(f"{options.preload} does not exist")
    with tempfile.TemporaryDirectory() as folder:
        native = run(options, False, folder)
        mine = run(options, True, folder)
        bad = check_counters(options, folder)
    if options.expect_status is not None and native.returncode != options.expect_status:
        print(f"native exit status {native.returncode}, expected {options.expect_status}")
        bad = 1
    for what in ("returncode", "stdout", "stderr"):
        if what == "stdout" and options.ignore_stdout:
            continue
        a, b = getattr(native, what), getattr(mine, what)
        if a != b:
            bad = 1
            print(f"{what} differs (native -, preloaded +):\n{difference(a, b)}")
    print(f"{len(native.stdout)} bytes of output, exit status {native.returncode}: "
          f"{'DIFFERENT' if bad else 'the same natively and preloaded'}")
    return bad


def difference(native, mine):
    if isinstance(native, int):
        return f"-{native}\n+{mine}"
    lines = difflib.unified_diff(native.decode(errors="replace").splitlines(), mine.decode(errors="replace").splitlines(),
                                 lineterm="", n=0)
    return "\n".join(list(lines)[2:62])


sys.exit(main())
