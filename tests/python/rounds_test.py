#!/usr/bin/env python3
"""Tests the callbacks for XGBoost and LightGBM without those packages: the fakes below call
them as the packages do. tests/python/frameworks tests them with the real ones.

    tests/python/rounds_test.py DTRAIN"""

import pathlib
import sys
import unittest

import module_test

# Both fakes "learn" the number of rounds.
XGBOOST = """\
import json

class Booster:
    rounds = 0
    def __init__(self):
        self.attributes = {}
    def load_model(self, path):
        self.rounds = json.load(open(path))
    def save_model(self, path):
        json.dump(self.rounds, open(path, "w"))
    def attr(self, name):
        return self.attributes.get(name)

class callback:
    class TrainingCallback:
        pass

def train(callback, num_boost_round, evals=("valid",), stop_at=None):
    log = {name: {"auc": []} for name in evals}
    model = callback.before_training(Booster())
    for i in range(num_boost_round):
        if callback.before_iteration(model, i, log):
            break
        model.rounds += 1
        for name in evals:
            log[name]["auc"].append(float(model.rounds))
        if stop_at:
            model.attributes["best_iteration"] = "1"
        if callback.after_iteration(model, i, log) or model.rounds == stop_at:
            break
    callback.after_training(model)
"""
LIGHTGBM = """\
import json
from types import SimpleNamespace

class Booster:
    best_iteration = 0
    def __init__(self, rounds):
        self.rounds = rounds
    def save_model(self, path, num_iteration):
        assert num_iteration == -1
        json.dump(self.rounds, open(path, "w"))

class callback:
    class EarlyStopException(Exception):
        pass

def train(callback_, num_boost_round, evals=("valid",), stop_at=None, init_model=None):
    first = json.load(open(init_model)) if init_model else 0
    model = Booster(first)
    for i in range(first, first + num_boost_round):
        model.rounds += 1
        results = [(name, "auc", float(model.rounds), True) for name in evals]
        try:
            callback_(SimpleNamespace(model=model, iteration=i, begin_iteration=first,
                                      end_iteration=first + num_boost_round,
                                      evaluation_result_list=results))
            if model.rounds == stop_at:
                raise callback.EarlyStopException
        except callback.EarlyStopException:
            model.best_iteration = i + 1
            break
"""
SCRIPT = """\
import PACKAGE
from dtrain.PACKAGE import DtrainCallback
import dtrain, os, time
trial = dtrain.init()

class Callback(DtrainCallback):
    pass

report = trial.report
def hold(*args, **more):
    if str(trial._count) == os.environ.get("HOLD_AT") and not trial.restore():
        open(os.environ["EPOCHS"], "w").write("held")
        while not trial.should_stop:
            time.sleep(0.01)
    report(*args, **more)
trial.report = hold
callback = Callback(OPTIONS)
PACKAGE.train(callback, ARGUMENTS)
"""


class RoundsTests:
    METRIC = "valid-auc"

    def script(self, rounds="20", evals='("train", "valid")', more="", options=""):
        arguments = f"{rounds}, evals={evals}{more}{self.MORE}"
        return (SCRIPT.replace("PACKAGE", self.PACKAGE).replace("ARGUMENTS", arguments)
                .replace("OPTIONS", options))

    def setUp(self):
        super().setUp()
        (self.home / "context" / f"{self.PACKAGE}.py").write_text(self.FAKE, encoding="utf-8")

    def one(self, script, length=9, code=0, unit="epochs", arguments=()):
        self.create(script, {"name": "single", "max_length": {unit: length}}, *arguments,
                    code=code)

    def seen(self, trial):
        return [(row["batches"], row["value"]) for row in self.rows("metrics", trial)
                if row["kind"] == "validation"]

    def refusal(self, *arguments, **keys):
        self.one(*arguments, code=1, **keys)
        return self.run_dtrain("logs", "1")

    def test_a_paused_trial_resumes_after_its_checkpoint(self):
        self.environment["HOLD_AT"] = "4"
        self.one(self.script(), arguments=("-d",))
        self.wait_for(self.trained)
        self.run_dtrain("pause", "1")
        self.assertEqual(self.seen("1"), [(n, n) for n in range(1, 5)])
        self.run_dtrain("resume", "1")
        self.assertEqual(self.seen("1"), [(n, n) for n in range(1, 10)])
        [trial] = self.rows("trials", "1")
        self.assertEqual((trial["state"], trial["runs"]), ("COMPLETED", 2))

    def test_promoted_trials_continue(self):
        self.create(self.script(), {"name": "async_halving", "max_trials": 4, "num_rungs": 2,
                                    "divisor": 2, "max_length": {"batches": 8}})
        rungs = {trial["rung"] for trial in self.rows("trials", "1")}
        self.assertEqual(rungs, {1, 2})
        for trial in self.rows("trials", "1"):
            most = 8 if trial["rung"] == 2 else 4
            self.assertEqual(self.seen(trial["id"]), [(n, n) for n in range(1, most + 1)])

    def test_a_checkpoint_is_saved_every_few_rounds(self):
        self.one(self.script(options="save_every=2"), 5)
        saved = [row["batches"] for row in self.rows("checkpoints", "1")]
        self.assertIn(5, saved)
        best = self.rows("best", "1")[0]
        self.assertEqual(best["batches"], 5)
        self.assertIn("save_every must be a whole number of at least 1, got 0",
                      self.refusal_of_options("save_every=0"))

    def refusal_of_options(self, options):
        self.create(self.script(options=options), {"name": "single", "max_length": {"epochs": 2}},
                    code=1)
        return self.run_dtrain("logs", "2")

    def test_early_stopping_completes_the_trial_and_saves_its_model(self):
        self.one(self.script(more=", stop_at=6"))
        [trial] = self.rows("trials", "1")
        self.assertEqual((trial["state"], trial["batches"]), ("COMPLETED", 6))
        self.assertEqual(trial["reason"], "ended early: early stopping after 6 of 9 epochs")
        self.assertEqual([row["batches"] for row in self.rows("checkpoints", "1")], [6])

    def test_mistakes_are_named(self):
        self.assertIn(self.TOO_FEW, self.refusal(self.script("5")))

    def test_a_missing_validation_is_named(self):
        self.assertIn("there is no validation; there are only training metrics: train-auc; give "
                      f"{self.PACKAGE}.train()", self.refusal(self.script(evals='["train"]')))

    def test_another_metric_is_named(self):
        self.METRIC = "auc"
        self.create(self.script(), {"name": "random", "max_trials": 1,
                                    "max_length": {"epochs": 9}}, code=1)
        self.assertIn("lacks 'auc', the metric of the searcher; it has valid-auc; did you mean "
                      "'valid-auc'?", self.run_dtrain("logs", "1"))


class XgboostTest(RoundsTests, module_test.ExperimentTest):
    PACKAGE, FAKE, MORE = "xgboost", XGBOOST, ""
    TOO_FEW = "training ended after 5 of 9 epochs, the value of num_boost_round"


class LightgbmTest(RoundsTests, module_test.ExperimentTest):
    PACKAGE, FAKE, MORE = "lightgbm", LIGHTGBM, ", init_model=callback.init_model"
    TOO_FEW = "num_boost_round (or n_estimators) is 5, but the search asks for 9 epochs"

    def test_a_training_from_its_beginning_after_a_pause_is_refused(self):
        self.MORE = ""
        self.environment["HOLD_AT"] = "4"
        self.one(self.script(), arguments=("-d",))
        self.wait_for(self.trained)
        self.run_dtrain("pause", "1")
        self.run_dtrain("resume", "1", code=1)
        self.assertIn("the training does not continue the checkpoint: give it init_model="
                      "callback.init_model", self.run_dtrain("logs", "1"))


if __name__ == "__main__":
    module_test.DTRAIN = str(pathlib.Path(sys.argv[1]).resolve())
    unittest.main(argv=[sys.argv[0], *sys.argv[2:]])
