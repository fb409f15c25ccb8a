#!/usr/bin/env python3
"""Compares the values that dtrain draws of a hyperparameter with those of the tool whose words
it reads: 10,000 of each from the packages of Optuna and Ray Tune, and by the formulas that W&B's
agent documents (its package needs an account).

    tests/python/frameworks/run spaces"""

import json
import subprocess
import sys
import tempfile
import unittest
import warnings
from pathlib import Path

import numpy
import optuna
from ray import tune
from scipy import stats

COUNT = 10_000
# A test of 40 distributions that are equal fails by chance once in 250 times; seeds are fixed.
LEVEL = 1e-4
OPTIONS = ["--max-trials", str(COUNT), "--metric", "loss", "--unchecked", "--print-yaml"]

# The specification for `dtrain run --hp`, the function of Optuna, and whether each value is a
# number of a set (else any number of a range).
OPTUNA = {
    "steps": ('suggest_int("n", 16, 65, step=16)', lambda t: t.suggest_int("n", 16, 65, step=16), True),
    "log_integers": ("suggest_int('n', 1, 40, log=True)",
                     lambda t: t.suggest_int("n", 1, 40, log=True), True),
    "integers": ("trial.suggest_int('n', -3, 4)", lambda t: t.suggest_int("n", -3, 4), True),
    "number_steps": ("suggest_float('x', -0.2, 0.75, step=0.1)",
                     lambda t: t.suggest_float("x", -0.2, 0.75, step=0.1), True),
    "numbers": ("suggest_float('x', -1, 3)", lambda t: t.suggest_float("x", -1, 3), False),
    "log_numbers": ("suggest_float('x', 1e-5, 1, log=True)",
                    lambda t: t.suggest_float("x", 1e-5, 1, log=True), False),
}

# The specification, the same in Ray Tune, whether its values are a set, and whether each is as
# likely as there.
RAY = {
    "randint": ("tune.randint(2, 9)", tune.randint(2, 9), True, True),
    "qrandint": ("tune.qrandint(8, 40, 8)", tune.qrandint(8, 40, 8), True, True),
    "lograndint": ("tune.lograndint(1, 30)", tune.lograndint(1, 30), True, False),
    "quniform": ("tune.quniform(0.2, 1.0, 0.2)", tune.quniform(0.2, 1.0, 0.2), True, False),
    "uniform": ("tune.uniform(-1, 1)", tune.uniform(-1, 1), False, True),
    "loguniform": ("tune.loguniform(1e-4, 1e-1)", tune.loguniform(1e-4, 1e-1), False, True),
    "randn": ("tune.randn(10, 2)", tune.randn(10, 2), False, True),
}


def quantized(values, q):
    """W&B's rounding to multiples of q."""
    return numpy.round(values / q) * q


# A parameter of a sweep, the formula of W&B for a share between 0 and 1, as in RAY.
WANDB = {
    "int_uniform": ("{min: 2, max: 9}",
                    lambda u: numpy.floor(2 + u * (9 - 2 + 1)), True, True),
    "uniform": ("{min: 0.0, max: 2.0}", lambda u: 2 * u, False, True),
    "q_uniform": ("{distribution: q_uniform, q: 8, min: 29, max: 61}",
                  lambda u: quantized(29 + u * (61 - 29), 8), True, False),
    # Each value has a whole step of numbers that are rounded to it.
    "q_uniform_of_halves": ("{distribution: q_uniform, q: 0.1, min: -0.05, max: 0.25}",
                            lambda u: quantized(-0.05 + u * 0.3, 0.1), True, True),
    "log_uniform_values": ("{distribution: log_uniform_values, min: 1.0e-4, max: 1.0e-1}",
                           lambda u: numpy.exp(numpy.log(1e-4) + u * numpy.log(1e3)), False, True),
    "log_uniform": ("{distribution: log_uniform, min: -9.2, max: -2.3}",
                    lambda u: numpy.exp(-9.2 + u * 6.9), False, True),
    "q_log_uniform_values": ("{distribution: q_log_uniform_values, min: 1, max: 40}",
                             lambda u: quantized(numpy.exp(u * numpy.log(40)), 1), True, False),
    "normal": ("{distribution: normal, mu: 10, sigma: 2}",
               lambda u: stats.norm.ppf(u, loc=10, scale=2), False, True),
    "log_normal": ("{distribution: log_normal, mu: -4, sigma: 1}",
                   lambda u: stats.lognorm.ppf(u, s=1, scale=numpy.exp(-4)), False, True),
}


class SpacesTest(unittest.TestCase):
    def dtrain(self, *words):
        result = subprocess.run([DTRAIN, *words], text=True, stdout=subprocess.PIPE, check=False)
        self.assertEqual(result.returncode, 0, words)
        return result.stdout

    def samples(self, config):
        """Returns the values that random search draws, by the hyperparameter's name."""
        with tempfile.TemporaryDirectory() as directory:
            path = Path(directory) / "config.yaml"
            path.write_text(config, encoding="utf-8")
            played = json.loads(self.dtrain(
                "preview-search", path, "--simulate", "constant", "--order", "sequential", "--json",
                "--seed", "7", "--set", f"searcher.max_trials={COUNT}"))
        trials = [trial["hparams"] for trial in played["trials"]]
        self.assertEqual(len(trials), COUNT)
        return {name: numpy.array([trial[name] for trial in trials], dtype=float)
                for name in trials[0]}

    def of_specs(self, specs):
        words = [word for name, spec in specs.items() for word in ("--hp", f"{name}={spec}")]
        return self.samples(self.dtrain("run", *words, *OPTIONS, "--", "true"))

    def check(self, ours, theirs, is_set, is_equal):
        """Compares the values of dtrain and of the other tool."""
        if not is_set:
            self.assertTrue(is_equal)
            self.assertGreater(stats.ks_2samp(ours, theirs).pvalue, LEVEL)
            return
        # Only dtrain gives decimals without the error of binary fractions.
        counts = [dict(zip(*numpy.unique(numpy.round(one, 9) + 0.0, return_counts=True)))
                  for one in (ours, theirs)]
        self.assertEqual(counts[0].keys(), counts[1].keys())
        table = [[one[value] for value in counts[0]] for one in counts]
        if is_equal:
            self.assertGreater(stats.chi2_contingency(table).pvalue, LEVEL)
        else:
            # That it is not equal is what the documents say.
            self.assertLess(stats.chi2_contingency(table).pvalue, LEVEL)

    def test_optuna(self):
        ours = self.of_specs({name: spec for name, (spec, _, _) in OPTUNA.items()})
        optuna.logging.set_verbosity(optuna.logging.ERROR)
        warnings.simplefilter("ignore")
        for name, (_, suggest, is_set) in OPTUNA.items():
            study = optuna.create_study(sampler=optuna.samplers.RandomSampler(seed=1))
            theirs = numpy.array([suggest(study.ask()) for _ in range(COUNT)], dtype=float)
            with self.subTest(name):
                self.check(ours[name], theirs, is_set, True)

    def test_ray(self):
        ours = self.of_specs({name: row[0] for name, row in RAY.items()})
        for name, (_, domain, is_set, is_equal) in RAY.items():
            theirs = numpy.array(domain.sample(size=COUNT, random_state=1), dtype=float)
            with self.subTest(name):
                self.check(ours[name], theirs, is_set, is_equal)

    def test_wandb(self):
        sweep = "program: train.py\nmethod: random\nrun_cap: 9\nmetric: {name: loss}\nparameters:\n"
        sweep += "".join(f"  {name}: {row[0]}\n" for name, row in WANDB.items())
        with tempfile.TemporaryDirectory() as directory:
            (Path(directory) / "train.py").write_text("import dtrain\n", encoding="utf-8")
            (Path(directory) / "sweep.yaml").write_text(sweep, encoding="utf-8")
            ours = self.samples(self.dtrain("import-sweep", Path(directory) / "sweep.yaml"))
        shares = numpy.random.default_rng(1)
        for name, (_, formula, is_set, is_equal) in WANDB.items():
            theirs = formula(shares.uniform(size=COUNT))
            with self.subTest(name):
                self.check(ours[name], theirs, is_set, is_equal)


if __name__ == "__main__":
    DTRAIN = Path(sys.argv.pop(1))
    unittest.main()
