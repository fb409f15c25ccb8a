#!/usr/bin/env python3
"""Tests dtrain.core, by scripts that were written for Determined's Core API.

    tests/python/core_test.py DTRAIN"""

import contextlib
import io
import os
import pathlib
import re
import sys
import tempfile
import unittest
from unittest import mock

import module_test  # beside this file; sets the path of the module

from dtrain import core
from dtrain._trial import Trial
import dtrain

# A script in the manner of Determined's tutorials; only its import is dtrain's. x counts all
# steps of the trial, so a step that is trained twice or left out is visible.
COUNTING = """\
import os, pathlib, time
import dtrain as det

def save(x, steps, trial_id, directory):
    (directory / "state").write_text(f"{x},{steps},{trial_id}")

def load(trial_id, directory):
    x, steps, saved = map(int, (pathlib.Path(directory) / "state").read_text().split(","))
    return x, steps if saved == trial_id else 0

def main(core_context, latest_checkpoint, trial_id, step_time):
    x = batch = 0
    saved_at = None
    if latest_checkpoint is not None:
        with core_context.checkpoint.restore_path(latest_checkpoint) as path:
            x, batch = load(trial_id, path)
        saved_at = core_context.checkpoint.get_metadata(latest_checkpoint)["steps_completed"]
    steps_completed = batch
    for op in core_context.searcher.operations():
        while batch < op.length:
            time.sleep(step_time)
            x += 1
            with open(os.environ["EPOCHS"], "a") as file:
                print(trial_id, batch, file=file)
            batch += 1
            steps_completed = batch
            if steps_completed % 5 == 0:
                core_context.train.report_training_metrics(
                    steps_completed=steps_completed, metrics={"x": x})
                op.report_progress(steps_completed)
                with core_context.checkpoint.store_path(
                        {"steps_completed": steps_completed}) as (path, uuid):
                    save(x, steps_completed, trial_id, path)
                saved_at = steps_completed
                if core_context.preempt.should_preempt():
                    return
        core_context.train.report_validation_metrics(
            steps_completed=steps_completed, metrics={"accuracy": x, "twice": 2 * x})
        op.report_completed(x)
    if saved_at != steps_completed:
        with core_context.checkpoint.store_path(
                {"steps_completed": steps_completed}) as (path, uuid):
            save(x, steps_completed, trial_id, path)

info = det.get_cluster_info()
assert info is not None, "this example only runs on-cluster"
with det.core.init() as core_context:
    main(core_context, info.latest_checkpoint, info.trial.trial_id,
         info.trial.hparams["step_time"])
"""

# Has a length of its own and no operations, as scripts for newer versions of Determined.
STEPS = """\
import logging, os
import dtrain as det
logging.basicConfig(level=logging.INFO, format=det.LOG_FORMAT)
info = det.get_cluster_info()
start = 0
with det.core.init() as core_context:
    if info.latest_checkpoint is not None:
        with core_context.checkpoint.restore_path(info.latest_checkpoint) as path:
            start = int((path / "state").read_text())
    for batch in range(start, 20):
        with open(os.environ["EPOCHS"], "a") as file:
            print(info.trial.trial_id, batch, file=file)
        steps_completed = batch + 1
        core_context.train.report_training_metrics(steps_completed, {"x": batch})
        core_context.train.report_progress(steps_completed / 20)
        if steps_completed % 5 == 0:
            core_context.train.report_validation_metrics(steps_completed, {"accuracy": batch + 1})
            with core_context.checkpoint.store_path(
                    {"steps_completed": steps_completed}) as (path, uuid):
                (path / "state").write_text(str(steps_completed))
            if core_context.preempt.should_preempt():
                break
"""

# Counts epochs of three steps, and validates each.
EPOCHS = """\
import dtrain as det
with det.core.init() as core_context:
    epoch = 0
    for op in core_context.searcher.operations():
        while epoch < op.length:
            for batch in range(3):
                core_context.train.report_training_metrics(
                    steps_completed=3 * epoch + batch + 1, metrics={"loss": batch})
            epoch += 1
            op.report_progress(epoch)
            core_context.train.report_validation_metrics(
                steps_completed=3 * epoch, metrics={"accuracy": epoch})
        op.report_completed(epoch)
"""

# As scripts for Determined 0.38: a metric of each validation gives its count. Ten times as many
# batches have been trained.
COUNTED = """\
import dtrain as det
info = det.get_cluster_info()
done = 0
with det.core.init() as core_context:
    if info.latest_checkpoint is not None:
        with core_context.checkpoint.restore_path(info.latest_checkpoint) as path:
            done = int((path / "state").read_text())
    for done in range(done + 1, 9):
        core_context.train.report_progress((done - 1) / 8)
        core_context.train.report_training_metrics(10 * done, {"loss": 1 / done})
        core_context.train.report_validation_metrics(10 * done, {"accuracy": done, NAME: done})
        with core_context.checkpoint.store_path({"steps_completed": 10 * done}) as (path, _):
            (path / "state").write_text(str(done))
        if core_context.preempt.should_preempt():
            break
"""

# Two ranks with their own launcher, as in the tutorial of distributed training.
RANKS = """\
import os, subprocess, sys, time
import dtrain as det
info = det.get_cluster_info()
if len(sys.argv) == 1:
    wrap = [sys.executable, "-m", "dtrain.launch.wrap_rank"]
    ranks = [subprocess.Popen([*wrap, str(rank), "--", sys.executable, __file__, str(rank)])
             for rank in range(2)]
    sys.exit(max(rank.wait() for rank in ranks))
rank = int(sys.argv[1])
distributed = det.core.DistributedContext(rank=rank, size=2, local_rank=rank, local_size=2,
                                          chief_ip=info.container_addrs[0])
sizes = [1, 1 << 20]
for call in range(3):
    if call == 1:
        time.sleep(0.2 * rank)
    value = {"rank": rank, "call": call, "large": bytes(sizes[rank])}
    wanted = [{**value, "rank": one, "large": bytes(sizes[one])} for one in range(2)]
    assert distributed.allgather(value) == wanted
    assert distributed.gather_local(value) == (None if rank else wanted)
    assert distributed.broadcast(f"{call} of {rank}") == f"{call} of 0"
print("exchanged")
with det.core.init(distributed=distributed) as core_context:
    for op in core_context.searcher.operations():
        for step in range(op.length):
            time.sleep(0.02 * (1 + rank))
            if rank == 0:
                core_context.train.report_training_metrics(step + 1, {"loss": step})
            if core_context.preempt.should_preempt():
                break
        else:
            if rank == 0:
                core_context.train.report_validation_metrics(op.length, {"accuracy": 1})
                op.report_completed(1)
            continue
        break
    with open(os.environ["EPOCHS"], "a") as file:
        print(rank, step, file=file)
"""


class MistakesTest(unittest.TestCase):
    """Without a connection, as on a trial's other ranks; reports are checked."""

    def context(self, **changes):
        trial = Trial(module_test.description(until={"batches": 9}, **changes))
        return core.Context(trial, core.DistributedContext())

    def operation(self, context):
        return next(context.searcher.operations())

    def test_unsupported_names_raise_and_are_named(self):
        context = self.context()
        for part, name in ((context, "profiler"), (context.train, "upload_tensorboard_files"),
                           (context.checkpoint, "delete"), (context.searcher, "other"),
                           (context.distributed, "pickle")):
            with self.assertRaisesRegex(NotImplementedError, rf"does not support .*\.{name}; see"):
                getattr(part, name)
        with self.assertRaisesRegex(AttributeError, "does not support core.TensorboardMode"):
            core.TensorboardMode
        with self.assertRaisesRegex(NotImplementedError, "'inference' of metrics"):
            context.train.report_metrics("inference", 1, {"x": 1})
        with self.assertRaisesRegex(NotImplementedError, r"init\(tensorboard_mode=...\); remove"):
            core.init(tensorboard_mode=1)
        with self.assertRaisesRegex(NotImplementedError, "WorkersAskMaster; use WorkersAskChief"):
            core.init(preempt_mode=core.PreemptMode.WorkersAskMaster)

    def test_an_operation_is_completed_once_and_at_its_length(self):
        context = self.context()
        operations = context.searcher.operations()
        operation = next(operations)
        with self.assertRaisesRegex(RuntimeError, r"report_completed\(\) must be called"):
            next(operations)
        context.train.report_validation_metrics(3, {"loss": 1})
        with self.assertRaisesRegex(ValueError, "at 9 batches, but .* steps_completed=3; report"):
            operation.report_completed(1)
        context.train.report_validation_metrics(9, {"loss": 1})
        with self.assertRaisesRegex(TypeError, "metric 'loss' must be a number, got None"):
            operation.report_completed(None)
        operation.report_completed(1)
        with self.assertRaisesRegex(RuntimeError, "was called before"):
            operation.report_completed(1)

    def test_metrics_and_counts_are_checked_where_they_are_reported(self):
        train = self.context().train
        with self.assertRaisesRegex(TypeError, "metric 'loss' must be a number, got 'low'"):
            train.report_validation_metrics(1, {"loss": "low"})
        with self.assertRaisesRegex(ValueError, "steps_completed must be a whole number"):
            train.report_training_metrics(1.5, {"loss": 1})
        train.report_validation_metrics(1, {"other": 1})
        with self.assertRaisesRegex(ValueError, "lacks 'loss', the metric of the searcher"):
            train.report_training_metrics(2, {"loss": 1})

    def test_a_result_that_differs_from_its_validation_is_said(self):
        context = self.context()
        operation = self.operation(context)
        context.train.report_validation_metrics(9, {"loss": 1})
        errors = io.StringIO()
        with contextlib.redirect_stderr(errors):
            operation.report_completed(0.5)
        self.assertEqual(errors.getvalue(), "dtrain: report_completed() has loss = 0.5, the "
                         "validation before it 1; 0.5 is recorded\n")

    def test_a_search_in_epochs_needs_operations(self):
        trial = Trial(module_test.description())
        train = core.Context(trial, core.DistributedContext()).train
        with self.assertRaisesRegex(RuntimeError, r"counts epochs .* max_length: {batches: ...}"):
            train.report_training_metrics(1, {"loss": 1})

    def test_a_search_in_records_is_refused(self):
        trial = Trial(module_test.description(until={"records": 9}))
        with self.assertRaisesRegex(NotImplementedError, "in records; use batches or epochs"):
            core.Context(trial, core.DistributedContext())

    def test_operations_need_a_length(self):
        trial = Trial(module_test.description(until=None))
        with self.assertRaisesRegex(RuntimeError, "set searcher.max_length"):
            core.Context(trial, core.DistributedContext()).searcher.operations()

    def test_checkpoints_need_steps_and_only_the_latest_is_restored(self):
        checkpoint = self.context(checkpoint={"path": "/saved", "batches": 4}).checkpoint
        for metadata in (None, {}, {"steps": 1}):
            with self.assertRaisesRegex(ValueError, "must have 'steps_completed'"):
                with checkpoint.store_path(metadata):
                    pass
        with self.assertRaisesRegex(ValueError, "checkpoint 'abc' cannot be restored: only"):
            with checkpoint.restore_path("abc"):
                pass
        with checkpoint.restore_path("/saved") as path:
            self.assertEqual(path, pathlib.Path("/saved"))

    def test_other_ranks_do_not_report(self):
        trial = Trial(module_test.description(), rank=1, world_size=2)
        distributed = core.DistributedContext(rank=1, size=2)
        context = core.Context(trial, distributed)
        with self.assertRaisesRegex(RuntimeError, "only rank 0 may save a checkpoint"):
            with context.checkpoint.store_path({"steps_completed": 1}):
                pass
        operation = core.SearcherOperation(9, context._reports, is_chief=False)
        with self.assertRaisesRegex(RuntimeError, r"only rank 0 may call op.report_completed\(\)"):
            operation.report_completed(1)
        with mock.patch("dtrain._trial._current", Trial(None, rank=1, world_size=2)):
            for exchange in (distributed.allgather, distributed.gather, distributed.broadcast):
                with self.assertRaisesRegex(RuntimeError, "exchanged only in a trial of dtrain"):
                    exchange(1)
        self.assertEqual(core.DistributedContext().allgather(1), [1])
        with self.assertRaisesRegex(ValueError, "cross_size must be 1, got 2"):
            core.DistributedContext(rank=1, size=4, cross_size=2)

    def test_torchrun_sets_the_ranks(self):
        ranks = {"RANK": "1", "WORLD_SIZE": "2", "LOCAL_RANK": "1", "LOCAL_WORLD_SIZE": "2"}
        with mock.patch.dict(os.environ, ranks):
            found = core.DistributedContext.from_torch_distributed()
        self.assertEqual((found.rank, found.size, found.get_local_rank()), (1, 2, 1))
        with self.assertRaisesRegex(RuntimeError, "RANK, .* not set; start the script by torchrun"):
            core.DistributedContext.from_torch_distributed()


    def test_a_result_keeps_the_metrics_of_its_validation(self):
        context = self.context()
        operation = self.operation(context)
        sent = []
        validate = lambda metrics, **where: sent.append((metrics, where))
        with mock.patch.object(context._reports.trial, "validate", validate):
            context.train.report_validation_metrics(3, {"loss": 1, "a": 1})
            context.train.report_training_metrics(4, {"x": 1})
            context.train.report_validation_metrics(9, {"a": 2})
            operation.report_completed(0.5)
            context._reports.trial._stop = True
            context.train.report_validation_metrics(12, {"loss": 0.25, "a": 3})
            self.assertTrue(context.preempt.should_preempt())  # sends it
            core.SearcherOperation(12, context._reports, is_chief=True).report_completed(0.25)
        self.assertEqual(sent, [({"loss": 1, "a": 1}, {"batches": 3}),
                                ({"loss": 0.5, "a": 2}, {"batches": 9}),
                                ({"loss": 0.25, "a": 3}, {"batches": 12})])


class OutsideTest(unittest.TestCase):
    def test_a_script_has_one_operation_of_length_1(self):
        self.assertIsNone(dtrain.get_cluster_info())
        done = []
        with contextlib.redirect_stderr(io.StringIO()), tempfile.TemporaryDirectory() as source:
            (pathlib.Path(source) / "weights").write_text("1")
            with core.Context(Trial(None), core.DistributedContext()) as context:
                for operation in context.searcher.operations():
                    done.append(operation.length)
                    context.train.report_training_metrics(1, {"loss": 1})
                    context.checkpoint.upload(source, {"steps_completed": 1})
                    operation.report_completed(0.5)
                self.assertFalse(context.preempt.should_preempt())
        self.assertEqual(done, [1])


class TrialTest(module_test.ExperimentTest):
    def validations(self, trial):
        return [row for row in self.rows("metrics", trial, "--name", "accuracy")
                if row["kind"] == "validation"]

    def check_promotion(self, script):
        self.create(script, {"name": "asha", "max_trials": 4, "num_rungs": 2, "divisor": 2,
                             "max_length": {"batches": 20}}, hparams={"step_time": 0.001})
        trials = self.rows("trials", "1")
        self.assertEqual({trial["batches"]: trial["state"] for trial in trials},
                         {10: "STOPPED", 20: "COMPLETED"})
        expected = [f"{1000000 + int(trial['id'].split('.')[1])} {batch}" for trial in trials
                    for batch in range(trial["batches"])]
        self.assertEqual(sorted(self.trained()), sorted(expected))
        for trial in trials:  # the metric counts the steps
            for row in self.validations(trial["id"]):
                self.assertEqual(row["value"], row["batches"])

    def test_promoted_trials_continue_from_their_checkpoint(self):
        self.check_promotion(COUNTING)

    def test_a_script_without_operations_waits_for_the_search(self):
        self.check_promotion(STEPS)

    def test_a_paused_trial_resumes_after_its_checkpoint(self):
        self.create(COUNTING, {"name": "single", "max_length": {"batches": 53}}, "-d",
                    hparams={"step_time": 0.1})
        self.wait_for(lambda: len(self.trained()) >= 8)
        self.run_dtrain("pause", "1")
        self.assertLess(len(self.trained()), 53)
        self.run_dtrain("resume", "1")
        self.assertEqual(self.trained(), [f"1000001 {batch}" for batch in range(53)])
        [validation] = self.validations("1")
        self.assertEqual((validation["batches"], validation["value"]), (53, 53))
        twice = [row["value"] for row in self.rows("metrics", "1", "--name", "twice")]
        self.assertEqual(twice, [106])
        self.assertEqual(self.rows("trials", "1")[0]["state"], "COMPLETED")

    def test_epochs_are_the_lengths_and_steps_the_batches(self):
        created = self.create(EPOCHS, {"name": "single", "max_length": {"epochs": 4}})
        self.assertIn("accuracy 4 at epoch 4 (batch 12)\n", created)
        self.assertEqual([(row["batches"], row["epoch"], row["value"])
                          for row in self.validations("1")],
                         [(3, 1, 1), (6, 2, 2), (9, 3, 3), (12, 4, 4)])
        losses = self.rows("metrics", "1", "--name", "loss")
        self.assertEqual([row["batches"] for row in losses], list(range(1, 13)))
        self.assertEqual([round(row["epoch"]) for row in losses],
                         [0, 0, 0, 1, 1, 1, 2, 2, 2, 3, 3, 3])
        self.assertEqual(self.rows("trials", "1")[0]["state"], "COMPLETED")

    def test_a_metric_counts_with_max_time(self):
        searcher = {"name": "async_halving", "max_trials": 4, "num_rungs": 2, "divisor": 2,
                    "max_time": 8}
        for number, name in enumerate(["epochs", "batch", "records", "steps"], 1):
            with self.subTest(name):
                self.create(COUNTED.replace("NAME", repr(name)),
                            {**searcher, "time_metric": name})
                trials = self.rows("trials", str(number))
                self.assertEqual({trial["batches"]: trial["state"] for trial in trials},
                                 {40: "STOPPED", 80: "COMPLETED"})
                for trial in trials:
                    values = self.validations(trial["id"])
                    self.assertEqual([row["value"] for row in values],
                                     [row["batches"] / 10 for row in values])
                    self.assertEqual(len(values), trial["batches"] / 10)

    def test_a_validation_without_a_good_count_is_an_error(self):
        for count, text in (
                ("'other': done", "lacks 'epochs', the count of the search (searcher.time_metric)"),
                ("'epochs': 8 - done", "(searcher.time_metric), must not decrease: 6 after 7"),
                ("'epochs': float('nan')", "epochs must be a number of at least 0, got nan"),
                ("'epochs': '3'", "metric 'epochs' must be a number, got '3'")):
            with self.subTest(count):
                shown = self.create(COUNTED.replace("NAME: done", count), {
                    "name": "random", "max_trials": 1, "max_time": 8, "time_metric": "epochs"}, code=1)
                self.assertIn(text, shown + self.errors)

    def test_without_a_search_no_metric_is_needed(self):
        reports = ("import dtrain as det\n"
                   "with det.core.init() as core_context:\n"
                   "    for steps in (1, 2):\n"
                   "        core_context.train.report_validation_metrics(steps, {'other': 1})\n")
        nothing = "import dtrain as det\nwith det.core.init() as context: pass\n"
        training = nothing.replace("pass", "context.train.report_training_metrics(1, {'a': 1})")
        for number, (script, rows, told) in enumerate([
                (reports, 2, "no best: searcher.metric 'accuracy' was not reported; reported: "
                             "other"),
                (nothing, 0, "ended without a validation of 'accuracy'"),
                (training, 0, "ended without a validation of 'accuracy'"),
                ("print('no import')\n", 0, "ended without a validation of 'accuracy'")], 1):
            with self.subTest(script):
                shown = self.create(script, {"name": "single"}) + self.errors
                self.assertIn(told, shown + self.run_dtrain("logs", str(number)))
                self.assertEqual(shown.count("no best: "), 1)
                names = [row["name"] for row in self.rows("metrics", str(number))]
                self.assertEqual(names.count("other"), rows)
                [trial] = self.rows("trials", str(number))
                self.assertEqual((trial["state"], trial["best"]), ("COMPLETED", None))
        self.create(reports, {"name": "random", "max_trials": 1}, code=1)
        self.create("raise SystemExit(3)\n", {"name": "single"}, code=1)

    def test_a_result_needs_no_validation(self):
        script = ("import dtrain as det\n"
                  "with det.core.init() as core_context:\n"
                  "    for op in core_context.searcher.operations():\n"
                  "        op.report_completed(0.75)\n")
        self.create(script, {"name": "single", "max_length": {"batches": 4}})
        self.assertEqual([(row["batches"], row["value"]) for row in self.validations("1")],
                         [(4, 0.75)])

    def test_ranks_exchange_objects_and_stop_at_the_same_step(self):
        self.create(RANKS, {"name": "single", "max_length": {"batches": 250}}, "-d")
        self.wait_for(lambda: self.rows("metrics", "1"))
        self.run_dtrain("pause", "1")
        self.wait_for(lambda: len(self.trained()) == 2)
        self.assertEqual(sorted(re.findall(r"\[rank=.\] exchanged", self.run_dtrain("logs", "1"))),
                         ["[rank=0] exchanged", "[rank=1] exchanged"])
        ranks = dict(line.split() for line in self.trained())
        self.assertEqual(len(set(ranks.values())), 1, ranks)
        self.epochs_file.unlink()
        self.run_dtrain("resume", "1")
        self.assertEqual(sorted(self.trained()), ["0 249", "1 249"])

    def test_invalid_hyperparameters_end_the_trial(self):
        script = ("import dtrain as det\n"
                  "with det.core.init() as core_context:\n"
                  "    core_context.train.report_early_exit(det.core.EarlyExitReason.INVALID_HP)\n")
        self.create(script, {"name": "random", "max_trials": 2, "max_length": {"epochs": 2}},
                    code=1)
        for trial in self.rows("trials", "1"):
            self.assertIn("report_early_exit(INVALID_HP)", trial["reason"])


if __name__ == "__main__":
    module_test.DTRAIN = str(pathlib.Path(sys.argv[1]).resolve())
    unittest.main(argv=[sys.argv[0], *sys.argv[2:]])
