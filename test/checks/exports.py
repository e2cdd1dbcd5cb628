"""The names that the object must export, from the interposer's table. Use: exports.py COMPILER ROOT OUTPUT

Reads the table with a text of its own instead of the linker's version script, so that a mistake there is found.
"""

import pathlib
import subprocess
import sys

SOURCE = """#include "interposer/table.h"
#define X(name, ...) >>cu##name
CISTERN_HOOKS(X)
#undef X
#define X(name, ...) >>cistern_##name
CISTERN_OWN_FUNCTIONS(X)
"""

compiler, root, output = sys.argv[1:]
done = subprocess.run([compiler, "-E", "-P", "-x", "c++", f"-I{root}", "-"], input=SOURCE, capture_output=True, text=True,
                      check=True)
names = ["dlsym"] + [word[2:] for word in done.stdout.replace(">>", " >>").split() if word.startswith(">>")]
pathlib.Path(output).write_text("\n".join(sorted(names)) + "\n")
