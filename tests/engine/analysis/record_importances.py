#!/usr/bin/env python3
"""Records the importances that Optuna computes: importance_cases.json.

Needs Optuna 5 (pip install optuna==5.0.0); the tests only read the result. Each
case holds a space in the YAML's form, trials with their values (null: NaN), and
the importances of PedAnovaImportanceEvaluator.
"""
import json
import math
import pathlib
import random
import warnings

import optuna
from optuna.distributions import CategoricalDistribution as Choice
from optuna.distributions import FloatDistribution as Float
from optuna.distributions import IntDistribution as Int
from optuna.importance import PedAnovaImportanceEvaluator

warnings.filterwarnings("ignore")
optuna.logging.set_verbosity(optuna.logging.ERROR)

DOUBLE = {"type": "double", "minval": -1.0, "maxval": 1.0}
LOG = {"type": "log", "minval": -5.0, "maxval": -1.0, "base": 10.0}
LOG_DOUBLE = {"type": "double", "minval": 1e-4, "maxval": 0.5, "log": True}
INT = {"type": "int", "minval": 1, "maxval": 8}
WIDE_INT = {"type": "int", "minval": -300, "maxval": 700}
STEPPED = {"type": "double", "minval": 0.0, "maxval": 3.0, "count": 7}
NAMES = {"type": "categorical", "vals": ["adam", "sgd", "adamw", "lamb"]}
NUMBERS = {"type": "categorical", "vals": [16, 32, 64]}
CONSTANT = {"type": "double", "minval": 2.5, "maxval": 2.5}


def distribution(range_):
    kind = range_["type"]
    if kind == "categorical":
        return Choice(range_["vals"])
    low, high = range_["minval"], range_["maxval"]
    if kind == "int":
        return Int(low, high)
    if kind == "log":
        return Float(range_["base"] ** low, range_["base"] ** high, log=True)
    if "count" in range_:
        return Float(low, high, step=(high - low) / (range_["count"] - 1))
    return Float(low, high, log=range_.get("log", False))


def draw(range_, rng):
    kind = range_["type"]
    if kind == "categorical":
        return rng.choice(range_["vals"])
    low, high = range_["minval"], range_["maxval"]
    if kind == "int":
        return rng.randint(low, high)
    if kind == "log":
        return range_["base"] ** rng.uniform(low, high)
    if "count" in range_:
        return low + rng.randrange(range_["count"]) * (high - low) / (range_["count"] - 1)
    if range_.get("log"):
        return math.exp(rng.uniform(math.log(low), math.log(high)))
    return rng.uniform(low, high)


def nested(flat):
    tree = {}
    for name, value in flat.items():
        *outer, last = name.split(".")
        place = tree
        for part in outer:
            place = place.setdefault(part, {})
        place[last] = value
    return tree


def case(name, space, value_of, trials=60, quantile=0.1, smaller=True, seed=1,
         has=lambda name, i: True):
    rng = random.Random(f"{name} {seed}")
    study = optuna.create_study(direction="minimize" if smaller else "maximize")
    rows = []
    for i in range(trials):
        hparams = {key: draw(range_, rng) for key, range_ in space.items() if has(key, i)}
        value = value_of(hparams, rng)
        rows.append({"hparams": nested(hparams), "value": None if math.isnan(value) else value})
        if math.isnan(value):
            continue  # Optuna stores no NaN as the value of a complete trial
        study.add_trial(optuna.trial.create_trial(
            params=hparams, value=value,
            distributions={key: distribution(space[key]) for key in hparams}))
    expected = PedAnovaImportanceEvaluator(target_quantile=quantile).evaluate(study)
    return {"name": name, "space": nested(space), "quantile": quantile,
            "smaller_is_better": smaller, "trials": rows, "expected": expected}


def x_and_y(h, rng):
    return h["x"] ** 2 + 0.01 * h["y"]


def sphere(h, rng):
    total = 0.0
    for i, value in enumerate(h.values()):
        number = value if isinstance(value, (int, float)) else len(value)
        total += (i + 1) * abs(math.atan(number) - 0.3)
    return total


def main():
    two = {"x": DOUBLE, "y": DOUBLE}
    mixed = {"batch": NUMBERS, "depth": INT, "lr": LOG, "opt": NAMES, "wd": LOG_DOUBLE}
    cases = [
        case("x squared and a little y", two, x_and_y, 100),
        case("x squared, larger is better", two, x_and_y, 100, smaller=False),
        case("log", {"lr": LOG, "x": DOUBLE}, lambda h, r: abs(math.log10(h["lr"]) + 3)),
        case("log of a double", {"lr": LOG_DOUBLE}, lambda h, r: h["lr"]),
        case("integers", {"depth": INT, "width": WIDE_INT}, sphere),
        case("integers, many trials", {"depth": INT, "width": WIDE_INT}, sphere, 700),
        case("steps of a grid", {"dropout": STEPPED, "x": DOUBLE}, sphere),
        case("categories", {"opt": NAMES}, lambda h, r: len(h["opt"]) + r.random()),
        case("numbers as categories", {"batch": NUMBERS}, lambda h, r: h["batch"] * r.random()),
        case("a constant", {"c": CONSTANT, "x": DOUBLE}, lambda h, r: h["x"]),
        case("nested names", {"a.lr": LOG, "a.opt": NAMES, "b": INT}, sphere),
        case("mixed", mixed, sphere, 200),
        case("ties", {"depth": INT, "x": DOUBLE}, lambda h, r: h["depth"] // 3),
        case("all equal", two, lambda h, r: 1.0),
        case("NaN", two, lambda h, r: math.nan if h["x"] > 0.5 else h["x"]),
        case("quantile 0.01", mixed, sphere, 200, quantile=0.01),
        case("quantile 0.25", mixed, sphere, 200, quantile=0.25),
        case("quantile 0.9", mixed, sphere, 200, quantile=0.9),
        case("ten trials", two, x_and_y, 10),
        case("a conditional one", {"m": DOUBLE, "x": DOUBLE},
             lambda h, r: h["x"] + h.get("m", -0.5), 90,
             has=lambda name, i: name != "m" or i % 3 > 0),
        case("noise only", mixed, lambda h, r: r.random(), 300),
    ]
    path = pathlib.Path(__file__).with_name("importance_cases.json")
    lines = ",\n".join(json.dumps(one) for one in cases)
    path.write_text("[\n" + lines + "\n]\n")
    print(f"wrote {len(cases)} cases")


if __name__ == "__main__":
    main()
