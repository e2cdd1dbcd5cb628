"""The option table of the README equals the one in the code. Use: readme_options.py TOOL README [--write]"""

import pathlib
import subprocess
import sys

import common

BEGIN, END = "<!-- options:begin -->", "<!-- options:end -->"

tool, readme = sys.argv[1:3]
table = subprocess.run([tool, "options"], capture_output=True, text=True, check=True).stdout.strip()
text = pathlib.Path(readme).read_text()
if "--write" in sys.argv:
    before, rest = text.split(BEGIN)
    pathlib.Path(readme).write_text(f"{before}{BEGIN}\n{table}\n{END}{rest.split(END)[1]}")
    sys.exit(0)
problems = []
if text.count(BEGIN) != 1 or text.count(END) != 1:
    problems.append(f"{readme}: the markers {BEGIN} and {END} have to stand there once each")
else:
    shown = text.split(BEGIN)[1].split(END)[0].strip().splitlines()
    missing = [line for line in table.splitlines() if line not in shown]
    extra = [line for line in shown if line not in table.splitlines()]
    problems += [f"missing in the README: {line}" for line in missing] + [f"not in the code: {line}" for line in extra]
    if not problems and shown != table.splitlines():
        problems.append("the rows of the README stand in another order")
common.finish(problems, "option table of the README (cistern_config_tool options prints it)")
