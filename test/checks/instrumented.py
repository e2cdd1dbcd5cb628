"""Most objects of a library call into the sanitizer. Use: instrumented.py LIBRARY CALL"""

import pathlib
import subprocess
import sys

import common

library, call = sys.argv[1:]
listed = subprocess.run(["nm", library], capture_output=True, text=True, check=True).stdout
objects = [part for part in listed.split("\n\n") if " T " in part or " t " in part]
calling = [part for part in objects if call in part]
found = 2 * len(calling) >= len(objects) > 0
problems = [] if found else [f"{pathlib.Path(library).name} is not instrumented: {len(calling)} of {len(objects)} objects"]
common.finish(problems, f"{len(calling)} of {len(objects)} objects of {pathlib.Path(library).name} call {call}")
