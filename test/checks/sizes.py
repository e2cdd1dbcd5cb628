"""Functions of at most 60 lines, files of at most 700. Use: sizes.py CTAGS [ROOT] [ALLOW_LIST]

The allow list has one exception a line: path, name of the function or "-" for the file, limit, reason. An exception that is
no longer needed is a finding too.
"""

import json
import pathlib
import subprocess
import sys

import common

FUNCTION_LIMIT = 60
FILE_LIMIT = 700
FOLDERS = common.PRODUCT + ("test", "scripts", "cmake")
TEXTS = common.CODE | {".py", ".sh", ".S", ".cmake"}


def allowed(path):
    rows = {}
    for line in path.read_text().splitlines() if path.exists() else []:
        if line.strip() and not line.startswith("#"):
            file, name, limit, reason = line.split(None, 3)
            rows[file, name] = (int(limit), reason)
    return rows


def functions(ctags, root, paths):
    """(path, name, number of lines) of every function body."""
    command = [ctags, "--languages=C,C++,CUDA", "--langmap=C++:+.inc", "--kinds-C=f", "--kinds-C++=f", "--kinds-CUDA=f",
               "--fields=+ne", "--output-format=json", "-f", "-", "-L", "-"]
    listed = subprocess.run(command, cwd=root, input="\n".join(paths), capture_output=True, text=True, check=True).stdout
    for line in listed.splitlines():
        tag = json.loads(line)
        if tag.get("_type") == "tag" and "end" in tag:
            yield tag["path"], tag["name"], tag["end"] - tag["line"] + 1


def main():
    ctags = sys.argv[1]
    root = pathlib.Path(sys.argv[2] if len(sys.argv) > 2 else ".").resolve()
    exceptions = allowed(pathlib.Path(sys.argv[3]) if len(sys.argv) > 3 else root / "test/checks/allow_sizes.txt")
    paths = [p.as_posix() for p in common.files(root, FOLDERS, TEXTS) if not p.as_posix().startswith("test/negative/")]
    code = [p for p in paths if pathlib.Path(p).suffix in common.CODE]
    measured = [(p, "-", len((root / p).read_text().splitlines()), FILE_LIMIT) for p in paths]
    bodies = list(functions(ctags, root, code))
    measured += [(path, name, lines, FUNCTION_LIMIT) for path, name, lines in bodies]
    problems, used = [], set()
    for path, name, lines, limit in measured:
        top, _ = exceptions.get((path, name), (limit, ""))
        if lines > limit:
            used.add((path, name))
        if lines > top:
            problems.append(f"{path}: {'file' if name == '-' else name} has {lines} lines, limit {top}")
    problems += [f"allow list: {path} {name} is not needed" for path, name in exceptions if (path, name) not in used]
    if not bodies:
        problems.append("no function was found: is this Universal Ctags?")
    common.finish(problems, f"sizes of {len(paths)} files and {len(bodies)} functions")


main()
