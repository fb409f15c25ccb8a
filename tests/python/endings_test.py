#!/usr/bin/env python3
"""Tests the Python module in worker processes, threads and notebooks, and with all the ways a
script can end.

    tests/python/endings_test.py DTRAIN"""

import copy
import pathlib
import pickle
import subprocess
import sys
import unittest
from unittest import mock

import module_test
from module_test import MODULE

from dtrain import HParams
from dtrain._trial import Trial

SINGLE = {"name": "single", "max_length": {"epochs": 4}}


class NotebookTest(unittest.TestCase):
    """Outside dtrain, where cells run again."""

    def epochs(self, trial, length):
        done = []
        for epoch in trial.epochs(length):
            trial.validate(accuracy=0.5)
            done.append(epoch)
        return done

    def test_a_finished_loop_starts_over(self):
        trial = Trial(None)
        self.assertEqual(self.epochs(trial, 2), [0, 1])
        self.assertEqual(self.epochs(trial, 3), [2])  # as under dtrain: a total
        self.assertEqual(self.epochs(trial, 3), [0, 1, 2])

    def test_an_interrupted_loop_starts_over_in_a_notebook(self):
        trial = Trial(None)
        with mock.patch.object(sys, "ps1", ">>> ", create=True):
            interrupted = trial.epochs(3)
            next(interrupted)
            next(interrupted)
            loop = trial.epochs(3)
            self.assertEqual(next(loop), 0)
            interrupted.close()  # as the garbage collector does later
            trial.validate(accuracy=0.5)
            self.assertEqual(list(loop), [1, 2])
            trial.report(loss=1, epochs=2)
            trial.report(loss=1, epochs=1)  # the cell ran again

    def test_an_interactive_interpreter_is_a_notebook(self):
        code = ("import dtrain\ntrial = dtrain.init()\nloop = trial.epochs(3)\nprint(next(loop))\n"
                "print(list(trial.epochs(2)))\n")
        done = subprocess.run([sys.executable, "-i"], input=code, text=True, capture_output=True,
                              env={"PYTHONPATH": str(MODULE), "PYTHONDONTWRITEBYTECODE": "1"},
                              timeout=300, check=True)
        self.assertEqual(done.stdout, "0\n[0, 1]\n", done.stderr)

    def test_hyperparameters_are_copied_and_completed(self):
        hparams = HParams({"lr": 1, "model": {"layers": 2}})
        for other in (copy.deepcopy(hparams), pickle.loads(pickle.dumps(hparams))):
            self.assertEqual(other.model.layers, 2)
        self.assertIn("lr", dir(hparams))


class OldPythonTest(unittest.TestCase):
    TEXT = "the module 'dtrain' needs Python 3.8 or newer, but this is Python"

    def test_import_says_that_it_needs_a_newer_python(self):
        source = (MODULE / "dtrain" / "__init__.py").read_text(encoding="utf-8")
        with mock.patch.object(sys, "version_info", (3, 7, 16)):
            with self.assertRaisesRegex(ImportError, f"{self.TEXT} 3.7 .*; name a newer"):
                exec(compile(source, "__init__.py", "exec"), {})

    def test_old_interpreters_of_this_machine(self):
        found = pathlib.Path.home().glob(".pyenv/versions/3.[67].*/bin/python3")
        for python in found:
            with self.subTest(python=python):
                done = subprocess.run([python, "-c", "import dtrain.core"], text=True, check=False,
                                      env={"PYTHONPATH": str(MODULE)}, capture_output=True)
                self.assertEqual(done.returncode, 1)
                self.assertIn(f"ImportError: {self.TEXT}", done.stderr.splitlines()[-1])


class PauseTest(module_test.ExperimentTest):
    """Scripts without max_length whose experiment is paused while they run."""

    BEGIN = """\
import os, select, signal
import dtrain

def pause():  # returns when the order to stop has come
    with open(f"/proc/{os.getppid()}/status") as host:
        runner = next(line.split()[1] for line in host if line.startswith("PPid"))
    os.kill(int(runner), signal.SIGINT)
    select.select([4], [], [])
    if "trial" in globals():  # which reads its socket
        trial._link.wait(100)

"""
    ENDS = {
        "trial = dtrain.init(); pause(); trial.validate(accuracy=1)": "COMPLETED",
        "pause(); trial = dtrain.init(); trial.validate(accuracy=1)": "COMPLETED",
        "trial = dtrain.init(); trial.should_stop; pause(); trial.validate(accuracy=1)": "COMPLETED",
        "trial = dtrain.init(); pause(); trial.should_stop; trial.validate(accuracy=1)": "PAUSED",
        "pause(); trial = dtrain.init(); trial.should_stop; trial.validate(accuracy=1)": "PAUSED",
        "pause()\ntrial = dtrain.init()\n"
        "for _ in trial.epochs(3):\n    pass\ntrial.validate(accuracy=1)": "PAUSED",
        "trial = dtrain.init()\n"
        "for epoch in trial.epochs(3):\n    epoch or pause()\n    trial.validate(accuracy=1)": "PAUSED",
        "trial = dtrain.init(); pause()\n"
        "with trial.checkpoint(epochs=1) as path:\n    (path / 'x').write_text('y')\n"
        "trial.validate(accuracy=1)": "PAUSED",
        "trial = dtrain.init(); pause(); trial.should_stop; trial.validate(accuracy=1); "
        "trial.finish()": "COMPLETED",
    }

    def test_a_script_that_does_not_ask_ends_with_its_result(self):
        searcher = {"name": "random", "max_trials": 2, "max_concurrent_trials": 1}
        for number, (script, state) in enumerate(self.ENDS.items(), start=1):
            with self.subTest(script=script):
                self.create(self.BEGIN + script + "\n", searcher, code=130)
                self.assertEqual(self.rows("trials", str(number))[0]["state"], state, self.errors)


class WorkersTest(module_test.ExperimentTest):
    def test_workers_read_hyperparameters_and_may_not_report(self):
        script = """\
import multiprocessing
import dtrain

trial = dtrain.init()

def work(ask):
    try:
        trial.report(loss=1) if ask == "report" else trial.should_stop
    except RuntimeError as error:
        assert f"trial.{ask} is used in a worker process" in str(error), error
        return trial.hparams.lr

if __name__ == "__main__":
    for epoch, how in zip(trial.epochs(), ("fork", "spawn", "forkserver", "fork")):
        with multiprocessing.get_context(how).Pool(1) as pool:
            answers = pool.map(work, ["report", "should_stop"])
        trial.validate(accuracy=sum(answers))
"""
        self.create(script, SINGLE, hparams={"lr": 0.5})
        values = [row["value"] for row in self.rows("metrics", "1")]
        self.assertEqual(values, [1, 1, 1, 1])

    def test_a_fork_that_ends_does_not_end_the_loop_of_all_ranks(self):
        script = """\
import os, subprocess, sys
if "RANK" not in os.environ:
    ranks = [subprocess.Popen([sys.executable, *sys.argv],
                              env={**os.environ, "RANK": str(rank), "WORLD_SIZE": "2"})
             for rank in range(2)]
    sys.exit(max(rank.wait() for rank in ranks))
import dtrain

def train():
    trial = dtrain.init()
    for epoch in trial.epochs():
        if epoch == 1 and trial.rank == 0:
            child = os.fork()
            if child == 0:
                sys.exit(0)  # closes the loop that it has copied
            os.waitpid(child, 0)
        trial.validate(accuracy=epoch)
    with open(os.environ["EPOCHS"], "a") as file:
        print(trial.rank, epoch, file=file)

train()
"""
        self.create(script, SINGLE)
        self.assertEqual(sorted(self.trained()), ["0 3", "1 3"])

    def test_threads_report_and_ask(self):
        script = """\
import os, threading
import dtrain

trial = dtrain.init()
done = threading.Event()
asked = threading.Semaphore(0)

def poll():
    while not done.is_set():
        trial.report(polls=1)
        trial.should_stop
        asked.release()

threads = [threading.Thread(target=poll) for _ in range(3)]
for epoch in trial.epochs():
    if epoch == 0:
        for thread in threads:
            thread.start()
    for _ in range(300):
        trial.report(loss=epoch)
        asked.acquire()
    trial.validate(accuracy=epoch)
done.set()
for thread in threads:
    thread.join()
with open(os.environ["EPOCHS"], "a") as file:
    print("joined", file=file)
"""
        self.create(script, SINGLE)
        self.assertEqual(self.trained(), ["joined"])
        rows = self.rows("metrics", "1")
        self.assertEqual([row["value"] for row in rows if row["name"] == "loss"], [0, 1, 2, 3])
        self.assertEqual({row["value"] for row in rows if row["name"] == "polls"}, {1})


class EndingsTest(module_test.ExperimentTest):
    """A loop that ends early."""

    def run_loop(self, body, code=0, searcher=SINGLE, **keys):
        script = ("import os, signal, sys, dtrain\ntrial = dtrain.init()\n"
                  "assert trial is dtrain.init()\n"
                  "for epoch in trial.epochs():\n    trial.report(loss=epoch)\n"
                  "    trial.validate(accuracy=epoch)\n" + body)
        self.create(script, searcher, code=code, **keys)
        return self.rows("trials", "1")

    def test_finish_completes_a_trial_with_its_last_validation(self):
        [trial] = self.run_loop("    if epoch == 1:\n        trial.finish('good enough')\n"
                                "        break\n")
        self.assertEqual((trial["state"], trial["batches"], trial["latest"]["value"]),
                         ("COMPLETED", 2, 1))
        self.assertEqual(trial["reason"], "ended early: good enough")

    def test_finished_trials_of_a_search_are_complete(self):
        searcher = {"name": "async_halving", "max_trials": 4, "num_rungs": 2, "divisor": 2,
                    "max_length": {"epochs": 4}}
        trials = self.run_loop("    if epoch == 0 and trial.hparams.ends:\n"
                               "        trial.finish()\n        break\n", searcher=searcher,
                               hparams={"ends": {"type": "const", "val": True}})
        self.assertEqual([(trial["state"], trial["batches"]) for trial in trials],
                         4 * [("COMPLETED", 1)])

    def test_sys_exit_within_the_loop_is_an_error_that_keeps_the_reports(self):
        [trial] = self.run_loop("    if epoch == 1:\n        sys.exit(0)\n", code=1)
        self.assertIn("ended at 2 of 4 epochs without a validation of 'accuracy' there",
                      trial["reason"])
        self.assertIn("its last validation is at 2: if training has ended early, report that, in "
                      "Python by trial.finish()", trial["reason"])
        self.assertEqual(len(self.rows("metrics", "1")), 4)

    def test_the_same_end_without_a_validation_is_retried_once(self):
        script = ("import random, dtrain\ntrial = dtrain.init()\n"
                  "for epoch in trial.epochs():\n    trial.report(accuracy=random.random())\n")
        self.create(script, SINGLE, code=1, max_restarts=5)
        [trial] = self.rows("trials", "1")
        self.assertEqual(trial["runs"], 2)
        self.assertIn("without a validation of 'accuracy' there; it was reported as a training "
                      "metric: report it as a validation, in Python by trial.validate()",
                      trial["reason"])

    def test_an_error_after_the_last_validation_is_in_the_reason(self):
        script = ("import dtrain\ndtrain.init().validate(accuracy=1)\n"
                  "raise ValueError('no plot')\n")
        self.create(script, SINGLE)
        [trial] = self.rows("trials", "1")
        self.assertEqual((trial["state"], trial["reason"]), (
            "COMPLETED", "failed after its last validation: exited with code 1: ValueError: no plot"))

    def test_a_search_whose_trials_are_all_invalid_ends(self):
        script = "import dtrain\ndtrain.init().invalid('too wide')\n"
        self.create(script, {"name": "asha", "max_trials": 4, "max_length": {"epochs": 4}}, code=1,
                    hparams={"lr": {"type": "double", "minval": 0, "maxval": 1}})
        self.assertLessEqual(len(self.rows("trials", "1")), 40)
        text = self.run_dtrain("describe", "1")
        self.assertIn("4 trials in a row have invalid hyperparameters, the last: too wide", text)

    def test_keyboard_interrupt_within_a_checkpoint_keeps_the_reports(self):
        body = ("    with trial.checkpoint() as path:\n        (path / 'x').write_text('y')\n"
                "        if epoch == 2:\n            os.kill(os.getpid(), signal.SIGINT)\n")
        [trial] = self.run_loop(body, code=1)
        self.assertIn("SIGINT", trial["reason"])
        self.assertEqual(len(self.rows("metrics", "1")), 6)
        self.assertEqual([row["batches"] for row in self.rows("checkpoints", "1")
                          if row["state"] != "DELETED"], [2])

    def test_an_exception_within_a_checkpoint_deletes_its_files(self):
        body = ("    try:\n        with trial.checkpoint() as path:\n"
                "            (path / 'x').write_text('y')\n"
                "            if epoch == 3:\n                raise OSError('disk')\n"
                "    except OSError:\n        print('left:', path.exists())\n")
        [trial] = self.run_loop(body)
        self.assertIn("left: False", self.run_dtrain("logs", "1"))
        self.assertEqual((trial["state"], trial["latest"]["checkpoint"]), ("COMPLETED", None))


if __name__ == "__main__":
    module_test.DTRAIN = str(pathlib.Path(sys.argv[1]).resolve())
    unittest.main(argv=[sys.argv[0], *sys.argv[2:]])
