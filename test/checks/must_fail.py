"""Negative control: runs a checker on a fixture and passes only if the checker finds what is planted there.

Use: must_fail.py REGEX COMMAND...   The command has to exit with 1 and its output has to match. Any other exit code means
that the checker broke down, which must not pass for a finding.
"""

import re
import subprocess
import sys

expected, command = sys.argv[1], sys.argv[2:]
done = subprocess.run(command, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True, check=False)
print(done.stdout, end="")
if done.returncode != 1:
    sys.exit(f"must_fail: exit code {done.returncode}, expected 1")
if not re.search(expected, done.stdout):
    sys.exit(f"must_fail: the output does not match {expected!r}")
