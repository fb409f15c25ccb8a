"""Base of the tests with real frameworks.

A script calls `hold(step)`, of a file hold.py beside it, at each step of its training (on
all ranks), so that a test decides at which one the trial is paused, or its runner killed. Such a script must not
depend on the trial's seed: tests compare trials of different experiments.
"""

import os
import pathlib
import shutil
import signal
import sys
import unittest

sys.path[:0] = [str(pathlib.Path(__file__).resolve().parents[1]),
                str(pathlib.Path(__file__).resolve().parents[2] / "docs")]

import documents
import module_test

_HOLD = """\
import os, time
import dtrain

def hold(step):
    trial = dtrain.init()
    mark = os.environ.get("HELD", "") + str(trial.rank)
    if str(step) == os.environ.get("HOLD_AT") and not os.path.exists(mark):
        open(mark, "w").close()
        while not trial.should_stop and not os.path.exists(mark + ".go"):
            time.sleep(0.01)
"""


class FrameworkTest(module_test.ExperimentTest):
    """Runs scripts as trials that import a framework, which may take a minute to load."""

    LIMIT = 900
    maxDiff = None

    def setUp(self):
        super().setUp()
        self.environment["PYTHONPATH"] = str(module_test.MODULE)
        (self.home / "context" / "hold.py").write_text(_HOLD, encoding="utf-8")

    def reports(self, trial):
        """Returns the values of a trial by kind, metric and count."""
        return {(row["kind"], row["name"], row["batches"], row["epoch"]): row["value"]
                for row in self.rows("metrics", trial)}

    def pause_at(self, step, experiment, create, code=0):
        """Calls `create`, which starts this experiment in the background, pauses it once its
        script holds at the step, and resumes it. Returns the number of values reported before
        the pause. `code`: exit code after the resume."""
        held = self.home / f"held-{experiment}-"
        self.environment.update(HOLD_AT=str(step), HELD=str(held))
        create()
        del self.environment["HOLD_AT"]
        self.wait_for(pathlib.Path(f"{held}0").exists)
        self.run_dtrain("pause", experiment)
        [trial] = self.rows("trials", experiment)
        self.assertEqual(trial["state"], "PAUSED")
        self.assertIsNotNone(trial["checkpoint"])
        before = len(self.rows("metrics", experiment))
        self.run_dtrain("resume", experiment, code=code)
        return before

    def kill_at(self, step, experiment, create):
        """As pause_at, but kills the runner once the script has saved its next checkpoint, of
        which the runner has recorded nothing."""
        held = self.home / f"held-{experiment}-"
        self.environment.update(HOLD_AT=str(step), HELD=str(held))
        create()
        del self.environment["HOLD_AT"]
        self.wait_for(pathlib.Path(f"{held}0").exists)
        [runner] = [pid for pid, words in self.processes() if "create" in words]
        os.kill(runner, signal.SIGSTOP)
        directory = self.home / "store" / "experiments" / experiment
        saved = lambda: {path for path in directory.glob("trials/*/checkpoints/*")
                         if len(path.name) == 36}
        before = saved()
        pathlib.Path(f"{held}0.go").touch()
        self.wait_for(lambda: saved() - before)
        os.kill(runner, signal.SIGKILL)
        self.wait_for(lambda: not self.processes())
        self.run_dtrain("resume", experiment)

    def processes(self):
        """Returns the process IDs and command lines of dtrain and its trials."""
        store = f"DTRAIN_STORE={self.home / 'store'}".encode()
        found = []
        for process in pathlib.Path("/proc").glob("[0-9]*"):
            try:
                if store in (process / "environ").read_bytes().split(b"\0"):
                    words = (process / "cmdline").read_text().split("\0")
                    found.append((int(process.name), words))
            except OSError:
                continue
        return found

    def reset(self):
        """Removes the store, so that experiments are numbered from 1 again."""
        shutil.rmtree(self.home / "store", ignore_errors=True)
        for mark in self.home.glob("held-*"):
            mark.unlink()

    def check_kills(self, script, length, steps, **create):
        """Compares a trial that ran through with one whose runner is killed after each of
        `steps`."""
        searcher = {"name": "single", "max_length": length}
        self.create(script, searcher, **create)
        straight = self.reports("1")
        for number, step in enumerate(steps, start=2):
            with self.subTest(step=step):
                self.kill_at(
                    step, str(number), lambda: self.create(script, searcher, "-d", **create))
                [trial] = self.rows("trials", str(number))
                self.assertEqual(trial["state"], "COMPLETED")
                self.assertEqual(self.reports(str(number)), straight)

    def check_pauses(self, script, length, steps, **create):
        """Compares a trial that ran through with one that is paused at each of `steps` and
        resumed: all values must be equal, bit for bit. `length`: None without max_length."""
        searcher = {"name": "single", **({"max_length": length} if length else {})}
        self.create(script, searcher, **create)
        straight = self.reports("1")
        for number, step in enumerate(steps, start=2):
            with self.subTest(step=step):
                before = self.pause_at(
                    step, str(number), lambda: self.create(script, searcher, "-d", **create))
                [trial] = self.rows("trials", str(number))
                self.assertEqual((trial["state"], trial["runs"]), ("COMPLETED", 2))
                self.assertLess(before, len(straight))
                self.assertEqual(self.reports(str(number)), straight)

    def check_example(self, name, metric="accuracy"):
        """Runs the script NAME/train.py of docs/python.md, in the search of lightning/asha.yaml
        there."""
        files = {block.file: block.text for block in
                 documents.blocks("docs/python.md", documents.read("docs/python.md"))}
        (self.home / "context" / "train.py").write_text(files[f"{name}/train.py"])
        text = files["lightning/asha.yaml"].replace("metric: accuracy", f"metric: {metric}")
        (self.home / "context" / "asha.yaml").write_text(text)
        self.run_dtrain("create", "context/asha.yaml")
        self.assertGreater(self.rows("best", "1")[0]["value"], 0.9)
        self.assertEqual({trial["rung"] for trial in self.rows("trials", "1")}, {1, 2})

    def check_initial_weights(self, script, metric):
        """Starts a trial from the weights of another one. It learns nothing, and must have the
        other one's metric after an epoch of its own count."""
        searcher = {"name": "single", "max_length": {"epochs": 2}}
        self.create(script, searcher, hparams={"lr": 0.05})
        [source] = self.rows("trials", "1")
        self.create(script, {**searcher, "max_length": {"epochs": 1},
                             "source_checkpoint_uuid": source["checkpoint"]},
                    hparams={"lr": 1e-12})
        [before] = [value for report, value in self.reports("1").items()
                    if report[1] == metric and report[3] == 2]
        [(report, after)] = [item for item in self.reports("2").items() if item[0][1] == metric]
        self.assertEqual(report[3], 1)
        self.assertAlmostEqual(after, before, places=6)

    def check_refused_resume(self, script, step, message):
        """Pauses a trial whose script does not pass its checkpoint to the framework. When it is
        resumed, it must fail with the message."""
        self.pause_at(step, "1", lambda: self.create(
            script, {"name": "single", "max_length": {"epochs": 4}}, "-d", hparams={"lr": 0.05}),
                      code=1)
        self.assertIn(message, self.run_dtrain("logs", "1"))

    def check_promotion(self, script, length, hparams, **create):
        """Runs ASHA with two rungs. A promoted trial must have the values of one that ran
        through, beside the validation at its first rung, and a stopped one none beyond that."""
        [(unit, most)] = length.items()
        self.create(script, {"name": "async_halving", "max_trials": 4, "num_rungs": 2,
                             "divisor": 2, "max_length": length, "max_concurrent_trials": 1},
                    hparams=hparams, **create)
        trials = self.rows("trials", "1")
        self.assertEqual({trial["state"] for trial in trials}, {"COMPLETED", "STOPPED"})
        rungs = sorted(trial["rung"] for trial in trials)
        self.assertIn(2, rungs)
        self.assertIn(1, rungs)
        promoted = next(trial for trial in trials if trial["rung"] == 2)
        self.create(script, {"name": "single", "max_length": length},
                    hparams=promoted["hparams"], **create)
        reports, straight = self.reports(promoted["id"]), self.reports("2")
        self.assertEqual({report: reports.get(report) for report in straight}, straight)
        for kind, _, batches, epochs in reports.keys() - straight.keys():
            self.assertEqual((kind, epochs if unit == "epochs" else batches),
                             ("validation", most // 2))
        for trial in trials:
            counts = [count[3] if unit == "epochs" else count[2]
                      for count in self.reports(trial["id"]) if count[0] == "validation"]
            self.assertEqual(max(counts), most if trial["rung"] == 2 else most // 2)


def main():
    """Runs the tests of a file: `NAME_test.py DTRAIN [TEST...]`."""
    module_test.DTRAIN = str(pathlib.Path(sys.argv[1]).resolve())
    unittest.main(argv=[sys.argv[0], *sys.argv[2:]])
