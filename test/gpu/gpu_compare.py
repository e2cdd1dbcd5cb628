"""Comparisons of the GPU runner: results of two runs field by field, and the product's counters with the independent
count. Pure functions on parsed JSON; nothing here starts a process."""

import json
import statistics

MISSING = "(missing)"


def parse_report(stdout):
    """The last line of a program's output that is a JSON object with "result"; None if there is none."""
    for line in reversed(stdout.splitlines()):
        if line.startswith("{"):
            try:
                report = json.loads(line)
            except ValueError:
                continue
            if isinstance(report, dict) and "result" in report:
                return report
    return None


def differences(native, preloaded, path=""):
    """List of "path: native -> preloaded" for every leaf that is not exactly equal, types included."""
    if isinstance(native, dict) and isinstance(preloaded, dict):
        found = []
        for key in list(native) + [k for k in preloaded if k not in native]:
            found += differences(native.get(key, MISSING), preloaded.get(key, MISSING), f"{path}.{key}" if path else key)
        return found
    if isinstance(native, list) and isinstance(preloaded, list) and len(native) == len(preloaded):
        found = []
        for i, (a, b) in enumerate(zip(native, preloaded)):
            found += differences(a, b, f"{path}[{i}]")
        return found
    if type(native) is type(preloaded) and native == preloaded:
        return []
    return [f"{path}: {json.dumps(native)} -> {json.dumps(preloaded)}"]


def product_totals(stats):
    """Allocations and frees that the product says it saw: served and forwarded."""
    forwarded_allocs = sum(stats.get("alloc_forwarded", {}).values())
    forwarded_frees = sum(stats.get("free_forwarded", {}).values())
    return (stats.get("alloc_served", 0) + forwarded_allocs,
            stats.get("free_served", 0) + stats.get("free_async_served", 0) + forwarded_frees)


def counted_totals(counts):
    """The same two figures of the independent count."""
    return (counts["alloc"] + counts["alloc_pitch"], counts["free"] + counts["free_async"] + counts["free_async_ptsz"])


def check_counts(counted, stats):
    """Compares per process. `counted`: pid -> what the counting object wrote; `stats`: pid -> the product's counters.

    The product prints when exit begins; the counting object writes the figures of that moment and the last ones. A
    product's figure in between is right (a destructor may free in the meantime), anything else is not.
    Returns (problems, summary)."""
    problems = []
    summary = {"processes": 0, "allocations": 0, "frees": 0, "served": 0, "hits": 0, "alloc_forwarded": {},
               "free_forwarded": {}}
    for pid, count in sorted(counted.items()):
        first, last = counted_totals(count["counts"]), counted_totals(count["final"])
        if count["forked"]:
            continue  # a child without CUDA of its own carries its parent's figures
        if last == (0, 0):
            continue
        summary["processes"] += 1
        if pid not in stats:
            problems.append(f"process {pid}: {last[0]} allocations counted, but no statistics from the product")
            continue
        seen = product_totals(stats[pid])
        for what, low, high, product in zip(("allocations", "frees"), first, last, seen):
            summary[what] += product
            if not low <= product <= high:
                problems.append(f"process {pid}: {what} served + forwarded = {product}, counted {low}"
                                + (f" to {high}" if high != low else ""))
        summary["served"] += stats[pid].get("alloc_served", 0)
        summary["hits"] += stats[pid].get("alloc_hits", 0)
        for kind in ("alloc_forwarded", "free_forwarded"):
            for reason, n in stats[pid].get(kind, {}).items():
                summary[kind][reason] = summary[kind].get(reason, 0) + n
    if summary["processes"] == 0:
        problems.append("no process with an allocation was counted")
    return problems, summary


def step_ratio(ours, theirs, skip=3):
    """Ratio of two kinds of processes that did the same steps: for each step the median over its processes, then the
    quotient of the sums. `ours`, `theirs`: one list of step times per process."""
    def total(runs):
        return sum(statistics.median(step) for step in list(zip(*runs))[skip:])

    return total(ours) / total(theirs)


# --- Verdicts on alloc_mix dpair: limits in nanoseconds by size.
SMALL_LIMIT_BYTES = 256 << 10


GOAL_MISSED = "goal missed: "


def least_disturbed(runs):
    """Per figure the least of several runs: the machines are shared, and whatever disturbs a run only adds to it."""
    return {key: min(run[key] for run in runs) for key in runs[0]}


def pair_verdicts(figures, small_ns=200.0, large_ns=2000.0, clock_noise=0.002):
    """`figures`: volatile fields of alloc_mix dpair. Returns (problems, table). What a pair costs is compared with the limit
    of its size: idle the mean of a loop of pairs; behind kernels what the pair adds to the loop, where two thousandths of
    the loop are noise. The time of single calls between kernels, with two readings of the clock and cold caches in it, is
    in the table without a limit."""
    problems, table = [], []
    for name, value in figures.items():
        size, _, what = name.partition(".")
        if not size.isdigit() or not what.endswith("_ns"):
            continue
        limit = small_ns if int(size) <= SMALL_LIMIT_BYTES else large_ns
        row = {"bytes": int(size), "when": what[:-3], "limit_ns": limit}
        if what.endswith(".call_ns"):
            cell = name[: -len(".call_ns")]
            loop, plain = figures[cell + ".loop_us"], figures[cell + ".plain_us"]
            row.update(when=what[: -len(".call_ns")], call_ns=round(value, 1), loop_us=round(loop, 3),
                       plain_us=round(plain, 3), loop_ratio=round(loop / plain, 4))
            value = (loop - plain) * 1e3
            limit += clock_noise * plain * 1e3
        row.update(ns=round(value, 1), ok=value <= limit)
        table.append(row)
        if not row["ok"]:
            problems.append(f"{GOAL_MISSED}{size} B {row['when']}: {value:.0f} ns, limit {limit:.0f}")
    if not table:
        problems.append("no figures")
    return problems, table
