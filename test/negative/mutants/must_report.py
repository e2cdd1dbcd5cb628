"""Passes if a hunting program reports its mutant: assertions fail, and it ends by itself. Use: must_report.py PROGRAM CASE"""

import subprocess
import sys


def main():
    program, case = sys.argv[1:]
    done = subprocess.run([program, case], capture_output=True, text=True, check=False, timeout=50)
    print(done.stdout + done.stderr)
    if done.returncode < 0:
        print(f"the mutant died of signal {-done.returncode} instead of being reported")
        return 1
    if done.returncode == 0 or "FAILED" not in done.stdout or "No test cases matched" in done.stdout:
        print("the mutant was not reported")
        return 1
    return 0


sys.exit(main())
