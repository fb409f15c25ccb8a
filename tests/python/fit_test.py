#!/usr/bin/env python3
"""Tests the callback for Keras without that package: the fake below calls it as Keras does.
tests/python/frameworks tests it with the real one.

    tests/python/fit_test.py DTRAIN"""

import pathlib
import subprocess
import sys
import unittest

import module_test

# It "learns" the number of batches. An epoch has four.
KERAS = """\
import json, os, time

__version__ = "3.0.0"

class callbacks:
    class Callback:
        pass

class Seed:
    value = 0
    def numpy(self):
        return self
    def tolist(self):
        return self.value
    def assign(self, value):
        self.value = value

class Model:
    built, stop_training, _initial_epoch, weights = True, False, 0, []
    steps_per_execution = 1

    def __init__(self):
        self.batches = 0
        self.variables = [Seed()]
        self.optimizer = self

    def save_weights(self, path):
        json.dump(self.batches, open(path, "w"))

    def load_weights(self, path):
        self.batches = json.load(open(path))

    def fit(self, callback, epochs, validates=True, stop_at=None, hold_at=None):
        callback.model, callback.params = self, {"epochs": epochs, "steps": 4}
        callback.on_train_begin()
        for epoch in range(self._initial_epoch or 0, epochs):
            callback.on_epoch_begin(epoch)
            for batch in range(4):
                callback.on_train_batch_begin(batch)
                self.batches += 1
                self.variables[0].value += 1
                if os.environ.get("HOLD_AT") == str(self.batches):
                    hold(callback)
                callback.on_train_batch_end(batch, {})
                if self.stop_training:
                    break
            else:
                self.variables[0].value += 1  # drawn only after the last batch
            logs = {"accuracy": self.batches, "seed": self.variables[0].value}
            self.stop_evaluating = False
            for batch in range(2 if validates else 0):
                callback.on_test_batch_end(batch, {})
                if self.stop_evaluating:
                    open(os.environ["EPOCHS"], "a").write("validation ended\\n")
                    break
                logs["val_accuracy"] = self.batches
            self.stop_training = self.stop_training or stop_at == epoch
            callback.on_epoch_end(epoch, logs)
            if self.stop_training:
                break
        callback.on_train_end()

def hold(callback):
    open(os.environ["EPOCHS"], "a").write("held\\n")
    while not callback._loop.trial.should_stop:
        time.sleep(0.01)
"""
SCRIPT = """\
import dtrain, keras
from dtrain.keras import DtrainCallback

trial = dtrain.init()
callback = DtrainCallback(OPTIONS)
model = keras.Model()
model.fit(callback, EPOCHS)
"""


def script(epochs="9", options=""):
    return SCRIPT.replace("OPTIONS", options).replace("EPOCHS", epochs)


class KerasTest(module_test.ExperimentTest):
    METRIC = "val_accuracy"

    def setUp(self):
        super().setUp()
        (self.home / "context" / "keras.py").write_text(KERAS, encoding="utf-8")

    def run_one(self, text, unit, length, *arguments, code=0):
        self.create(text, {"name": "single", "max_length": {unit: length}}, *arguments, code=code)

    def values(self, trial, name="val_accuracy"):
        return [(row["batches"], row["value"]) for row in self.rows("metrics", trial)
                if row["name"] == name]

    def pause_at(self, batch, unit, length, text=None):
        self.environment["HOLD_AT"] = str(batch)
        self.run_one(text or script(), unit, length, "-d")
        self.wait_for(self.trained)
        del self.environment["HOLD_AT"]
        self.run_dtrain("pause", "1")
        self.run_dtrain("resume", "1")
        [trial] = self.rows("trials", "1")
        self.assertEqual((trial["state"], trial["runs"]), ("COMPLETED", 2))
        self.assertEqual(self.trained(), ["held", "validation ended"])

    def test_an_epoch_with_a_pause_is_trained_again(self):
        self.pause_at(10, "epochs", 4)
        self.assertEqual(self.values("1"), [(1, 4), (2, 8), (3, 12), (4, 16)])
        self.assertEqual(self.values("1", "seed"), [(1, 5), (2, 10), (3, 15), (4, 20)])

    def test_no_batch_is_trained_again_if_batches_count(self):
        self.pause_at(10, "batches", 15)
        self.assertEqual(self.values("1"), [(4, 4), (8, 8), (14, 14), (15, 15)])

    def test_a_length_at_the_end_of_an_epoch_does_not_interrupt_it(self):
        self.run_one(script(), "batches", 8)
        self.assertEqual(self.values("1", "seed"), [(4, 5), (8, 10)])

    def test_epochs_after_the_last_checkpoint_are_trained_again(self):
        self.pause_at(10, "epochs", 4, script(options="save_every=3"))
        self.assertEqual(self.values("1"), [(1, 4), (2, 8), (3, 12), (4, 16)])

    def test_promoted_trials_continue(self):
        for number, (epochs, unit, lengths) in enumerate(
                (("9", "epochs", (2, 4)), ("trial.length", "epochs", (2, 4)),
                 ("9", "batches", (6, 12))), start=1):
            with self.subTest(epochs=epochs, unit=unit):
                self.create(script(epochs), {"name": "async_halving", "max_trials": 4,
                                             "num_rungs": 2, "divisor": 2,
                                             "max_length": {unit: lengths[1]}})
                trials = self.rows("trials", str(number))
                self.assertEqual({trial["rung"] for trial in trials}, {1, 2})
                for trial in trials:
                    length = lengths[trial["rung"] - 1]
                    self.assertEqual(self.values(trial["id"])[-1],
                                     (length, length * (4 if unit == "epochs" else 1)))

    def test_another_callback_may_complete_the_trial(self):
        self.run_one(script("9, stop_at=1"), "epochs", 6)
        [trial] = self.rows("trials", "1")
        self.assertEqual((trial["state"], trial["batches"]), ("COMPLETED", 2))
        self.assertIn("fit() ended after 2 of 6 epochs: model.stop_training was set",
                      trial["reason"])

    def test_without_a_length_fit_decides(self):
        self.create(script("3"), {"name": "single"})
        [trial] = self.rows("trials", "1")
        self.assertEqual((trial["state"], trial["batches"]), ("COMPLETED", 3))
        self.assertIsNotNone(trial["checkpoint"])

    def test_mistakes_are_named(self):
        cases = (
            (script("3"), "epochs", "fit() has epochs=3, but the search asks for 6 epochs; give it "
             "those of searcher.max_length, or epochs=trial.length"),
            (script("1"), "batches", "fit() ended after 4 of 6 batches, since it has epochs=1; give "
             "it more"),
            (script("9, validates=False"), "epochs", "no validation after 6 epochs, the length that "
             "the search asks for; there are only training metrics: accuracy, seed"),
            (script(options="save_every=0"), "epochs", "save_every must be a whole number of at "
             "least 1, got 0"),
            (script().replace("model.fit", "model.steps_per_execution = 2\nmodel.fit"), "batches",
             "the search counts batches, but steps_per_execution is 2; compile the model without "),
            ("import keras\nkeras.__version__ = '2.15.0'\n" + script(), "epochs",
             "dtrain.keras needs Keras 3, but this is Keras 2.15.0"))
        for number, (text, unit, message) in enumerate(cases, start=1):
            with self.subTest(message=message):
                self.run_one(text, unit, 6, code=1)
                self.assertIn(message, self.run_dtrain("logs", str(number)))

    def test_the_metric_of_the_searcher_is_one_of_the_validation(self):
        self.METRIC = "accuracy"
        self.create(script(), {"name": "random", "max_trials": 1, "max_length": {"epochs": 6}},
                    code=1)
        self.assertIn("lacks 'accuracy', the metric of the searcher; it has val_accuracy; did you "
                      "mean 'val_accuracy'?", self.run_dtrain("logs", "1"))

    def test_the_script_runs_by_itself_and_saves_nothing(self):
        (self.home / "context" / "train.py").write_text(
            script("3") + "print(model.batches)\n", encoding="utf-8")
        done = subprocess.run([sys.executable, "train.py"], cwd=self.home / "context", check=False,
                              env={**self.environment, "PYTHONPATH": str(module_test.MODULE)},
                              capture_output=True, text=True, timeout=self.LIMIT)
        self.assertEqual((done.returncode, done.stdout, done.stderr), (0, "12\n", ""))


if __name__ == "__main__":
    module_test.DTRAIN = str(pathlib.Path(sys.argv[1]).resolve())
    unittest.main(argv=[sys.argv[0], *sys.argv[2:]])
