"""Writes the header with version, commit and hashes. Use: build_info.py ROOT VERSION HEADER"""

import pathlib
import subprocess
import sys

from sources_hash import sources_hash


def commit_of(root):
    """Short commit, with -dirty if tracked files differ; "none" outside a repository (a release archive, say)."""
    command = ["git", "-c", f"safe.directory={root}", "-C", root, "describe", "--always", "--dirty", "--abbrev=12",
               "--exclude=*"]
    try:
        done = subprocess.run(command, capture_output=True, text=True, check=False)
    except OSError:
        return "none"
    return done.stdout.strip() or "none"


def main():
    root, version, header = sys.argv[1:]
    text = (
        "#pragma once\n"
        f'#define CISTERN_VERSION "{version}"\n'
        f'#define CISTERN_COMMIT "{commit_of(root)}"\n'
        f'#define CISTERN_SOURCES_HASH "{sources_hash(root, ["pool", "interposer"])}"\n'
        f'#define CISTERN_CONFIG_HASH "{sources_hash(root, ["config"])}"\n'
    )
    path = pathlib.Path(header)
    if not path.exists() or path.read_text() != text:
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(text)


main()
