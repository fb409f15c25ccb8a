#!/usr/bin/env python3
"""Tests the Python module: scripts outside dtrain, and scripts that dtrain runs.

    tests/python/module_test.py DTRAIN"""

import argparse
import ast
import contextlib
import io
import json
import os
import pathlib
import subprocess
import sys
import tempfile
import time
import unittest

DTRAIN = ""
CHECK = pathlib.Path(__file__).resolve().parents[1] / "crash" / "check"
MODULE = pathlib.Path(__file__).resolve().parents[2] / "engine" / "python"
EXAMPLES = pathlib.Path(__file__).resolve().parents[2] / "configs"
sys.path.insert(0, str(MODULE))
sys.dont_write_bytecode = True

from dtrain import HParams
from dtrain._trial import Trial

# Writes each epoch that it trains to epochs.txt beside the store, and continues from its
# checkpoint.
CONTINUING = """\
import argparse, json, os, time
import dtrain

parser = argparse.ArgumentParser()
parser.add_argument("--lr", type=float, default=0.1)
parser.add_argument("--sleep", type=float, default=0.0)
trial = dtrain.init()
args = trial.parse_args(parser)
weight = 0.0
if trial.restore():
    weight = json.loads((trial.restore() / "state.json").read_text())
for epoch in trial.epochs(9):
    time.sleep(args.sleep)
    weight += args.lr * (1 - weight)
    with open(os.environ["EPOCHS"], "a") as file:
        print(trial.id, epoch, file=file)
    trial.report(loss=1 - weight)
    trial.report(loss=3 - weight)
    trial.validate(accuracy=weight)
    if trial.should_checkpoint:
        with trial.checkpoint() as path:
            (path / "state.json").write_text(json.dumps(weight))
"""

# Validates each epoch; the best are 1, 2 and 4.
VALIDATING = """\
import dtrain
trial = dtrain.init()
for epoch in trial.epochs():
    trial.validate(accuracy=[1, 3, 2, 4, float("nan"), 4][epoch])
    if trial.should_checkpoint:
        with trial.checkpoint() as path:
            (path / "x").write_text("y")
"""


def description(**changes):
    return {"protocol": 1, "experiment": 3, "trial": 7, "until": {"epochs": 9},
            "hyperparameters": {"lr": 0.5, "model": {"layers": 2}}, "metric": "loss",
            "seed": 5, "checkpoint": None, "directory": "/nowhere", **changes}


class OutsideTest(unittest.TestCase):
    """Without dtrain. A trial has no connection, as on its other ranks."""

    def test_loops_have_the_given_length_and_reports_are_dropped(self):
        trial = Trial(None)
        done = []
        for epoch in trial.epochs(3):
            done.append((epoch, trial.at_end))
            trial.report({"a/b": 1}, loss=2)
            trial.validate(accuracy=0.5)
        self.assertEqual(done, [(0, False), (1, False), (2, True)])
        self.assertFalse(trial.should_stop)
        self.assertIsNone(trial.restore())
        with self.assertRaisesRegex(ValueError, "number of batches is unknown"):
            Trial(None).batches()
        with self.assertRaisesRegex(ValueError, "whole number, got 2.5"):
            Trial(None).epochs(2.5)

    def test_checkpoints_are_deleted_and_that_is_said(self):
        trial = Trial(None)
        errors = io.StringIO()
        with contextlib.redirect_stderr(errors):
            for _ in trial.epochs(2):
                with trial.checkpoint() as path:
                    (path / "x").write_text("y")
                self.assertFalse(path.exists())
        self.assertEqual(errors.getvalue(), "dtrain: not started by dtrain; checkpoints are deleted\n")

    def test_a_script_with_its_own_loop_has_the_given_length(self):
        self.assertEqual(list(Trial(None).lengths(5)), [5])
        with self.assertRaisesRegex(ValueError, "set searcher.max_length"):
            Trial(None).lengths()

    def test_invalid_exits_with_the_reason(self):
        with self.assertRaisesRegex(SystemExit, "invalid hyperparameters: too wide"):
            Trial(None).invalid("too wide")

    def test_fail_exits_with_the_reason(self):
        with self.assertRaisesRegex(SystemExit, "no data in /x"):
            Trial(None).fail("no data in /x")


class MistakesTest(unittest.TestCase):
    def test_metrics_must_be_numbers(self):
        trial = Trial(None)
        for value in ("0.5", None, True, [1, 2]):
            with self.assertRaisesRegex(TypeError, "metric 'loss' must be a number, got"):
                trial.report(loss=value, epochs=1)
        with self.assertRaisesRegex(TypeError, "name of a metric must be a non-empty string"):
            trial.report({1: 2}, epochs=1)

    def test_a_validation_has_the_metric_of_the_searcher(self):
        trial = Trial(description())
        with self.assertRaisesRegex(ValueError, "lacks 'loss', .* has losss; did you mean 'losss'"):
            trial.validate(losss=1, epochs=1)

    def test_counts_must_not_decrease(self):
        trial = Trial(description())
        trial.report(loss=1, epochs=3)
        with self.assertRaisesRegex(ValueError, "training at 2 epochs after 3"):
            trial.report(loss=1, epochs=2)
        with self.assertRaisesRegex(ValueError, "epochs must be a number of at least 0"):
            trial.report(loss=1, epochs=-1)

    def test_each_length_ends_with_a_validation(self):
        trial = Trial(description())
        lengths = trial.lengths()
        self.assertEqual(next(lengths), 9)
        trial.validate(loss=1, epochs=8)
        with self.assertRaisesRegex(RuntimeError, "no validation at 9 epochs was reported"):
            next(lengths)
        with self.assertRaisesRegex(ValueError, "set searcher.max_length"):
            Trial(description(until=None)).lengths()

    def test_a_report_needs_a_count(self):
        trial = Trial(description())
        with self.assertRaisesRegex(RuntimeError, r"use trial.epochs\(\) as the loop, .* epochs=3"):
            trial.report(loss=1)
        with self.assertRaisesRegex(RuntimeError, "count of this report is unknown"):
            trial.report(loss=1, batches=3)
        trial.validate(loss=1)  # the result, at the length
        with self.assertRaisesRegex(RuntimeError, "count of this report is unknown"):
            trial.validate(loss=1)

    def test_a_loop_counts_in_the_unit_of_the_search(self):
        with self.assertRaisesRegex(RuntimeError, "the search counts epochs .* counts batches"):
            Trial(description()).batches(10)
        with self.assertRaisesRegex(RuntimeError, r"counts epochs; use max_length: {epochs: \.\.\.}"):
            Trial(description(until={"records": 9})).epochs(10)
        trial = Trial(description())
        trial.epochs()
        with self.assertRaisesRegex(RuntimeError, "a loop over epochs is running"):
            trial.epochs()

    def test_an_unknown_hyperparameter_has_a_similar_name(self):
        hparams = HParams({"lr": 1, "model": {"layers": 2}})
        self.assertEqual(hparams.model.layers, 2)
        self.assertEqual(hparams["model"]["layers"], 2)
        self.assertEqual(hparams.unread(), ["lr"])
        with self.assertRaisesRegex(AttributeError, "'model.layer'; did you mean 'layers'"):
            hparams.model.layer
        with self.assertRaisesRegex(KeyError, "no hyperparameter 'lrr'; did you mean 'lr'"):
            hparams["lrr"]
        with self.assertRaisesRegex(AttributeError, "cannot be set"):
            hparams.lr = 2


class RestoreTest(unittest.TestCase):
    def test_a_file_of_the_checkpoint(self):
        with tempfile.TemporaryDirectory() as scratch:
            trial = Trial(description(checkpoint={"path": scratch, "epochs": 3}))
            file = pathlib.Path(scratch, "model.pt")
            file.touch()
            self.assertEqual(trial.restore("model.pt"), file)
            with self.assertRaisesRegex(FileNotFoundError, "no file 'model.pth'; did you mean 'model.pt'"):
                trial.restore("model.pth")
            with self.assertRaisesRegex(FileNotFoundError, "no file 'x'; it has: model.pt"):
                trial.restore("x")
        self.assertIsNone(Trial(description()).restore("model.pt"))


class ParseArgsTest(unittest.TestCase):
    def parse(self, hparams, *arguments, ignore=()):
        parser = argparse.ArgumentParser(prog="train.py")
        parser.add_argument("--lr", type=float, required=True)
        parser.add_argument("--model-layers", type=int, default=1)
        parser.add_argument("--optimizer", choices=["adam", "sgd"], default="sgd")
        parser.add_argument("--nesterov", action="store_true")
        parser.add_argument("--sizes", type=int, nargs="*", default=[])
        parser.add_argument("--betas", type=float, nargs=2, default=[0, 1])
        parser.add_argument("--steps", type=int, nargs="+", default=[])
        trial = Trial(description(hyperparameters=hparams))
        return vars(trial.parse_args(parser, list(arguments), ignore=ignore))

    def refusal(self, hparams, *arguments):
        errors = io.StringIO()
        with contextlib.redirect_stderr(errors), self.assertRaises(SystemExit) as end:
            self.parse(hparams, *arguments)
        self.assertEqual(end.exception.code, 2)
        return errors.getvalue().splitlines()[-1]

    def test_hyperparameters_are_defaults(self):
        parsed = self.parse({"lr": 1, "model": {"layers": 3}, "optimizer": "adam",
                             "nesterov": True, "sizes": [1, 2], "seed": 1}, ignore=["seed"])
        self.assertEqual(parsed, {"lr": 1.0, "model_layers": 3, "optimizer": "adam",
                                  "nesterov": True, "sizes": [1, 2], "betas": [0, 1], "steps": []})
        self.assertIsInstance(parsed["lr"], float)
        # The command line may repeat a value, as placeholders do.
        self.assertEqual(self.parse({"lr": 0.5}, "--lr", "5e-1")["lr"], 0.5)

    def test_one_value_is_a_list_if_the_argument_takes_several(self):
        parsed = self.parse({"lr": 1, "sizes": 3, "steps": 4, "betas": [0.5, 1]}, "--steps", "4")
        self.assertEqual((parsed["sizes"], parsed["steps"], parsed["betas"]), ([3], [4], [0.5, 1]))

    def test_mistakes_exit_with_2(self):
        self.assertEqual(
            self.refusal({"lr": 1, "optimiser": "adam"}),
            "train.py: error: hyperparameter 'optimiser' has no argument; did you mean "
            "'optimizer'?; add --optimiser, or call parse_args(parser, ignore=['optimiser'])")
        self.assertIn("hyperparameter 'model.layers' is 2.5, which its argument refuses",
                      self.refusal({"lr": 1, "model": {"layers": 2.5}}))
        self.assertIn("'optimizer' is 'adagrad'; its argument allows 'adam', 'sgd'",
                      self.refusal({"lr": 1, "optimizer": "adagrad"}))
        self.assertIn("'nesterov' is 1, but its argument is a flag",
                      self.refusal({"lr": 1, "nesterov": 1}))
        self.assertIn("'betas' is [0.5], but its argument takes 2 values",
                      self.refusal({"lr": 1, "betas": [0.5]}))
        self.assertIn("'betas' is 0.5, but its argument takes 2 values",
                      self.refusal({"lr": 1, "betas": 0.5}))
        self.assertIn("'steps' is [], but its argument takes at least one value",
                      self.refusal({"lr": 1, "steps": []}))
        self.assertIn("'lr' is 0.5, but the command line has 0.1; remove it",
                      self.refusal({"lr": 0.5}, "--lr", "0.1"))


class Action(argparse.Action):
    """Splits "a=1" as scripts do."""

    def __call__(self, parser, namespace, values, option_string=None):
        setattr(namespace, self.dest, dict(one.split("=") for one in values.split(",")))


class ArgumentsTest(unittest.TestCase):
    """Each hyperparameter has the effect of its option on the command line."""

    def parse(self, options, hparams, **more):
        parser = argparse.ArgumentParser(prog="train.py")
        for names, keys in options:
            parser.add_argument(*names.split(), **keys)
        trial = Trial(description(hyperparameters=hparams, **more))
        return trial.parse_args(parser, [])

    def refusal(self, *arguments, **more):
        errors = io.StringIO()
        with contextlib.redirect_stderr(errors), self.assertRaises(SystemExit):
            self.parse(*arguments, **more)
        return errors.getvalue().splitlines()[-1].partition("error: ")[2]

    def test_values_are_those_of_the_command_line(self):
        no_crop = [("--no-crop", {"dest": "crop", "action": "store_false"})]
        methods = [(f"--{name}", {"dest": "method", "action": "store_const", "const": name})
                   for name in ("sgd", "adam")]
        text = [("--teacher", {"type": str})]
        for options, hparams, rules_1, rules_2 in (
                (no_crop, {"no_crop": True}, {"crop": True}, {"crop": False}),
                (no_crop, {"no_crop": False}, {"crop": False}, {"crop": True}),
                (no_crop, {"crop": True}, {"crop": True}, {"crop": True}),
                ([("--amp", {"action": "store_true"})], {"amp": False}, {"amp": False}, {"amp": False}),
                (methods, {"sgd": True}, {"method": True}, {"method": "sgd"}),
                (methods, {"sgd": False}, {"method": False}, {"method": None}),
                (methods, {"method": "adam"}, None, {"method": "adam"}),
                ([("-v --verbose", {"action": "count", "default": 1})], {"verbose": 2}, None,
                 {"verbose": 3}),
                ([("--aug", {"action": "append", "type": str})], {"aug": ["flip", "crop"]},
                 {"aug": '["flip", "crop"]'}, {"aug": ["flip", "crop"]}),
                ([("--aug", {"action": "append", "type": str})], {"aug": "flip"}, {"aug": "flip"},
                 {"aug": ["flip"]}),
                ([("--opt", {"action": Action})], {"opt": "a=1,b=2"}, {"opt": "a=1,b=2"},
                 {"opt": {"a": "1", "b": "2"}}),
                (text, {"teacher": None}, {"teacher": "null"}, {"teacher": None}),
                ([("--width", {"type": int, "default": 3})], {"width": None}, None, {"width": None}),
                ([("--opt", {"choices": ["sgd"]})], {"opt": None}, None, {"opt": None}),
                ([("--sizes", {"type": int, "nargs": "*"})], {"sizes": None}, None, {"sizes": None}),
                ([("data", {"type": str})], {"data": None}, {"data": "null"}, {"data": None}),
                # A default that is a text would be converted again by argparse.
                ([("--init", {"type": lambda name: name + ".pt"})], {"init": "a"},
                 None, {"init": "a.pt"}),
                ([("init", {"type": lambda name: name + ".pt"})], {"init": "a"},
                 None, {"init": "a.pt"})):
            with self.subTest(options=options, hparams=hparams):
                self.assertEqual(vars(self.parse(options, hparams)),
                                 vars(self.parse(options, hparams, rules=2)))
                self.assertEqual(vars(self.parse(options, hparams)), rules_2)
                if rules_1 is not None:
                    self.assertEqual(vars(self.parse(options, hparams, rules=1)), rules_1)

    @unittest.skipIf(sys.version_info < (3, 9), "argparse has no BooleanOptionalAction")
    def test_both_options_of_a_boolean_action(self):
        for hparams, bias in (({"no_bias": True}, False), ({"no_bias": False}, True),
                              ({"bias": True}, True), ({"bias": False}, False)):
            options = [("--bias", {"action": argparse.BooleanOptionalAction, "default": None})]
            self.assertIs(self.parse(options, hparams).bias, bias)

    def test_values_that_an_argument_does_not_tell_apart_are_refused(self):
        is_true = lambda text: text == "True"
        for kind, value, alternatives, both in (
                (is_true, True, [True, False], "False for both true and false"),
                (is_true, True, [], "False for both true and false"),
                (bool, 0, [0, 1], "True for both 0 and 1"),
                (bool, "true", ["true", "false"], 'True for both "true" and "false"'),
                (lambda text: round(float(text)), 0.0, [0.0, 0.25, 1.0], "0 for both 0.0 and 0.25"),
                (int, 8, [8, "8", 9], '8 for both 8 and "8"'),
                (str.lower, "Adam", ["SGD", "Adam", "adam"], '\'adam\' for both "Adam" and "adam"')):
            with self.subTest(both=both):
                self.assertEqual(
                    self.refusal([("--x", {"type": kind})], {"x": value},
                                 alternatives={"x": alternatives}),
                    f"hyperparameter 'x': its argument is {both}, so their trials would train alike; "
                    "correct the type of the argument, or remove one of the values")
        self.assertIn("for both 1 and true", self.refusal(
            [("--opt-x", {"type": lambda text: text in ("1", "true")})], {"opt": {"x": 1}},
            alternatives={"opt": [{"x": 1}, {"x": True, "y": 2}, {"x": 1}]}))

    def test_values_that_an_argument_tells_apart_are_accepted(self):
        kinds = [(float, [1, 0.1]), (None, [1, True, "1"]), (bool, [True, False]),
                 (str, [None, "null"]), (json.loads, [[1], [1, 2]]), (int, [1, "many"])]
        for kind, values in kinds:
            with self.subTest(values=values):
                self.parse([("--x", {"type": kind})], {"x": values[0]}, alternatives={"x": values})

    def test_a_converter_that_opens_files_is_called_only_for_the_value_of_the_trial(self):
        with tempfile.TemporaryDirectory() as scratch:
            paths = [str(pathlib.Path(scratch, name)) for name in "abc"]

            def touch(path):
                pathlib.Path(path).touch()

            def make(path):
                try:
                    os.mkdir(path)
                except BaseException:
                    pass

            for kind in (argparse.FileType("w"), touch, make, open):
                with self.subTest(kind=kind):
                    pathlib.Path(paths[1]).touch()
                    result = self.parse([("--x", {"type": kind})], {"x": paths[1]},
                                        alternatives={"x": paths}).x
                    if result is not None:
                        result.close()
                    self.assertEqual(os.listdir(scratch), ["b"])

    def test_an_action_of_the_script_is_called_only_for_the_value_of_the_trial(self):
        calls = []

        class Recorded(argparse.Action):
            def __call__(self, parser, namespace, values, option_string=None):
                open(os.devnull).close()
                calls.append(values)
                setattr(namespace, self.dest, values)

        for keys, hparams, values in (({}, {"x": "a"}, ["a", "b"]),
                                      ({"nargs": "+"}, {"x": ["a"]}, [["a"], ["b"]]),
                                      ({"nargs": 0}, {"x": False}, [True, False]),
                                      ({"nargs": 0}, {"x": True}, [True, False])):
            with self.subTest(hparams=hparams):
                calls.clear()
                self.parse([("--x", {"action": Recorded, **keys})], hparams,
                           alternatives={"x": values})
                self.assertEqual(calls, [] if hparams["x"] is False else
                                 [[]] if hparams["x"] is True else [hparams["x"]])

    def test_results_that_cannot_be_compared(self):
        class Array:
            def __init__(self, text):
                self.text = text

            def __eq__(self, other):
                raise ValueError("the truth value of an array is ambiguous")

        for arguments in ([], ["--x", "1,2"]):
            parser = argparse.ArgumentParser()
            parser.add_argument("--x", type=Array)
            trial = Trial(description(hyperparameters={"x": "1,2"}, alternatives={"x": ["1,2", "3"]}))
            self.assertEqual(trial.parse_args(parser, arguments).x.text, "1,2")

    def test_other_errors_are_told(self):
        for kind, value, text in ((eval, True, "NameError: name 'true' is not defined"),
                                  ({"a": 1}.__getitem__, "b", "KeyError: 'b'"),
                                  (int, "b", "invalid literal for int() with base 10: 'b'")):
            self.assertEqual(self.refusal([("--x", {"type": kind})], {"x": value}),
                             f"hyperparameter 'x' is {value!r}, which its argument refuses: {text}")
        self.assertIn("'x' is 'a', which its argument refuses: dictionary update sequence",
                      self.refusal([("--x", {"action": Action})], {"x": "a"}))

        class Quick(argparse.Action):
            def __call__(self, parser, namespace, values, option_string=None):
                namespace.x, namespace.epochs = True, 1

        self.assertIn("'x' is True, but its argument also sets 'epochs'; write it in the entrypoint",
                      self.refusal([("--x", {"action": Quick, "nargs": 0})], {"x": True}))

    def test_mistakes_exit(self):
        methods = [(f"--{name}", {"dest": "method", "action": "store_const", "const": name})
                   for name in ("sgd", "adam")]
        for options, hparams, text in (
                ([("--model-lr", {"type": float})], {"model": {"lr": 1}, "model_lr": 2},
                 "hyperparameters 'model.lr' and 'model_lr' belong to one argument, 'model_lr'; "
                 "remove one of them"),
                (methods, {"sgd": True, "adam": False},
                 "hyperparameters 'sgd' and 'adam' belong to one argument, 'method'; remove one of "
                 "them"),
                (methods, {"method": True}, "'method' is True, but its flags give 'sgd', 'adam'"),
                ([("--amp", {"action": "store_true"})], {"amp": None}, "its argument is a flag"),
                ([("--sizes", {"type": int, "nargs": "*"})], {"sizes": [1, None]},
                 "null is no value on a command line"),
                ([("--version", {"action": "version", "version": "1"})], {"version": 2},
                 "hyperparameter 'version' has no argument")):
            with self.subTest(hparams=hparams):
                self.assertIn(text, self.refusal(options, hparams))


class SubcommandTest(unittest.TestCase):
    """Arguments of subcommands, and those that exclude each other."""

    def parse(self, hparams, *arguments):
        parser = argparse.ArgumentParser(prog="train.py")
        parser.add_argument("--seed", type=int)
        commands = parser.add_subparsers(dest="command")
        fit = commands.add_parser("fit", aliases=["train"])
        fit.add_argument("--lr", type=float, required=True)
        fit.add_argument("--wd", type=float)
        tune = commands.add_parser("tune")
        tune.add_argument("--lr")
        method = tune.add_mutually_exclusive_group(required=True)
        method.add_argument("--sgd", action="store_true")
        method.add_argument("--adam", action="store_true")
        method.add_argument("--method", choices=["8", "16"])
        errors = io.StringIO()
        try:
            with contextlib.redirect_stderr(errors):
                return vars(Trial(description(hyperparameters=hparams)).parse_args(
                    parser, list(arguments)))
        except SystemExit:
            return errors.getvalue().splitlines()[-1].partition("error: ")[2]

    def test_values_are_those_of_the_command_line(self):
        nothing = {"seed": None, "command": None}
        fit = {**nothing, "command": "fit", "lr": 0.5, "wd": None}
        tune = {**nothing, "command": "tune", "lr": None, "sgd": False, "adam": False, "method": None}
        for hparams, arguments, expected in (
                ({"seed": 3, "lr": 0.5}, ["fit"], {**fit, "seed": 3}),
                ({"lr": 0.5}, ["train", "--wd", "1"], {**fit, "command": "train", "wd": 1.0}),
                ({"lr": 0.5}, ["fit", "--lr", "0.5"], fit),
                ({"command": "fit", "lr": 0.5}, ["fit"], fit),
                ({"sgd": True}, ["tune"], {**tune, "sgd": True}),
                ({"sgd": True, "adam": False}, ["tune"], {**tune, "sgd": True}),
                ({"method": 8, "lr": 0.5}, ["tune"], {**tune, "method": "8", "lr": 0.5})):
            with self.subTest(hparams=hparams, arguments=arguments):
                self.assertEqual(self.parse(hparams, *arguments), expected)

    def test_mistakes_exit(self):
        both = "arguments --sgd and --adam exclude each other"
        for hparams, arguments, text in (
                ({"lr": 0.5}, ["fit", "--lr", "0.1"], "'lr' is 0.5, but the command line has 0.1"),
                ({"wd": 0.5}, ["tune", "--sgd"], "'wd' has no argument in this subcommand"),
                ({"wd": 0.5}, [], "'wd' has no argument in this subcommand"),
                ({"command": "tune"}, ["fit", "--lr", "1"],
                 "'command' is 'tune', but the command line has 'fit'"),
                ({"command": "tune"}, [], "'command' is 'tune', but the command line has None"),
                ({"momentum": 1}, ["fit"], "'momentum' has no argument"),
                ({"lr": "many"}, ["fit"], "could not convert string to float"),
                ({"sgd": True, "adam": True}, ["tune"], both),
                ({"sgd": True}, ["tune", "--adam"], both),
                ({"method": 9}, ["tune"], "its argument allows '8', '16'")):
            with self.subTest(hparams=hparams, arguments=arguments):
                self.assertIn(text, self.parse(hparams, *arguments))


class NamesOfDeterminedTest(unittest.TestCase):
    def test_what_has_no_counterpart_is_named(self):
        for line in ("from dtrain import pytorch", "from dtrain import core, experimental",
                     "import dtrain as det; det.pytorch.init()",
                     "import dtrain as det; det.experimental.core_v2",
                     "import dtrain as det; det.keras.DeterminedCallback()"):
            with self.subTest(line), self.assertRaises((ImportError, AttributeError)) as found:
                exec(line, {})
            self.assertRegex(str(found.exception),
                             r"^determined\.\w+ has no counterpart in dtrain; use D")
        with self.assertRaisesRegex(AttributeError, "module 'dtrain' has no attribute 'inti'"):
            exec("import dtrain; dtrain.inti()", {})


class SourceTest(unittest.TestCase):
    def test_parses_as_python_3_8_and_the_first_file_as_older_ones(self):
        files = sorted((MODULE / "dtrain").glob("*.py"))
        self.assertGreater(len(files), 1)
        for file in files:
            ast.parse(file.read_text(encoding="utf-8"), feature_version=(3, 8))
        ast.parse((MODULE / "dtrain" / "__init__.py").read_text(encoding="utf-8"),
                  feature_version=(3, 5))

    def test_public_names_have_docstrings(self):
        missing = []
        for file in sorted((MODULE / "dtrain").glob("*.py")):
            tree = ast.parse(file.read_text(encoding="utf-8"))
            nodes = [tree, *(node for node in ast.walk(tree) if isinstance(node, ast.ClassDef))]
            public = [node for one in nodes for node in one.body
                      if isinstance(node, (ast.ClassDef, ast.FunctionDef))
                      and not node.name.startswith("_")
                      and not getattr(one, "name", "").startswith("_")]
            missing += [f"{file.name}: {getattr(node, 'name', 'module')}" for node in (tree, *public)
                        if not ast.get_docstring(node)]
        self.assertEqual(missing, [])

    def test_each_framework_has_its_tests(self):
        tests = pathlib.Path(__file__).resolve().parent / "frameworks"
        listed = subprocess.run([tests / "run", "--list"], check=True, text=True,
                                stdout=subprocess.PIPE).stdout.splitlines()
        self.assertEqual(sorted(line.split()[0] for line in listed),
                         sorted(file.stem[:-5] for file in tests.glob("*_test.py")))


class ExperimentTest(unittest.TestCase):
    """Base of tests that run scripts as trials, in a store of their own."""

    METRIC = "accuracy"
    LIMIT = 300  # seconds, of a command and of a wait

    def setUp(self):
        scratch = tempfile.TemporaryDirectory(prefix="dtrain-python-")
        self.addCleanup(scratch.cleanup)
        self.home = pathlib.Path(scratch.name)
        (self.home / "context").mkdir()
        self.epochs_file = self.home / "epochs.txt"
        self.environment = {**os.environ, "DTRAIN_STORE": str(self.home / "store"),
                            "DTRAIN_RUNTIME_DIR": str(self.home / "slots"),
                            "EPOCHS": str(self.epochs_file), "PYTHONDONTWRITEBYTECODE": "1"}
        self.addCleanup(self.check_store)

    def check_store(self):
        done = subprocess.run([CHECK, self.home / "store", "--dtrain", DTRAIN], text=True,
                              env=self.environment, capture_output=True, check=False)
        self.assertEqual(done.returncode, 0, done.stdout + done.stderr)

    def run_dtrain(self, *arguments, code=0):
        done = subprocess.run([DTRAIN, *arguments], cwd=self.home, env=self.environment, text=True,
                              stdin=subprocess.DEVNULL, capture_output=True, timeout=self.LIMIT,
                              check=False)
        self.assertEqual(done.returncode, code, done.stdout + done.stderr)
        self.errors = done.stderr
        return done.stdout

    def create(self, script, searcher, *arguments, hparams=None, entrypoint="python3 train.py",
               code=0, **keys):
        (self.home / "context" / "train.py").write_text(script, encoding="utf-8")
        config = {"name": "python", "entrypoint": entrypoint, "hyperparameters": hparams or {},
                  "searcher": {"metric": self.METRIC, "smaller_is_better": False, **searcher},
                  "max_restarts": 0, "resources": {"slots": "cpu"}, **keys}
        path = self.home / "config.json"
        path.write_text(json.dumps(config), encoding="utf-8")
        return self.run_dtrain("create", str(path), "context", *arguments, code=code)

    def rows(self, command, *arguments):
        return json.loads(self.run_dtrain(command, *arguments, "--json"))[command]

    def wait_for(self, condition):
        end = time.monotonic() + self.LIMIT
        while not condition():
            self.assertLess(time.monotonic(), end)
            time.sleep(0.02)

    def trained(self):
        if not self.epochs_file.exists():
            return []
        return self.epochs_file.read_text().splitlines()


class TrialTest(ExperimentTest):
    def test_promoted_trials_continue_from_their_checkpoint(self):
        self.create(CONTINUING, {"name": "asha", "max_trials": 6, "num_rungs": 2, "divisor": 3,
                                 "max_length": {"epochs": 9}},
                    hparams={"lr": {"type": "double", "minval": 0.1, "maxval": 0.9}})
        self.assertEqual(len(self.trained()), len(set(self.trained())))  # none twice
        rungs = [trial["rung"] for trial in self.rows("trials", "1")]
        self.assertGreaterEqual(rungs.count(2), 1)
        for trial in self.rows("trials", "1"):
            seen = [row for row in self.rows("metrics", trial["id"]) if row["kind"] == "validation"]
            self.assertEqual([row["batches"] for row in seen], list(range(1, trial["batches"] + 1)))
            weight = 0.0
            for row in seen:  # as one that ran through
                weight += trial["hparams"]["lr"] * (1 - weight)
                self.assertAlmostEqual(row["value"], weight, places=12)

    def test_a_promoted_script_with_its_own_loop_trains_on(self):
        # It reports only its result. The second trial is promoted after the first has ended.
        script = ("import os, dtrain\n"
                  "trial = dtrain.init()\n"
                  "done = int(trial.restored_count('epochs'))\n"
                  "for length in trial.lengths():\n"
                  "    while done < length:\n"
                  "        done += 1\n"
                  "        trial.progress(epochs=done)\n"
                  "        with open(os.environ['EPOCHS'], 'a') as file:\n"
                  "            print(trial.id, done, file=file)\n"
                  "    with trial.checkpoint(epochs=done) as path:\n"
                  "        (path / 'x').write_text('y')\n"
                  "    trial.validate(accuracy=trial.hparams.lr, epochs=done)\n")
        self.create(script, {"name": "async_halving", "max_trials": 4, "num_rungs": 2,
                             "divisor": 2, "max_length": {"epochs": 6}},
                    hparams={"lr": {"type": "double", "minval": 0.1, "maxval": 0.9}})
        self.assertEqual(len(self.trained()), len(set(self.trained())))  # none twice
        lengths = [trial["batches"] for trial in self.rows("trials", "1")]
        self.assertEqual(set(lengths), {3, 6})
        self.assertEqual(len(self.trained()), sum(lengths))

    def test_reports_of_one_epoch_become_their_mean(self):
        self.create(CONTINUING, {"name": "single", "max_length": {"epochs": 1}},
                    hparams={"lr": 0.5})
        [loss] = [row for row in self.rows("metrics", "1") if row["kind"] == "training"]
        self.assertEqual(loss["value"], 1.5)  # of 0.5 and 2.5

    def test_a_paused_trial_resumes_after_its_checkpoint(self):
        self.create(CONTINUING, {"name": "single", "max_length": {"epochs": 9}}, "-d",
                    hparams={"lr": 0.5, "sleep": 0.2})
        self.wait_for(lambda: len(self.trained()) >= 2)
        self.run_dtrain("pause", "1")
        self.assertLess(len(self.trained()), 9)
        self.run_dtrain("resume", "1")
        self.assertEqual(self.trained(), [f"1.1 {epoch}" for epoch in range(9)])

    def checkpoints_under(self, policy):
        number = str(len(self.experiments) + 1)
        self.experiments.append(number)
        self.create(VALIDATING, {"name": "single", "max_length": {"epochs": 6}},
                    checkpoint_policy=policy,
                    checkpoint_storage={"save_trial_best": 9, "save_trial_latest": 9})
        return sorted(row["batches"] for row in self.rows("checkpoints", number))

    def test_checkpoints_follow_the_policy(self):
        self.experiments = []
        self.assertEqual(self.checkpoints_under("best"), [1, 2, 4, 6])
        self.assertEqual(self.checkpoints_under("all"), [1, 2, 3, 4, 5, 6])
        self.assertEqual(self.checkpoints_under("none"), [])  # that at the end is deleted
        best = self.rows("trials", "1")[0]["best"]
        self.assertEqual(best["batches"], 4)
        self.assertIsNotNone(best["checkpoint"])

    def test_two_lines_are_enough_without_checkpoints(self):
        script = ("import dtrain\ntrial = dtrain.init()\n"
                  "trial.validate(accuracy=trial.hparams.lr)\n")
        self.create(script, {"name": "random", "max_trials": 3, "max_length": {"epochs": 4}},
                    hparams={"lr": {"type": "double", "minval": 0, "maxval": 1}})
        for trial in self.rows("trials", "1"):
            self.assertEqual(trial["state"], "COMPLETED")
            self.assertEqual(trial["best"]["value"], trial["hparams"]["lr"])
            self.assertEqual(trial["batches"], 4)

    def test_a_hyperparameter_that_is_not_read_is_named(self):
        script = "import dtrain\ndtrain.init().validate(accuracy=1)\n"
        self.create(script, {"name": "single", "max_length": {"epochs": 4}}, hparams={"lrr": 1})
        self.assertIn("dtrain: warning: the script never read the hyperparameter lrr",
                      self.run_dtrain("logs", "1"))

    def test_a_hyperparameter_of_a_placeholder_is_not_named(self):
        script = "import dtrain\ndtrain.init().validate(accuracy=1)\n"
        self.create(script, {"name": "single", "max_length": {"epochs": 4}},
                    hparams={"lr": 1e5, "width": 3, "other": 7, "name": "x"},
                    entrypoint="python3 train.py --lr={lr} --width {width} {name}")
        self.assertIn("the script never read the hyperparameter other\n",
                      self.run_dtrain("logs", "1"))

    def test_reports_of_a_burst_are_all_sent_before_an_exception(self):
        script = ("import dtrain\ntrial = dtrain.init()\n"
                  "for step in trial.batches():\n"
                  "    trial.report(loss=step)\n"
                  "    if step == 299:\n        raise OSError('the end')\n")
        self.create(script, {"name": "single", "max_length": {"batches": 1000}}, code=1)
        self.assertIn("OSError: the end", self.run_dtrain("logs", "1"))
        self.assertEqual(len(self.rows("metrics", "1")), 300)

    def test_a_loop_without_a_validation_ends_and_is_an_error(self):
        script = "import dtrain\nfor _ in dtrain.init().epochs():\n    pass\n"
        self.create(script, {"name": "single", "max_length": {"epochs": 2}}, code=1)
        [trial] = self.rows("trials", "1")
        self.assertIn("without a validation of 'accuracy' there", trial["reason"])

    def test_invalid_hyperparameters_end_the_trial(self):
        script = "import dtrain\ndtrain.init().invalid('too wide')\n"
        self.create(script, {"name": "random", "max_trials": 2, "max_length": {"epochs": 2}}, code=1)
        self.assertTrue(all("too wide" in trial["reason"] for trial in self.rows("trials", "1")))

    def test_a_failure_is_final(self):
        script = "import dtrain\ndtrain.init().fail('no data in /x')\n"
        self.create(script, {"name": "single", "max_length": {"epochs": 2}}, code=1)
        [trial] = self.rows("trials", "1")
        self.assertEqual(trial["reason"], "no data in /x")
        self.assertEqual(trial["runs"], 1)

    def test_a_trial_is_no_process_of_the_launcher_of_dtrain(self):
        script = """\
import os, subprocess, sys
import dtrain
if len(sys.argv) < 2:
    print("left:", *sorted(name for name in os.environ if name in os.environ["NAMES"].split(",")))
    trial = dtrain.init()
    print("rank", trial.rank, "of", trial.world_size)
    trial.validate(accuracy=1)
"""
        launchers = ({"RANK": "0", "WORLD_SIZE": "1", "LOCAL_RANK": "1", "LOCAL_WORLD_SIZE": "8"},
                     {"SLURM_PROCID": "0", "SLURM_NTASKS": "8"},
                     {"SLURM_PROCID": "1", "SLURM_NTASKS": "8", "SLURM_LOCALID": "1"},
                     {"OMPI_COMM_WORLD_RANK": "1", "OMPI_COMM_WORLD_SIZE": "2"},
                     {"PMI_RANK": "1", "PMI_SIZE": "2"}, {"PMIX_RANK": "1", "PMIX_SIZE": "2"})
        for number, variables in enumerate(launchers, start=1):
            with self.subTest(variables):
                kept = {"LOCAL_DATA": "/data", "OMPI_MCA_btl": "self", "SLURM_JOB_ID": "7"}
                before = dict(self.environment)
                self.environment.update({**variables, **kept, "NAMES": ",".join([*variables, *kept])})
                self.create(script, {"name": "single", "max_length": {"epochs": 1}})
                self.environment = before
                logs = self.run_dtrain("logs", str(number))
                self.assertIn("left: LOCAL_DATA OMPI_MCA_btl SLURM_JOB_ID\n", logs)
                self.assertIn("rank 0 of 1\n", logs)

    def test_ranks_are_those_of_environment_variables_and_launchers_in_the_trial(self):
        self.environment.update(SLURM_PROCID="1", SLURM_NTASKS="8")
        script = """\
import os, subprocess, sys
import dtrain
if "LAUNCHED" not in os.environ:
    sys.exit(subprocess.run([sys.executable, *sys.argv],
                            env={**os.environ, **LAUNCHER, "LAUNCHED": "1"}).returncode)
trial = dtrain.init()
print("rank", trial.rank, "of", trial.world_size)
trial.validate(accuracy=1)
"""
        searcher = {"name": "single", "max_length": {"epochs": 1}}
        self.create(script.replace("LAUNCHER", '{"RANK": "0", "WORLD_SIZE": "4"}'), searcher)
        self.assertIn("rank 0 of 4\n", self.run_dtrain("logs", "1"))
        self.create(script.replace("LAUNCHER", "{}"), searcher, environment={
            "environment_variables": ["SLURM_PROCID=0", "SLURM_NTASKS=3"]})
        self.assertIn("rank 0 of 3\n", self.run_dtrain("logs", "2"))

    def test_alternatives_that_are_one_to_an_argument_are_refused_before_training(self):
        script = """\
import argparse, dtrain
parser = argparse.ArgumentParser()
parser.add_argument("--opt-x", type=lambda text: text == "True")
trial = dtrain.init()
args = trial.parse_args(parser)
for epoch in trial.epochs():
    trial.validate(accuracy=float(args.opt_x))
"""
        for number, (searcher, space) in enumerate((
                ({"name": "grid"}, {"type": "categorical", "vals": [1, 2]}),
                ({"name": "grid"}, {"type": "int", "minval": 1, "maxval": 2}),
                ({"name": "random", "max_trials": 2}, {"type": "int", "minval": 1, "maxval": 2})), 1):
            with self.subTest(searcher=searcher, space=space):
                self.create(script, {**searcher, "max_length": {"epochs": 1}},
                            hparams={"opt": {"x": space}}, code=1)
                self.assertIn("hyperparameter 'opt.x': its argument is False for both 1 and 2",
                              self.run_dtrain("logs", str(number)))
                self.assertEqual(self.rows("metrics", str(number)), [])

    def test_a_second_program_of_rank_0_is_refused(self):
        script = ("import os, subprocess, sys, dtrain\n"
                  "trial = dtrain.init()\n"
                  "second = subprocess.run([sys.executable, '-c', 'import dtrain; dtrain.init()'])\n"
                  "trial.validate(accuracy=second.returncode)\n")
        self.create(script, {"name": "single", "max_length": {"epochs": 1}})
        [trial] = self.rows("trials", "1")
        self.assertEqual(trial["best"]["value"], 1)
        logs = self.run_dtrain("logs", "1")
        self.assertIn("RuntimeError: another process of this trial already reports as rank 0", logs)
        self.assertIn("dtrain: refused a connection", logs)

    def test_all_ranks_end_at_the_same_step(self):
        # Each rank sleeps differently; the parent stands for torchrun.
        script = """\
import os, subprocess, sys, time
if "RANK" not in os.environ:
    ranks = [subprocess.Popen([sys.executable, *sys.argv],
                              env={**os.environ, "RANK": str(rank), "WORLD_SIZE": "3"})
             for rank in range(3)]
    sys.exit(max(rank.wait() for rank in ranks))
import dtrain
trial = dtrain.init()
start = trial.restore()
for step in trial.batches():
    time.sleep(0.01 * (1 + trial.rank))
    trial.report(loss=step)
    if trial.at_end:
        trial.validate(accuracy=1)
    if trial.should_checkpoint:
        with trial.checkpoint() as path:
            (path / "x").write_text("y")
    if step % 7 == 0 and trial.should_stop:
        break
with open(os.environ["EPOCHS"], "a") as file:
    print(trial.rank, step, file=file)
"""
        self.create(script, {"name": "single", "max_length": {"batches": 300}}, "-d")
        self.wait_for(lambda: self.rows("metrics", "1"))
        self.run_dtrain("pause", "1")
        self.wait_for(lambda: len(self.trained()) == 3)
        ranks = dict(line.split() for line in self.trained())
        self.assertEqual(sorted(ranks), ["0", "1", "2"])
        self.assertEqual(len(set(ranks.values())), 1, ranks)
        self.assertLess(int(ranks["0"]), 299)
        self.epochs_file.unlink()
        self.run_dtrain("resume", "1")
        self.assertEqual(sorted(self.trained()), ["0 299", "1 299", "2 299"])

    def test_all_ranks_save_the_same_checkpoints(self):
        # Only rank 0 knows the values, and it is the slowest at first.
        script = """\
import os, subprocess, sys, time
if "RANK" not in os.environ:
    ranks = [subprocess.Popen([sys.executable, *sys.argv],
                              env={**os.environ, "RANK": str(rank), "WORLD_SIZE": "3"})
             for rank in range(3)]
    sys.exit(max(rank.wait() for rank in ranks))
import dtrain
trial = dtrain.init()
saved = []
for epoch in trial.epochs():
    time.sleep(0.02 * (trial.rank == epoch % 3))
    trial.validate(accuracy=0 if trial.rank else [1, 3, 2, 4, 4, 4][epoch])
    if trial.should_checkpoint:
        saved.append(epoch + 1)
        with trial.checkpoint() as path:
            (path / "x").write_text("y")
with open(os.environ["EPOCHS"], "a") as file:
    print(*saved, file=file)
"""
        self.create(script, {"name": "single", "max_length": {"epochs": 6}})
        self.assertEqual(self.trained(), ["1 2 4 6"] * 3)

    def test_a_script_may_start_the_other_ranks_itself(self):
        script = """\
import os, subprocess, sys
import dtrain
trial = dtrain.init()
if trial.rank == 0:
    other = subprocess.Popen([sys.executable, *sys.argv], stdout=subprocess.PIPE,
                             env={**os.environ, "LOCAL_RANK": "1", "WORLD_SIZE": "2"})
    other.stdout.readline()  # the other rank does not wait for this one
    assert dtrain.init(rank=0, world_size=2) is trial
print("initialized", flush=True)
for step in trial.batches():
    trial.report(loss=trial.rank)
    trial.validate(accuracy=1)
with open(os.environ["EPOCHS"], "a") as file:
    print(trial.rank, trial.world_size, step, file=file)
if trial.rank == 0:
    sys.exit(other.wait())
"""
        self.create(script, {"name": "single", "max_length": {"batches": 5}})
        self.assertEqual(sorted(self.trained()), ["0 2 4", "1 2 4"])
        self.assertEqual({row["value"] for row in self.rows("metrics", "1", "--name", "loss")}, {0})

    def test_a_script_ends_soon_after_its_runner_is_killed(self):
        script = ("import os, time, dtrain\n"
                  "with open(os.environ['EPOCHS'], 'a') as file:\n    print(os.getpid(), file=file)\n"
                  "for _ in dtrain.init().batches():\n    time.sleep(0.01)\n"
                  "with open(os.environ['EPOCHS'], 'a') as file:\n    print('ended', file=file)\n")
        self.create(script, {"name": "single", "max_length": {"batches": 100000}}, "-d")
        self.wait_for(lambda: len(self.trained()) == 1)
        self.run_dtrain("kill", "1")
        pid = int(self.trained()[0])
        self.wait_for(lambda: not pathlib.Path(f"/proc/{pid}").exists())

    def test_the_example_of_the_document_learns(self):
        result = json.loads(self.run_dtrain("create", str(EXAMPLES / "command_python.yaml"),
                                            "--json"))
        self.assertGreaterEqual(result["best"]["value"], 0.9)
        self.assertGreaterEqual([trial["rung"] for trial in self.rows("trials", "1")].count(3), 1)
        self.assertNotIn("warning", self.run_dtrain("logs", "1"))

    def test_an_interpreter_of_the_context_that_is_a_link_is_refused(self):
        link = self.home / "context" / "env" / "bin" / "python"
        link.parent.mkdir(parents=True)
        link.symlink_to(sys.executable)
        self.create("import dtrain\n", {"name": "single", "max_length": {"epochs": 1}}, code=2,
                    entrypoint="./env/bin/python train.py")
        self.assertRegex(self.errors, "'./env/bin/python' is a link to /.*, outside the context; name "
                                      f"it by its absolute path, .*{link}")

    def test_the_users_own_python_path_comes_first(self):
        script = ("import os, dtrain\nprint('path', os.environ['PYTHONPATH'])\n"
                  "dtrain.init().validate(accuracy=1)\n")
        self.environment["PYTHONPATH"] = "/somewhere/else"
        self.create(script, {"name": "single", "max_length": {"epochs": 1}})
        self.assertRegex(self.run_dtrain("logs", "1"),
                         r"path /somewhere/else:/.*/lib/dtrain/python\n")


if __name__ == "__main__":
    DTRAIN = str(pathlib.Path(sys.argv[1]).resolve())
    unittest.main(argv=[sys.argv[0], *sys.argv[2:]])
