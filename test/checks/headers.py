"""Every header compiles alone. Use: headers.py COMPILER ROOT INCLUDE_FOLDER... [-- HEADER...]"""

import pathlib
import subprocess
import sys
from concurrent.futures import ThreadPoolExecutor

import common

FOLDERS = common.PRODUCT + ("test",)


def compiles(compiler, root, folders, header):
    flags = ["-std=c++20", "-fsyntax-only", "-Wall", "-Wextra", "-Werror", "-DCISTERN_CATCH_MAJOR=2", "-x", "c++", f"-I{root}"]
    flags += [flag for folder in folders for flag in ("-isystem", folder)]
    # Through a file that includes it, so that "#pragma once in main file" is not reported.
    source = f'#include "{header}"\n#include "{header}"\n'
    done = subprocess.run([compiler, *flags, "-"], input=source, capture_output=True, text=True, check=False)
    return None if done.returncode == 0 else f"{header} does not compile alone:\n{done.stderr}"


def main():
    arguments = sys.argv[1:]
    chosen = None
    if "--" in arguments:
        at = arguments.index("--")
        arguments, chosen = arguments[:at], arguments[at + 1:]
    compiler, root, folders = arguments[0], pathlib.Path(arguments[1]).resolve(), arguments[2:]
    # The shim for Catch2 costs seconds and is compiled by every test program anyway; what includes it likewise.
    listed = chosen or [p.as_posix() for p in common.files(root, FOLDERS, {".h"})
                        if not p.as_posix().startswith("test/negative/")
                        and "test/catch.h" not in (root / p).read_text() and p.as_posix() != "test/catch.h"]
    with ThreadPoolExecutor(2) as pool:
        results = pool.map(lambda header: compiles(compiler, root, folders, header), listed)
    problems = [problem for problem in results if problem]
    if not listed:
        problems.append("no header was looked at")
    common.finish(problems, f"{len(listed)} headers compile alone")


main()
