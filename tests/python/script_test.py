#!/usr/bin/env python3
"""Tests how many lines of a plain argparse and PyTorch script make it a trial, and runs the
results, with a `torch` that computes nothing; frameworks/script_test.py has the real one.

    tests/python/script_test.py DTRAIN"""

import difflib
import pathlib
import sys
import unittest

import module_test

PLAIN = (pathlib.Path(__file__).parent / "frameworks" / "plain_train.py").read_text(encoding="utf-8")

# A line of the script, and what takes its place.
RESUMABLE = (
    ("import torch\n", "import dtrain\nimport torch\n"),
    ("args = parser.parse_args()\n", "trial = dtrain.init()\nargs = trial.parse_args(parser)\n"),
    ("if args.resume:\n", 'args.resume = args.resume or trial.restore("model.pt")\nif args.resume:\n'),
    ("for epoch in range(args.epochs):\n", "for epoch in trial.epochs(args.epochs):\n"),
    ("    print(", "    trial.validate(accuracy=accuracy)\n    with trial.checkpoint() as path:\n"
     '        save(path / "model.pt", net, optimizer)\n    print('),
)
RANDOM = (
    ("import torch\n", "import dtrain\nimport torch\n"),
    ("save(args.out", "trial = dtrain.init()\ntrial.validate(accuracy=accuracy)\nsave(args.out"),
)
HOLD = """\
    if epoch == 1 and not trial.restore():
        import os, time
        open(os.environ["EPOCHS"], "w").write("held")
        while not trial.should_stop:
            time.sleep(0.01)
    print("""
HPARAMS = {"lr": {"type": "log", "minval": -3, "maxval": -1},
           "width": {"type": "int", "minval": 16, "maxval": 64}}

# Every object, and all that is done with it, is the same one. It counts as 1.
TORCH = """\
import json, sys

class Anything:
    def __getattr__(self, name):
        if name.startswith("__"):
            raise AttributeError(name)
        return self
    def __call__(self, *arguments, **more):
        return self
    def save(self, states, path):
        json.dump(len(states), open(path, "w"))
    def load(self, path):
        return json.load(open(path)) * [self]
    def item(self):
        return 1.0
    def __iter__(self):
        return iter([self])
    def __len__(self):
        return 1
    def __enter__(self):
        return self
    def __exit__(self, *error):
        return None
    __add__ = __radd__ = __mul__ = __rmul__ = __mod__ = __truediv__ = __eq__ = __getitem__ = __call__

sys.modules["torch"] = Anything()
"""


def changed(edits):
    """Returns the script with the edits, and how many of its lines are new or different."""
    text = PLAIN
    for line, replacement in edits:
        if text.count(line) != 1:
            raise ValueError(f"the script has {text.count(line)} times {line!r}")
        text = text.replace(line, replacement)
    diff = difflib.ndiff(PLAIN.splitlines(), text.splitlines())
    return text, sum(line.startswith("+ ") for line in diff)


class ScriptTests:
    """Tests with either torch."""

    def test_eight_lines_make_it_resumable_and_promotable(self):
        text, lines = changed(RESUMABLE)
        self.assertEqual(len(PLAIN.splitlines()), 60)
        self.assertLessEqual(lines, 8)
        self.create(text, {"name": "async_halving", "max_trials": 4, "num_rungs": 2, "divisor": 2,
                           "max_length": {"epochs": 4}}, hparams=HPARAMS)
        trials = self.rows("trials", "1")
        self.assertEqual({(trial["rung"], trial["batches"]) for trial in trials}, {(1, 2), (2, 4)})
        self.assertNotIn("warning", self.run_dtrain("logs", "1"))

    def test_a_paused_trial_continues_as_if_it_ran_through(self):
        text, _ = changed(RESUMABLE)
        searcher = {"name": "single", "max_length": {"epochs": 4}}
        hparams = {"lr": 0.01, "width": 16}
        self.create(text.replace("    print(", HOLD), searcher, "-d", hparams=hparams)
        self.wait_for(self.trained)
        self.run_dtrain("pause", "1")
        self.assertEqual(len(self.rows("metrics", "1")), 2)
        self.run_dtrain("resume", "1")
        self.create(text, searcher, hparams=hparams)
        paused, straight = ([row["value"] for row in self.rows("metrics", name)]
                            for name in ("1", "2"))
        self.assertEqual(paused, straight)
        self.assertEqual(len(straight), 4)

    def test_three_lines_are_enough_for_a_random_search(self):
        text, lines = changed(RANDOM)
        self.assertLessEqual(lines, 3)
        self.create(text, {"name": "random", "max_trials": 3, "max_length": {"epochs": 2}},
                    hparams=HPARAMS,
                    entrypoint="python3 train.py --lr={lr} --width {width} --epochs {length}")
        for trial in self.rows("trials", "1"):
            self.assertEqual((trial["state"], trial["batches"]), ("COMPLETED", 2))
        self.assertNotIn("warning", self.run_dtrain("logs", "1"))


class ScriptTest(ScriptTests, module_test.ExperimentTest):
    def setUp(self):
        super().setUp()
        (self.home / "context" / "torch.py").write_text(TORCH, encoding="utf-8")


if __name__ == "__main__":
    module_test.DTRAIN = str(pathlib.Path(sys.argv[1]).resolve())
    unittest.main(argv=[sys.argv[0], *sys.argv[2:]])
