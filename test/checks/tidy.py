"""clang-tidy on the product. Use: tidy.py CLANG_TIDY BUILD_FOLDER ROOT"""

import subprocess
import sys

import common

program, build, root = sys.argv[1:]
paths = [p.as_posix() for p in common.files(root, common.PRODUCT, {".cpp"})]
style = f"--config-file={root}/.clang-tidy"
sys.exit(subprocess.run([program, style, "--quiet", "-p", build, *paths], cwd=root, check=False).returncode)
