"""What no file of the tree may contain. Use: tree.py [ROOT]"""

import pathlib
import re
import sys

import common

# In two parts each, so that this file does not find itself.
RULES = [
    ("a path of somebody's machine", None, re.compile(r"/" + r"(?:work|home/[a-z]+|root)/")),
    ("a package registry's host", None,
     re.compile(r"(?:pypi|pythonhosted|npmjs|debian|ubuntu|golang|crates|conda|anaconda)" + r"\.(?:org|com|io)\b")),
    ("an unfinished spot", None, re.compile(r"\b(?:TO" + r"DO|FIX" + r"ME|X" + r"XX)\b")),
    ("a source list by pattern", {".cmake", ".txt"}, re.compile(r"\bfile\s*\(\s*GL" + r"OB|aux_source_" + r"directory")),
    ("a setting for a whole directory", {".cmake", ".txt"},
     re.compile(r"\b(?:include_" + r"directories|link_" + r"directories|add_compile_" + r"options|link_" + r"libraries)\s*\("
                r"|set\s*\(\s*CMAKE_C(?:XX)?_" + r"FLAGS\b")),
]
BINARY = {".png", ".gz", ".bin"}


def main():
    root = pathlib.Path(sys.argv[1] if len(sys.argv) > 1 else ".").resolve()
    problems, seen = [], 0
    for path in common.files(root):
        name = path.as_posix()
        if path.suffix in BINARY or name.startswith(("test/negative/", "test/gpu/results/")):
            continue
        seen += 1
        for number, line in enumerate((root / path).read_text(errors="replace").splitlines(), 1):
            for what, suffixes, pattern in RULES:
                if (suffixes is None or path.suffix in suffixes) and (match := pattern.search(line)):
                    problems.append(f"{name}:{number}: {what}: {match.group(0)}")
    if seen == 0:
        problems.append("no file was looked at")
    common.finish(problems, f"text of {seen} files")


main()
