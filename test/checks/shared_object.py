"""What a preloaded object may export, need and do at load. Use: shared_object.py CHECK OBJECT EXPECTED

CHECK is one of
  exports       defined dynamic symbols equal the names of the file EXPECTED
  needed        NEEDED entries equal those of the file EXPECTED
  glibc         no symbol version of glibc above EXPECTED (2.35, say), and none of its private ones
  unique        no symbol of type STB_GNU_UNIQUE (it would pin the object and be shared with the program's libstdc++)
  initialisers  every entry of .init_array and .fini_array is listed in the file EXPECTED
"""

import pathlib
import re
import subprocess
import sys

import common


def tool(*command):
    return subprocess.run(command, capture_output=True, text=True, check=True).stdout


def listed(path):
    lines = (line.split("#")[0].strip() for line in pathlib.Path(path).read_text().splitlines())
    return {line for line in lines if line}


def difference(found, expected):
    return [f"not expected: {name}" for name in sorted(found - expected)] + \
           [f"missing: {name}" for name in sorted(expected - found)]


def exports(path, expected):
    names = {line.split()[-1] for line in tool("nm", "-D", "--defined-only", path).splitlines()}
    return difference(names, listed(expected))


def needed(path, expected):
    names = set(re.findall(r"\(NEEDED\).*\[(.*)\]", tool("readelf", "-dW", path)))
    return difference(names, listed(expected))


def glibc(path, expected):
    top = tuple(int(part) for part in expected.split("."))
    problems = []
    for name in sorted(set(re.findall(r"\S+@+GLIBC_\S+", tool("nm", "-D", path)))):
        version = name.split("GLIBC_")[1]
        if not version[0].isdigit():
            problems.append(f"private symbol of glibc: {name}")
        elif tuple(int(part) for part in version.split(".")) > top:
            problems.append(f"newer than glibc {expected}: {name}")
    return problems


def unique(path, _):
    return [line for line in tool("readelf", "-sW", path).splitlines() if " UNIQUE " in line]


def entries(path, section):
    """Names of the functions in an array of pointers, by the relative relocations that fill it."""
    found = re.search(rf"\s\{section}\s+\S+\s+([0-9a-f]+)\s+[0-9a-f]+\s+([0-9a-f]+)", tool("readelf", "-SW", path))
    if not found:
        return []
    start, size = int(found.group(1), 16), int(found.group(2), 16)
    names = {}
    for line in tool("nm", path).splitlines():
        parts = line.split()
        if len(parts) == 3 and parts[1] in "tTwW":
            names.setdefault(int(parts[0], 16), parts[2])
    relative = re.findall(r"^([0-9a-f]+)\s+\S+\s+R_\w+_RELATIVE?\s+([0-9a-f]+)", tool("readelf", "-rW", path), re.MULTILINE)
    targets = [int(value, 16) for where, value in relative if start <= int(where, 16) < start + size]
    if len(targets) * 8 != size:
        return [f"{size // 8 - len(targets)} entries of {section} without a relocation"]
    return [names.get(target, hex(target)) for target in targets]


def initialisers(path, expected):
    known = listed(expected)
    found = entries(path, ".init_array") + entries(path, ".fini_array")
    problems = [f"runs at load or unload: {name}" for name in found if name not in known]
    return problems + ([] if found else ["no entry found, not even the compiler's own"])


CHECKS = {check.__name__: check for check in (exports, needed, glibc, unique, initialisers)}
name, target, expectation = sys.argv[1:]
common.finish(CHECKS[name](target, expectation), f"{name} of {pathlib.Path(target).name}")
