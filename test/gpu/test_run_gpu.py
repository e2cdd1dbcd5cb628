"""Tests of the GPU runner: its comparisons on canned output, its verdicts on stub programs. No GPU is needed, and every
check is shown to fail where it should."""

import contextlib
import io
import json
import pathlib
import sys
import tempfile
import unittest

sys.path.insert(0, str(pathlib.Path(__file__).resolve().parent))

import gpu_bench
import gpu_cases
import gpu_compare
import run_gpu


def count(alloc=0, free=0, final_free=None, forked=False):
    zero = {"alloc": 0, "alloc_pitch": 0, "free": 0, "free_async": 0, "free_async_ptsz": 0, "host_alloc": 0, "host_free": 0}
    first = {**zero, "alloc": alloc, "free": free}
    return {"pid": 1, "forked": forked, "counts": first, "final": {**first, "free": free if final_free is None else final_free}}


def new_folder(test):
    folder = tempfile.TemporaryDirectory()
    test.addCleanup(folder.cleanup)
    return pathlib.Path(folder.name)


class Compare(unittest.TestCase):
    def test_equal_results(self):
        self.assertEqual(gpu_compare.differences({"a": [1, {"b": "x"}]}, {"a": [1, {"b": "x"}]}), [])

    def test_a_changed_digit_is_reported(self):
        found = gpu_compare.differences({"losses": ["6.9077552", "6.80"]}, {"losses": ["6.9077553", "6.80"]})
        self.assertEqual(found, ['losses[0]: "6.9077552" -> "6.9077553"'])

    def test_a_missing_field_is_reported_on_either_side(self):
        self.assertEqual(len(gpu_compare.differences({"a": 1, "b": 2}, {"a": 1})), 1)
        self.assertEqual(len(gpu_compare.differences({"a": 1}, {"a": 1, "b": 2})), 1)

    def test_types_and_lengths_count(self):
        self.assertEqual(len(gpu_compare.differences({"a": 1}, {"a": True})), 1)
        self.assertEqual(len(gpu_compare.differences({"a": 1}, {"a": 1.0})), 1)
        self.assertEqual(len(gpu_compare.differences({"a": [1]}, {"a": [1, 2]})), 1)
        self.assertEqual(len(gpu_compare.differences({"a": 1}, None)), 1)

    def test_report_is_the_last_json_line(self):
        text = 'warning\n{"ok":true,"result":{"a":1}}\n{broken\ntail\n'
        self.assertEqual(gpu_compare.parse_report(text)["result"], {"a": 1})
        self.assertIsNone(gpu_compare.parse_report("nothing here\n"))


class Counts(unittest.TestCase):
    stats = {"alloc_served": 8, "alloc_forwarded": {"capture": 2}, "free_served": 6, "free_async_served": 1,
             "free_forwarded": {"foreign_pointer": 3}, "alloc_hits": 4}

    def test_exact(self):
        problems, summary = gpu_compare.check_counts({1: count(10, 10)}, {1: self.stats})
        self.assertEqual(problems, [])
        self.assertEqual((summary["allocations"], summary["frees"], summary["hits"]), (10, 10, 4))
        listed = (pathlib.Path(__file__).parents[2] / "pool" / "counters.h").read_text()
        for name in ("alloc_served", "alloc_hits", "free_served", "free_async_served"):
            self.assertIn(f"X({name}, ", listed)  # a renamed counter would read as 0
        self.assertEqual(summary["alloc_forwarded"], {"capture": 2})

    def test_one_call_too_few_or_too_many(self):
        self.assertEqual(len(gpu_compare.check_counts({1: count(11, 10)}, {1: self.stats})[0]), 1)
        self.assertEqual(len(gpu_compare.check_counts({1: count(10, 9)}, {1: self.stats})[0]), 1)

    def test_frees_after_exit_began_are_allowed_for(self):
        self.assertEqual(gpu_compare.check_counts({1: count(10, 9, 11)}, {1: self.stats})[0], [])

    def test_a_process_without_statistics(self):
        self.assertEqual(len(gpu_compare.check_counts({1: count(10, 10), 2: count(1, 0)}, {1: self.stats})[0]), 1)

    def test_nothing_counted_is_a_problem(self):
        self.assertEqual(len(gpu_compare.check_counts({}, {})[0]), 1)

    def test_a_forked_child_is_left_out(self):
        self.assertEqual(gpu_compare.check_counts({1: count(10, 10), 2: count(5, 5, forked=True)}, {1: self.stats})[0], [])


class Speed(unittest.TestCase):
    def test_step_ratio(self):
        self.assertAlmostEqual(gpu_compare.step_ratio([[9, 2, 4], [9, 2, 4]], [[1, 1, 2], [1, 1, 2]], skip=1), 2.0)

    def test_pair_limits(self):
        fine = {"256.idle_ns": 199.0, "1048576.idle_ns": 1999.0, "clock_ns": 20.0}
        self.assertEqual(gpu_compare.pair_verdicts(fine)[0], [])
        self.assertEqual(len(gpu_compare.pair_verdicts({**fine, "256.idle_ns": 201.0})[0]), 1)
        self.assertEqual(len(gpu_compare.pair_verdicts({**fine, "4096.kernel_5us.call_ns": 250.0,
                                                        "4096.kernel_5us.loop_us": 6.0,
                                                        "4096.kernel_5us.plain_us": 5.0})[0]), 1)
        self.assertEqual(gpu_compare.pair_verdicts({**fine, "4096.kernel_5us.call_ns": 900.0,
                                                    "4096.kernel_5us.loop_us": 5.1,
                                                    "4096.kernel_5us.plain_us": 5.0})[0], [])
        self.assertEqual(len(gpu_compare.pair_verdicts({})[0]), 1)

    def test_least_disturbed(self):
        self.assertEqual(gpu_compare.least_disturbed([{"a": 2, "b": 5}, {"a": 3, "b": 4}]), {"a": 2, "b": 4})

    def test_a_missed_goal_is_told_from_a_failure(self):
        def case(problems):
            return run_gpu.run_case(gpu_cases.Case("x", "gpu", lambda bench: (problems, {})), None, lambda text: None)

        goal = gpu_compare.GOAL_MISSED + "too slow"
        self.assertEqual(case([goal])["status"], "missed")
        self.assertEqual(case([goal, "wrong"])["status"], "fail")
        self.assertEqual(run_gpu.verdict(["x"], [case([goal])]), [])
        self.assertEqual(len(run_gpu.verdict(["x"], [case(["wrong"])])), 1)


class StubRuns(unittest.TestCase):
    """Programs are shell scripts; "preloaded" is recognised by CISTERN_STATS, and an empty object is preloaded."""

    def setUp(self):
        self.folder = new_folder(self)
        self.log = []
        for name in ("product.so", "libcount_calls.so"):
            (self.folder / name).write_bytes(b"")
        self.bench = gpu_bench.Bench(self.folder / "product.so", self.folder, self.folder / "scratch", self.log.append)

    def program(self, name, body):
        path = self.folder / name
        path.write_text("#!/bin/sh\n" + body)
        path.chmod(0o755)

    def client(self, preloaded_value="1", served=3, code=0):
        stats = json.dumps({"alloc_served": served, "free_served": 3})
        counted = json.dumps(count(3, 3))
        self.program("client", f"""
value=1
if [ -n "$CISTERN_STATS" ]; then
    value='{preloaded_value}'; at=${{CISTERN_STATS#json:}}
    echo '{stats}' > "${{at%%%p*}}77${{at##*%p}}"; echo '{counted}' > "${{COUNT_FILE%%%p*}}77${{COUNT_FILE##*%p}}"
fi
echo '{{"ok":true,"why":"","result":{{"a":'$value'}},"volatile":{{}}}}'
exit {code}
""")

    def outcome(self):
        return gpu_cases.same_as_native("client")(self.bench)[0]

    def test_equal_runs_pass(self):
        self.client()
        self.assertEqual(self.outcome(), [])

    def test_other_result_fails(self):
        self.client(preloaded_value="2")
        self.assertIn("1 fields differ", " ".join(self.outcome()))

    def test_uncounted_call_fails(self):
        self.client(served=2)
        self.assertIn("served + forwarded = 2", " ".join(self.outcome()))

    def test_failing_native_run_fails(self):
        self.client(code=1)
        self.assertIn("native run 1", " ".join(self.outcome()))

    def test_crash_only_when_preloaded_fails(self):
        self.program("client", 'if [ -n "$CISTERN_STATS" ]; then kill -SEGV $$; fi\necho \'{"ok":true,"result":{}}\'\n')
        self.assertIn("exit code 0 natively, -11 preloaded", " ".join(self.outcome()))

    def test_same_crash_both_ways_passes(self):
        self.program("client", "kill -SEGV $$\n")
        self.assertEqual(self.outcome(), [])

    def test_running_out_of_time_fails(self):
        self.program("client", "sleep 30\n")
        problems = gpu_cases.same_as_native("client", timeout=0.3)(self.bench)[0]
        self.assertIn("ran out of time", " ".join(problems))

    def test_missing_preload_fails_the_case(self):
        self.client()
        (self.folder / "product.so").unlink()
        case = gpu_cases.Case("c", "gpu", gpu_cases.same_as_native("client"))
        self.assertEqual(run_gpu.run_case(case, self.bench, self.log.append)["status"], "fail")

    def test_control_fails_when_early_reuse_goes_unnoticed(self):
        (self.folder / "libearly_reuse.so").write_bytes(b"")
        self.program("gpu_tests", 'echo \'{"ok":true,"result":{"legacy/same":0}}\'\n')
        self.assertIn("was not noticed", " ".join(gpu_cases.early_reuse_is_found(self.bench)[0]))


class Verdict(unittest.TestCase):
    def results(self, *statuses):
        return [{"name": f"c{i}", "status": s} for i, s in enumerate(statuses)]

    def test_all_passed(self):
        self.assertEqual(run_gpu.verdict(["c0", "c1"], self.results("pass", "pass")), [])

    def test_a_failed_case(self):
        self.assertEqual(run_gpu.verdict(["c0", "c1"], self.results("pass", "fail")), ["failed: c1"])

    def test_a_case_that_was_not_run(self):
        self.assertEqual(run_gpu.verdict(["c0", "c1"], self.results("pass")), ["not run: c1"])

    def test_no_case_at_all(self):
        self.assertEqual(len(run_gpu.verdict([], [])), 1)

    def test_deadline_leaves_cases_out(self):
        case = gpu_cases.Case("c0", "gpu", lambda bench: ([], {}))
        self.assertEqual(run_gpu.run_cases([case], None, lambda text: None, deadline=0.0), [])

    def test_names_are_unique(self):
        names = [c.name for c in gpu_cases.CASES]
        self.assertEqual(len(set(names)), len(names))


class WholeRun(unittest.TestCase):
    """main() with a stub machine: exit codes, results.json and the import."""

    def setUp(self):
        self.folder = new_folder(self)
        self.object = self.folder / "product.so"
        self.object.write_bytes(b"\0cistern build: version=1 commit=abc123 sources=0f0f config=1\0")
        (self.folder / "gpu_tests").write_text('#!/bin/sh\necho \'{"ok":true,"result":{"driver_interface":13000}}\'\n')
        (self.folder / "gpu_tests").chmod(0o755)
        self.saved = run_gpu.find_gpus, gpu_cases.CASES
        run_gpu.find_gpus = lambda: (["NVIDIA H200"], "580.1")
        gpu_cases.CASES = [gpu_cases.Case("good", "gpu", lambda bench: ([], {"x": 1}))]

    def tearDown(self):
        run_gpu.find_gpus, gpu_cases.CASES = self.saved

    def run_main(self, *more):
        out = io.StringIO()
        with contextlib.redirect_stdout(out), contextlib.redirect_stderr(out):
            code = run_gpu.main(["--object", str(self.object), "--programs", str(self.folder), "--out",
                                 str(self.folder / "out"), *more])
        return code, out.getvalue()

    def test_results_and_import(self):
        self.assertEqual(self.run_main()[0], 0)
        record = json.loads((self.folder / "out" / "results.json").read_text())
        self.assertEqual((record["commit"], record["sources_hash"], record["cuda"]), ("abc123", "0f0f", 13000))
        self.assertEqual(record["cases"][0]["details"], {"x": 1})
        with contextlib.redirect_stdout(io.StringIO()):
            self.assertEqual(run_gpu.import_results(self.folder / "out", self.folder / "tree"), 0)
        self.assertEqual([p.name for p in (self.folder / "tree").iterdir()],
                         [record["date"][:10] + "-NVIDIA_H200-580.1-abc123"])

    def test_a_failing_case_fails_the_run_and_is_not_imported(self):
        gpu_cases.CASES.append(gpu_cases.Case("bad", "gpu", lambda bench: (["wrong"], {})))
        self.assertEqual(self.run_main()[0], 1)
        with contextlib.redirect_stderr(io.StringIO()):
            self.assertEqual(run_gpu.import_results(self.folder / "out", self.folder / "tree"), 1)

    def test_a_case_that_breaks_down_fails_the_run(self):
        gpu_cases.CASES.append(gpu_cases.Case("broken", "gpu", lambda bench: 1 / 0))
        self.assertEqual(self.run_main()[0], 1)

    def test_no_time_left_fails_the_run(self):
        self.assertEqual(self.run_main("--seconds", "-1")[0], 1)

    def test_no_gpu(self):
        run_gpu.find_gpus = lambda: ([], "")
        code, text = self.run_main()
        self.assertEqual(code, 3)
        self.assertIn("nothing was run", text)

    def test_one_gpu_is_not_two(self):
        self.assertEqual(self.run_main("--label", "gpu2")[0], 3)

    def test_missing_programs(self):
        (self.folder / "gpu_tests").unlink()
        self.assertEqual(self.run_main()[0], 2)


if __name__ == "__main__":
    unittest.main()
