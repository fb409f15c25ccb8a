#!/usr/bin/env python3
"""Tests dtrain.transformers with the Trainer of Hugging Face Transformers.

    tests/python/frameworks/run transformers"""

import framework

# Twelve steps an epoch. Each is logged: the Trainer does not save the mean since its last
# log. Dropout draws random numbers; Adam and the schedule have states.
SCRIPT = """\
import torch
import dtrain
from dtrain.transformers import DtrainCallback
from hold import hold
from transformers import Trainer, TrainerCallback, TrainingArguments, set_seed

class Model(torch.nn.Module):
    def __init__(self):
        super().__init__()
        self.net = torch.nn.Sequential(torch.nn.Linear(4, 8), torch.nn.Dropout(0.3),
                                       torch.nn.Linear(8, 2))

    def forward(self, x, labels=None):
        logits = self.net(x)
        return {"loss": torch.nn.functional.cross_entropy(logits, labels), "logits": logits}

class Hold(TrainerCallback):
    def on_step_end(self, args, state, control, **kwargs):
        hold(state.global_step)

def accuracy(prediction):
    return {"accuracy": (prediction.predictions.argmax(-1) == prediction.label_ids).mean()}

trial = dtrain.init()
set_seed(1)
x = torch.randn(256, 4)
data = [{"x": one, "labels": int(one.sum() > 0.3)} for one in x]
callback = DtrainCallback()
arguments = TrainingArguments(
    "out", learning_rate=trial.hparams.lr, per_device_train_batch_size=16, use_cpu=True,
    save_strategy="no", logging_steps=1, report_to="none", disable_tqdm=True, OPTIONS)
trainer = Trainer(Model(), arguments, train_dataset=data[:192], eval_dataset=data[192:],
                  compute_metrics=accuracy, callbacks=[Hold(), callback])
trainer.train(resume_from_checkpoint=callback.checkpoint)
"""
STREAM = (("callback = Dtrain", """class Stream(torch.utils.data.IterableDataset):
    def __iter__(self):
        return iter(data[:192])

callback = Dtrain"""), ("train_dataset=data[:192]", "train_dataset=Stream()"))
NOISE = (("callback = Dtrain", """class Noisy(torch.utils.data.Dataset):
    def __len__(self):
        return 192

    def __getitem__(self, index):
        return {**data[index], "x": data[index]["x"] + 0.1 * torch.randn(4)}

callback = Dtrain"""), ("train_dataset=data[:192]", "train_dataset=Noisy()"))
LR = {"lr": {"type": "log", "minval": -3, "maxval": -1}}
EPOCHS = "num_train_epochs=4, eval_strategy='epoch'"


def script(options=EPOCHS, changes=()):
    text = SCRIPT.replace("OPTIONS", options)
    for old, new in changes:
        assert old in text, old
        text = text.replace(old, new)
    return text


class TransformersTest(framework.FrameworkTest):
    def create(self, script, searcher, *arguments, **more):
        return super().create(script, {"metric": "eval_accuracy", **searcher}, *arguments, **more)

    def test_the_example_of_the_document_learns(self):
        self.check_example("transformers", "eval_accuracy")

    def evaluations(self, trial="1"):
        return [report[2] for report in self.reports(trial) if report[1] == "eval_accuracy"]

    def test_a_paused_trial_continues_as_if_it_ran_through(self):
        # After an epoch, and within one.
        self.check_pauses(script(), {"epochs": 4}, (12, 29), hparams={"lr": 0.05})
        kinds = {report[:2] for report in self.reports("1")}
        self.assertEqual(kinds, {("training", "loss"), ("training", "grad_norm"),
                                 ("training", "learning_rate"), ("validation", "eval_loss"),
                                 ("validation", "eval_accuracy")})
        self.assertEqual(self.evaluations(), [12, 24, 36, 48])

    def test_nothing_reported_is_lost_with_the_runner(self):
        # Before the evaluations of the second epoch, and of the last.
        self.check_kills(script("num_train_epochs=3, eval_strategy='epoch'"), {"epochs": 3},
                         (24, 36), hparams={"lr": 0.05})

    def test_pauses_of_a_search_in_batches(self):
        self.check_pauses(script("max_steps=31"), {"batches": 31}, (5, 24), hparams={"lr": 0.05})
        self.assertEqual(self.evaluations(), [31])

    def test_a_stream_counts_each_step_once(self):
        # It has 12 batches, and is begun again; within its first pass, a pause changes nothing.
        for number, (options, length) in enumerate((
                ("max_steps=31", {"max_length": {"batches": 31}}), ("max_steps=31", {}),
                ("max_steps=24", {"max_length": {"batches": 24}}),
                ("max_steps=31, eval_strategy='epoch'", {"max_length": {"batches": 31}})), 1):
            with self.subTest(options=options, length=length):
                self.create(script(options, STREAM), {"name": "single", **length},
                            hparams={"lr": 0.05})
                [trial] = self.rows("trials", str(number))
                steps = int(options.split(",")[0][10:])
                self.assertEqual((trial["state"], trial["latest"]["batches"]), ("COMPLETED", steps))
                self.assertIsNotNone(trial["checkpoint"])
        self.reset()
        self.check_pauses(script("max_steps=31", STREAM), {"batches": 31}, (7,), hparams={"lr": 0.05})

    def test_a_stream_that_has_begun_again_begins_once_more_after_a_pause(self):
        self.check_differs(script("max_steps=31", STREAM), 17)

    def test_random_numbers_of_the_data_set_are_not_equal_after_a_pause_within_an_epoch(self):
        self.check_differs(script("max_steps=31", NOISE), 17)

    # A documented exception: should it become equal, the document must say so.
    def check_differs(self, text, step):
        searcher = {"name": "single", "max_length": {"batches": 31}}
        self.create(text, searcher, hparams={"lr": 0.05})
        self.pause_at(step, "2", lambda: self.create(text, searcher, "-d", hparams={"lr": 0.05}))
        [trial] = self.rows("trials", "2")
        self.assertEqual((trial["state"], trial["latest"]["batches"]), ("COMPLETED", 31))
        self.assertNotEqual(self.reports("1"), self.reports("2"))

    def test_epochs_of_a_stream_are_refused(self):
        self.create(script("max_steps=31", STREAM), {"name": "single", "max_length": {"epochs": 2}},
                    hparams={"lr": 0.05}, code=1)
        self.assertIn("this data set has no length", self.run_dtrain("logs", "1"))

    def test_pauses_with_accumulation(self):
        options = "num_train_epochs=4, eval_strategy='epoch', gradient_accumulation_steps=5"
        self.check_pauses(script(options), {"epochs": 4}, (2, 5), hparams={"lr": 0.05})

    def test_promoted_trials_continue(self):
        self.check_promotion(script(), {"epochs": 4}, LR)

    def test_promoted_trials_of_a_search_in_batches_continue(self):
        self.check_promotion(script("max_steps=38"), {"batches": 38}, LR)

    def test_the_length_is_evaluated_whatever_the_arguments_ask_for(self):
        self.create(script("num_train_epochs=9, eval_strategy='no', gradient_accumulation_steps=2"),
                    {"name": "single", "max_length": {"epochs": 2}}, hparams={"lr": 0.05})
        self.assertEqual(self.evaluations(), [12])

    def test_checkpoints_of_the_trainer_are_kept(self):
        text = script("num_train_epochs=3, eval_strategy='epoch', load_best_model_at_end=True, "
                      "metric_for_best_model='accuracy'",
                      [('save_strategy="no"', 'save_strategy="epoch"')])
        text += "import os\nprint('kept', *sorted(os.listdir('out')))\n"
        self.create(text, {"name": "single", "max_length": {"epochs": 2}}, hparams={"lr": 0.05})
        self.assertIn("kept checkpoint-12 checkpoint-24\n", self.run_dtrain("logs", "1"))
        self.assertIsNotNone(self.rows("trials", "1")[0]["checkpoint"])

    def test_two_processes_train_one_model(self):
        self.check_pauses(script("num_train_epochs=3, eval_strategy='epoch', ddp_backend='gloo'"),
                          {"epochs": 3}, (8,), hparams={"lr": 0.05},
                          entrypoint="torchrun --standalone --nproc-per-node 2 train.py")
        self.assertEqual(self.evaluations(), [6, 12, 18])

    def test_early_stopping_completes_the_trial(self):
        text = script("num_train_epochs=9, eval_strategy='epoch', load_best_model_at_end=True, "
                      "metric_for_best_model='accuracy'",
                      [('save_strategy="no"', 'save_strategy="epoch"'),
                       ("callbacks=[Hold()", "callbacks=[EarlyStoppingCallback(1, 1.0)"),
                       ("import Trainer,", "import EarlyStoppingCallback, Trainer,")])
        self.create(text, {"name": "single", "max_length": {"epochs": 9}}, hparams={"lr": 0.05})
        [trial] = self.rows("trials", "1")
        self.assertEqual((trial["state"], trial["batches"]), ("COMPLETED", 24))
        self.assertIsNotNone(trial["checkpoint"])

    def test_without_a_length_the_arguments_decide(self):
        self.create(script("num_train_epochs=2"), {"name": "single"}, hparams={"lr": 0.05})
        [trial] = self.rows("trials", "1")
        self.assertEqual((trial["state"], self.evaluations()), ("COMPLETED", [24]))
        self.assertIsNotNone(trial["best"]["checkpoint"])

    def test_checkpoints_follow_the_policy(self):
        self.create(script(), {"name": "single", "max_length": {"epochs": 3}},
                    hparams={"lr": 0.05}, checkpoint_policy="all",
                    checkpoint_storage={"save_trial_best": 9, "save_trial_latest": 9})
        self.assertEqual(sorted(row["batches"] for row in self.rows("checkpoints", "1")),
                         [12, 24, 36])

    def test_a_trial_starts_with_the_weights_of_another_one(self):
        self.check_initial_weights(script(), "eval_loss")

    def test_mistakes_end_the_trial_with_their_reason(self):
        for number, (options, searcher, message) in enumerate((
                (EPOCHS, {"metric": "accuracy", "name": "random", "max_trials": 1},
                 "lacks 'accuracy', the metric of the searcher; it has eval_accuracy, eval_loss; "
                 "did you mean 'eval_accuracy'?"),
                (EPOCHS, {"max_length": {"records": 99}}, "the search counts records"),
                (EPOCHS, {"max_length": {"epochs": 5}},
                 "asks for 5 epochs, but the Trainer ends at num_train_epochs=4; set it to"),
                ("max_steps=9", {"max_length": {"batches": 20}},
                 "asks for 20 batches, but the Trainer ends at max_steps=9; set it to")), 1):
            with self.subTest(message):
                self.create(script(options),
                            {"name": "single", "max_length": {"epochs": 2}, **searcher}, code=1,
                            hparams={"lr": 0.05})
                self.assertIn(message, self.run_dtrain("logs", str(number)))

    def test_a_checkpoint_that_is_not_given_to_the_trainer_is_an_error(self):
        text = script(changes=[("resume_from_checkpoint=callback.checkpoint", "")])
        self.check_refused_resume(text, 20, "give it to the Trainer: "
                                  "trainer.train(resume_from_checkpoint=callback.checkpoint)")


if __name__ == "__main__":
    framework.main()
