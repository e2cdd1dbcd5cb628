"""Runs the GPU cases and writes results.json and run.log.

    run_gpu.py [--label gpu|gpu2|all] [--object PATH] [--programs DIR] [--out DIR] [--only REGEX] [--list]
    run_gpu.py --import DIR

Exit codes: 0 every listed case passed; 1 a case failed or was not run; 2 bad usage; 3 no GPU."""

import argparse
import datetime
import hashlib
import json
import pathlib
import re
import subprocess
import sys
import tempfile
import time
import traceback

import gpu_bench
import gpu_cases
import gpu_compare

ROOT = pathlib.Path(__file__).resolve().parents[2]
RESULTS = ROOT / "test" / "gpu" / "results"
DEVICES_FOR = {"gpu": 1, "gpu2": 2, "all": 2}


def build_of(object_path):
    """Commit and hash of the sources, from the text that the build baked into the object."""
    found = re.search(rb"cistern build: [^\0]*", pathlib.Path(object_path).read_bytes())
    fields = dict(word.split("=", 1) for word in found.group().decode().split() if "=" in word) if found else {}
    return fields.get("commit", "unknown"), fields.get("sources", "unknown")


def find_gpus():
    """(names, driver version) as the kernel driver's own tool tells them; ([], "") where there is no such driver."""
    command = ["nvidia-smi", "--query-gpu=name,driver_version", "--format=csv,noheader"]
    try:
        done = subprocess.run(command, capture_output=True, text=True, timeout=60, check=False)
    except (OSError, subprocess.TimeoutExpired):
        return [], ""
    rows = [line.split(", ") for line in done.stdout.splitlines() if ", " in line] if done.returncode == 0 else []
    return [row[0] for row in rows], rows[0][1] if rows else ""


def run_case(case, bench, log):
    log(f"\n=== {case.name} [{case.label}]\n")
    start = time.monotonic()
    try:
        problems, details = case.run(bench)
    except Exception as error:  # a case that breaks down has failed; the others still run
        log(traceback.format_exc())
        problems, details = [f"{type(error).__name__}: {error}"], {}
    seconds = round(time.monotonic() - start, 2)
    if problems:
        details = {"problems": problems, **details}
    for p in problems:
        log(f"  PROBLEM {p}\n")
    missed = problems and all(p.startswith(gpu_compare.GOAL_MISSED) for p in problems)
    return {"name": case.name, "label": case.label, "status": "missed" if missed else "fail" if problems else "pass",
            "seconds": seconds, "details": details}


def run_cases(cases, bench, log, deadline=None):
    """Results of the cases in order. A case that would start after the deadline is not run, and is not in the results:
    the caller compares with the list."""
    done = []
    for case in cases:
        if deadline is not None and time.monotonic() > deadline:
            break
        result = run_case(case, bench, log)
        print(f"{result['status']:4} {result['seconds']:7.2f} s  {result['name']}"
              + ("".join(f"\n        {p[:400]}" for p in result["details"].get("problems", [])[:6])), flush=True)
        done.append(result)
    return done


def verdict(listed, results):
    """Problems of the whole run: cases that failed, and cases that are listed but have no result. A missed speed goal is
    none: it stays in the results as "missed", and the run ends with 1, but shared machines have their moods."""
    problems = [f"failed: {r['name']}" for r in results if r["status"] not in ("pass", "missed")]
    names = {r["name"] for r in results}
    problems += [f"not run: {name}" for name in listed if name not in names]
    if len(set(listed)) != len(listed):
        problems.append("two cases have one name")
    if not listed:
        problems.append("no case is listed")
    return problems


def select(label, only):
    labels = ("gpu", "gpu2") if label == "all" else (label,)
    return [c for c in gpu_cases.CASES if c.label in labels and re.search(only or "", c.name)]


def folder_name(results):
    count = f"{results['devices']}x-" if results["label"] != "gpu" else ""
    name = "-".join([results["date"][:10], count + results["gpu"], results["driver"], results["commit"]])
    return re.sub(r"[^A-Za-z0-9._-]+", "_", name)


def import_results(folder, to=RESULTS):
    """Copies a finished run under test/gpu/results/. Refuses what is partial or failed."""
    source = pathlib.Path(folder)
    results = json.loads((source / "results.json").read_text())
    if results["partial"] or results["problems"]:
        print(f"gpu.sh: not imported, the run is partial or failed: {results['problems'][:5]}", file=sys.stderr)
        return 1
    target = pathlib.Path(to) / folder_name(results)
    target.mkdir(parents=True, exist_ok=True)
    for name in ("results.json", "run.log"):
        # Paths of the tree on the machine that ran it say nothing to a reader.
        (target / name).write_text((source / name).read_text().replace(str(ROOT) + "/", ""))
    print(target)
    return 0


def arguments(argv):
    parser = argparse.ArgumentParser(prog="gpu.sh", description="Runs every GPU test and client.")
    parser.add_argument("--label", choices=sorted(DEVICES_FOR), default="gpu", help="gpu: one GPU; gpu2: needs two")
    parser.add_argument("--object", default=str(ROOT / "build" / "release" / "libcistern.so"))
    parser.add_argument("--programs", help="folder of the test programs (default: test/gpu/bin beside the object)")
    parser.add_argument("--out", default=str(ROOT / "build" / "gpu-results"), help="where results.json and run.log go")
    parser.add_argument("--only", metavar="REGEX", help="run a part; the results are marked as partial")
    parser.add_argument("--seconds", type=float, default=500, help="start no further case after this time")
    parser.add_argument("--list", action="store_true", help="print the cases and stop")
    parser.add_argument("--import", dest="import_from", metavar="DIR", help="copy a run's results into the tree")
    return parser.parse_args(argv)


def write_results(out, options, gpus, results, problems, seconds, info):
    commit, sources = build_of(options.object)
    record = {
        "date": datetime.datetime.now(datetime.timezone.utc).strftime("%Y-%m-%dT%H:%M:%SZ"),
        "gpu": gpus[0][0], "devices": len(gpus[0]), "driver": gpus[1], "cuda": info.get("driver_interface"),
        "commit": commit, "sources_hash": sources,
        "object_sha256": hashlib.sha256(pathlib.Path(options.object).read_bytes()).hexdigest(),
        "label": options.label, "partial": bool(options.only), "seconds": round(seconds, 1),
        "problems": problems, "cases": results,
    }
    (out / "results.json").write_text(json.dumps(record, indent=1) + "\n")


def refuse(text, code):
    print(f"gpu.sh: {text}", file=sys.stderr)
    return code


def main(argv):
    options = arguments(argv)
    cases = select(options.label, options.only)
    if options.list:
        print("\n".join(f"{c.label:5} {c.name}" for c in cases))
        return 0
    if options.import_from:
        return import_results(options.import_from)
    gpus = find_gpus()
    if len(gpus[0]) < DEVICES_FOR[options.label]:
        return refuse(f"found {len(gpus[0])} NVIDIA GPU(s), label {options.label} needs {DEVICES_FOR[options.label]}; "
                      "nothing was run", 3)
    programs = pathlib.Path(options.programs or pathlib.Path(options.object).parent / "test" / "gpu" / "bin")
    for needed in (pathlib.Path(options.object), programs / "gpu_tests"):
        if not needed.exists():
            return refuse(f"no {needed}; build it first: cmake --preset release && cmake --build build/release", 2)
    out = pathlib.Path(options.out)
    out.mkdir(parents=True, exist_ok=True)
    start = time.monotonic()
    with open(out / "run.log", "w") as log_file, tempfile.TemporaryDirectory() as scratch:
        def log(text):
            log_file.write(text)
            log_file.flush()

        bench = gpu_bench.Bench(options.object, programs, scratch, log)
        info = bench.native("gpu_tests", "info").result or {}
        results = run_cases(cases, bench, log, start + options.seconds)
    problems = verdict([c.name for c in cases], results)
    missed = [f"speed goal missed: {r['name']}" for r in results if r["status"] == "missed"]
    write_results(out, options, gpus, results, problems, time.monotonic() - start, info)
    passed = sum(r["status"] == "pass" for r in results)
    print(f"{passed} of {len(cases)} cases passed, {time.monotonic() - start:.0f} s on {gpus[0][0]}, driver {gpus[1]}; "
          f"{out / 'results.json'}")
    for p in problems + missed:
        print(f"  {p}")
    return 1 if problems or missed else 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
