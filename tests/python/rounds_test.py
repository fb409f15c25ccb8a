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

__version__ = "0"

class Booster:
    rounds = 0
    def __init__(self):
        self.attributes = {}
        self.rate = "unset"
    def num_boosted_rounds(self):
        return self.rounds
    def save_config(self):
        return "{}"
    def load_config(self, config):
        pass
    def set_param(self, params, value=None):
        self.rate = params["rate"] if value is None else str(value)
    def load_model(self, path):
        self.rounds = json.load(open(path))
    def save_model(self, path):
        json.dump(self.rounds, open(path, "w"))
    def attr(self, name):
        return self.attributes.get(name)

class callback:
    class TrainingCallback:
        def before_training(self, model):
            return model
        def before_iteration(self, model, epoch, history):
            return False
        after_iteration = before_iteration
        after_training = before_training

    class CallbackContainer:
        def __init__(self, callbacks):
            self.callbacks = callbacks
            self.history = {}
        def before_training(self, model):
            for one in self.callbacks:
                model = one.before_training(model)
            return model
        def before_iteration(self, model, epoch, evals):
            return any(one.before_iteration(model, epoch, self.history) for one in self.callbacks)
        def after_iteration(self, model, epoch, evals):
            for name in evals:
                log = self.history.setdefault(name, {"auc": [], "rate": []})
                log["auc"].append(float(model.rounds))
                log["rate"].append(-1.0 if model.rate == "unset" else float(model.rate))
            return any(one.after_iteration(model, epoch, self.history) for one in self.callbacks)
        def after_training(self, model):
            for one in self.callbacks:
                model = one.after_training(model)

def train(dtrain_callback, num_boost_round, evals=("valid",), stop_at=None, others=()):
    class Stop(callback.TrainingCallback):
        starting_round = 0
        def before_training(self, model):
            self.starting_round = model.rounds
            return model
        def after_iteration(self, model, epoch, history):
            assert self.starting_round + epoch + 1 == model.rounds, (self.starting_round, epoch)
            if stop_at:
                model.attributes["best_iteration"] = "1"
            return model.rounds == stop_at
    class Rate(callback.TrainingCallback):  # of the next round, as LearningRateScheduler
        def after_iteration(self, model, epoch, history):
            model.set_param("rate", epoch)
            return False
    container = callback.CallbackContainer([Stop(), dtrain_callback, *others, Rate(), Stop()])
    model = container.before_training(Booster())
    for i in range(num_boost_round):
        if container.before_iteration(model, i, evals):
            break
        model.rounds += 1
        if container.after_iteration(model, i, evals):
            break
    container.after_training(model)
    print("rounds in the model:", model.rounds, flush=True)
"""
LIGHTGBM = """\
import json
from collections import namedtuple

class Booster:
    best_iteration = 0
    def __init__(self, rounds):
        self.rounds = rounds
    def rollback_one_iter(self):
        self.rounds -= 1
    def save_model(self, path, num_iteration):
        assert num_iteration == -1
        json.dump(self.rounds, open(path, "w"))

class callback:
    class EarlyStopException(Exception):
        def __init__(self, *arguments):
            pass
    class _ResetParameterCallback:
        def __call__(self, env):
            assert env.end_iteration - env.begin_iteration == env.params["rounds"]
            env.model.rate = env.iteration - env.begin_iteration

callback.CallbackEnv = namedtuple("CallbackEnv", "model params iteration begin_iteration "
                         "end_iteration evaluation_result_list")

def train(callback_, num_boost_round, evals=("valid",), stop_at=None, init_model=None, others=()):
    first = json.load(open(init_model)) if init_model else 0
    model = Booster(first)
    schedule = callback._ResetParameterCallback()
    for i in range(first, first + num_boost_round):
        env = callback.CallbackEnv(model, {"rounds": num_boost_round}, i, first,
                                   first + num_boost_round, None)
        schedule(env)
        model.rounds += 1
        results = [(name, metric, value, True) for name in evals for metric, value in (
            ("auc", float(model.rounds)), ("rate", float(model.rate)))]
        try:
            callback_(env._replace(evaluation_result_list=results))
            if model.rounds == stop_at:
                raise callback.EarlyStopException
        except callback.EarlyStopException:
            model.best_iteration = i + 1
            break
    print("rounds in the model:", model.rounds, flush=True)
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

# A stop that comes after the report of a round, and before the next one begins.
advance = dtrain._loop.Loop.advance
def hold_before(loop):
    if str(loop.done) == os.environ.get("HOLD_AFTER") and not trial.restore():
        open(os.environ["EPOCHS"], "w").write("held")
        while not trial.should_stop:
            time.sleep(0.01)
    return advance(loop)
dtrain._loop.Loop.advance = hold_before
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

    def seen(self, trial, name="valid-auc"):
        return [(row["batches"], row["value"]) for row in self.rows("metrics", trial)
                if row["kind"] == "validation" and row["name"] == name]

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
        # The rates are those of a schedule by round.
        self.assertEqual(self.seen("1", "valid-rate"), self.rates(9))

    def rates(self, rounds):
        return [(n, n - self.FIRST_RATE) for n in range(1, rounds + 1)]

    def test_without_a_length_all_runs_have_the_rounds_of_the_script(self):
        self.environment["HOLD_AT"] = "4"
        self.create(self.script("6"), {"name": "single"}, "-d")
        self.wait_for(self.trained)
        self.run_dtrain("pause", "1")
        self.run_dtrain("resume", "1")
        self.assertEqual(self.seen("1"), [(n, n) for n in range(1, 7)])
        self.assertEqual(self.seen("1", "valid-rate"), self.rates(6))
        self.assertIn("rounds in the model: 6\n", self.run_dtrain("logs", "1"))
        self.assertEqual(self.rows("trials", "1")[0]["state"], "COMPLETED")

    def test_a_stop_between_two_rounds_saves_the_last_one(self):
        self.environment["HOLD_AFTER"] = "4"
        self.one(self.script(), arguments=("-d",))
        self.wait_for(self.trained)
        self.run_dtrain("pause", "1")
        [trial] = self.rows("trials", "1")
        self.assertEqual((trial["state"], trial["batches"]), ("PAUSED", 4))
        self.assertEqual([row["batches"] for row in self.rows("checkpoints", "1")], [4])

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
        self.assertIn("there is no validation; there are only training metrics: train-auc, train-rate; give "
                      f"{self.PACKAGE}.train()", self.refusal(self.script(evals='["train"]')))

    def test_another_metric_is_named(self):
        self.METRIC = "auc"
        self.create(self.script(), {"name": "random", "max_trials": 1,
                                    "max_length": {"epochs": 9}}, code=1)
        self.assertIn("lacks 'auc', the metric of the searcher; it has valid-auc, "
                      "valid-rate; did you mean 'valid-auc'?", self.run_dtrain("logs", "1"))


class XgboostTest(RoundsTests, module_test.ExperimentTest):
    PACKAGE, FAKE, MORE, FIRST_RATE = "xgboost", XGBOOST, "", 2
    TOO_FEW = "training ended after 5 of 9 epochs, the value of num_boost_round"


class LightgbmTest(RoundsTests, module_test.ExperimentTest):
    PACKAGE, FAKE, MORE = "lightgbm", LIGHTGBM, ", init_model=callback.init_model"
    FIRST_RATE = 1
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

    def test_an_older_version_is_refused(self):
        older = self.FAKE.replace("_ResetParameterCallback", "_reset") + '__version__ = "3.3.5"\n'
        (self.home / "context" / "lightgbm.py").write_text(older, encoding="utf-8")
        self.assertIn("dtrain.lightgbm needs LightGBM 4, but this is 3.3.5",
                      self.refusal(self.script()))


if __name__ == "__main__":
    module_test.DTRAIN = str(pathlib.Path(sys.argv[1]).resolve())
    unittest.main(argv=[sys.argv[0], *sys.argv[2:]])
