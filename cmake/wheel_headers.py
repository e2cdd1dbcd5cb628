"""Prints the include folders of NVIDIA's runtime wheels, one a line: of the folder given, then of this Python's."""

import pathlib
import site
import sys
import sysconfig


def roots():
    yield from (pathlib.Path(arg) for arg in sys.argv[1:])
    yield pathlib.Path(sysconfig.get_paths()["purelib"])
    yield from (pathlib.Path(folder) for folder in site.getsitepackages())
    yield pathlib.Path(site.getusersitepackages())


seen = set()
for root in roots():
    for pattern in ("nvidia/cu[0-9]*/include/cuda.h", "nvidia/cuda_runtime/include/cuda.h"):
        for header in sorted(root.glob(pattern), reverse=True):
            if header.parent not in seen:
                seen.add(header.parent)
                print(header.parent)
