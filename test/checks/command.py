"""The command `cistern`, case by case. Use: command.py COMMAND OBJECT EMPTY_OBJECT CONFIG_TOOL"""

import os
import pathlib
import re
import shutil
import signal
import subprocess
import sys
import tempfile

import common

COMMAND, OBJECT, EMPTY, TOOL = (os.path.realpath(argument) for argument in sys.argv[1:])
SHOW = [sys.executable, "-c", "import sys; print(repr(sys.argv[1:]))"]
ENVIRONMENT = {k: v for k, v in os.environ.items() if not k.startswith(("CISTERN_", "DALI_", "LD_PRELOAD"))}


def run(*arguments, environment=None, verb="run", **more):
    options = ["--object", OBJECT] if verb == "run" and "--object" not in arguments else []
    return subprocess.run([COMMAND, verb, *options, *arguments], capture_output=True, text=True, check=False,
                          env={**ENVIRONMENT, **(environment or {})}, timeout=30, **more)


def expect(what, condition):
    if not condition:
        raise AssertionError(what)


def case_program_is_unchanged():
    done = run("--", "true")
    expect(f"run true: {done}", (done.returncode, done.stdout, done.stderr) == (0, "", ""))
    maps = run("--", "cat", "/proc/self/maps").stdout
    expect("the object is mapped into the program", OBJECT in maps)
    done = run("--", "cat", input="from stdin")
    expect("stdin reaches the program", done.stdout == "from stdin")


def case_exit_codes():
    for code in (0, 1, 42, 255):
        expect(f"exit code {code}", run("--", "sh", "-c", f"exit {code}").returncode == code)
    for number in (signal.SIGKILL, signal.SIGTERM, signal.SIGABRT):
        expect(f"signal {number}", run("--", "sh", "-c", f"kill -{int(number)} $$").returncode == -number)


def case_same_process():
    with subprocess.Popen([COMMAND, "run", "--object", OBJECT, "--", "sh", "-c", "echo $$"], stdout=subprocess.PIPE, text=True,
                          env=ENVIRONMENT) as child:
        expect("the program has the command's process number", int(child.communicate()[0]) == child.pid)


def case_arguments():
    hard = ["", " ", "a b", "it's", '"quoted"', "line\nbreak", "tab\t", "$HOME", "`id`", "\\", "*", "--", "-x", "--help", "=", "a=b",
            "ä\udc80"]
    done = subprocess.run([COMMAND, "run", "--object", OBJECT, "--", *SHOW, *hard], capture_output=True, check=False, env=ENVIRONMENT)
    native = subprocess.run([*SHOW, *hard], capture_output=True, check=False, env=ENVIRONMENT)
    expect(f"arguments arrive unchanged: {done}", done.stdout == native.stdout and done.returncode == 0)
    done = run(*SHOW, "--log", "x")
    expect("without -- the program's own options stay its own", done.stdout == "['--log', 'x']\n")
    done = run("--log", "off", *SHOW, "--help", "--dry-run")
    expect("also those that the command has itself", done.stdout == "['--help', '--dry-run']\n")


def case_existing_preload():
    with tempfile.TemporaryDirectory() as folder:
        others = [shutil.copy(EMPTY, f"{folder}/{name}.so") for name in "abc"]
        existing = f"{others[0]}:{others[1]} {others[2]}"
        done = run("--", "sh", "-c", 'printf %s "$LD_PRELOAD"', environment={"LD_PRELOAD": existing})
        expect(f"LD_PRELOAD is ours, then theirs: {done.stdout}", done.stdout == f"{OBJECT}:{existing}")
        maps = run("--", "cat", "/proc/self/maps", environment={"LD_PRELOAD": existing}).stdout
        expect("all four objects are mapped", all(path in maps for path in [OBJECT, *others]))
        twice = f"{others[0]} {OBJECT}"
        done = run("--", "sh", "-c", 'printf %s "$LD_PRELOAD"', environment={"LD_PRELOAD": twice})
        expect("ours is not added twice", done.stdout == twice)


def case_refusals():
    with tempfile.TemporaryDirectory() as folder:
        mark = pathlib.Path(folder) / "started"
        wrong = pathlib.Path(folder) / "wrong.so"
        content = bytearray(pathlib.Path(OBJECT).read_bytes())
        content[18] ^= 0xff
        wrong.write_bytes(content)
        text = pathlib.Path(folder) / "text.so"
        text.write_text("not an object")
        blank = pathlib.Path(folder) / "with blank"
        blank.mkdir()
        shutil.copy(OBJECT, blank / "libcistern.so")
        colon = shutil.copy(OBJECT, f"{folder}/with:colon.so")
        for arguments, reason in [
                (["--object", f"{folder}/none.so"], "no readable file"),
                (["--object", folder], "no readable file"),
                (["--object", str(wrong)], "another architecture"),
                (["--object", str(text)], "not a shared object"),
                (["--object", str(blank / "libcistern.so")], "blanks or colons"),
                (["--object", colon], "blanks or colons"),
                (["--nonsense", "x"], "no such option"),
                (["-e", "NOVALUE"], "NAME=VALUE"),
                (["-e", "1X=2"], "not a variable's name"),
                (["-e", "LD_PRELOAD=/x"], "LD_PRELOAD is set by this command")]:
            done = run(*arguments, "--", "touch", str(mark))
            expect(f"{arguments}: {done}", done.returncode == 125 and reason in done.stderr and done.stdout == "")
            expect(f"{arguments}: the program must not start", not mark.exists())
    expect("no program", run().returncode == 125)
    expect("no program after --", run("--").returncode == 125)
    expect("option without value", run("--log").returncode == 125)
    expect("no verb", subprocess.run([COMMAND], capture_output=True, check=False).returncode == 125)
    expect("unknown verb", run(verb="fly").returncode == 125)


def case_program_missing():
    expect("127", run("--", "/no/such/program").returncode == 127)
    expect("127 by name", run("--", "no-such-program-here").returncode == 127)
    with tempfile.NamedTemporaryFile() as file:
        expect("126", run("--", file.name).returncode == 126)


def case_flags_are_the_table():
    usage = run("--help").stdout
    table = subprocess.run([TOOL, "options"], capture_output=True, text=True, check=True).stdout
    names = re.findall(r"^\| `CISTERN_(\w+)`", table, re.MULTILINE)
    switches = re.search(r"^  (--disable.*?)  ", usage, re.MULTILINE).group(1).split()
    valued = re.findall(r"^  --(\w+) \S.* CISTERN_(\w+)$", usage, re.MULTILINE)
    expect(f"flags {switches} {valued} against {names}",
           sorted([s[2:].upper() for s in switches] + [variable for _, variable in valued]) == sorted(names))
    expect("a flag is its variable's name", all(flag.upper() == variable for flag, variable in valued))
    for flag, variable in valued:
        for form in ([f"--{flag}", "some value"], [f"--{flag}=some value"]):
            done = run(*form, "--", "sh", "-c", f'printf %s "$CISTERN_{variable}"')
            expect(f"{form}: {done}", done.stdout == "some value")
    for switch in switches:
        done = run(switch, "--", "sh", "-c", f'printf %s "$CISTERN_{switch[2:].upper()}"')
        expect(switch, done.stdout == "1")
    done = run("-e", "DALI_USE_VMM=0", "-e", "EMPTY=", "--", "sh", "-c", 'printf %s "$DALI_USE_VMM$EMPTY-"')
    expect("-e", done.stdout == "0-")


def case_dry_run():
    done = run("--dry-run", "--log", "it's", "--", "touch", "/nonexistent/x")
    expect(f"{done}", done.returncode == 0 and done.stdout == f"CISTERN_LOG='it'\\''s'\nLD_PRELOAD='{OBJECT}'\n")


def case_found_from_anywhere():
    with tempfile.TemporaryDirectory() as folder:
        os.makedirs(f"{folder}/tree/bin")
        os.makedirs(f"{folder}/tree/lib")
        shutil.copy(COMMAND, f"{folder}/tree/bin/cistern")
        shutil.copy(OBJECT, f"{folder}/tree/lib/libcistern.so")
        os.symlink(f"{folder}/tree/bin/cistern", f"{folder}/link")
        path = os.path.realpath(f"{folder}/tree/lib/libcistern.so")
        for call in (f"{folder}/link", f"{folder}/tree/bin/cistern", "tree/bin/cistern"):
            done = subprocess.run([call, "path"], capture_output=True, text=True, check=False, cwd=folder, env=ENVIRONMENT)
            expect(f"{call} path: {done}", done.stdout == path + "\n")
        done = subprocess.run([f"{folder}/link", "version"], capture_output=True, text=True, check=False, env=ENVIRONMENT)
        expect(f"version: {done}", done.stdout.startswith("cistern build: version="))
        os.remove(f"{folder}/tree/lib/libcistern.so")
        done = subprocess.run([f"{folder}/link", "path"], capture_output=True, text=True, check=False, env=ENVIRONMENT)
        expect(f"no object: {done}", done.returncode == 125 and "build or install it first" in done.stderr)


def failures():
    for name, case in sorted(globals().items()):
        if name.startswith("case_"):
            try:
                case()
                print(f"ok: {name[5:]}")
            except (AssertionError, OSError, ValueError, AttributeError) as error:
                yield f"{name[5:]}: {error}"


common.finish(list(failures()), "the command")
