#!/usr/bin/env python3
"""Tests dtrain.xgboost and dtrain.lightgbm with the real packages.

    tests/python/frameworks/run boosting"""

import pathlib
import subprocess
import sys

import framework

sys.path.insert(0, str(pathlib.Path(__file__).resolve().parents[2] / "docs"))

import documents

DATA = """\
import numpy
import dtrain
from hold import hold

trial = dtrain.init()
draw = numpy.random.default_rng(1)
x = draw.normal(size=(1000, 6))
y = (x[:, 0] * x[:, 1] + x[:, 2] + draw.normal(size=1000) > 0).astype(float)
"""
XGBOOST = DATA + """\
import xgboost
from dtrain.xgboost import DtrainCallback


class Hold(xgboost.callback.TrainingCallback):
    def before_iteration(self, model, epoch, evals_log):
        hold(model.num_boosted_rounds())
        return False


callback = DtrainCallback()
training = xgboost.DMatrix(x[:800], y[:800])
validation = xgboost.DMatrix(x[800:], y[800:])
model = xgboost.train(
    {"objective": "binary:logistic", "eval_metric": ["logloss", "auc"], "max_depth": 3,
     "eta": trial.hparams.lr, "nthread": 1}, training, num_boost_round=ROUNDS,
    evals=[(training, "train"), (validation, "valid")], verbose_eval=False,
    callbacks=[callback, Hold()])
"""
LIGHTGBM = DATA + """\
import lightgbm
from dtrain.lightgbm import DtrainCallback


def held(env):
    hold(env.iteration)
held.before_iteration = True

callback = DtrainCallback()
training = lightgbm.Dataset(x[:800], y[:800])
validation = lightgbm.Dataset(x[800:], y[800:], reference=training)
model = lightgbm.train(
    {"objective": "binary", "metric": ["binary_logloss", "auc"], "num_leaves": 7,
     "learning_rate": trial.hparams.lr, "num_threads": 1, "verbosity": -1, "deterministic": True},
    training, num_boost_round=ROUNDS, valid_sets=[training, validation],
    valid_names=["train", "valid"], callbacks=[callback, held], init_model=callback.init_model)
"""
AFTER_A_CHECKPOINT = """\
import os, dtrain._trial
def send_checkpoint(trial, where, path, send=dtrain._trial.Trial._send_checkpoint):
    send(trial, where, path)
    if trial._last["checkpoint"] == 4 and not trial.restore():
        trial.flush()
        os._exit(1)
dtrain._trial.Trial._send_checkpoint = send_checkpoint
"""
LRS = {"lr": {"type": "log", "minval": -2, "maxval": -0.5}}


class BoostingTests:
    """What both libraries do."""

    METRIC = "valid-auc"
    HPARAMS = {"lr": 0.1}

    def one(self, script, length, code=0, hparams=None, search="single", **keys):
        self.create(script, {"name": search, "max_length": length,
                             **({} if search == "single" else {"max_trials": 1})},
                    hparams=hparams or self.HPARAMS, code=code, **keys)
        [trial] = self.rows("trials", "1")
        return trial

    def refusal(self, script, length):
        trial = self.one(script, length, code=1)
        return trial["reason"] + self.run_dtrain("logs", "1")

    def test_the_example_of_the_document_learns(self):
        files = {block.file: block.text for block in
                 documents.blocks("docs/python.md", documents.read("docs/python.md"))}
        (self.home / "context" / "asha.yaml").write_text(
            files["xgboost/asha.yaml"] + "reproducibility: {experiment_seed: 1}\n")
        (self.home / "context" / "train.py").write_text(files[f"{self.NAME}/train.py"])
        self.run_dtrain("create", "context/asha.yaml")
        self.assertGreater(self.rows("best", "1")[0]["value"], 0.9)
        self.assertIn(3, [trial["rung"] for trial in self.rows("trials", "1")])

    def test_rounds_count_in_the_unit_of_the_search(self):
        self.one(self.script(), {"batches": 3})
        reports = self.reports("1")
        self.assertEqual([key[2] for key in reports if key[:2] == ("validation", "valid-auc")],
                         [1, 2, 3])
        names = {key[:2] for key in reports}
        self.assertEqual(names, {("training", f"train-{self.LOSS}"), ("training", "train-auc"),
                                 ("validation", f"valid-{self.LOSS}"), ("validation", "valid-auc")})

    def test_a_paused_trial_continues_as_if_it_ran_through(self):
        self.check_pauses(self.script(), {"epochs": 12}, (5, 10), hparams=self.HPARAMS)

    def test_nothing_reported_is_lost_with_the_runner(self):
        self.check_kills(self.script(), {"epochs": 6}, (2, 5), hparams=self.HPARAMS)

    def test_schedules_by_round_continue(self):
        for name in self.SCHEDULES:
            with self.subTest(name):
                self.reset()
                self.check_pauses(self.scheduled(name), {"epochs": 12}, (5, 10),
                                  hparams=self.HPARAMS)

    def test_promoted_trials_continue_their_schedule(self):
        self.check_promotion(self.scheduled(self.SCHEDULES[0], "trial.length - LEFT"),
                             {"epochs": 8}, LRS)

    def test_without_a_length_all_runs_have_the_rounds_of_the_script(self):
        script = self.scheduled(self.SCHEDULES[0], "12") + (
            "print('rounds:', model.num_trees() if hasattr(model, 'num_trees') else "
            "model.num_boosted_rounds())\n")
        self.check_pauses(script, None, (5, 10), hparams=self.HPARAMS)
        for experiment in ("1", "2", "3"):
            self.assertIn("rounds: 12\n", self.run_dtrain("logs", experiment))

    def test_sampling_is_not_equal_after_a_pause(self):
        script = self.script().replace('"max_depth": 3', '"max_depth": 3, "subsample": 0.5').replace(
            '"num_leaves": 7', '"num_leaves": 7, "bagging_fraction": 0.5, "bagging_freq": 1')
        searcher = {"name": "single", "max_length": {"epochs": 12}}
        self.create(script, searcher, hparams=self.HPARAMS)
        self.pause_at(5, "2", lambda: self.create(script, searcher, "-d", hparams=self.HPARAMS))
        self.assertNotEqual(self.reports("1"), self.reports("2"))

    def test_a_stop_between_two_rounds_saves_the_last_one(self):
        script = self.script().replace("from hold import hold", """from hold import hold
import dtrain._loop
def advance(loop, take=dtrain._loop.Loop.advance):
    hold(loop.done)
    return take(loop)
dtrain._loop.Loop.advance = advance""").replace("hold(model.num_boosted_rounds())", "pass").replace(
            "hold(env.iteration)", "pass")
        self.check_pauses(script, {"epochs": 12}, (5,), hparams=self.HPARAMS)

    def test_promoted_trials_continue(self):
        self.check_promotion(self.script(), {"epochs": 8}, LRS)

    def test_a_promoted_trial_starts_again_if_there_are_no_more_rounds(self):
        self.check_promotion(self.script("trial.length - LEFT"), {"epochs": 8}, LRS)
        self.assertIn(2, [trial["runs"] for trial in self.rows("trials", "1")])

    def test_early_stopping_completes_the_trial(self):
        trial = self.one(self.early_stopping(), {"epochs": 500}, hparams={"lr": 1.0})
        self.assertEqual(trial["state"], "COMPLETED")
        ended = trial["latest"]["batches"]
        self.assertLess(ended, 100)
        self.assertIn(f"early stopping after {ended} of 500 epochs", str(trial))
        self.assertEqual(trial["latest"]["checkpoint"], trial["checkpoint"])

    def test_without_a_length_the_last_model_is_saved(self):
        self.create(self.script("5"), {"name": "single"}, hparams=self.HPARAMS)
        [trial] = self.rows("trials", "1")
        self.assertEqual((trial["state"], trial["batches"]), ("COMPLETED", 5))
        self.assertIsNotNone(trial["checkpoint"])

    def test_a_crash_after_a_checkpoint_loses_no_validation(self):
        trial = self.one(AFTER_A_CHECKPOINT + self.script(), {"epochs": 4}, max_restarts=1)
        self.assertEqual((trial["state"], trial["latest"]["batches"]), ("COMPLETED", 4))
        self.assertIn("exited with code 1", self.run_dtrain("logs", "1"))

    def test_too_few_rounds_are_refused(self):
        self.assertIn(self.TOO_FEW, self.refusal(self.script("5"), {"epochs": 9}))

    def test_a_training_without_validation_is_refused(self):
        refusal = self.refusal(self.without_validation(), {"epochs": 9})
        self.assertIn("there is no validation; there are only training metrics: train-auc, "
                      f"train-{self.LOSS}; give ", refusal)

    def test_a_metric_without_its_data_set_is_refused(self):
        self.METRIC = "validauc"
        self.one(self.script(), {"epochs": 9}, code=1, search="random")
        self.assertIn("lacks 'validauc', the metric of the searcher; it has valid-auc, valid-"
                      f"{self.LOSS}; did you mean 'valid-auc'?", self.run_dtrain("logs", "1"))

    def test_records_are_refused(self):
        self.create(self.script(), {"name": "single", "max_length": {"records": 9}},
                    hparams=self.HPARAMS, code=1, records_per_epoch=3)
        self.assertIn("the search counts records (searcher.max_length), but boosting rounds are "
                      "counted here; use max_length: {epochs: ...}", self.run_dtrain("logs", "1"))

    def test_a_second_training_is_refused(self):
        script = self.script()
        last = script[script.index("model = "):]
        self.one(script + last, {"epochs": 2})  # complete before the second
        self.assertIn("this callback has been used for a training before",
                      self.run_dtrain("logs", "1"))

    def test_the_script_runs_by_itself(self):
        (self.home / "context" / "train.py").write_text(
            self.script("7").replace("trial.hparams.lr", "0.1")
            + "print(model.num_trees() if hasattr(model, 'num_trees') else "
              "model.num_boosted_rounds())\n", encoding="utf-8")
        done = subprocess.run([sys.executable, "train.py"], cwd=self.home / "context",
                              env=self.environment, capture_output=True, text=True, check=False)
        self.assertEqual((done.returncode, done.stdout), (0, "7\n"), done.stderr)


class XgboostTest(BoostingTests, framework.FrameworkTest):
    NAME, LOSS = "xgboost", "logloss"
    TOO_FEW = ("training ended after 5 of 9 epochs, the value of num_boost_round (or "
               "n_estimators); give it searcher.max_length")

    def script(self, rounds="20"):
        return XGBOOST.replace("ROUNDS", rounds.replace("LEFT", "int(trial.restored_count('epochs'))"))

    # A callback before and after that of dtrain, and one that asks the model before it is loaded.
    SCHEDULES = ("callback, Rates, Hold()", "Rates, callback, Hold()",
                 "Depth(), callback, Hold()",
                 "xgboost.callback.EarlyStopping(rounds=99), callback, Rates, Hold()")

    def scheduled(self, callbacks, rounds="12"):
        rates = "xgboost.callback.LearningRateScheduler(lambda n: trial.hparams.lr * 0.8 ** n)"
        return self.script(rounds).replace("[callback, Hold()]", f"[{callbacks}]").replace(
            "Rates", rates).replace("class Hold(", """class Depth(xgboost.callback.TrainingCallback):
    def after_iteration(self, model, epoch, evals_log):
        model.set_param("max_depth", 2 + epoch % 3)
        return False


class Hold(""")

    def early_stopping(self):
        return self.script("500").replace("verbose_eval=False", "early_stopping_rounds=3")

    def without_validation(self):
        return self.script().replace(', (validation, "valid")', "")

    def test_the_interface_of_scikit_learn(self):
        self.METRIC = "validation_0-auc"
        script = DATA + """\
import xgboost
from dtrain.xgboost import DtrainCallback
model = xgboost.XGBClassifier(n_estimators=20, learning_rate=trial.hparams.lr, n_jobs=1,
                              eval_metric="auc", callbacks=[DtrainCallback()])
model.fit(x[:800], y[:800], eval_set=[(x[800:], y[800:])], verbose=False)
"""
        self.assertEqual(self.one(script, {"epochs": 4})["latest"]["batches"], 4)

    def test_cross_validation_is_refused(self):
        script = self.script().replace("xgboost.train(", "xgboost.cv(").replace(
            'evals=[(training, "train"), (validation, "valid")], ', "")
        self.assertIn("a trial is one training, not a cross-validation: call xgboost.train()",
                      self.refusal(script, {"epochs": 9}))


class LightgbmTest(BoostingTests, framework.FrameworkTest):
    NAME, LOSS = "lightgbm", "binary_logloss"
    TOO_FEW = ("num_boost_round (or n_estimators) is 5, but the search asks for 9 epochs; give it "
               "searcher.max_length")

    def script(self, rounds="20"):
        return LIGHTGBM.replace("ROUNDS", rounds.replace("LEFT", "int(trial.restored_count('epochs'))"))

    SCHEDULES = ("lambda n: 0.1 * 0.8 ** n", "[0.1 * 0.8 ** n for n in range(12)]")

    def scheduled(self, rates, rounds="12"):
        return self.script(rounds).replace(
            "held]", f"held, lightgbm.reset_parameter(learning_rate={rates})]")

    def early_stopping(self):
        return self.script("500").replace("held]", "lightgbm.early_stopping(3)]")

    def without_validation(self):
        return self.script().replace("[training, validation]", "[training]").replace(
            '["train", "valid"]', '["train"]')

    def test_a_training_from_its_beginning_after_a_pause_is_refused(self):
        script = self.script().replace(", init_model=callback.init_model", "")
        self.pause_at(5, "1", lambda: self.create(
            script, {"name": "single", "max_length": {"epochs": 9}}, "-d", hparams=self.HPARAMS),
            code=1)
        self.assertIn("the training does not continue the checkpoint: give it "
                      "init_model=callback.init_model", self.run_dtrain("logs", "1"))

    def test_the_interface_of_scikit_learn(self):
        self.METRIC = "valid_0-auc"
        script = DATA + """\
import lightgbm
from dtrain.lightgbm import DtrainCallback
callback = DtrainCallback()
model = lightgbm.LGBMClassifier(n_estimators=20, learning_rate=trial.hparams.lr, n_jobs=1)
model.fit(x[:800], y[:800], eval_set=[(x[800:], y[800:])], eval_metric="auc",
          callbacks=[callback], init_model=callback.init_model)
"""
        self.assertEqual(self.one(script, {"epochs": 4})["latest"]["batches"], 4)

    def test_cross_validation_is_refused(self):
        script = self.script().replace("lightgbm.train(", "lightgbm.cv(").replace(
            "valid_sets=[training, validation],\n    valid_names=[\"train\", \"valid\"], ", "")
        self.assertIn("a trial is one training, not a cross-validation: call lightgbm.train()",
                      self.refusal(script, {"epochs": 9}))


if __name__ == "__main__":
    framework.main()
