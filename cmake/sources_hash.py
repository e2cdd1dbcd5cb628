"""Hash of what a folder's object is made of. One place for it: the build bakes it into the object, the check of the GPU
results compares it with the tree. Use: sources_hash.py ROOT FOLDER..."""

import hashlib
import pathlib
import sys

SUFFIXES = {".c", ".cpp", ".h", ".inc", ".in", ".s", ".map", ".txt"}


def sources_hash(root, folders):
    digest = hashlib.sha256()
    root = pathlib.Path(root)
    for folder in folders:
        files = [p for p in (root / folder).rglob("*") if p.is_file() and p.suffix.lower() in SUFFIXES]
        for path in sorted(files, key=lambda p: p.relative_to(root).as_posix()):
            content = path.read_bytes()
            digest.update(f"{path.relative_to(root).as_posix()}\0{len(content)}\0".encode())
            digest.update(content)
    return digest.hexdigest()[:16]


if __name__ == "__main__":
    print(sources_hash(sys.argv[1], sys.argv[2:]))
