#!/usr/bin/env python3
"""Tests scripts/gpu-check, scripts/gpu_scenarios.py and what they use, on CPUs.

  tests/scripts/gpu_check_test.py DTRAIN
"""
import json
import os
import shutil
import subprocess
import sys
import tempfile
import time
import unittest
from pathlib import Path
from unittest import mock

sys.dont_write_bytecode = True
ROOT = Path(__file__).resolve().parents[2]
sys.path.insert(0, str(ROOT / "scripts"))

import bench_training
import gpu_scenarios
import made_up_data
from bench_figures import Bench, Figure, better

DTRAIN = os.path.abspath(sys.argv.pop(1))

# Runs dtrain and changes what it prints, as if dtrain had a bug.
BROKEN = f"""#!/usr/bin/env python3
import os, subprocess, sys
command, bug = sys.argv[1], os.environ["BUG"]
if command == "create" and bug in ("other numbers", "no resume"):
    os.execv("{DTRAIN}", sys.argv)  # receives the signals
child = subprocess.Popen(["{DTRAIN}", *sys.argv[1:]], stdout=subprocess.PIPE, text=True)
ended = 0
for line in child.stdout:
    if bug == "second trial fails" and '"event":"trial_ended"' in line:
        ended += 1
        if ended == 2:
            line = line.replace('"state":"COMPLETED"', '"state":"ERROR"')
    if bug == "trial is lost" and '"event":"trial_ended"' in line and '"id":"1.2"' in line:
        continue
    if bug == "no reason":
        line = line.replace("can't allocate memory", "failed").replace("out of bounds", "failed")
    if bug == "other numbers" and command == "metrics" and sys.argv[2] == "2":
        line = line.replace('"value":', '"value":1')
    sys.stdout.write(line)
    sys.stdout.flush()
if bug == "no resume" and command == "resume":
    sys.exit(1)
sys.exit(child.wait())
"""


class ScenariosTest(unittest.TestCase):
    def setUp(self) -> None:
        directory = tempfile.TemporaryDirectory(prefix="dtrain-gpu-check-test-")
        self.addCleanup(directory.cleanup)
        self.directory = Path(directory.name)
        self.broken = self.directory / "dtrain"
        self.broken.write_text(BROKEN)
        self.broken.chmod(0o755)

    def run_scenarios(self, *names: str, dtrain: object = DTRAIN, bug: str = "",
                      seconds: int = 280) -> dict[str, tuple]:
        """Returns the exit code under "code", and whether each scenario passed, and its reason."""
        out = self.directory / "scenarios.json"
        done = subprocess.run(
            [ROOT / "scripts/gpu_scenarios.py", "--cpu", "--dtrain", dtrain, "--out", out,
             "--seconds", str(seconds), "--only", *names],
            env={**os.environ, "BUG": bug}, capture_output=True, text=True)
        found = json.loads(out.read_text())["scenarios"]
        self.assertEqual(len(done.stdout.splitlines()), len(found))
        return {"code": done.returncode, **{one["name"]: (one["ok"], one["reason"])
                                            for one in found}}

    def assert_fails(self, name: str, bug: str, reason: str) -> None:
        found = self.run_scenarios(name, dtrain=self.broken, bug=bug)
        self.assertEqual((found["code"], found[name][0]), (1, False), found)
        self.assertIn(reason, found[name][1])

    def test_all_kinds_pass_on_cpus(self):
        names = ("fork", "shares", "memory", "assertion", "kill", "checkpoint-lenet",
                 "deterministic-lenet", "deterministic-xception")
        self.assertEqual(self.run_scenarios(*names),
                         {"code": 0, **{name: (True, "") for name in names}})

    def test_fork_detects_a_failure_of_the_second_trial(self):
        self.assert_fails("fork", "second trial fails", "is ERROR")

    def test_shares_detects_a_lost_trial(self):
        self.assert_fails("shares", "trial is lost", "3 trials ended instead of 4")

    def test_memory_needs_the_reason(self):
        self.assert_fails("memory", "no reason", "the error does not say 'can't allocate memory'")

    def test_assertion_needs_the_message(self):
        self.assert_fails("assertion", "no reason", "the error does not say 'out of bounds'")

    def test_kill_detects_a_failed_resume(self):
        self.assert_fails("kill", "no resume", "dtrain resume 1 -q: exit code 1")

    def test_checkpoint_detects_other_metrics(self):
        self.assert_fails("checkpoint-lenet", "other numbers", "undisturbed")

    def test_deterministic_detects_other_metrics(self):
        self.assert_fails("deterministic-lenet", "other numbers", "second")

    def test_a_missing_program_is_a_failure(self):
        found = self.run_scenarios("fork", dtrain=self.directory / "none")
        self.assertEqual((found["code"], found["fork"][0]), (1, False))

    def test_without_a_gpu_nothing_passes(self):
        out = self.directory / "scenarios.json"
        done = subprocess.run([ROOT / "scripts/gpu_scenarios.py", "--dtrain", DTRAIN, "--out", out,
                               "--only", "fork", "kill"],
                              env={**os.environ, "CUDA_VISIBLE_DEVICES": "-1"},
                              capture_output=True, text=True)
        self.assertEqual(done.returncode, 1, done.stdout)
        for one in json.loads(out.read_text())["scenarios"]:
            self.assertIs(one["ok"], False)
            self.assertIn("GPU", one["reason"])

    def test_a_command_that_hangs_is_a_failure(self):
        hanging = self.directory / "hanging"
        hanging.write_text("#!/bin/sh\nexec sleep 600\n")
        hanging.chmod(0o755)
        with mock.patch.object(gpu_scenarios, "GPU_COMMAND_SECONDS", 1):
            lab = gpu_scenarios.Lab(str(hanging), str(self.directory), "", cpu=False,
                                    deadline=time.monotonic() + 60)
        with self.assertRaisesRegex(gpu_scenarios.Failed, "took longer than 1 s"):
            lab.run("metrics", "1")
        with self.assertRaisesRegex(gpu_scenarios.Failed, "took longer than 1 s"):
            lab.create({})

    def test_no_time_is_not_a_failure(self):
        self.assertEqual(self.run_scenarios("fork", seconds=0),
                         {"code": 3, "fork": (None, "not enough time")})


class GpuCheckTest(unittest.TestCase):
    def setUp(self) -> None:
        directory = tempfile.TemporaryDirectory(prefix="dtrain-gpu-check-test-")
        self.addCleanup(directory.cleanup)
        self.directory = Path(directory.name)

    def gpu_check(self, cmake: str, *arguments: str) -> subprocess.CompletedProcess:
        """Runs the script with a shell command in place of cmake."""
        programs = self.directory / "bin"
        programs.mkdir()
        (programs / "cmake").write_text(f"#!/bin/sh\n{cmake}\n")
        (programs / "cmake").chmod(0o755)
        return subprocess.run(
            [ROOT / "scripts/gpu-check", "--cpu", "--out", self.directory / "out", *arguments],
            env={**os.environ, "PATH": f"{programs}:{os.environ['PATH']}"}, capture_output=True,
            text=True)

    def fake_tree(self, **codes: int) -> subprocess.CompletedProcess:
        """Runs a copy of the script with programs that only log their call and exit with their
        code; cmake creates gpu_test."""
        scripts, programs = self.directory / "scripts", self.directory / "bin"
        log = f"{self.directory}/calls"
        for path in (scripts, programs):
            path.mkdir()
        shutil.copy(ROOT / "scripts/gpu-check", scripts)
        tests = "build/release/bin/gpu_test"
        for name, path, more in (
                ("python3", programs / "python3", "echo /torch"),
                ("made_up", scripts / "made_up_data.py", ""),
                ("scenarios", scripts / "gpu_scenarios.py", ""), ("bench", scripts / "bench", ""),
                ("gpu_test", self.directory / "gpu_test", ""),
                ("cmake", programs / "cmake",
                 f"mkdir -p build/release/bin; cp {self.directory}/gpu_test {tests}")):
            path.write_text(f"#!/bin/sh\n{more}\necho {name} $* >>{log}\n"
                            f"exit {codes.get(name, 0)}\n")
            path.chmod(0o755)
        return subprocess.run([scripts / "gpu-check"], capture_output=True, text=True,
                              env={**os.environ, "PATH": f"{programs}:{os.environ['PATH']}"})

    def calls(self) -> list[str]:
        return (self.directory / "calls").read_text().splitlines()

    def test_measures_last_in_the_remaining_time(self):
        self.assertEqual(self.fake_tree().returncode, 0)
        calls = self.calls()
        self.assertEqual([one.split()[0] for one in calls],
                         ["python3", "cmake", "cmake", "gpu_test", "made_up", "scenarios", "bench"])
        self.assertIn("--seconds 240", calls[-2])
        minutes = float(calls[-1].partition("--minutes ")[2].split()[0])
        self.assertTrue(7.5 < minutes < 9, minutes)

    def test_a_failed_step_does_not_end_the_others(self):
        self.assertEqual(self.fake_tree(gpu_test=1, scenarios=3).returncode, 1)
        self.assertEqual(self.calls()[-1].split()[0], "bench")

    def test_a_step_without_time_is_not_a_failure(self):
        self.assertEqual(self.fake_tree(scenarios=3).returncode, 3)

    def test_links_of_the_packages_point_into_the_unpacked_directory(self):
        if not shutil.which("dpkg-deb"):
            self.skipTest("needs dpkg-deb")
        tree = self.directory / "tree"
        lib, dev = tree / "lib/x86_64-linux-gnu", tree / "usr/lib/x86_64-linux-gnu"
        for path in (lib, dev, tree / "DEBIAN"):
            path.mkdir(parents=True)
        (tree / "DEBIAN/control").write_text(
            "Package: z\nVersion: 1\nArchitecture: all\nMaintainer: n <n@n>\nDescription: n\n")
        (lib / "libz-of-test.so.1").write_text("a library")
        (dev / "libz-of-test.so").symlink_to("/lib/x86_64-linux-gnu/libz-of-test.so.1")
        packages = self.directory / "packages"
        packages.mkdir()
        subprocess.run(["dpkg-deb", "-b", tree, packages / "z.deb"], check=True,
                       capture_output=True)
        done = self.gpu_check("exit 9", "--libraries", str(packages))
        self.assertEqual(done.returncode, 1, done.stderr)
        link = self.directory / "out/libraries/usr/lib/x86_64-linux-gnu/libz-of-test.so"
        self.assertEqual(os.readlink(link), "../../../lib/x86_64-linux-gnu/libz-of-test.so.1")
        self.assertEqual(link.read_text(), "a library")

    def test_minutes_must_be_a_number(self):
        done = subprocess.run([ROOT / "scripts/gpu-check", "--minutes", "few"],
                              capture_output=True, text=True)
        self.assertEqual(done.returncode, 2)
        self.assertIn("--minutes must be a number", done.stderr)

    def test_minutes_end_a_build_that_takes_longer(self):
        start = time.monotonic()
        done = self.gpu_check("exec sleep 600", "--minutes", "0.03")
        self.assertLess(time.monotonic() - start, 500)
        self.assertEqual(done.returncode, 3, done.stderr)
        self.assertIn("not enough time", done.stderr)

    def test_the_benchmark_does_not_need_git(self):
        with mock.patch.dict(os.environ, {"PATH": str(self.directory)}):
            done = subprocess.run(
                [sys.executable, "-c",
                 "import importlib.machinery as m, sys, types\n"
                 f"sys.path.insert(0, '{ROOT}/scripts')\n"
                 f"bench = m.SourceFileLoader('bench', '{ROOT}/scripts/bench').load_module()\n"
                 f"print(bench.state_of('{ROOT}/build/release'))"],
                capture_output=True, text=True)
        self.assertEqual((done.returncode, done.stdout), (0, "unknown: no git\n"), done.stderr)

    def test_made_up_sets_have_the_sizes_of_the_real_ones(self):
        subprocess.run([ROOT / "scripts/made_up_data.py", self.directory], check=True)
        sizes = {path.name: path.stat().st_size for path in self.directory.glob("*/*")}
        self.assertEqual(sizes["train-images-idx3-ubyte"], 47_040_016)
        self.assertEqual(sizes["t10k-labels-idx1-ubyte"], 10_008)
        self.assertEqual(sizes["data_batch_1.bin"], 30_730_000)
        batch = (self.directory / "cifar-10-batches-bin/data_batch_5.bin").read_bytes()
        self.assertEqual(set(batch[::3073]), set(range(10)))

    def test_made_up_images_can_be_trained_on(self):
        subprocess.run([ROOT / "scripts/made_up_data.py", self.directory], check=True)
        done = subprocess.run(
            [ROOT / "scripts/gpu_scenarios.py", "--cpu", "--dtrain", DTRAIN, "--data",
             self.directory, "--out", self.directory / "out.json", "--only",
             "deterministic-resnet18-files"], capture_output=True, text=True)
        self.assertEqual(done.returncode, 0, done.stdout)

    def test_figures_of_made_up_sets_say_so(self):
        (self.directory / "mnist").mkdir()
        (self.directory / "mnist" / made_up_data.MARK).write_text("")
        bench = Bench("build", sys.executable, str(self.directory))
        with mock.patch.object(bench_training, "dtrain_steps", lambda *_: lambda: (1.0, None)):
            figures = bench_training.beside(bench, "step", bench_training.LENET,
                                            {"eager": lambda: (2.0, None),
                                             "compiled": Figure.none("none")}, runs=1)
        self.assertEqual(figures["dtrain"].remark, "made-up data")
        self.assertEqual(figures["compiled"].remark, "")
        self.assertEqual(better(figures, "eager").remark, "eager, made-up data")


if __name__ == "__main__":
    unittest.main()
