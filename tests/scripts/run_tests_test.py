#!/usr/bin/env python3
"""Tests scripts/run_tests with a fake ctest."""

import os
import shutil
import subprocess
import sys
import tempfile
import unittest
from pathlib import Path

REPOSITORY = Path(__file__).resolve().parents[2]

# Reads one line per test, "NAME first-result second-result label"; a result is pass, fail or skip.
CTEST = """#!{python}
import sys
tests = [line.split() for line in open("{plan}")]
arguments = sys.argv[1:]
if "-N" in arguments:
    label = arguments[arguments.index("-L") + 1].strip("^()$").split("|")
    print("\\n".join(f"  Test #{{i}}: {{t[0]}}" for i, t in enumerate(tests) if t[3] in label))
    sys.exit()
again = "--rerun-failed" in arguments
if again:
    tests = [t for t in tests if t[1] == "fail"]
    open("{plan}.again", "w").write(" ".join(t[0] for t in tests))
results = [(t[0], t[2] if again else t[1]) for t in tests]
cases = {{"pass": "", "fail": "<failure/>", "skip": "<skipped/>"}}
with open(arguments[arguments.index("--output-junit") + 1], "w") as report:
    report.write("<testsuite>" + "".join(
        f'<testcase name="{{name}}">{{cases[result]}}</testcase>' for name, result in results)
        + "</testsuite>")
print("summary of CTest")
sys.exit(8 if any(result == "fail" for _, result in results) else 0)
"""


class RunTestsTest(unittest.TestCase):
    def setUp(self) -> None:
        self.root = Path(tempfile.mkdtemp(prefix="dtrain-run-tests-"))
        self.addCleanup(shutil.rmtree, self.root)
        for name in ("scripts", "tests", "bin", "build/release", "build/asan"):
            (self.root / name).mkdir(parents=True)
        shutil.copy(REPOSITORY / "scripts" / "run_tests", self.root / "scripts")
        self.plan = self.root / "plan"
        ctest = self.root / "bin" / "ctest"
        ctest.write_text(CTEST.format(python=sys.executable, plan=self.plan))
        ctest.chmod(0o755)
        self.lists("", "")

    def lists(self, flaky: str, skipped: str) -> None:
        (self.root / "tests" / "flaky.txt").write_text("# why\n" + flaky)
        (self.root / "tests" / "skipped.txt").write_text("# why\n" + skipped)

    def run_tests(self, *plan: str, preset: str = "release", everything: str = "0"):
        self.plan.write_text("\n".join(plan))
        environment = {**os.environ, "DTRAIN_TEST_ALL": everything,
                       "PATH": f"{self.root / 'bin'}:{os.environ['PATH']}"}
        return subprocess.run([sys.executable, self.root / "scripts" / "run_tests", preset],
                              env=environment, capture_output=True, text=True, check=False)

    def ran_again(self) -> bool:
        return Path(f"{self.plan}.again").exists()

    def test_passes_if_all_pass(self) -> None:
        done = self.run_tests("A.a pass pass -", "A.b pass pass crash", everything="1")
        self.assertEqual(done.returncode, 0, done.stderr)
        self.assertTrue(done.stdout.endswith("summary of CTest\n"))

    def test_fails_if_a_test_fails_twice(self) -> None:
        done = self.run_tests("A.a fail fail -", "A.b fail pass -")
        self.assertEqual(done.returncode, 8)
        self.assertNotIn("FLAKY", done.stdout)

    def test_reports_flaky_tests(self) -> None:
        plan = ("A.a fail pass -", "A.b pass pass -")
        done = self.run_tests(*plan)
        self.assertEqual(done.returncode, 0)
        self.assertIn("FLAKY: A.a\n", done.stdout)
        done = self.run_tests(*plan, everything="1")
        self.assertEqual(done.returncode, 1)
        self.assertIn("FLAKY: A.a\n", done.stdout)
        self.assertIn("A.a is flaky", done.stderr)
        self.assertTrue(done.stdout.rstrip().endswith("summary of CTest"))

    def test_accepts_listed_flaky_tests(self) -> None:
        self.lists("A.*  it races with the clock\n", "")
        done = self.run_tests("A.a fail pass -", everything="1")
        self.assertEqual(done.returncode, 0, done.stderr)
        self.assertIn("FLAKY: A.a\n", done.stdout)

    def test_requires_a_reason(self) -> None:
        self.lists("A.a\n", "")
        self.assertEqual(self.run_tests("A.a fail pass -").returncode, 1)

    def test_does_not_repeat_random_tests(self) -> None:
        self.lists("*  a reason\n", "")
        for label in ("crash", "fuzz", "power"):
            done = self.run_tests(f"A.a fail pass {label}")
            self.assertEqual(done.returncode, 8)
            self.assertFalse(self.ran_again())

    def test_counts_a_skip_as_a_failure_in_ci(self) -> None:
        plan = ("A.a skip pass -", "A.b pass pass -")
        self.assertEqual(self.run_tests(*plan).returncode, 0)
        done = self.run_tests(*plan, everything="1")
        self.assertEqual(done.returncode, 1)
        self.assertIn("A.a was skipped", done.stderr)
        self.lists("", "A.a  there is no such device\n")
        self.assertEqual(self.run_tests(*plan, everything="1").returncode, 0)


if __name__ == "__main__":
    unittest.main()
