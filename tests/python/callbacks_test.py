#!/usr/bin/env python3
"""Tests the callbacks for Lightning and Transformers without those packages: the fakes below
call them in the same order. tests/python/frameworks tests them with the real ones.

    tests/python/callbacks_test.py DTRAIN"""

import pathlib
import sys
import unittest

import module_test  # beside this file; sets the path of the module

TORCH = """\
class State(int):
    cpu = lambda self: self

get_rng_state, set_rng_state = State, lambda state: None

class cuda:
    is_available = staticmethod(lambda: False)
"""

# Its "model" is the number of batches trained. The optimizer steps after every ACCUMULATE of
# them, and at the end of an epoch.
LIGHTNING = """\
import os, pickle, random, types
from lightning.pytorch.callbacks import Checkpoint

ACCUMULATE = int(os.environ.get("ACCUMULATE", "1"))

class Fetcher:
    length = 4
    def __iter__(self):
        self.iterator = iter(random.sample(range(4), 4))
        return self
    def __next__(self):
        return next(self.iterator)

class Trainer:
    __module__ = "lightning.pytorch"
    should_stop = is_last_batch = sanity_checking = False
    enable_validation, limit_val_batches, log_every_n_steps = True, 1, 3
    min_epochs = min_steps = None
    check_val_every_n_epoch, val_check_batch = 1, 4
    global_rank, world_size, num_training_batches = 0, 1, 4

    def __init__(self, callback, step, max_epochs=1000):
        self.callback, self.step, self.max_epochs = callback, step, max_epochs
        self.strategy = types.SimpleNamespace(broadcast=lambda value: value)
        self.fit_loop = types.SimpleNamespace(
            max_epochs=max_epochs, is_resuming=False, epoch_loop=types.SimpleNamespace(
                _should_check_val_fx=lambda fetcher: self.batch % self.val_check_batch == 0),
            _combined_loader=types.SimpleNamespace(flattened=[object()]), _data_fetcher=Fetcher())
        self.fit_loop._data_fetcher.combined_loader = self.fit_loop._combined_loader
        self.current_epoch = self.batch = self.global_step = self.trained = 0
        self.metrics, self.fresh = {}, set()

    @property
    def callback_metrics(self):
        self.metrics.update({name: self.metrics[name] * 1.0 for name in self.fresh})
        return self.metrics

    def save_checkpoint(self, path):
        done = self.is_last_batch
        with open(path, "wb") as file:
            pickle.dump([self.current_epoch + done, 0 if done else self.batch, self.global_step,
                         self.trained, self.callback.state_dict()], file)

    def call(self, hook, *more):
        getattr(self.callback, hook)(self, None, *more)

    def log(self, **metrics):
        self.metrics.update(metrics)
        self.fresh = set(metrics)

    def fit(self, ckpt_path):
        self.ckpt_path = ckpt_path
        self.call("setup", "fit")
        self.call("on_fit_start")
        fetcher = iter(self.fit_loop._data_fetcher)
        if ckpt_path:
            with open(ckpt_path, "rb") as file:
                self.current_epoch, self.batch, self.global_step, self.trained, state = pickle.load(file)
            self.callback.load_state_dict(state)
            self.fit_loop.is_resuming = True
        self.call("on_train_start")
        while not self.should_stop:
            if not self.batch:
                self.call("on_train_epoch_start")
            if not self.fit_loop.is_resuming and self.current_epoch:
                iter(fetcher)
            self.fit_loop.is_resuming = False
            while self.batch < 4 and not self.should_stop:
                self.batch += 1
                self.trained += 1
                self.is_last_batch = self.batch == 4
                self.global_step += self.is_last_batch or self.batch % ACCUMULATE == 0
                self.step(self.trained)
                self.log(noise=random.random() + next(fetcher), x=float(self.trained))
                self.call("on_train_batch_end", None, None, self.batch - 1)
                every = self.val_check_batch
                if self.limit_val_batches and self.batch % every == 0:
                    self.log(accuracy=float(self.trained), loss=random.random())
                    self.call("on_validation_end")
            self.fresh = set()
            self.call("on_train_epoch_end")
            self.current_epoch += 1
            self.batch = 0
            self.is_last_batch = False
        self.call("on_train_end")
"""
LIGHTNING_SCRIPT = """\
from lightning.pytorch import Trainer
from dtrain.lightning import DtrainCallback
from step import step
callback = DtrainCallback()
Trainer(callback, step).fit(callback.ckpt_path)
"""

# STREAM: a data set of four batches without a length, which is begun again until max_steps.
TRANSFORMERS = """\
import json, os, sys, types

STREAM = "STREAM" in os.environ

class TrainerCallback:
    pass

class Trainer:
    def __init__(self, callback, step, epochs):
        self.callback, self.step = callback, step
        self.args = types.SimpleNamespace(output_dir="out", save_strategy="no")
        self.state = types.SimpleNamespace(global_step=0, epoch=0, num_train_epochs=epochs,
                                           max_steps=4 * epochs)
        if STREAM:
            self.state.num_train_epochs, self.state.max_steps = sys.maxsize, 10
        self.control = types.SimpleNamespace(should_training_stop=False)

    def call(self, event, **more):
        getattr(self.callback, event)(self.args, self.state, self.control, **more)

    def log_save_evaluate(self):
        state, control = self.state, self.control
        if control.should_log:
            self.call("on_log", logs={"x": float(state.global_step), "epoch": state.epoch})
        if control.should_evaluate:
            self.call("on_evaluate", metrics={"eval_accuracy": float(state.global_step),
                                              "eval_runtime": 0.5, "epoch": state.epoch})
        if control.should_save:
            path = os.path.join(self.args.output_dir, f"checkpoint-{state.global_step}")
            os.makedirs(path)
            with open(os.path.join(path, "trainer_state.json"), "w") as file:
                json.dump(state.global_step, file)
            self.call("on_save")
        control.should_log = control.should_evaluate = control.should_save = False

    def train(self, resume_from_checkpoint):
        state, control = self.state, self.control
        if resume_from_checkpoint:
            with open(os.path.join(resume_from_checkpoint, "trainer_state.json")) as file:
                state.global_step = json.load(file)
        control.should_log = control.should_evaluate = control.should_save = False
        self.call("on_train_begin")
        for epoch in range(state.global_step // 4, state.num_train_epochs):
            for batch in range(state.global_step % 4, 4):
                state.global_step += 1
                state.epoch = epoch + (batch + 1) / (state.max_steps if STREAM else 4)
                control.should_log = True
                control.should_training_stop = state.global_step >= state.max_steps
                self.step(state.global_step)
                self.call("on_step_end")
                self.log_save_evaluate()
                if control.should_training_stop:
                    break
            self.call("on_epoch_end")
            self.log_save_evaluate()
            if control.should_training_stop:
                break
        self.call("on_log", logs={"train_runtime": 1.5})
        self.call("on_train_end")
"""
TRANSFORMERS_SCRIPT = """\
from transformers import Trainer
from dtrain.transformers import DtrainCallback
from step import step
callback = DtrainCallback()
Trainer(callback, step, 6).train(callback.checkpoint)
"""

# Writes each step to a file, and waits at one of them for the pause of a first run.
STEP = """\
import os, random, time
import dtrain
trial = dtrain.init()
random.seed(1)

def step(number):
    with open(os.environ["EPOCHS"], "a") as file:
        print(trial.id, number, file=file)
    while number == trial.hparams["hold"] and not trial.restore() and not trial.should_stop:
        time.sleep(0.01)
"""


class CallbackTest(module_test.ExperimentTest):
    # In the context, so that only the trials find them.
    FILES = {"torch/__init__.py": TORCH, "torch/distributed.py": "is_available = lambda: False\n",
             "lightning/__init__.py": "", "lightning/pytorch/__init__.py": LIGHTNING,
             "lightning/pytorch/callbacks.py": "class Checkpoint:\n    pass\n",
             "transformers/__init__.py": TRANSFORMERS, "step.py": STEP}

    def setUp(self):
        super().setUp()
        for name, text in self.FILES.items():
            path = self.home / "context" / name
            path.parent.mkdir(parents=True, exist_ok=True)
            path.write_text(text, encoding="utf-8")

    def reports(self, experiment):
        return {(row["kind"], row["name"], row["batches"], row["epoch"]): row["value"]
                for row in self.rows("metrics", experiment)}

    def check_pauses(self, script, metric, length, steps, first=1):
        searcher = {"name": "single", "metric": metric, "max_length": length}
        self.create(script, searcher, hparams={"hold": 0})
        straight = self.reports(str(first))
        for number, step in enumerate(steps, start=first + 1):
            with self.subTest(step=step):
                self.epochs_file.unlink()
                self.create(script, searcher, "-d", hparams={"hold": step})
                self.wait_for(lambda held=f"{number}.1 {step}": held in self.trained())
                self.run_dtrain("pause", str(number))
                self.run_dtrain("resume", str(number))
                done = [int(line.split()[1]) for line in self.trained()]
                self.assertEqual(done, list(range(1, done[-1] + 1)))  # none twice
                self.assertEqual(self.reports(str(number)), straight)
        return straight

    def check_promotion(self, script, metric, length):
        self.create(script, {"name": "async_halving", "metric": metric, "max_trials": 4,
                             "num_rungs": 2, "divisor": 2, "max_length": length},
                    "--allow-unread",
                    hparams={"hold": 0, "lr": {"type": "double", "minval": 0, "maxval": 1}})
        self.assertEqual(len(self.trained()), len(set(self.trained())))  # none twice
        trials = self.rows("trials", "1")
        self.assertEqual({trial["rung"] for trial in trials}, {1, 2})
        for trial in trials:
            self.assertEqual(trial["latest"]["value"], trial["batches"])
        return trials

    def test_lightning_counts_epochs(self):
        reports = self.check_pauses(LIGHTNING_SCRIPT, "accuracy", {"epochs": 3}, (4, 6))
        self.assertEqual({report[1:] for report in reports if report[0] == "validation"},
                         {(name, 4 * epoch, epoch) for name in ("accuracy", "loss")
                          for epoch in (1, 2, 3)})

    def test_lightning_counts_batches(self):
        reports = self.check_pauses(LIGHTNING_SCRIPT, "accuracy", {"batches": 6}, (1, 4))
        self.assertEqual([report[2] for report in reports if report[1] == "accuracy"], [4, 6])

    def test_a_pause_of_lightning_falls_on_a_step_of_the_optimizer(self):
        self.environment["ACCUMULATE"] = "3"
        for number, (length, hold, saved) in enumerate((
                ({"epochs": 3}, 1, 3), ({"batches": 12}, 1, 3), ({"epochs": 3}, 5, 7),
                ({"batches": 12}, 3, 3), ({"batches": 6}, 5, 6)), start=1):
            with self.subTest(length=length, hold=hold):
                self.create(LIGHTNING_SCRIPT, {"name": "single", "metric": "accuracy",
                                               "max_length": length}, "-d", hparams={"hold": hold})
                self.wait_for(lambda held=f"{number}.1 {hold}": held in self.trained())
                self.run_dtrain("pause", str(number))
                self.assertEqual(max(row["batches"] for row in self.rows("checkpoints", str(number))),
                                 saved)
        self.epochs_file.unlink()
        self.check_pauses(LIGHTNING_SCRIPT, "accuracy", {"batches": 10}, (1, 6), first=6)

    def test_lightning_is_promoted(self):
        trials = self.check_promotion(LIGHTNING_SCRIPT, "accuracy", {"epochs": 4})
        self.assertEqual({trial["batches"] for trial in trials}, {8, 16})

    def test_lightning_needs_the_metric_of_the_search(self):
        self.create(LIGHTNING_SCRIPT, {"name": "random", "metric": "acuracy", "max_trials": 1,
                                       "max_length": {"epochs": 2}}, hparams={"hold": 0}, code=1)
        self.assertIn("it has accuracy, loss; did you mean 'accuracy'?",
                      self.run_dtrain("logs", "1"))

    def test_transformers_counts_epochs(self):
        reports = self.check_pauses(TRANSFORMERS_SCRIPT, "eval_accuracy", {"epochs": 3}, (4, 6))
        self.assertEqual([report for report in reports if report[0] == "validation"],
                         [("validation", "eval_accuracy", 12, 3)])

    def test_transformers_counts_steps(self):
        self.check_pauses(TRANSFORMERS_SCRIPT, "eval_accuracy", {"batches": 7}, (2, 4))

    def test_transformers_counts_the_steps_of_a_stream_once(self):
        self.environment["STREAM"] = "1"
        for number, searcher in enumerate(({"max_length": {"batches": 10}}, {}), start=1):
            with self.subTest(searcher=searcher):
                self.create(TRANSFORMERS_SCRIPT, {"name": "single", "metric": "eval_accuracy",
                                                  **searcher}, hparams={"hold": 0})
                [trial] = self.rows("trials", str(number))
                self.assertEqual((trial["state"], trial["latest"]["batches"]), ("COMPLETED", 10))
                self.assertEqual(trial["latest"]["checkpoint"], trial["checkpoint"])
        self.check_pauses(TRANSFORMERS_SCRIPT, "eval_accuracy", {"batches": 10}, (4, 7), first=3)
        self.create(TRANSFORMERS_SCRIPT, {"name": "single", "metric": "eval_accuracy",
                                          "max_length": {"epochs": 2}}, hparams={"hold": 0}, code=1)
        self.assertIn("this data set has no length, so the Trainer counts steps; use max_length: "
                      "{batches: ...}", self.run_dtrain("logs", "6"))

    def test_transformers_is_promoted(self):
        trials = self.check_promotion(TRANSFORMERS_SCRIPT, "eval_accuracy", {"batches": 6})
        self.assertEqual({trial["batches"] for trial in trials}, {3, 6})

    def test_transformers_cannot_train_longer_than_its_arguments_say(self):
        self.create(TRANSFORMERS_SCRIPT, {"name": "single", "metric": "eval_accuracy",
                                          "max_length": {"epochs": 7}}, hparams={"hold": 0},
                    code=1)
        self.assertIn("asks for 7 epochs, but the Trainer ends at num_train_epochs=6; set it to",
                      self.run_dtrain("logs", "1"))


if __name__ == "__main__":
    module_test.DTRAIN = str(pathlib.Path(sys.argv[1]).resolve())
    unittest.main(argv=[sys.argv[0], *sys.argv[2:]])
