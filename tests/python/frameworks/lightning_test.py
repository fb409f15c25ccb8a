#!/usr/bin/env python3
"""Tests dtrain.lightning with PyTorch Lightning.

    tests/python/frameworks/run lightning"""

import framework

# Twelve batches an epoch. Shuffling and dropout draw random numbers; the momentum of SGD and
# the schedule of its learning rate are states that a checkpoint must have.
SCRIPT = """\
import random, numpy, torch
import PACKAGE as pl
import dtrain
from dtrain.lightning import DtrainCallback
from hold import hold
from torch.utils.data import DataLoader, TensorDataset

class Model(pl.LightningModule):
    def __init__(self, lr):
        super().__init__()
        self.lr = lr
        self.net = torch.nn.Sequential(torch.nn.Linear(4, 8), torch.nn.Dropout(0.3),
                                       torch.nn.Linear(8, 2))

    def training_step(self, batch, index):
        x, y = batch
        noise = random.random() + numpy.random.rand()
        loss = torch.nn.functional.cross_entropy(self.net(x), y)
        self.log("train_loss", loss, on_step=True, on_epoch=True)
        self.log("noise", noise)
        return loss

    def on_train_batch_end(self, *_):
        hold(self.trainer.fit_loop.total_batch_idx + 1)

    def validation_step(self, batch, index):
        x, y = batch
        self.log("loss", torch.nn.functional.cross_entropy(self.net(x), y))
        self.log("accuracy", (self.net(x).argmax(1) == y).float().mean())

    def configure_optimizers(self):
        optimizer = torch.optim.SGD(self.parameters(), lr=self.lr, momentum=0.9)
        return [optimizer], [torch.optim.lr_scheduler.StepLR(optimizer, 2, gamma=0.5)]

trial = dtrain.init()
pl.seed_everything(1)
x = torch.randn(256, 4)
data = TensorDataset(x, (x.sum(1) > 0.3).long())
callback = DtrainCallback()
trainer = pl.Trainer(callbacks=[callback], accelerator="cpu", logger=False, log_every_n_steps=5,
                     enable_progress_bar=False, enable_model_summary=False, OPTIONS)
trainer.fit(Model(trial.hparams.lr),
            DataLoader(torch.utils.data.Subset(data, range(192)), batch_size=16, shuffle=True),
            DataLoader(torch.utils.data.Subset(data, range(192, 256)), batch_size=64),
            ckpt_path=callback.ckpt_path)
"""
# Lightning does not save the mean over an epoch with the position in it.
STEPS = (", on_epoch=True", "")
MANUAL = (("        self.lr = lr", "        self.lr = lr\n        self.automatic_optimization = False"),
          ("        return loss", """        self.manual_backward(loss / 5)
        if (index + 1) % 5 == 0 or self.trainer.is_last_batch:
            self.optimizers().step()
            self.optimizers().zero_grad()"""))
NOISE = (("TensorDataset\n", """TensorDataset

class Noisy(TensorDataset):
    def __getitem__(self, index):
        point, label = super().__getitem__(index)
        return point + 0.1 * torch.randn(4), label
"""), ("data = TensorDataset(", "data = Noisy("))
LR = {"lr": {"type": "log", "minval": -3, "maxval": -1}}


def script(package="lightning.pytorch", options="devices=1", changes=()):
    text = SCRIPT.replace("PACKAGE", package).replace("OPTIONS", options)
    for old, new in changes:
        assert old in text, old
        text = text.replace(old, new)
    return text


class LightningTest(framework.FrameworkTest):
    def test_the_example_of_the_document_learns(self):
        self.check_example("lightning")

    def test_a_trial_paused_after_an_epoch_continues_as_if_it_ran_through(self):
        self.check_pauses(script(), {"epochs": 4}, (12,), hparams={"lr": 0.05})
        kinds = {report[:2] for report in self.reports("1")}
        self.assertEqual(kinds, {("training", "train_loss"), ("training", "train_loss_step"),
                                 ("training", "train_loss_epoch"), ("training", "noise"),
                                 ("validation", "loss"), ("validation", "accuracy")})
        self.assertEqual([(report[2], report[3]) for report in self.reports("1")
                          if report[1] == "accuracy"], [(12, 1), (24, 2), (36, 3), (48, 4)])

    def test_nothing_reported_is_lost_with_the_runner(self):
        # Before the validations of the second epoch, and of the last. A trial whose runner is
        # killed may save a checkpoint within the next epoch.
        self.check_kills(script(changes=[STEPS]), {"epochs": 3}, (24, 36), hparams={"lr": 0.05})

    def test_a_trial_paused_within_an_epoch_continues_as_if_it_ran_through(self):
        self.check_pauses(script(changes=[STEPS]), {"epochs": 3}, (7, 29), hparams={"lr": 0.05})

    def test_pauses_of_a_search_in_batches(self):
        # The length, 31, is within the third epoch.
        self.check_pauses(script(changes=[STEPS]), {"batches": 31}, (5, 24), hparams={"lr": 0.05})
        self.assertEqual([report[2] for report in self.reports("1") if report[1] == "accuracy"],
                         [12, 24, 31])

    def test_a_pause_within_an_accumulation_waits_for_the_step(self):
        # The steps of the optimizer are after batches 5, 10 and 12 of an epoch.
        automatic = script(options="devices=1, accumulate_grad_batches=5", changes=[STEPS])
        # After batch 17 of 20 there is none, so that a pause there would find the trial complete.
        for text, length, pauses in ((automatic, {"epochs": 2}, (3, 17)),
                                     (automatic, {"batches": 20}, (3,)),
                                     (script(changes=[STEPS, *MANUAL]), {"epochs": 2}, (3, 17))):
            with self.subTest(length=length, manual=text != automatic):
                self.reset()
                self.check_pauses(text, length, pauses, hparams={"lr": 0.05})
                for experiment in range(2, 2 + len(pauses)):
                    saved = [row["batches"] for row in self.rows("checkpoints", str(experiment))]
                    self.assertTrue({5, 20, 22, 24}.issuperset(saved), saved)

    def test_random_numbers_of_workers(self):
        equal = script(changes=[STEPS, *NOISE, ("shuffle=True", "shuffle=True, num_workers=2")])
        self.check_pauses(equal, {"epochs": 2}, (7,), hparams={"lr": 0.05})
        self.assertNotIn("persistent", self.run_dtrain("logs", "2"))
        self.reset()
        text = equal.replace("num_workers=2", "num_workers=2, persistent_workers=True")
        self.check_differs(text, {"epochs": 2}, 15)
        self.assertIn("warning: the random numbers of the DataLoader's persistent workers are not "
                      "restored", self.run_dtrain("logs", "2"))

    def test_weights_that_are_averaged_differ_after_a_pause(self):
        averaging = ("callbacks=[callback]", "callbacks=[callback, pl.callbacks."
                     "StochasticWeightAveraging(swa_lrs=0.02, swa_epoch_start=1)]")
        options = "devices=1, max_epochs=4"
        self.check_differs(script(options=options, changes=[STEPS, averaging]), {"epochs": 4}, 31)

    # A documented exception: should it become equal, the document must say so.
    def check_differs(self, text, length, step):
        searcher = {"name": "single", "max_length": length}
        self.create(text, searcher, hparams={"lr": 0.05})
        self.pause_at(step, "2", lambda: self.create(text, searcher, "-d", hparams={"lr": 0.05}))
        self.assertEqual(self.reports("1").keys(), self.reports("2").keys())
        self.assertNotEqual(self.reports("1"), self.reports("2"))

    def test_checkpoints_follow_the_policy(self):
        self.create(script(), {"name": "single", "max_length": {"epochs": 3}},
                    hparams={"lr": 0.05}, checkpoint_policy="all",
                    checkpoint_storage={"save_trial_best": 9, "save_trial_latest": 9})
        self.assertEqual(sorted(row["batches"] for row in self.rows("checkpoints", "1")),
                         [12, 24, 36])

    def test_promoted_trials_continue(self):
        self.check_promotion(script("pytorch_lightning"), {"epochs": 4}, LR)

    def test_promoted_trials_of_a_search_in_batches_continue(self):
        self.check_promotion(script(changes=[STEPS]), {"batches": 38}, LR)

    def test_the_length_is_validated_whatever_the_trainer_asks_for(self):
        options = "devices=1, max_epochs=2, check_val_every_n_epoch=3"
        self.create(script(options=options), {"name": "single", "max_length": {"epochs": 4}},
                    hparams={"lr": 0.05})
        self.assertEqual([report[2] for report in self.reports("1") if report[1] == "accuracy"],
                         [36, 48])

    def test_two_processes_train_one_model(self):
        self.check_pauses(script(options="devices=2, strategy='ddp'", changes=[STEPS]),
                          {"epochs": 3}, (8,), hparams={"lr": 0.05})
        self.assertEqual([report[2] for report in self.reports("1") if report[1] == "accuracy"],
                         [6, 12, 18])

    def test_early_stopping_completes_the_trial(self):
        stopping = ("callbacks=[callback]", "callbacks=[callback, pl.callbacks.EarlyStopping("
                    "'accuracy', mode='max', patience=1, min_delta=1.0)]")
        self.create(script(changes=[stopping]), {"name": "single", "max_length": {"epochs": 9}},
                    hparams={"lr": 0.05})
        [trial] = self.rows("trials", "1")
        self.assertEqual((trial["state"], trial["batches"]), ("COMPLETED", 24))
        self.assertIsNotNone(trial["checkpoint"])

    def test_without_a_length_the_trainer_decides(self):
        self.create(script(options="devices=1, max_epochs=2"), {"name": "single"},
                    hparams={"lr": 0.05})
        [trial] = self.rows("trials", "1")
        self.assertEqual((trial["state"], trial["best"]["checkpoint"] is None),
                         ("COMPLETED", False))

    def test_a_trial_starts_with_the_weights_of_another_one(self):
        self.check_initial_weights(script(), "loss")

    def test_mistakes_end_the_trial_with_their_reason(self):
        search = {"name": "random", "max_trials": 1}
        for number, (change, searcher, message) in enumerate((
                (('self.log("accuracy"', 'self.log("acuracy"'), search,
                 "lacks 'accuracy', the metric of the searcher; it has acuracy, loss; "
                 "did you mean 'acuracy'?"),
                (("def validation_step(self, batch, index):",
                  "def validation_step(self, batch, index):\n        return"), search,
                 "lacks 'accuracy', the metric of the searcher; it has no metric"),
                (("def validation_step", "def other_step"), {},
                 "this training has no validation"),
                (STEPS, {"max_length": {"records": 99}}, "the search counts records")), 1):
            with self.subTest(message):
                self.create(script(changes=[change]),
                            {"name": "single", "max_length": {"epochs": 2}, **searcher}, code=1,
                            hparams={"lr": 0.05})
                self.assertIn(message, self.run_dtrain("logs", str(number)))

    def test_a_checkpoint_that_is_not_given_to_lightning_is_an_error(self):
        text = script(changes=[("ckpt_path=callback.ckpt_path", "")])
        self.check_refused_resume(text, 20, "give it to Lightning: "
                                  "trainer.fit(..., ckpt_path=callback.ckpt_path)")


if __name__ == "__main__":
    framework.main()
