#!/usr/bin/env python3
"""Tests that the Python module refuses the reports that dtrain would ignore.

    tests/python/reports_test.py DTRAIN"""

import copy
import json
import pathlib
import pickle
import sys
import unittest

import module_test
from module_test import description

from dtrain import HParams, _unread
from dtrain._trial import Trial


class LimitsTest(unittest.TestCase):
    """Under dtrain and outside it."""

    def test_counts_are_whole_and_bounded(self):
        for trial in (Trial(None), Trial(description())):
            with self.assertRaisesRegex(ValueError, "batches must be a whole number, got 15.625"):
                trial.validate(loss=1, epochs=1, batches=500 / 32)
            with self.assertRaisesRegex(ValueError, "epochs must be a whole number without batches, got"):
                trial.validate(loss=1, epochs=1.5)
            for count in (float("inf"), 1e300, 10**400):
                with self.assertRaisesRegex(ValueError, r"epochs must be at most 10\^15, got"):
                    trial.validate(loss=1, epochs=count)
            with self.assertRaisesRegex(ValueError, "records must be a number of at least 0"):
                trial.report(loss=1, epochs=2, records=float("nan"))
            trial.validate(loss=1, epochs=1.5, batches=3)

    def test_names_of_metrics(self):
        trial = Trial(description())
        with self.assertRaisesRegex(ValueError, "may have 1000 bytes, got 1002"):
            trial.report({501 * "é": 1}, epochs=1)
        with self.assertRaisesRegex(ValueError, r"must be valid Unicode, got 'a\\ud800'"):
            trial.report({"a\ud800": 1}, epochs=1)
        trial.report({500 * "é": 1}, epochs=1)

    def test_the_number_of_metrics(self):
        trial = Trial(description())
        many = {f"m{number}": 1.0 for number in range(600)}
        trial.report(many, epochs=1)
        with self.assertRaisesRegex(ValueError, "a report may have 1000 metrics, got 1001"):
            trial.report({f"x{number}": 1.0 for number in range(401)}, epochs=1)
        trial.report({f"x{number}": 1.0 for number in range(400)}, epochs=1)
        with self.assertRaisesRegex(ValueError, "a report may have 1000 metrics, got 1001"):
            trial.report({f"x{number}": 1.0 for number in range(1001)}, epochs=2)

    def test_the_length_of_a_line(self):
        # A control character is six bytes of JSON.
        long = {f"{number:04}" + 996 * "\t": 1.0 for number in range(1000)}
        wide = {name.replace("\t", "\x01"): 1.0 for name in long}
        trial = Trial(description(metric=next(iter(wide))))
        with self.assertRaisesRegex(ValueError, "this validation has 5989048 bytes; at most 1048576"):
            trial.validate(wide, epochs=1)
        with self.assertRaisesRegex(ValueError, "metrics of one count may have 1048576 bytes"):
            trial.report(wide, epochs=1)
        half = dict(list(wide.items())[:100])
        trial.report(half, epochs=1)

    def test_numbers_that_no_float_holds(self):
        with self.assertRaisesRegex(TypeError, "metric 'loss' must be a number, got 1000"):
            Trial(None).report(loss=10**400, epochs=1)

    def test_all_reports_have_the_unit_of_the_first(self):
        trial = Trial(description(until=None))
        trial.report(loss=1, batches=3)
        with self.assertRaisesRegex(RuntimeError, "use trial.batches.* such as batches=3"):
            trial.validate(loss=1, epochs=1)
        trial.validate(loss=1, epochs=1, batches=3)


class HParamsTest(unittest.TestCase):
    """Ways to use all hyperparameters at once."""

    def test_each_way_counts_as_reading(self):
        for use in (copy.copy, copy.deepcopy, pickle.dumps, str, dict, HParams.to_dict,
                    lambda hparams: json.dumps(hparams, default=dict),
                    lambda hparams: dict(**hparams), lambda hparams: list(hparams.items())):
            hparams = HParams({"lr": 1, "model": {"layers": 2}})
            use(hparams)
            self.assertEqual(hparams.unread(), [])

    def test_copies_have_the_values(self):
        hparams = HParams({"lr": 1, "model": {"layers": 2}})
        for other in (copy.copy(hparams), copy.deepcopy(hparams),
                      pickle.loads(pickle.dumps(hparams))):
            self.assertEqual(other.to_dict(), {"lr": 1, "model": {"layers": 2}})
            self.assertEqual(other.model.layers, 2)


# Writes lines to dtrain as another program would.
LINES = """\
import json, os
import dtrain
from dtrain import _reports

trial = dtrain.init()
reports = os.fdopen(int(os.environ["DTRAIN_REPORT_FD"]), "w")
def write(kind, where, metrics):
    try:
        _reports.require_position(where, "epochs")
        _reports.metrics_of(metrics)
        text, allowed = _reports.line(kind, **where, metrics=metrics), True
    except ValueError:
        text = json.dumps({"type": kind, **where, "metrics": metrics}) + "\\n"
        allowed = False
    with open(os.environ["EPOCHS"], "a") as file:
        print(int(allowed), file=file)
    reports.write(text)
    reports.flush()

def name(size):
    return "é" * (size // 2) + "x" * (size % 2)

for count in (1, 1.5, _reports.MAX_COUNT, _reports.MAX_COUNT + 1):
    write("training", {"epochs": 2, "batches": count}, {"a": 1.0})
write("training", {"epochs": 2.5}, {"a": 1.0})
write("training", {"epochs": 2.5, "batches": 3}, {"a": 1.0})
for number in (_reports.MAX_METRICS, _reports.MAX_METRICS + 1):
    write("training", {"epochs": 3}, {f"m{i}": 1.0 for i in range(number)})
for size in (_reports.MAX_NAME_BYTES, _reports.MAX_NAME_BYTES + 1):
    write("training", {"epochs": 4}, {name(size): 1.0})
write("training", {"epochs": 5}, {"\\ud800": 1.0})
for size in (_reports.MAX_LINE_BYTES, _reports.MAX_LINE_BYTES + 1):
    text = '{"type": "training", "epochs": 6, "metrics": {"a": 1}'
    reports.write(text + (size - len(text) - 1) * " " + "}\\n")
reports.close()
trial.validate(accuracy=1)
"""


class ReadLaterTest(unittest.TestCase):
    """Reads that may come after the first validation, of a script that has read `lr` before."""

    def test_of_a_loop_a_condition_or_a_function_count(self):
        for script, names in (
                ("trial.hparams.decay\n", set()),
                ("for e in trial.epochs():\n    trial.validate()\n    trial.hparams.decay\n", {"decay"}),
                ("while True:\n    lr *= trial.hparams['decay']\n", {"decay"}),
                ("if sgd:\n    h = trial.hparams\n    h.momentum\n", {"momentum"}),
                ("hp: dtrain.HParams = trial.hparams\ndef f():\n    return hp.model.width\n",
                 {"model", "width"}),
                ("hp, seed = trial.hparams, trial.seed\nf = lambda: hp.width\n", {"width"}),
                ("if (hp := trial.hparams).sgd: hp.momentum\n", {"momentum"}),
                ("class A:\n    def __init__(self, trial):\n        self.hp = trial.hparams\n"
                 "    def f(self):\n        return self.hp.get('width', 3)\n", {"width"}),
                ("class A:\n    def f(self):\n        self.hparams = trial.hparams\n"
                 "        self.hparams.width\n", {"width"}),
                # Lightning's, which the module saves itself.
                ("class A:\n    def f(self):\n        self.hparams.width\n", set()),
                ("def f(args):\n    args.lr\n", set())):
            with self.subTest(script):
                self.assertEqual(_unread.read_later(script) - {"get"}, names)


class UnreadTest(module_test.ExperimentTest):
    """What `create` says of hyperparameters that no trial has used."""

    HPARAMS = {"lr": {"type": "double", "minval": 0, "maxval": 1}}
    SEARCH = {"name": "random", "max_trials": 3, "max_length": {"epochs": 1}}

    def test_a_search_without_effect_is_named(self):
        script = "import dtrain\ndtrain.init().validate(accuracy=1)\n"
        text = self.create(script, self.SEARCH, "--allow-unread", hparams=self.HPARAMS)
        self.assertIn("hyperparameters not read by any trial: lr\n", text)
        self.assertEqual((text + self.errors).count("has not read the hyperparameter lr; correct "
                                                    "its name in the configuration, or read it in "
                                                    "the script"), 1)

    def test_a_trial_that_has_read_it_is_enough(self):
        for number in (1, 3):
            script = ("import dtrain\ntrial = dtrain.init()\n"
                      f"if trial.id.endswith('.{number}'):\n    trial.hparams.lr\n"
                      "trial.validate(accuracy=1)\n")
            text = self.create(script, {**self.SEARCH, "max_concurrent_trials": 1},
                               hparams=self.HPARAMS)
            self.assertNotIn("not read by any", text)

    def test_hyperparameters_of_the_cluster_info_count(self):
        script = ("import dtrain\nfrom dtrain import core\n"
                  "lr = dtrain.get_cluster_info().trial.hparams['lr']\n"
                  "with core.init() as context:\n"
                  "    for operation in context.searcher.operations():\n"
                  "        operation.report_completed(lr)\n")
        text = self.create(script, {"name": "random", "max_trials": 2, "max_length": {"batches": 1}},
                           hparams=self.HPARAMS)
        self.assertNotIn("not read", text + self.errors + self.run_dtrain("logs", "1"))


class IgnoredTest(module_test.ExperimentTest):
    def test_a_timeout_names_the_report_that_was_ignored(self):
        line = '{"type":"validation","epochs":0.5,"metrics":{"accuracy":1}}'
        (self.home / "context" / "run.sh").write_text(f"echo '{line}' >&3\nexec sleep 1000\n")
        self.create("", {"name": "single", "max_length": {"epochs": 1}}, code=1, hang_timeout=15,
                    entrypoint="sh run.sh")
        [trial] = self.rows("trials", "1")
        self.assertIn("(hang_timeout); a report was ignored: line 1 'epochs' must be a whole number, "
                      "got 0.5", trial["reason"])


class SameRulesTest(module_test.ExperimentTest):
    def test_dtrain_ignores_what_the_module_refuses(self):
        self.create(LINES, {"name": "single", "max_length": {"epochs": 9}})
        allowed = [line == "1" for line in self.trained()]
        self.assertEqual(allowed, [True, False, True, False, False, True, True, False, True, False,
                                   False])
        ignored = [line for line in self.run_dtrain("logs", "1").splitlines()
                   if "dtrain: ignored" in line]
        lines = [int(line.split("docs/protocol.md: line ")[1].split()[0]) for line in ignored]
        allowed += [True, False]  # by their length
        # The first line of all is the greeting on the socket.
        self.assertEqual(lines, [at + 2 for at, one in enumerate(allowed) if not one])


if __name__ == "__main__":
    module_test.DTRAIN = str(pathlib.Path(sys.argv[1]).resolve())
    unittest.main(argv=[sys.argv[0], *sys.argv[2:]])
