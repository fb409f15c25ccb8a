#!/usr/bin/env python3
"""Tests dtrain.keras with Keras 3 and its PyTorch backend.

    tests/python/frameworks/run keras"""

import pathlib
import subprocess
import sys

import framework

sys.path.insert(0, str(pathlib.Path(__file__).resolve().parents[2] / "docs"))

import documents

# Dropout and shuffled batches: a resumed trial must draw the numbers that one that ran
# through draws.
SCRIPT = """\
import keras, numpy
import dtrain
from dtrain.keras import DtrainCallback
from hold import hold

trial = dtrain.init()
keras.utils.set_random_seed(7)
draw = numpy.random.default_rng(1)
x = draw.normal(size=(400, 8)).astype("float32")
y = (x[:, 0] * x[:, 1] + x[:, 2] > 0).astype("float32")
model = keras.Sequential([keras.layers.Dense(16, activation="relu"),
                          keras.layers.Dropout(0.2), keras.layers.Dense(1, activation="sigmoid")])
model.compile(keras.optimizers.Adam(trial.hparams.lr), "binary_crossentropy",
              metrics=["accuracy"])


class Hold(keras.callbacks.Callback):
    step = 0

    def on_train_begin(self, logs=None):
        self.step = 10 * (self.model._initial_epoch or 0)

    def on_train_batch_begin(self, batch, logs=None):
        hold(self.step)
        self.step += 1


callback = DtrainCallback()
model.fit(x[:320], y[:320], batch_size=32, epochs=EPOCHS, verbose=0, OPTIONS
          callbacks=[callback, Hold()])
"""
LRS = {"lr": {"type": "log", "minval": -3, "maxval": -1}}
VALIDATED = "validation_data=(x[320:], y[320:]),"


def script(epochs="6", options=VALIDATED):
    return SCRIPT.replace("EPOCHS", epochs).replace("OPTIONS", options)


class KerasTest(framework.FrameworkTest):
    """An epoch has 10 batches."""

    METRIC = "val_accuracy"
    HPARAMS = {"lr": 0.01}

    def setUp(self):
        super().setUp()
        self.environment["KERAS_BACKEND"] = "torch"

    def create_one(self, text, length, code=0, **searcher):
        self.create(text, {"name": "single", "max_length": length, **searcher},
                    hparams=self.HPARAMS, code=code)

    def reason(self):
        [trial] = self.rows("trials", "1")
        return str(trial["reason"]) + self.run_dtrain("logs", "1")

    def test_the_example_of_the_document_learns(self):
        files = {block.file: block.text for block in
                 documents.blocks("docs/python.md", documents.read("docs/python.md"))}
        (self.home / "context" / "train.py").write_text(files["keras/train.py"])
        (self.home / "context" / "asha.yaml").write_text(
            files["keras/asha.yaml"] + "reproducibility: {experiment_seed: 1}\n")
        self.run_dtrain("create", "context/asha.yaml")
        self.assertGreater(self.rows("best", "1")[0]["value"], 0.9)
        self.assertEqual({trial["rung"] for trial in self.rows("trials", "1")}, {1, 2})

    def test_a_paused_trial_continues_as_if_it_ran_through(self):
        # Within an epoch, which is trained again, and at the last batch of one.
        self.check_pauses(script(), {"epochs": 5}, (14, 29), hparams=self.HPARAMS)

    def test_nothing_reported_is_lost_with_the_runner(self):
        # In the last batches of the second epoch, and of the last.
        self.check_kills(script(), {"epochs": 3}, (19, 29), hparams=self.HPARAMS)

    def test_promoted_trials_continue(self):
        self.check_promotion(script(), {"epochs": 4}, LRS)

    def test_a_promoted_trial_starts_again_if_fit_has_no_more_epochs(self):
        self.check_promotion(script(epochs="trial.length"), {"epochs": 4}, LRS)
        self.assertIn(2, [trial["runs"] for trial in self.rows("trials", "1")])

    def test_promoted_trials_continue_in_batches(self):
        self.check_promotion(script(), {"batches": 40}, LRS)

    def test_a_length_in_batches_ends_an_epoch_early(self):
        searcher = {"name": "single", "max_length": {"batches": 27}}
        before = self.pause_at(14, "1", lambda: self.create(script(), searcher, "-d",
                                                            hparams=self.HPARAMS))
        self.assertEqual(before, 4)  # of the first epoch
        reports = self.reports("1")
        # The pause ended the second epoch after 15 batches. No batch is trained twice.
        self.assertEqual([key[2] for key in reports if key[1] == "val_accuracy"], [10, 25, 27])

    def test_early_stopping_completes_the_trial(self):
        options = VALIDATED.replace("(x[320:], y[320:])", "(x[320:], y[320:])")
        text = script(options=options).replace(
            "Hold()]", 'keras.callbacks.EarlyStopping("val_loss", min_delta=9, patience=2)]')
        self.create_one(text, {"epochs": 6})
        [trial] = self.rows("trials", "1")
        self.assertEqual((trial["state"], trial["latest"]["batches"]), ("COMPLETED", 3))
        self.assertIn("fit() ended after 3 of 6 epochs: model.stop_training was set",
                      self.reason())

    def test_a_crash_after_a_checkpoint_loses_no_validation(self):
        crash = """
import os, dtrain._trial
def send_checkpoint(trial, where, path, send=dtrain._trial.Trial._send_checkpoint):
    send(trial, where, path)
    if trial._last["checkpoint"] == 2 and not trial.restore():
        trial.flush()
        os._exit(1)
dtrain._trial.Trial._send_checkpoint = send_checkpoint
"""
        self.create(crash + script(), {"name": "single", "metric": "val_accuracy",
                                       "max_length": {"epochs": 2}},
                    hparams=self.HPARAMS, max_restarts=1)
        [trial] = self.rows("trials", "1")
        self.assertEqual((trial["state"], trial["latest"]["batches"]), ("COMPLETED", 2))
        self.assertIn("exited with code 1", self.run_dtrain("logs", "1"))

    def test_mistakes_are_named(self):
        self.create_one(script(), {"epochs": 6}, metric="accuracy", code=1, name="random",
                        max_trials=1)
        self.assertIn("lacks 'accuracy', the metric of the searcher; it has val_accuracy, "
                      "val_loss; did you mean 'val_accuracy'?", self.reason())

    def test_a_fit_without_validation_is_refused(self):
        self.create_one(script(options=""), {"epochs": 1}, code=1)
        self.assertIn("no validation after 1 epochs, the length that the search asks for; there "
                      "are only training metrics: accuracy, loss", self.reason())

    def test_too_few_epochs_are_refused(self):
        self.create_one(script(epochs="3"), {"epochs": 6}, code=1)
        self.assertIn("fit() has epochs=3, but the search asks for 6 epochs; give it those of "
                      "searcher.max_length, or epochs=trial.length", self.reason())

    def test_too_few_epochs_for_the_batches_are_refused(self):
        self.create_one(script(epochs="3"), {"batches": 40}, code=1)
        self.assertIn("fit() ended after 30 of 40 batches, since it has epochs=3", self.reason())

    def test_a_second_fit_is_refused(self):
        again = "model.fit(x, y, epochs=2, verbose=0, callbacks=[callback])\n"
        self.create_one(script() + again, {"epochs": 1})  # complete before the second
        self.assertIn("this callback has been used for a training before", self.reason())

    def test_the_script_runs_by_itself(self):
        (self.home / "context" / "train.py").write_text(
            script().replace("trial.hparams.lr", "0.01") + "print(callback.model.count_params())\n",
            encoding="utf-8")
        done = subprocess.run([sys.executable, "train.py"], cwd=self.home / "context",
                              env=self.environment, capture_output=True, text=True, check=False)
        self.assertEqual((done.returncode, done.stdout), (0, "161\n"), done.stderr)


if __name__ == "__main__":
    framework.main()
