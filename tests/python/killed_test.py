#!/usr/bin/env python3
"""Tests that nothing which a script reported is lost with its runner, through every interface.

    tests/python/killed_test.py DTRAIN

A script trains three epochs, of which the second is the best, and waits before each for the test.
The runner is stopped, so that it records no more. Once the checkpoint of an epoch is complete, the
runner is killed, alone or with all processes of the trial. After `dtrain resume` the record must be
that of an undisturbed run, and the store must hold all invariants of tests/crash."""

import concurrent.futures
import json
import os
import pathlib
import signal
import sqlite3
import subprocess
import sys
import tempfile
import time
import unittest

import module_test

LOSS = [0.9, 0.1, 0.5]

BEGINNING = """\
import json, os, pathlib, time
LOSS = [0.9, 0.1, 0.5]
def await_turn(epoch):
    while int(pathlib.Path(os.environ["TURN"]).read_text() or 0) <= epoch:
        time.sleep(0.01)
"""

LOOP = """\
import dtrain
trial = dtrain.init()
for epoch in trial.epochs(3):
    await_turn(epoch)
    trial.validate(loss=LOSS[epoch], other=epoch)
    if trial.should_checkpoint:
        with trial.checkpoint() as path:
            (path / "x").write_text("y")
"""

CHECKPOINT_FIRST = """\
import dtrain
trial = dtrain.init()
for epoch in trial.epochs(3):
    await_turn(epoch)
    with trial.checkpoint() as path:
        (path / "x").write_text("y")
    trial.validate(loss=LOSS[epoch], other=epoch)
"""

LENGTHS = """\
import dtrain
trial = dtrain.init()
done = int(trial.restored_count("epochs"))
for length in trial.lengths():
    while done < length and not trial.should_stop:
        await_turn(done)
        trial.validate(loss=LOSS[done], other=done, epochs=done + 1)
        done += 1
        with trial.checkpoint(epochs=done) as path:
            (path / "x").write_text("y")
    if trial.should_stop:
        break
"""

# As in Determined's tutorials: `loss` is only known if an epoch was trained.
CORE_EPOCHS = """\
import dtrain as det
info = det.get_cluster_info()
with det.core.init() as context:
    done = 0
    if info.latest_checkpoint:
        with context.checkpoint.restore_path(info.latest_checkpoint) as path:
            done = int((path / "epochs").read_text())
    for op in context.searcher.operations():
        for epoch in range(done, op.length):
            await_turn(epoch)
            done, steps, loss = epoch + 1, 10 * (epoch + 1), LOSS[epoch]
            BEFORE
            context.train.report_validation_metrics(steps_completed=steps,
                                                    metrics={"loss": loss, "other": epoch})
            with context.checkpoint.store_path({"steps_completed": steps}) as (path, _):
                (path / "epochs").write_text(str(done))
            AFTER
            if context.preempt.should_preempt():
                raise SystemExit
        op.report_completed(loss)
"""

CORE_BATCHES = """\
import dtrain as det
info = det.get_cluster_info()
with det.core.init() as context:
    done = 0
    if info.latest_checkpoint:
        with context.checkpoint.restore_path(info.latest_checkpoint) as path:
            done = int((path / "batches").read_text())
    for op in context.searcher.operations():
        for batch in range(done, op.length):
            await_turn(batch)
            done, loss = batch + 1, LOSS[batch]
            metrics = {"other": batch} if done == op.length else {"other": batch, "loss": loss}
            context.train.report_validation_metrics(steps_completed=done, metrics=metrics)
            with context.checkpoint.store_path({"steps_completed": done}) as (path, _):
                (path / "batches").write_text(str(done))
        op.report_completed(loss)
"""

# Does not validate again where it resumes.
PROTOCOL = """\
trial = json.load(open(os.environ["DTRAIN_TRIAL"]))
reports = open(3, "w", buffering=1)
say = lambda **report: print(json.dumps(report), file=reports)
saved = trial["checkpoint"]
for epoch in range(saved["epochs"] if saved else 0, trial["until"]["epochs"]):
    await_turn(epoch)
    path = pathlib.Path(trial["directory"], str(epoch))
    path.write_text("y")
    metrics = {"loss": LOSS[epoch], "other": epoch}
    if CARRIES:
        say(type="checkpoint", epochs=epoch + 1, path=str(path), validation=metrics)
    else:
        say(type="checkpoint", epochs=epoch + 1, path=str(path))
        say(type="validation", epochs=epoch + 1, metrics=metrics)
"""

PROGRESS = "op.report_progress(done)"
# By name: the script, the unit of its length, whether each checkpoint has its validation.
SCRIPTS = {
    "loop": (LOOP, "epochs", True),
    "checkpoint first": (CHECKPOINT_FIRST, "epochs", False),
    "lengths": (LENGTHS, "epochs", True),
    "core, epochs": (CORE_EPOCHS.replace("BEFORE", "").replace("AFTER", PROGRESS), "epochs", True),
    "core, progress first": (
        CORE_EPOCHS.replace("BEFORE", PROGRESS).replace("AFTER", ""), "epochs", True),
    "core, batches": (CORE_BATCHES, "batches", True),
    "protocol": (PROTOCOL.replace("CARRIES", "False"), "epochs", False),
    "protocol, carried": (PROTOCOL.replace("CARRIES", "True"), "epochs", True),
}


class Run:
    """An experiment of a script."""

    def __init__(self, directory: str, script: str, unit: str) -> None:
        self.home = pathlib.Path(directory)
        self.store = self.home / "store"
        self.turn = self.home / "turn"
        self.turn.write_text("99")
        (self.home / "context").mkdir()
        (self.home / "context" / "train.py").write_text(BEGINNING + script)
        (self.home / "experiment.json").write_text(json.dumps({
            "name": "killed", "entrypoint": "python3 train.py",
            "searcher": {"name": "single", "metric": "loss", "max_length": {unit: 3}},
            "resources": {"slots": "cpu:1"}}))
        self.environment = {**os.environ, "DTRAIN_STORE": str(self.store),
                            "DTRAIN_RUNTIME_DIR": str(self.home / "runtime"),
                            "TURN": str(self.turn)}
        (self.home / "runtime").mkdir()
        self.output = open(self.home / "output", "wb")

    def start(self, *words: str) -> "subprocess.Popen[bytes]":
        return subprocess.Popen([module_test.DTRAIN, *words], env=self.environment,
                                stdin=subprocess.DEVNULL, stdout=self.output,
                                stderr=self.output, start_new_session=True)

    def create(self) -> "subprocess.Popen[bytes]":
        return self.start("create", str(self.home / "experiment.json"),
                          str(self.home / "context"))

    def rows(self, query: str) -> list:
        try:
            database = sqlite3.connect(f"file:{self.store}/dtrain.db?mode=ro", uri=True, timeout=60)
            try:
                return database.execute(query).fetchall()
            finally:
                database.close()
        except sqlite3.Error:
            return []

    def wait(self, what: str, is_so) -> None:
        deadline = time.monotonic() + 300
        while not is_so():
            if time.monotonic() > deadline:
                raise AssertionError(f"{what}: {(self.home / 'output').read_text()}")
            time.sleep(0.005)

    def checkpoints(self) -> set:
        found = self.store.glob("experiments/1/trials/*/checkpoints/*")
        return {path.name for path in found if len(path.name) == 36}

    def processes(self) -> list:
        found = []
        for path in pathlib.Path("/proc").glob("[0-9]*"):  # deeper, glob would fail if one ends
            try:
                if f"DTRAIN_STORE={self.store}\0".encode() in (path / "environ").read_bytes():
                    found.append(int(path.name))
            except OSError:
                continue
        return found

    def kill(self, epoch: int, everything: bool) -> None:
        """Kills the runner once the checkpoint after that many epochs is complete, of which it
        has recorded nothing."""
        self.turn.write_text(str(epoch - 1))
        runner = self.create()
        recorded = "select count(*) from validations"
        self.wait("no trial", lambda: self.rows("select 1 from trials where runs > 0"))
        self.wait("no validation", lambda: self.rows(recorded)[0][0] >= epoch - 1)
        os.kill(runner.pid, signal.SIGSTOP)
        before = self.checkpoints()
        self.turn.write_text(str(epoch))
        self.wait("no checkpoint", lambda: self.checkpoints() - before or runner.poll() is not None)
        for process in self.processes() if everything else [runner.pid]:
            try:
                os.kill(process, signal.SIGKILL)
            except ProcessLookupError:
                pass
        runner.wait()
        self.wait("processes live", lambda: not self.processes())
        self.turn.write_text("99")

    def result(self) -> dict:
        trial = self.rows("select state, best_value, best_batches from trials")
        values = "select kind, batches, name, value from metrics where superseded = 0 order by 1, 2, 3"
        return {"trial": trial, "metrics": self.rows(values), "violations": self.violations(),
                "restarts": self.rows("select restarts from trials"),
                "experiment": self.rows("select state, best_value from experiments")}

    def violations(self) -> str:
        log = str(self.home / "output")
        done = subprocess.run([module_test.CHECK, self.store, "--dtrain", module_test.DTRAIN,
                               "--log", log], env=self.environment, text=True,
                              capture_output=True, check=False)
        return done.stdout + done.stderr if done.returncode else ""


def play(script: str, unit: str, epoch: int, everything: bool) -> dict:
    """Returns what is recorded in the end. `epoch`: of the kill, or 0."""
    with tempfile.TemporaryDirectory() as directory:
        run = Run(directory, script, unit)
        if epoch == 0:
            code = run.create().wait()
        else:
            run.kill(epoch, everything)
            code = run.start("resume", "1").wait()
        run.output.close()
        return {"code": code, **run.result()}


class KilledTest(unittest.TestCase):
    def test_nothing_is_lost(self):
        with concurrent.futures.ThreadPoolExecutor(4) as pool:
            runs = {}
            for name, (script, unit, is_carried) in SCRIPTS.items():
                for epoch, everything in ((0, False), (2, False), (3, False), (2, True), (3, True)):
                    # Nobody lives who knows the validation, and the script does not repeat it.
                    if (epoch, everything) == (2, True) and not is_carried:
                        continue
                    runs[name, epoch, everything] = pool.submit(play, script, unit, epoch, everything)
            for (name, epoch, everything), run in runs.items():
                with self.subTest(name, epoch=epoch, everything=everything):
                    self.assertEqual(run.result(), runs[name, 0, False].result())
                    self.assertEqual(run.result()["trial"][0][:2], ("COMPLETED", 0.1))
                    self.assertEqual(run.result()["violations"], "")

    def test_a_script_that_never_validates_at_its_length_fails(self):
        script = LOOP.replace("trial.validate", "if not trial.at_end: trial.validate")
        for epoch in (0, 3):  # undisturbed, and killed there
            with self.subTest(epoch=epoch):
                result = play(script, "epochs", epoch, everything=False)
                self.assertEqual((result["code"], result["trial"][0][0]), (1, "ERROR"))
                self.assertLessEqual(result["restarts"][0][0], 2)


if __name__ == "__main__":
    module_test.DTRAIN = str(pathlib.Path(sys.argv[1]).resolve())
    unittest.main(argv=[sys.argv[0], *sys.argv[2:]])
