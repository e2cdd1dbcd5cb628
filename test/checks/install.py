"""Installs, compares the list of files, moves the tree, and uses the command from there.

Use: install.py CMAKE BUILD_FOLDER EXPECTED_LIST
"""

import pathlib
import shutil
import subprocess
import sys
import tempfile

import common


def run(*command, **more):
    return subprocess.run(command, capture_output=True, text=True, check=False, **more)


def used_from(tree):
    command = str(tree / "bin/cistern")
    path = run(command, "path")
    if path.returncode != 0 or pathlib.Path(path.stdout.strip()) != tree / "lib/libcistern.so":
        yield f"cistern path: exit code {path.returncode}: {path.stdout}{path.stderr}"
    done = run(command, "run", "--", "true")
    if (done.returncode, done.stdout, done.stderr) != (0, "", ""):
        yield f"cistern run -- true: exit code {done.returncode}: {done.stdout}{done.stderr}"
    shown = run(command, "run", "--", "sh", "-c", 'printf %s "$LD_PRELOAD"').stdout
    if shown != str(tree / "lib/libcistern.so"):
        yield f"cistern run sets LD_PRELOAD to {shown!r}"
    version = run(command, "version")
    if version.returncode != 0 or "cistern build: version=" not in version.stdout:
        yield f"cistern version: exit code {version.returncode}: {version.stdout}{version.stderr}"


def main():
    cmake, build, expected = sys.argv[1:]
    with tempfile.TemporaryDirectory() as folder:
        first = pathlib.Path(folder).resolve() / "first"
        done = run(cmake, "--install", build, "--prefix", str(first))
        if done.returncode != 0:
            sys.exit(f"install broke down:\n{done.stdout}{done.stderr}")
        found = {p.relative_to(first).as_posix() for p in first.rglob("*") if p.is_file()}
        wanted = {line for line in pathlib.Path(expected).read_text().splitlines() if line and line[0] != "#"}
        problems = [f"not expected: {name}" for name in sorted(found - wanted)]
        problems += [f"missing: {name}" for name in sorted(wanted - found)]
        moved = pathlib.Path(folder).resolve() / "elsewhere" / "moved"
        moved.parent.mkdir()
        shutil.move(first, moved)
        if not problems:
            problems += used_from(moved)
    common.finish(problems, f"installed tree of {len(found)} files, moved and used")


main()
