"""Formatting by the pinned style and version. Use: format.py CLANG_FORMAT [--write] [ROOT]"""

import pathlib
import re
import subprocess
import sys

import common

VERSION = 14


def main():
    arguments = sys.argv[1:]
    write = "--write" in arguments
    program, *rest = [argument for argument in arguments if argument != "--write"]
    root = pathlib.Path(rest[0] if rest else ".").resolve()
    shown = subprocess.run([program, "--version"], capture_output=True, text=True, check=True).stdout
    version = int(re.search(r"version (\d+)", shown).group(1))
    if version != VERSION:
        common.finish([f"{program} is version {version}; the style is pinned to {VERSION}"], "formatter")
    style = pathlib.Path(__file__).resolve().parents[2] / ".clang-format"
    paths = [p.as_posix() for p in common.files(root, common.PRODUCT + ("test", "scripts"), common.CODE)
             if not p.as_posix().startswith("test/negative/")]
    command = [program, f"--style=file:{style}", *(["-i"] if write else ["--dry-run", "-Werror"]), *paths]
    done = subprocess.run(command, cwd=root, capture_output=True, text=True, check=False)
    problems = sorted({"not formatted: " + line.split(":")[0] for line in done.stderr.splitlines() if "error:" in line})
    if done.returncode != 0 and not problems:
        problems.append(done.stderr)
    if not paths:
        problems.append("no file was looked at")
    common.finish(problems, f"formatting of {len(paths)} files")


main()
