"""expect_code.py CODE TEXT COMMAND...: passes when the command ends with CODE and its output holds TEXT."""

import subprocess
import sys

code, text, *command = sys.argv[1:]
done = subprocess.run(command, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True, check=False)
print(done.stdout, end="")
if done.returncode != int(code) or text not in done.stdout:
    sys.exit(f"exit code {done.returncode}, want {code} and {text!r} in the output")
