"""What the checkers share: which files there are, and C++ text without comments and strings."""

import pathlib
import re
import subprocess
import sys

CODE = {".h", ".cpp", ".cu", ".cuh", ".c", ".inc"}
PRODUCT = ("config", "pool", "interposer")


def files(root, folders=("",), suffixes=None):
    """Files of the tree that are or could be committed. A fixture is no repository of its own: there, all files count."""
    root = pathlib.Path(root).resolve()
    found = repository_files(root)
    if found is None:
        found = [p.relative_to(root) for p in root.rglob("*") if p.is_file()]
    for path in sorted(found):
        inside = any(folder == "" or path.parts[0] == folder for folder in folders)
        if inside and (suffixes is None or path.suffix in suffixes) and "__pycache__" not in path.parts:
            yield path


def repository_files(root):
    if not (root / ".git").exists():
        return None
    command = ["git", "-c", f"safe.directory={root}", "-C", str(root), "ls-files", "-z", "--cached", "--others",
               "--exclude-standard"]
    listed = subprocess.run(command, capture_output=True, text=True, check=True).stdout
    return [pathlib.Path(p) for p in listed.split("\0") if p and (root / p).is_file()]


_NOISE = re.compile(r'//[^\n]*|/\*.*?\*/|R"(\w*)\(.*?\)\1"|"(?:\\.|[^"\\\n])*"|\'(?:\\.|[^\'\\\n])+\'', re.DOTALL)


def bare(text):
    """The text with comments gone and strings emptied; line numbers stay. Include lines keep their paths."""

    def hide(match):
        piece = match.group(0)
        line_start = text.rfind("\n", 0, match.start()) + 1
        if piece.startswith('"') and text[line_start:match.start()].lstrip().startswith("#include"):
            return piece
        return ('""' if piece[0] in "\"R'" else " ") + "\n" * piece.count("\n")

    return _NOISE.sub(hide, text)


def finish(problems, what):
    """Prints the findings; exit code 1 if there are any."""
    for problem in problems:
        print(problem)
    if problems:
        print(f"{len(problems)} finding(s): {what}")
        sys.exit(1)
    print(f"ok: {what}")
