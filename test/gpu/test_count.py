"""The counting object against a program whose calls are known, alone and in front of the product, on the simulated GPU.
Use: test_count.py FOLDER_OF_PRELOADS FOLDER_OF_SIMULATED_LIBCUDA PRODUCT"""

import os
import pathlib
import subprocess
import sys
import tempfile
import unittest

HERE = pathlib.Path(__file__).resolve().parent
sys.path.insert(0, str(HERE))

import gpu_bench
import gpu_compare

PRELOADS, SIMULATED, PRODUCT = (pathlib.Path(p) for p in sys.argv[1:4])
EXPECTED = {"alloc": 17, "alloc_pitch": 1, "free": 17, "free_async": 1, "free_async_ptsz": 1, "host_alloc": 0,
            "host_free": 0}


def run(folder, objects, *arguments, **env):
    environment = {**gpu_bench.clean_environment(), "LD_LIBRARY_PATH": str(SIMULATED), "PYTHONDONTWRITEBYTECODE": "1",
                   "LD_PRELOAD": ":".join(str(o) for o in objects), "COUNT_FILE": f"{folder}/count.%p.json",
                   "CISTERN_STATS": f"json:{folder}/stats.%p.json", **env}
    done = subprocess.run(["python3", str(HERE / "count_probe.py"), *arguments], env=environment, capture_output=True,
                          text=True, timeout=60, check=False)
    return done, gpu_bench.read_by_process(folder, "count"), gpu_bench.read_by_process(folder, "stats")


class Count(unittest.TestCase):
    def setUp(self):
        folder = tempfile.TemporaryDirectory()
        self.addCleanup(folder.cleanup)
        self.folder = pathlib.Path(folder.name)
        self.counter = PRELOADS / "libcount_calls.so"

    def test_alone(self):
        done, counted, _ = run(self.folder, [self.counter])
        self.assertEqual((done.returncode, done.stderr), (0, ""))
        self.assertEqual([c["counts"] for c in counted.values()], [EXPECTED])

    def test_in_front_of_the_product(self):
        done, counted, stats = run(self.folder, [self.counter, PRODUCT])
        self.assertEqual((done.returncode, done.stderr), (0, ""))
        self.assertEqual([c["counts"] for c in counted.values()], [EXPECTED])
        problems, summary = gpu_compare.check_counts(counted, stats)
        self.assertEqual(problems, [])
        self.assertEqual((summary["allocations"], summary["frees"]), (18, 19))
        self.assertEqual(summary["served"], 18)

    def test_with_the_pool_switched_off(self):
        _, counted, stats = run(self.folder, [self.counter, PRODUCT], CISTERN_DISABLE="1")
        problems, summary = gpu_compare.check_counts(counted, stats)
        self.assertEqual((problems, summary["served"]), ([], 0))

    def test_the_wrong_allocator_answers_from_its_cache(self):
        """Behind it, the counter sees the first allocation alone, and of the frees only the second one of a block."""
        _, counted, _ = run(self.folder, [PRELOADS / "libearly_reuse.so", self.counter])
        self.assertEqual([(c["counts"]["alloc"], c["counts"]["free"]) for c in counted.values()], [(1, 1)])

    def test_a_forked_child_is_marked(self):
        done, counted, stats = run(self.folder, [self.counter, PRODUCT], "fork")
        self.assertEqual(done.returncode, 0)
        self.assertEqual(sorted(c["forked"] for c in counted.values()), [False, True])
        self.assertEqual(gpu_compare.check_counts(counted, stats)[0], [])

    def test_a_process_without_cuda_leaves_no_file(self):
        environment = {**os.environ, "LD_PRELOAD": str(self.counter), "COUNT_FILE": f"{self.folder}/count.%p.json"}
        subprocess.run(["true"], env=environment, check=True)
        self.assertEqual(list(self.folder.iterdir()), [])


if __name__ == "__main__":
    unittest.main(argv=sys.argv[:1])
