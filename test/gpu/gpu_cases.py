"""The list of GPU cases. A case is a function of a Bench that returns (problems, details); no problem means passed.

Nearly all have the same shape: a program natively twice (equal to itself), then preloaded (equal to native), with the
product's counters compared with an independent count of the calls."""

import collections
import statistics

import gpu_compare

Case = collections.namedtuple("Case", "name label run")

MIB = 1 << 20


def same_as_native(*words, preloaded_words=None, native_runs=2, timeout=60, native_env=None, env=None, require=None,
                   counted=True):
    """The standard case. `require(run)` may name further problems of the preloaded run; an exit code that equals the
    native one is right, whatever it is, unless the program gave a report natively. `counted` is False for a program
    whose calls never reach the driver's allocation."""
    def run(bench):
        problems, details = [], {}
        natives = [bench.native(*words, timeout=timeout, **(native_env or {})) for _ in range(native_runs)]
        for i, native in enumerate(natives):
            if native.report is not None or native.code is None:
                trouble = native.trouble()
                if trouble:
                    return [f"native run {i + 1}: {trouble}"], details
            if (native.code, native.result) != (natives[0].code, natives[0].result):
                problems.append("native is not equal to native: "
                                + "; ".join(gpu_compare.differences(natives[0].result, native.result)[:5]))
        pooled = bench.preloaded(*(preloaded_words or words), timeout=timeout, **{**(native_env or {}), **(env or {})})
        problems += compare_runs(natives[0], pooled, details)
        problems += count_problems(pooled, details, counted and natives[0].report is not None)
        if require and pooled.report is not None:
            problems += require(pooled)
        details.update(native_seconds=[round(n.seconds, 2) for n in natives], preloaded_seconds=round(pooled.seconds, 2),
                       native=short(natives[-1].varying), preloaded=short(pooled.varying))
        return problems, details

    return run


def short(values):
    """Volatile fields for the results file, without long lists."""
    return {k: v for k, v in values.items() if not isinstance(v, list)}


def compare_runs(native, pooled, details):
    if native.code != pooled.code:
        return [f"exit code {native.code} natively, {pooled.code} preloaded: {pooled.trouble()}"]
    if native.report is None:
        details["exit_code"] = native.code
        return []
    trouble = pooled.trouble()
    found = gpu_compare.differences(native.result, pooled.result)
    details["compared_fields"] = len(native.result)
    if found:
        details["differences"] = found[:60]
    problems = [f"preloaded run: {trouble}"] if trouble else []
    return problems + ([f"{len(found)} fields differ: " + "; ".join(found[:8])] if found else [])


def count_problems(pooled, details, expected):
    """Served + forwarded against the independent count. A process that died has no statistics to compare."""
    if not expected:
        return []
    problems, summary = gpu_compare.check_counts(pooled.counted, pooled.stats)
    details["calls"] = summary
    return problems


def recycled_at_least(share, in_flight=None):
    def require(run):
        problems = []
        if run.varying.get("recycled_share", 0) < share:
            problems.append(f"only {run.varying.get('recycled_share')} of the rounds met memory of earlier victims")
        if in_flight and run.varying.get("in_flight_share", 0) < in_flight:
            problems.append(f"only {run.varying.get('in_flight_share')} of the frees met running work")
        return problems

    return require


def at_least(key, least):
    return lambda run: [] if run.varying.get(key, 0) >= least else [f"{key} is {run.varying.get(key)}, want {least}"]


def test_case(name, title, *arguments, label="gpu", preloaded=None, **options):
    """A sub-command of gpu_tests; `preloaded` replaces the arguments of the preloaded run (more rounds, say)."""
    more = {"preloaded_words": ("gpu_tests", name, *preloaded)} if preloaded else {}
    return Case(title, label, same_as_native("gpu_tests", name, *arguments, **more, **options))


# --- Negative controls -------------------------------------------------------------------------------------------------

REUSE_HITS = ("same", "smaller", "other_thread", "driver_call", "pitch")


def early_reuse_is_found(bench):
    """Under an allocator that hands freed memory out at once, the F08 programs must see wrong bytes for every kind of
    work and for every way of taking memory that this allocator serves from its cache."""
    problems, run = [], bench.under("libearly_reuse.so", "gpu_tests", "reuse", "20", timeout=60)
    if run.result is None:
        return [run.trouble()], {}
    if run.code != 1:
        problems.append(f"exit code {run.code}, want 1")
    by_take = collections.Counter()
    for name, wrong in run.result.items():
        work, take = name.split("/")
        by_take[take] += wrong > 0
        if take == "same" and wrong == 0:
            problems.append(f"{work}: early reuse was not noticed")
    problems += [f"no kind of work noticed early reuse by {take}" for take in REUSE_HITS if not by_take[take]]
    return problems, {"variants_that_noticed": sum(w > 0 for w in run.result.values()), "of": len(run.result)}


def other_programs_notice(bench):
    """The same for the programs beside the F08 one."""
    problems, details = [], {}
    for name, *rounds in (("mailbox",), ("async_free",), ("threads", "60")):
        run = bench.under("libearly_reuse.so", "gpu_tests", name, *rounds, timeout=60)
        details[name] = run.result
        if run.code != 1 or not run.result or run.result.get("wrong", 0) == 0:
            problems.append(f"{name}: early reuse was not noticed (exit code {run.code})")
    return problems, details


# --- Clients -----------------------------------------------------------------------------------------------------------

def pair_client(bench):
    """alloc_mix pair and pairk, one and eight threads, natively and preloaded: equal, with their times."""
    problems, details = [], {}
    for mode, size, count, threads in (("pair", 4096, 2000, 1), ("pair", MIB, 2000, 1), ("pair", 64 * MIB, 500, 1),
                                       ("pairk", MIB, 2000, 1), ("pair", MIB, 300, 8), ("pairk", MIB, 300, 8)):
        words = ("alloc_mix", mode, str(size), str(count), str(threads))
        name = f"{mode} {size} B x{threads}"
        found, one = same_as_native(*words, native_runs=1)(bench)
        problems += [f"{name}: {p}" for p in found]
        if "native" in one:
            details[name] = {"native_ns": one["native"].get("ns_per_pair_and_thread"),
                             "preloaded_ns": one["preloaded"].get("ns_per_pair_and_thread"), "calls": one.get("calls")}
    return problems, details


def random_client(bench):
    """alloc_mix rand: equal to native, and at most 0.6 us per operation (median of three runs without the counter)."""
    words = ("alloc_mix", "rand", "300000")
    problems, details = same_as_native(*words, native_runs=1, timeout=90)(bench)
    runs = [bench.preloaded(*words, count=False) for _ in range(3)]
    problems += [r.trouble() for r in runs if r.trouble()]
    if problems:
        return problems, details
    middle = sorted(runs, key=lambda r: r.varying["us_per_step"])[1]
    mapped = statistics.median(next(iter(r.stats.values()), {}).get("mapped_bytes_peak", 0) for r in runs)
    details.update(measured=True, us_per_operation=middle.varying["us_per_operation"],
                   us_per_step=middle.varying["us_per_step"], limit_us=0.6, p99_us=middle.varying["p99_us"],
                   p999_us=middle.varying["p99.9_us"], mapped_over_peak=mapped / middle.result["peak"])
    if middle.varying["us_per_operation"] > 0.6:
        problems.append(f"{gpu_compare.GOAL_MISSED}{middle.varying['us_per_operation']:.3f} us per operation, limit 0.6")
    return problems, details


def driver_pair_client(bench):
    """Reused pairs at driver level, idle and behind short kernels, against the limits; natively for comparison."""
    native = bench.native("alloc_mix", "dpair", timeout=90)
    pooled = [bench.preloaded("alloc_mix", "dpair", timeout=90, count=False) for _ in range(3)]
    problems = [r.trouble() for r in (native, *pooled) if r.trouble()]
    if problems:
        return problems, {}
    found, table = gpu_compare.pair_verdicts(gpu_compare.least_disturbed([r.varying for r in pooled]))
    for row in table:
        kind = "idle_ns" if row["when"] == "idle" else row["when"] + ".call_ns"
        row["native_ns"] = round(native.varying.get(f"{row['bytes']}.{kind}", 0), 1)
    return found, {"measured": True, "table": table, "runs": [r.varying for r in pooled],
                   "stats": next(iter(pooled[-1].stats.values()), {})}


def spanning_client(bench):
    """Pairs behind one kernel that outlasts the loop: it ends, and what is mapped stays bounded (a fifth of the card)."""
    problems, details = [], {"measured": True}
    info = bench.native("gpu_tests", "info")
    if info.trouble():
        return [info.trouble()], {}
    bound = info.result["total_mib"] * MIB // 5
    for size, count in ((4096, 20000), (MIB, 20000), (64 * MIB, 2000)):
        run = bench.preloaded("alloc_mix", "span", str(size), str(count), "2", timeout=30, count=False)
        trouble = run.trouble()
        if trouble:
            problems.append(f"{size} B: {trouble}")
            continue
        peak = next(iter(run.stats.values()), {}).get("mapped_bytes_peak")
        details[f"{size} B"] = {"pairs": count, "mapped_bytes_peak": peak, "bound": bound, **run.varying}
        if peak is None or peak > bound:
            problems.append(f"{size} B: mapped_bytes_peak {peak}, bound {bound}")
    return problems, details


def bandwidth_client(bench):
    """Copy kernel in pool memory against native memory, alternating; at least 0.99."""
    natives, pooled = [], []
    for _ in range(3):
        natives.append(bench.native("gpu_tests", "bandwidth"))
        pooled.append(bench.preloaded("gpu_tests", "bandwidth", count=False))
    problems = [r.trouble() for r in natives + pooled if r.trouble()]
    if problems:
        return problems, {}
    ours, theirs = (max(r.varying["gb_per_s"] for r in runs) for runs in (pooled, natives))
    details = {"measured": True, "native_gb_per_s": theirs, "pool_gb_per_s": ours, "ratio": ours / theirs, "limit": 0.99}
    return ([] if ours / theirs >= 0.99 else [f"{gpu_compare.GOAL_MISSED}ratio {ours / theirs:.4f}, limit 0.99"]), details


NO_CACHE = {"PYTORCH_NO_CUDA_MEMORY_CACHING": "1"}


def training_results(bench):
    """Losses with and without PyTorch's own cache, natively and preloaded: the same to the last digit."""
    env = {"STEPS": "16"}
    reference = bench.native("train.py", timeout=120, **env)
    if reference.trouble():
        return [f"native: {reference.trouble()}"], {}
    problems, details = [], {"losses": reference.result["losses"][-3:], "torch": reference.varying["torch"]}
    for name, starter, extra in (("native again", bench.native, {}), ("native without cache", bench.native, NO_CACHE),
                                 ("preloaded with cache", bench.preloaded, {}),
                                 ("preloaded without cache", bench.preloaded, NO_CACHE)):
        run = starter("train.py", timeout=120, **env, **extra)
        one = {"median_step_ms": statistics.median(run.varying["step_ms"][3:]) if run.report else None}
        found = [run.trouble()] if run.trouble() else gpu_compare.differences(reference.result, run.result)[:3]
        if starter == bench.preloaded and not run.trouble():
            found += count_problems(run, one, True)
        problems += [f"{name}: {p}" for p in found]
        details[name] = one
    return problems, details


def training_speed(pairs):
    """PyTorch without its cache on the pool against PyTorch with its cache natively, in alternating pairs of processes;
    the native processes against each other are the control."""
    def run(bench):
        cached, pooled = [], []
        for _ in range(pairs):
            cached.append(bench.native("train.py", timeout=120))
            pooled.append(bench.preloaded("train.py", timeout=120, count=False, **NO_CACHE))
        problems = [r.trouble() for r in cached + pooled if r.trouble()]
        if problems:
            return problems, {}
        theirs, ours = ([r.varying["step_ms"] for r in runs] for runs in (cached, pooled))
        ratio = gpu_compare.step_ratio(ours, theirs)
        details = {"measured": True, "pairs": pairs, "ratio": round(ratio, 4), "limit": 1.1,
                   "control": round(gpu_compare.step_ratio(theirs[::2], theirs[1::2]), 4),
                   "cached_ms": [round(statistics.median(t[3:]), 3) for t in theirs],
                   "pooled_ms": [round(statistics.median(t[3:]), 3) for t in ours],
                   "stats": next(iter(pooled[-1].stats.values()), {})}
        unequal = [r for r in pooled + cached if r.result != cached[0].result]
        problems += [f"{len(unequal)} processes gave other losses"] if unequal else []
        problems += [f"{gpu_compare.GOAL_MISSED}ratio {ratio:.3f}, limit 1.1"] if ratio > 1.1 else []
        return problems, details

    return run


def sort_speed(bench):
    """thrust sorts natively and preloaded: both times (no limit of its own here)."""
    problems, details = [], {"measured": True}
    for elements in ("1048576", "16777216"):
        for kind, starter in (("native", bench.native), ("preloaded", lambda *w: bench.preloaded(*w, count=False))):
            run = starter("thrust_sort", elements, "100")
            problems += [run.trouble()] if run.trouble() else []
            details[f"{kind} {elements}"] = run.varying.get("ms_per_sort")
    return problems, details


def framework(name, **options):
    return Case(f"client {name}", "gpu", same_as_native("frameworks.py", name, timeout=120, **options))


# --- The list ----------------------------------------------------------------------------------------------------------

CASES = [
    test_case("zero_and_null", "F36 zero sizes and nulls"),
    test_case("null_pitch", "F36 null pitch pointer", counted=False),
    test_case("foreign", "F09 pointers of other origins", "1500"),
    test_case("error_state", "F17 error state and exact codes"),
    test_case("meminfo", "F19 free memory as a planning tool"),
    test_case("meminfo_null_free", "F19 null output for free", counted=False),
    test_case("meminfo_null_total", "F19 null output for total", counted=False),
    test_case("shape", "F42 alignment, pitch and ranges"),
    test_case("past_end", "F40 reads in the slack behind a block"),
    test_case("large_again", "F16a large block again after small ones"),
    test_case("large_first", "F16c 95 per cent as the first allocation"),
    test_case("host_function", "allocation inside a host function"),
    test_case("fault", "codes after a sticky fault"),
    test_case("reset", "F34 device reset"),
    test_case("own_context", "F34 contexts of its own"),
    test_case("green_context", "F08 green context"),
    test_case("capture_matrix", "F21 capture matrix", timeout=90),
    test_case("capture_storm", "F21 captures beside eight threads", "100", preloaded=("1000",), native_runs=1),
    Case("F08 control: early reuse is found", "gpu", early_reuse_is_found),
    Case("F08 control: other programs notice", "gpu", other_programs_notice),
    test_case("reuse", "F08 early reuse, all variants", "10", preloaded=("1000",), timeout=150,
              require=recycled_at_least(0.3, in_flight=0.9)),
    test_case("reuse", "F08 with a small pending bound", "5", preloaded=("40",), env={"CISTERN_PENDING": "64M"},
              native_runs=1, require=recycled_at_least(0.3)),
    test_case("reuse", "F08 with waiting frees", "5", preloaded=("20",), env={"DALI_USE_DEFERRED_DEALLOC": "0"},
              native_runs=1),
    test_case("mailbox", "F08 mailbox kernel", require=at_least("served_share", 0.9)),
    test_case("async_free", "F08 cudaFreeAsync of plain memory", require=recycled_at_least(0.3)),
    test_case("cross_wait", "kernels that wait across allocations", native_runs=1),
    test_case("cross_wait", "kernels that wait across allocations, small bound", env={"CISTERN_PENDING": "16M"},
              native_runs=1),
    test_case("producer_consumer", "F08 producers and consumers", "300", preloaded=("1500",), native_runs=1),
    test_case("threads", "F08 eight threads", "500", preloaded=("3000",), native_runs=1,
              require=at_least("frees_under_work", 2000)),
    Case("client thrust sort, static runtime", "gpu", same_as_native("thrust_sort", "1048576", "100")),
    Case("client thrust sort, shared runtime", "gpu", same_as_native("thrust_sort_shared", "1048576", "100")),
    Case("client alloc_mix pair", "gpu", pair_client),
    framework("cupy"),
    framework("cupy-nopool"),
    framework("jax"),
    framework("triton"),
    framework("loader"),
    Case("client PyTorch training, results", "gpu", training_results),
    Case("client alloc_mix rand", "gpu", random_client),
    Case("speed of driver pairs", "gpu", driver_pair_client),
    Case("speed behind a spanning kernel", "gpu", spanning_client),
    Case("speed of a copy kernel", "gpu", bandwidth_client),
    Case("speed of thrust sort", "gpu", sort_speed),
    Case("speed of PyTorch training", "gpu", training_speed(5)),
    test_case("peer_copies", "F24 copies between two GPUs", label="gpu2"),
    test_case("peer_free", "F08 freed with the other GPU current", label="gpu2", require=recycled_at_least(0.3)),
    test_case("spin_pair", "kernels of two GPUs that wait for each other", label="gpu2", native_runs=1),
]
