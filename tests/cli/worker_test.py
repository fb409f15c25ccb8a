#!/usr/bin/env python3
"""Tests `dtrain worker` through the program: searches on workers that come, drain and die. All
processes are on this machine, at 127.0.0.1; each has its own runtime directory, so that each
has its own slots.

    tests/cli/worker_test.py DTRAIN [TEST…]"""

import json
import os
import re
import signal
import socket
import subprocess
import sys
import tempfile
import time
import unittest
from pathlib import Path

DTRAIN = Path(sys.argv.pop(1)).resolve()
CHECK = Path(__file__).resolve().parents[1] / "crash" / "check"
PATIENCE = 240  # seconds, on a loaded machine

SEARCH = """\
name: search
entrypoint: builtin:FaultTrial
hyperparameters:
  x: {type: double, minval: 0, maxval: 1}
  step_ms: %(step_ms)d
  log_hex: "68656c6c6f0a"
searcher: {name: random, metric: loss, max_trials: %(trials)d, max_length: %(length)d}
scheduling_unit: 4
min_checkpoint_period: 20
max_restarts: 1
reproducibility: {experiment_seed: 11}
resources: {slots: cpu:1, listen: "127.0.0.1:0", local: %(local)s}
"""


# Saves each epoch; the best is the sixth. It waits until the number in a file is above the epoch.
SCRIPT = """\
import pathlib, time
import dtrain
trial = dtrain.init()
for epoch in trial.epochs(12):
    while int(pathlib.Path(%(turn)r).read_text() or 0) <= epoch:
        time.sleep(0.01)
    trial.validate(loss=abs(epoch - 5))
    with trial.checkpoint() as path:
        (path / "x").write_text("y")
"""
SCRIPT_SEARCH = """\
name: script
entrypoint: python3 train.py
searcher: {name: single, metric: loss, max_length: {epochs: 12}}
resources: {slots: cpu:1, listen: "127.0.0.1:0", local: false}
"""

# LeNet on drawn digits, with a rank on each of three slots of one thread.
MODEL = """\
name: model
entrypoint: digits:LeNetTrial
hyperparameters: {global_batch_size: 30, lr: 0.1}
searcher: {name: single, metric: val_loss, max_length: %(length)d}
scheduling_unit: 5
min_checkpoint_period: 20
max_restarts: 1
reproducibility: {experiment_seed: 3}
resources: {slots: %(slots)s, slots_per_trial: 3%(more)s}
"""

# The same, with a known time of each step.
SLOW = """\
name: slow
entrypoint: builtin:FaultTrial
hyperparameters: {x: 0.5, step_ms: 10}
searcher: {name: single, metric: loss, max_length: %(length)d}
scheduling_unit: 4
min_checkpoint_period: 20
max_restarts: 1
reproducibility: {experiment_seed: 3}
resources: {slots: %(slots)s, slots_per_trial: 3%(more)s}
"""


class Workers(unittest.TestCase):
    def setUp(self):
        # Trials of a killed process may write for a moment.
        temporary = tempfile.TemporaryDirectory(prefix="dtrain-worker-",
                                                ignore_cleanup_errors=True)
        self.addCleanup(temporary.cleanup)
        self.directory = Path(temporary.name)
        self.processes = []
        self.addCleanup(self.check_store)
        self.addCleanup(self.end_all)

    def check_store(self):
        runtime = str(self.directory / "runtime-runner")
        done = subprocess.run([CHECK, self.directory / "store", "--dtrain", DTRAIN],
                              env={**os.environ, "DTRAIN_RUNTIME_DIR": runtime}, text=True,
                              capture_output=True, check=False)
        self.assertEqual(done.returncode, 0, done.stdout + done.stderr)

    def end_all(self):
        for process in self.processes:
            if process.poll() is None:
                process.kill()
            process.wait()

    def start(self, name, *words, **variables):
        runtime = self.directory / ("runtime-" + name)
        runtime.mkdir(mode=0o700, exist_ok=True)
        keep = {key: value for key, value in os.environ.items()
                if not key.startswith(("DTRAIN_", "SLURM_"))}
        log = (self.directory / (name + ".log")).open("w")
        process = subprocess.Popen(
            [DTRAIN, *words], cwd=self.directory, stdin=subprocess.DEVNULL, stdout=log, stderr=log,
            env={**keep, "DTRAIN_STORE": str(self.directory / "store"),
                 "DTRAIN_RUNTIME_DIR": str(runtime), **variables})
        log.close()
        self.processes.append(process)
        return process

    def log(self, name):
        return (self.directory / (name + ".log")).read_text()

    def run_json(self, *words):
        process = subprocess.run(
            [DTRAIN, *words, "--json"], cwd=self.directory, capture_output=True, text=True,
            check=True, env={**os.environ, "DTRAIN_STORE": str(self.directory / "store")})
        return json.loads(process.stdout)

    def trials(self):
        return self.run_json("trials", "1")["trials"]

    def wait_for(self, what, condition):
        end = time.monotonic() + PATIENCE
        while time.monotonic() < end:
            value = condition()
            if value:
                return value
            time.sleep(0.05)
        logs = "\n".join(str(path) + ":\n" + path.read_text()
                         for path in self.directory.glob("*.log"))
        self.fail("waited in vain for " + what + "\n" + logs)
        return None

    def search(self, local=False, trials=6, length=40, step_ms=5, **more):
        yaml = SEARCH % {"local": str(local).lower(), "trials": trials, "length": length,
                         "step_ms": step_ms}
        return self.create(yaml, **more)

    def create(self, yaml, context=".", **more):
        (self.directory / "search.yaml").write_text(yaml)
        self.runner = self.start("runner", "create", "search.yaml", context, **more)
        match = self.wait_for("the runner to listen", lambda: re.search(
            r"--connect (\S+) --store (\S+) --experiment (\d+)", self.log("runner")))
        self.address = match.group(1)
        return self.runner

    def worker(self, name, *words, **variables):
        if "--slots" not in words:
            words += ("--slots", "cpu:1")
        return self.start(name, "worker", "--connect", self.address, "--experiment", "1", "--name",
                          name, *words, **variables)

    def expect_that_the_loss_costs_a_restart(self, name, worker):
        """Kills the worker, and starts another one for its trial."""
        worker.kill()
        worker.wait()
        row = self.wait_for("the record of the loss", lambda: next(
            (row for row in self.trials() if row["restarts"] > 0), None))
        self.assertIn("lost worker " + name, row["reason"])
        self.worker("next")
        row = self.expect_completed(1)[0]
        self.assertEqual((row["restarts"], row["preemptions"]), (1, 0))

    def wait_until_joined(self, name):
        self.wait_for(name + " to join", lambda: "worker " + name in self.log("runner")
                      and "has joined" in self.log("runner"))

    def wait_until_trained(self, number, batches):
        self.wait_for("trial %d to train" % number, lambda: any(
            trial["trial"] == "1.%d" % number and trial["batches"] >= batches
            for trial in self.trials()))

    def expect_completed(self, trials=6):
        self.assertEqual(self.runner.wait(PATIENCE), 0, self.log("runner"))
        rows = self.trials()
        self.assertEqual([row["state"] for row in rows], ["COMPLETED"] * trials)
        return rows


class WorkerTest(Workers):
    def test_search_on_two_workers_has_the_result_of_one_machine(self):
        self.search()
        workers = [self.worker("a"), self.worker("b")]
        rows = self.expect_completed()
        for worker in workers:
            self.assertEqual(worker.wait(PATIENCE), 0)
        logs = self.log("a") + self.log("b")
        self.assertIn("working for experiment 1", logs)
        local = SEARCH % {"local": "true", "trials": 6, "length": 40, "step_ms": 5}
        (self.directory / "local.yaml").write_text(
            local.replace(', listen: "127.0.0.1:0", local: true', ""))
        self.assertEqual(self.start("local", "create", "local.yaml").wait(PATIENCE), 0)
        here = self.run_json("trials", "2")["trials"]
        for ours, theirs in zip(rows, here):
            self.assertEqual(ours["hparams"], theirs["hparams"])
            self.assertEqual(ours["best"]["value"], theirs["best"]["value"])

    def test_logs_of_remote_trials_are_the_runners(self):
        self.search(trials=1)
        self.worker("a")
        self.expect_completed(1)
        logs = subprocess.run([DTRAIN, "logs", "1.1"], capture_output=True, text=True, check=True,
                              env={**os.environ, "DTRAIN_STORE": str(self.directory / "store")})
        self.assertIn("hello", logs.stdout)

    def test_trials_have_as_many_threads_on_each_worker(self):
        # Each trial waits until all three run, one on the first worker and two on the other.
        self.create(f"""\
entrypoint: [sh, -c, 'touch {self.directory}/here.$DTRAIN_HPARAM_x; until [ $(ls
  {self.directory} | grep -c "^here") = 3 ]; do sleep 0.05; done; printf
  "{{\\"type\\":\\"validation\\",\\"batches\\":1,\\"metrics\\":{{\\"threads\\":%d}}}}\\n"
  $OMP_NUM_THREADS >&3']
hyperparameters: {{x: {{type: categorical, vals: [1, 2, 3]}}}}
searcher: {{name: grid, metric: threads, max_length: 1}}
max_restarts: 0
resources: {{slots: "cpu:1", listen: "127.0.0.1:0", local: false}}
""")
        self.worker("one", "--slots", "cpu:1")
        self.worker("two", "--slots", "cpu:2")
        threads = {row["best"]["value"] for row in self.expect_completed(3)}
        self.assertEqual(len(threads), 1, threads)

    def test_worker_joins_while_a_trial_runs_here(self):
        self.search(local=True, trials=3, length=200, step_ms=20)
        self.wait_until_trained(1, 4)
        self.worker("late")
        self.wait_for("two trials at a time", lambda: sum(
            trial["state"] == "RUNNING" for trial in self.trials()) == 2)
        self.expect_completed(3)

    def expect_that_another_continues_after(self, number):
        self.search(trials=1, length=400, step_ms=10)
        first = self.worker("first")
        self.wait_until_trained(1, 40)
        first.send_signal(number)
        self.assertEqual(first.wait(PATIENCE), 0, self.log("first"))
        row = self.wait_for("the record of the preemption", lambda: next(
            (row for row in self.trials() if row["preemptions"] > 0), None))
        self.assertEqual((row["state"], row["restarts"]), ("PENDING", 0))
        self.assertTrue(row["reason"].startswith("preempted"), row)
        self.worker("second")
        row = self.expect_completed(1)[0]
        self.assertEqual((row["restarts"], row["preemptions"], row["runs"]), (0, 1, 2))
        described = subprocess.run(
            [DTRAIN, "describe", "1.1"], capture_output=True, text=True, check=True,
            env={**os.environ, "DTRAIN_STORE": str(self.directory / "store")})
        self.assertRegex(described.stdout, r"\n +preemptions +1\n")

    def test_another_worker_continues_after_sigusr2(self):
        self.expect_that_another_continues_after(signal.SIGUSR2)

    def descendants(self, pid):
        children = []
        for name in os.listdir("/proc"):
            if not name.isdigit():
                continue
            try:
                stat = Path("/proc", name, "stat").read_text()
            except OSError:
                continue  # it has just ended
            if int(stat.rpartition(")")[2].split()[1]) == pid:
                children += [int(name), *self.descendants(int(name))]
        return children

    def test_sigusr2_to_all_processes_of_a_job_loses_no_work(self):
        self.search(trials=1, length=400, step_ms=10)
        first = self.worker("first")
        self.wait_until_trained(1, 44)
        for pid in [*self.descendants(first.pid), first.pid]:
            os.kill(pid, signal.SIGUSR2)
        self.assertEqual(first.wait(PATIENCE), 0, self.log("first"))
        row = self.wait_for("the record of the preemption", lambda: next(
            (row for row in self.trials() if row["preemptions"] > 0), None))
        self.assertEqual(row["reason"], "preempted", "it has saved a checkpoint")
        self.worker("second")
        self.expect_completed(1)

    def test_another_worker_continues_after_sigterm(self):
        self.expect_that_another_continues_after(signal.SIGTERM)

    def test_worker_drains_before_its_end(self):
        self.search(trials=1, length=400, step_ms=10)
        first = self.worker("first", "--until", "12s", "--grace", "10s")
        self.assertEqual(first.wait(PATIENCE), 0, self.log("first"))
        self.assertIn("its time ends in", self.log("runner"))
        self.worker("second", SLURM_JOB_ID="77")
        self.assertEqual(self.expect_completed(1)[0]["restarts"], 0)

    def test_worker_offers_the_slots_it_is_told(self):
        self.search(trials=4, length=200, step_ms=10)
        self.worker("two", "--slots", "cpu:2")
        self.wait_for("two trials at a time", lambda: sum(
            trial["state"] == "RUNNING" for trial in self.trials()) == 2)
        self.assertIn("for 2 trials at a time", self.log("runner"))
        self.expect_completed(4)

    def test_workers_are_listed(self):
        self.search(trials=1, length=4000, step_ms=10)
        self.worker("first", "--job", "77", "--until", "1h")
        self.wait_until_trained(1, 4)
        rows = self.run_json("workers", "1")["workers"]
        self.assertEqual(len(rows), 1)
        row = rows[0]
        self.assertEqual((row["name"], row["job"], row["state"]), ("first", "77", "ready"))
        self.assertEqual((row["slots"], row["used"], row["trials"]), (1, 1, ["1.1"]))
        self.assertIn("first/cpu:0", self.trials()[0]["slots"])
        self.assertEqual(self.run_json("workers", "1")["demand"], 1)
        self.assertTrue(3000 < row["seconds_left"] <= 3600, row)

    def test_worker_has_the_name_of_its_node(self):
        self.search(trials=1)
        self.start("a", "worker", "--connect", self.address, "--experiment", "1",
                   "--slots", "cpu:1", SLURMD_NODENAME="n7")
        self.expect_completed(1)
        self.assertRegex(self.log("runner"), r"worker n7 on \S+ has joined")

    def test_watch_counts_the_workers(self):
        self.search(trials=1, length=4000, step_ms=10)
        self.worker("first")
        self.wait_until_trained(1, 4)
        shown = subprocess.run(
            [sys.executable, Path(__file__).parent.parent / "support/terminal.py", "80x16",
             "%s watch 1" % DTRAIN, "expect workers 1 ready", "send q"],
            capture_output=True, text=True, stdin=subprocess.DEVNULL,
            env={**os.environ, "DTRAIN_STORE": str(self.directory / "store"), "TERM": "xterm",
                 "LC_ALL": "C.UTF-8"})
        self.assertEqual(shown.returncode, 0, shown.stdout)

    def test_runner_without_slots_has_no_trial_host(self):
        self.search(trials=1, length=4000, step_ms=10)
        self.worker("first")
        self.wait_until_trained(1, 4)
        pid = self.runner.pid
        children = Path("/proc/%d/task/%d/children" % (pid, pid)).read_text()
        self.assertEqual(children, "")

    def test_idle_worker_leaves(self):
        self.search(local=True, trials=1, length=4000, step_ms=10)
        self.wait_until_trained(1, 4)
        idle = self.worker("idle", "--idle-timeout", "1s")
        self.assertEqual(idle.wait(PATIENCE), 0, self.log("idle"))
        self.assertIsNone(self.runner.poll())

    def test_killed_worker_costs_a_restart(self):
        self.search(trials=1, length=400, step_ms=10)
        first = self.worker("first")
        self.wait_until_trained(1, 40)
        self.expect_that_the_loss_costs_a_restart("first", first)

    def test_worker_saves_a_checkpoint_when_the_runner_is_killed(self):
        self.search(trials=1, length=400, step_ms=20)
        worker = self.worker("first")
        self.wait_until_trained(1, 40)
        self.runner.kill()
        self.runner.wait()
        self.runner = self.start("resumed", "resume", "1")
        self.address = self.wait_for("the resumed runner", lambda: re.search(
            r"--connect (\S+)", self.log("resumed"))).group(1)
        self.assertIsNotNone(worker.poll(), "it resumes when the worker has ended")
        self.assertEqual(worker.poll(), 1, self.log("first"))
        self.assertIn("saving checkpoints", self.log("first"))
        self.worker("second")
        self.wait_for("the restart", lambda: "1.1 started" in self.log("resumed")
                      or "1.1 resumed" in self.log("resumed"))
        self.assertNotIn("from the beginning", self.log("resumed"))
        self.assertEqual(self.runner.wait(PATIENCE), 0, self.log("resumed"))
        self.assertEqual(self.trials()[0]["restarts"], 0)

    def test_script_loses_nothing_when_the_runner_is_killed(self):
        turn = self.directory / "turn"
        turn.write_text("2")
        (self.directory / "train.py").write_text(SCRIPT % {"turn": str(turn)})
        self.create(SCRIPT_SEARCH)
        self.worker("first")
        self.wait_until_trained(1, 2)
        self.runner.send_signal(signal.SIGSTOP)  # it records no more
        before = self.checkpoints()
        turn.write_text("4")
        self.wait_for("two more checkpoints", lambda: len(self.checkpoints() - before) >= 2)
        self.runner.kill()
        self.runner.wait()
        turn.write_text("12")
        self.runner = self.start("resumed", "resume", "1")
        self.address = self.wait_for("the resumed runner", lambda: re.search(
            r"--connect (\S+)", self.log("resumed"))).group(1)
        self.worker("second")
        self.assertEqual(self.runner.wait(PATIENCE), 0, self.log("resumed"))
        rows = self.run_json("metrics", "1.1")["metrics"]
        found = {(row["batches"], row["name"]): row["value"] for row in rows}
        self.assertEqual(found, {(epoch, "loss"): abs(epoch - 6) for epoch in range(1, 13)})
        [trial] = self.trials()
        self.assertEqual((trial["state"], trial["restarts"]), ("COMPLETED", 0))
        self.assertEqual(trial["best"]["batches"], 6)
        self.assertTrue(trial["best"]["checkpoint"])

    def checkpoints(self):
        found = self.directory.glob("store/experiments/1/trials/1/checkpoints/*")
        return {path.name for path in found if len(path.name) == 36}

    def test_wrong_key_is_refused(self):
        self.search()
        (self.directory / "key").write_text("x" * 64)
        (self.directory / "key").chmod(0o600)
        worker = self.start("stranger", "worker", "--connect", self.address,
                            DTRAIN_SECRET_FILE=str(self.directory / "key"))
        self.assertEqual(worker.wait(PATIENCE), 2, self.log("stranger"))
        self.assertIn("different secret", self.log("stranger"))
        self.wait_for("the runner's warning", lambda: "without the secret" in self.log("runner"))

    def test_key_file_is_enough(self):
        self.search(trials=1)
        self.start("a", "worker", "--connect", self.address, "--slots", "cpu:1",
                   DTRAIN_SECRET_FILE=str(self.directory / "store/experiments/1/worker.key"))
        self.expect_completed(1)
        mode = (self.directory / "store/experiments/1/worker.key").stat().st_mode
        self.assertEqual(mode & 0o777, 0o600)

    def test_stranger_learns_nothing_and_does_not_disturb(self):
        self.search(trials=1)
        host, port = self.address.split(":")
        with socket.create_connection((host, int(port)), timeout=PATIENCE) as stranger:
            stranger.sendall(b"GET / HTTP/1.1\r\n\r\n")
            self.assertEqual(stranger.recv(1000), b"")
            self.worker("a")
            self.expect_completed(1)

    # The runner adds a line to the file when a worker joins, but follows no link.
    def replace(self, probe, text):
        other = self.directory / "other.probe"
        other.write_text(text)
        probe.unlink()
        probe.symlink_to(other)

    def test_worker_that_does_not_see_the_store_is_refused(self):
        self.search()
        key = self.directory / "store/experiments/1/worker.key"
        probe = self.directory / "store/experiments/1/worker.probe"
        self.wait_for("the probe", probe.exists)
        self.replace(probe, "of another store\n")
        worker = self.start("blind", "worker", "--connect", self.address,
                            DTRAIN_SECRET_FILE=str(key))
        self.assertEqual(worker.wait(PATIENCE), 2, self.log("blind"))
        for name in ("blind", "runner"):
            self.assertIn("mount at the same path", self.log(name))

    def expect_refused(self, name, worker, *texts):
        """Expects that the worker cannot join, and that the experiment goes on without it."""
        self.assertEqual(worker.wait(PATIENCE), 2, self.log(name))
        self.wait_for("the rejection", lambda: "worker %s on" % name in self.log("runner")
                      and "was rejected" in self.log("runner"))
        for text in texts:
            self.assertIn(text, self.log(name))
            self.assertIn(text, self.log("runner"))
        self.assertIsNone(self.runner.poll(), self.log("runner"))
        self.assertEqual({trial["state"] for trial in self.trials()} - {"PENDING"}, set())

    def test_worker_with_another_store_is_refused(self):
        self.search(trials=2)
        store = self.directory / "store"
        other = self.directory / "other"
        other.mkdir(mode=0o700)
        worker = self.start("stray", "worker", "--connect", self.address, "--name", "stray",
                            "--store", str(other),
                            DTRAIN_SECRET_FILE=str(store / "experiments/1/worker.key"))
        self.expect_refused("stray", worker, "the worker's store is %s, the runner's is %s; "
                            "start the worker with --store %s" % (other, store, store))
        self.worker("good")
        self.expect_completed(2)

    def test_worker_that_does_not_see_the_checkpoints_is_refused(self):
        checkpoints = self.directory / "checkpoints"
        checkpoints.mkdir()
        yaml = SEARCH % {"local": "false", "trials": 2, "length": 40, "step_ms": 5}
        self.create(yaml + "checkpoint_storage: {type: shared_fs, host_path: %s}\n" % checkpoints)
        probe = next(checkpoints.rglob("worker.probe"))
        text = probe.read_text()
        self.replace(probe, "of another directory\n")
        worker = self.worker("blind")
        self.expect_refused("blind", worker, str(probe), "mount at the same path")
        probe.unlink()
        probe.write_text(text)
        self.worker("good")
        self.expect_completed(2)

    def create_program(self):
        """Creates a search of a program that only the PATH of the runner has."""
        tools = self.directory / "tools"
        tools.mkdir()
        tool = tools / "report-loss"
        tool.write_text("#!/bin/sh\necho loss=1\n")
        tool.chmod(0o755)
        self.path = "%s:%s" % (tools, os.environ["PATH"])
        yaml = SEARCH % {"local": "false", "trials": 2, "length": 1, "step_ms": 0}
        self.create(yaml.replace("builtin:FaultTrial", "[report-loss]")
                    + "metrics: {loss: 'loss=(.*)'}\n", PATH=self.path)

    def test_worker_without_the_program_is_refused(self):
        self.create_program()
        worker = self.worker("bare")
        self.expect_refused("bare", worker,
                            "entrypoint: there is no program 'report-loss' in PATH")
        self.worker("good", PATH=self.path)
        self.expect_completed(2)

    def test_another_python_of_a_worker_is_named_once(self):
        sites = {}
        for name, packages in (("same", ("one-1.0", "two-2.0")), ("newer", ("one-1.1", "two-2.0")),
                               ("less", ("one-1.0",))):
            sites[name] = self.directory / ("site-" + name)
            for package in packages:
                (sites[name] / (package + ".dist-info")).mkdir(parents=True)
        python = subprocess.run(["python3", "-c", "import sys; print(sys.executable)"], text=True,
                                stdout=subprocess.PIPE, check=True).stdout.strip()
        other = self.directory / "other"
        other.mkdir()
        (other / "python3").symlink_to(python)
        go = self.directory / "go"
        (self.directory / "code").mkdir()
        (self.directory / "code/train.py").write_text(
            "import dtrain, os, time\n"
            "while not os.path.exists(%r): time.sleep(0.05)\n"
            "dtrain.init().validate(loss=1, epochs=12)\n" % str(go))
        self.create(SCRIPT_SEARCH, "code", PYTHONPATH=str(sites["same"]))
        for name, site, more in (
                ("same", "same", {}), ("newer", "newer", {}), ("again", "newer", {}),
                ("less", "less", {}),
                ("elsewhere", "same", {"PATH": "%s:%s" % (other, os.environ["PATH"])})):
            self.worker(name, PYTHONPATH=str(sites[site]), **more)
            self.wait_for(name, lambda name=name: re.search(
                "worker %s on .* has joined" % name, self.log("runner")))
        go.touch()
        self.expect_completed(1)
        found = re.findall(r"warning: worker (\w+) on \S+: (.*)", self.log("runner"))
        packages = "installed packages differ: %s; results may differ"
        self.assertEqual(found[:2], [("newer", packages % "one 1.0 -> 1.1"),
                                     ("less", packages % "two 2.0 -> none")])
        self.assertEqual(len(found), 3, found)
        self.assertRegex(found[2][1], r"^Python was \S+ \(%s\), now it is \S+ \(%s\);" % (
            re.escape(python), re.escape(str(other / "python3"))))

    def test_worker_without_the_context_is_refused(self):
        self.create_program()
        context = self.directory / "store/experiments/1/context"
        context.rename(context.with_name("away"))
        worker = self.worker("bare", PATH=self.path)
        self.expect_refused("bare", worker, "%s: the directory of the program" % context)
        context.with_name("away").rename(context)
        self.worker("good", PATH=self.path)
        self.expect_completed(2)

    def test_worker_without_the_compiled_model_is_refused(self):
        cache = os.environ.get("MODEL_CACHE", str(self.directory / "cache"))
        self.assertEqual(self.start("init", "init", "mine").wait(PATIENCE), 0, self.log("init"))
        yaml = (self.directory / "mine/const.yaml").read_text()
        yaml += 'resources: {slots: "cpu:1", listen: "127.0.0.1:0", local: false}\n'
        self.create(yaml, context="mine", XDG_CACHE_HOME=cache)
        worker = self.worker("bare", XDG_CACHE_HOME=str(self.directory / "empty"))
        self.expect_refused("bare", worker, cache + "/dtrain/models/",
                            "the compiled model is not in the worker's cache")
        self.worker("good", XDG_CACHE_HOME=cache)
        self.expect_completed(1)

    def test_refuses_bad_arguments(self):
        for words, text in (
                (("--connect", "nowhere", "--experiment", "1"), "is not HOST:PORT"),
                (("--connect", "a:0", "--experiment", "1"), "is not HOST:PORT"),
                (("--connect", "127.0.0.1:1"), "--experiment is missing"),
                (("--connect", "127.0.0.1:1", "--experiment", "1", "--until", "noon"), "--until"),
                (("--connect", "127.0.0.1:1", "--experiment", "1", "--slots", "2"), "ambiguous")):
            with self.subTest(words=words):
                process = self.start("bad", "worker", *words)
                self.assertEqual(process.wait(PATIENCE), 2)
                self.assertIn(text, self.log("bad"))

    def test_address_that_cannot_be_used_creates_nothing(self):
        with socket.create_server(("127.0.0.1", 0)) as taken:
            yaml = SEARCH % {"local": "true", "trials": 1, "length": 4, "step_ms": 0}
            port = taken.getsockname()[1]
            (self.directory / "search.yaml").write_text(
                yaml.replace("127.0.0.1:0", "127.0.0.1:%d" % port))
            process = self.start("runner", "create", "search.yaml")
            self.assertEqual(process.wait(PATIENCE), 6)
        self.assertIn("resources.listen: cannot listen at", self.log("runner"))
        self.assertFalse((self.directory / "store").exists())

    def test_gives_up_without_a_runner(self):
        (self.directory / "key").write_text("x" * 64)
        (self.directory / "key").chmod(0o600)
        process = self.start("alone", "worker", "--connect", "127.0.0.1:1", "--connect-timeout",
                             "1s", DTRAIN_SECRET_FILE=str(self.directory / "key"))
        self.assertEqual(process.wait(PATIENCE), 1)
        self.assertIn("no runner answered within 1.0s", self.log("alone"))



class DividedTrialTest(Workers):
    """Trials with more slots than any worker has."""

    def train(self, yaml=MODEL, local=False, **values):
        self.create(yaml % {
            **values, "slots": "cpu:1" if local else "auto",
            "more": ', listen: "127.0.0.1:0", local: ' + str(local).lower()})

    def train_slowly(self, length=400, local=False):
        self.train(SLOW, length=length, local=local)

    def machines(self):
        """Returns the names of the machines of trial 1's slots; the runner's has none."""
        slots = self.trials()[0]["slots"]
        self.assertTrue(all(re.fullmatch(r"([a-z]+/)?cpu:\d+", slot) for slot in slots), slots)
        return {slot.rpartition("/")[0] for slot in slots}

    def two_workers(self):
        two = self.worker("two", "--slots", "cpu:2")
        return two, self.worker("one")

    def test_trial_on_three_workers_has_the_result_of_one_machine(self):
        self.train(length=20)
        workers = [self.worker(name) for name in ("a", "b", "c")]
        self.expect_completed(1)
        for worker in workers:
            self.assertEqual(worker.wait(PATIENCE), 0)
        # As many slots as CPUs, so that each has one thread.
        slots = "cpu:%d" % max(3, os.cpu_count())
        (self.directory / "local.yaml").write_text(
            MODEL % {"length": 20, "slots": slots, "more": ""})
        self.assertEqual(self.start("local", "create", "local.yaml").wait(PATIENCE), 0,
                         self.log("local"))
        ours, theirs = (self.run_json("metrics", trial)["metrics"] for trial in ("1.1", "2.1"))
        for row in ours + theirs:
            del row["trial"], row["time"]
        self.assertGreater(len(ours), 4)
        self.assertEqual(ours, theirs)

    def test_trial_on_the_runner_and_a_worker_is_listed_on_both(self):
        self.train_slowly(length=4000, local=True)
        self.worker("two", "--slots", "cpu:2")
        self.wait_until_trained(1, 5)
        table = self.run_json("workers", "1")
        self.assertEqual([(row["name"], row["used"], row["trials"]) for row in table["workers"]],
                         [(None, 1, ["1.1"]), ("two", 2, ["1.1"])])
        self.assertEqual(table["demand"], 3)
        self.assertEqual(self.machines(), {"", "two"})

    def test_trial_waits_until_there_are_enough_slots(self):
        self.train(length=20)
        self.worker("first")
        self.wait_until_joined("first")
        self.assertIn("first on", self.log("runner"))
        self.assertIn("has joined, with 1 of the 3 slots of a trial", self.log("runner"))
        self.worker("second", "--slots", "cpu:2")
        self.expect_completed(1)

    def expect_that_it_continues_after_the_drain_of(self, name):
        self.train_slowly()
        drained = dict(zip(("two", "one"), self.two_workers()))[name]
        self.wait_until_trained(1, 25)
        drained.send_signal(signal.SIGUSR2)
        self.assertEqual(drained.wait(PATIENCE), 0, self.log(name))
        row = self.wait_for("the record of the preemption", lambda: next(
            (row for row in self.trials() if row["preemptions"] > 0), None))
        self.assertEqual((row["state"], row["restarts"]), ("PENDING", 0))
        self.assertIn("preempted", row["reason"])
        self.assertNotIn("again", row["reason"], "a checkpoint was saved")
        self.worker("next", "--slots", "cpu:2")
        row = self.expect_completed(1)[0]
        self.assertEqual((row["restarts"], row["preemptions"], row["runs"]), (0, 1, 2))

    def test_it_continues_after_the_drain_of_the_worker_of_rank_0(self):
        self.expect_that_it_continues_after_the_drain_of("two")

    def test_it_continues_after_the_drain_of_another_worker(self):
        self.expect_that_it_continues_after_the_drain_of("one")

    def test_killed_worker_costs_one_restart(self):
        self.train_slowly()
        _, one = self.two_workers()
        self.wait_until_trained(1, 25)
        self.expect_that_the_loss_costs_a_restart("one", one)

    def test_workers_save_a_checkpoint_when_the_runner_is_killed(self):
        self.train_slowly()
        workers = self.two_workers()
        self.wait_until_trained(1, 25)
        self.runner.kill()
        self.runner.wait()
        for worker in workers:
            self.assertEqual(worker.wait(PATIENCE), 1)
        self.assertIn("saving checkpoints", self.log("two") + self.log("one"))
        self.runner = self.start("resumed", "resume", "1")
        self.address = self.wait_for("the resumed runner", lambda: re.search(
            r"--connect (\S+)", self.log("resumed"))).group(1)
        self.worker("next", "--slots", "cpu:2")
        self.worker("last")
        self.assertEqual(self.runner.wait(PATIENCE), 0, self.log("resumed"))
        self.assertNotIn("from the beginning", self.log("resumed"))
        self.assertEqual(self.trials()[0]["restarts"], 0)

    def test_pause_saves_a_checkpoint_and_dismisses_the_workers(self):
        self.train_slowly(length=4000)
        workers = self.two_workers()
        self.wait_until_trained(1, 25)
        self.assertEqual(self.machines(), {"one", "two"})
        self.assertEqual(self.start("pause", "pause", "1").wait(PATIENCE), 0, self.log("pause"))
        self.runner.wait(PATIENCE)
        for worker in workers:
            self.assertEqual(worker.wait(PATIENCE), 0)
        row = self.trials()[0]
        self.assertEqual((row["state"], row["restarts"]), ("PAUSED", 0))
        self.assertGreaterEqual(row["batches"], 25)

    def test_program_is_not_divided(self):
        yaml = SEARCH % {"local": "false", "trials": 1, "length": 4, "step_ms": 0}
        yaml = yaml.replace("builtin:FaultTrial", "['true']").replace(
            "slots: cpu:1", "slots: auto, slots_per_trial: 2")
        self.create(yaml)
        worker = self.worker("small")
        self.assertEqual(worker.wait(PATIENCE), 6, self.log("small"))
        self.assertIn("a trial takes 2 slots, and there are 1", self.log("small"))


if __name__ == "__main__":
    unittest.main(verbosity=2)
