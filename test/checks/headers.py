"""Every header of the product compiles alone. Use: headers.py COMPILER ROOT INCLUDE_FOLDER... [-- HEADER...]"""

import pathlib
import subprocess
import sys
from concurrent.futures import ThreadPoolExecutor

import common

# The product, and the one header of the simulated GPU that tests of all folders include.
ALSO = ("test/fakes/sim.h",)


def compiles(compiler, root, folders, header):
    flags = ["-std=c++20", "-fsyntax-only", "-Wall", "-Wextra", "-Werror", "-x", "c++", f"-I{root}"]
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
    listed = chosen or [p.as_posix() for p in common.files(root, common.PRODUCT, {".h"})] + list(ALSO)
    with ThreadPoolExecutor(2) as pool:
        results = pool.map(lambda header: compiles(compiler, root, folders, header), listed)
    problems = [problem for problem in results if problem]
    if not listed:
        problems.append("no header was looked at")
    common.finish(problems, f"{len(listed)} headers compile alone")


main()
