"""Starts programs natively or preloaded, with a time limit, and collects what they print and what the preloads write."""

import dataclasses
import json
import os
import pathlib
import shutil
import signal
import subprocess
import time

import gpu_compare

HERE = pathlib.Path(__file__).resolve().parent


@dataclasses.dataclass
class Run:
    """One finished process (and its children). `code` is negative for a signal, None when it ran out of time."""
    code: object
    seconds: float
    report: object
    output: str
    counted: dict
    stats: dict

    @property
    def result(self):
        return self.report["result"] if self.report else None

    @property
    def varying(self):
        return self.report.get("volatile", {}) if self.report else {}

    def trouble(self):
        """Why this run cannot be used at all, or None."""
        if self.code is None:
            return f"ran out of time after {self.seconds:.0f} s"
        if self.report is None:
            return f"exit code {self.code} and no report; output ends: {self.output[-300:]!r}"
        if self.code != 0 or not self.report.get("ok", False):
            return f"exit code {self.code}: {self.report.get('why', '')}"
        return None


def clean_environment():
    """The environment without preloads and without settings of the product, so that a native run is native."""
    return {k: v for k, v in os.environ.items()
            if k not in ("LD_PRELOAD", "COUNT_FILE") and not k.startswith(("CISTERN_", "DALI_"))}


def read_by_process(folder, prefix):
    """pid -> first JSON object in PREFIX.<pid>.json."""
    found = {}
    for path in folder.glob(prefix + ".*.json"):
        try:
            found[int(path.name.split(".")[1])] = json.loads(path.read_text().splitlines()[0])
        except (ValueError, IndexError):
            found[int(path.name.split(".")[1])] = {}
    return found


class Bench:
    """Where things are, and how to run them. `log` takes text."""

    def __init__(self, object_path, programs, scratch, log):
        self.object, self.programs, self.scratch = pathlib.Path(object_path), pathlib.Path(programs), pathlib.Path(scratch)
        self.log = log
        self.number = 0

    def command(self, words):
        """Turns a client's name into a command: NAME.py from this folder, anything else from the programs' folder."""
        if words[0].endswith(".py"):
            return ["python3", str(HERE / words[0]), *words[1:]]
        return [str(self.programs / words[0]), *words[1:]]

    def native(self, *words, timeout=60, **env):
        return self._run(words, [], timeout, env)

    def preloaded(self, *words, timeout=60, count=True, **env):
        """Under the product, with the counting object in front of it unless told otherwise."""
        objects = [self.programs / "libcount_calls.so"] if count else []
        return self._run(words, [*objects, self.object], timeout, env)

    def under(self, preload, *words, timeout=60, **env):
        """Under another preload of the programs' folder."""
        return self._run(words, [self.programs / preload], timeout, env)

    def _run(self, words, preload, timeout, env):
        self.number += 1
        folder = self.scratch / f"run{self.number}"
        folder.mkdir(parents=True)
        environment = clean_environment()
        environment.update(env)
        environment["PYTHONDONTWRITEBYTECODE"] = "1"
        if preload:
            missing = [str(p) for p in preload if not p.exists()]
            if missing:
                raise FileNotFoundError("no " + ", ".join(missing))
            environment.update(LD_PRELOAD=":".join(str(p.resolve()) for p in preload),
                               COUNT_FILE=f"{folder}/count.%p.json", CISTERN_STATS=f"json:{folder}/stats.%p.json")
        run = self._finish(self.command(words), environment, timeout, folder)
        kind = "+".join(p.name for p in preload) or "native"
        settings = " ".join(f"{k}={v}" for k, v in env.items())
        self.log(f"$ [{kind}] {settings} {' '.join(words)}\n  code {run.code}, {run.seconds:.2f} s\n{run.output[-6000:]}\n")
        if run.stats:
            self.log("  stats " + json.dumps(run.stats) + "\n  counted " + json.dumps(run.counted) + "\n")
        shutil.rmtree(folder, ignore_errors=True)
        return run

    @staticmethod
    def _finish(command, environment, timeout, folder):
        output = folder / "output"
        start = time.monotonic()
        with open(output, "wb") as sink:
            process = subprocess.Popen(command, env=environment, stdout=sink, stderr=subprocess.STDOUT,
                                       stdin=subprocess.DEVNULL, start_new_session=True)
            try:
                code = process.wait(timeout)
            except subprocess.TimeoutExpired:
                os.killpg(process.pid, signal.SIGKILL)
                process.wait()
                code = None
        seconds = time.monotonic() - start
        text = output.read_text(errors="replace")
        return Run(code, seconds, gpu_compare.parse_report(text), text, read_by_process(folder, "count"),
                   read_by_process(folder, "stats"))
