"""The experiments that are disturbed. A new one is a function and its row in CONFIGURATIONS."""

import json
from collections.abc import Callable
from dataclasses import dataclass
from random import Random
from typing import Any


@dataclass(frozen=True)
class Configuration:
    name: str
    yaml: str
    slots: int
    scheduling_unit: int
    validation_period: int
    initial_validation: bool
    # Whether trials are started again, after a while in which others go on.
    has_restarts: bool = False
    # Whether the best checkpoint of each trial is made and kept.
    keeps_best: bool = True
    # Whether the metrics are those of FaultTrial's formula.
    has_formula: bool = True

    @property
    def is_plain(self) -> bool:
        """No trial depends on another one: the end is the same whatever comes first."""
        return self.name.partition("-")[0] in ("single", "random", "grid", "digits")

    @property
    def is_sequential(self) -> bool:
        """Then even the events of the searcher come in one order."""
        return self.slots == 1 and not self.has_restarts


# Faults within the trial, beside those from outside. What changes a trial's end must not
# depend on which of its processes it is, hence `once: false` there.
_INNER: list[dict[str, Any]] = [
    {"crash_at": 13},
    {"abort_at": 9},
    {"nan_at": 10, "once": False},
    {"spawn_daemon": True, "once": False},
    {"ignore_term": True, "once": False},
    {"log_bytes": 200_000},
]
_INNER_OF_SEARCH: list[dict[str, Any]] = [
    {"crash_at": {"type": "categorical", "vals": [-1, -1, 11]}, "once": False},
    {"invalid_hp_at": {"type": "categorical", "vals": [-1, -1, -1, 7]}, "once": False},
]


def _hyperparameters(is_search: bool, is_grid: bool, rng: Random) -> dict[str, Any]:
    x = {"type": "double", "minval": 0, "maxval": 1}
    values: dict[str, Any] = {
        "x": x | ({"count": 5} if is_grid else {}),
        "step_ms": rng.choice([2, 4, 8]),
        "ckpt_mb": rng.choice([0, 0, 1]),
    }
    if rng.random() < 0.4:
        values |= rng.choice(_INNER + (_INNER_OF_SEARCH if is_search else []))
    return values


def _fault_trial(name: str, searcher: dict[str, Any], slots: int, rng: Random) -> Configuration:
    hyperparameters = _hyperparameters(name not in ("single", "grid"), name == "grid", rng)
    unit, period = rng.choice([4, 7, 10]), rng.choice([0, 5, 10, 12])
    initial = rng.random() < 0.2
    document = {
        "name": name,
        "entrypoint": "builtin:FaultTrial",
        "hyperparameters": hyperparameters,
        "searcher": {"metric": "loss"} | searcher,
        "scheduling_unit": unit,
        "min_validation_period": period,
        "min_checkpoint_period": rng.choice([0, 5, 8, 15]),
        "perform_initial_validation": initial,
        "checkpoint_policy": rng.choice(["best", "best", "all", "none"]),
        "checkpoint_storage": {
            "save_experiment_best": rng.choice([0, 1, 2]),
            "save_trial_best": rng.choice([0, 1]),
            "save_trial_latest": rng.choice([1, 1, 2]),
        },
        # More than a round kills, so that no trial fails for what was done to it.
        "max_restarts": rng.choice([3, 4]),
        "reproducibility": {"experiment_seed": rng.randrange(1000)},
        "resources": {"slots": f"cpu:{slots}"},
    }
    return Configuration(
        name=f"{name}-{slots}",
        yaml=json.dumps(document, indent=1),  # JSON is YAML
        slots=slots,
        scheduling_unit=unit,
        validation_period=period,
        initial_validation=initial,
        keeps_best=_keeps_best(document),
        has_restarts=not hyperparameters.keys().isdisjoint(("crash_at", "abort_at")),
    )


def _keeps_best(document: dict[str, Any]) -> bool:
    policy = document["checkpoint_policy"]
    best = document["checkpoint_storage"]["save_trial_best"]
    return policy == "all" or (policy == "best" and best > 0)


def single(rng: Random) -> Configuration:
    searcher = {"name": "single", "max_length": rng.choice([60, 97, 150])}
    return _fault_trial("single", searcher, 1, rng)


def random(rng: Random) -> Configuration:
    searcher = {
        "name": "random",
        "max_trials": rng.choice([3, 5, 6]),
        "max_length": rng.choice([24, 41]),
        "max_concurrent_trials": rng.choice([1, 2, 16]),
    }
    return _fault_trial("random", searcher, rng.choice([1, 2, 3]), rng)


def grid(rng: Random) -> Configuration:
    searcher = {"name": "grid", "max_length": rng.choice([20, 33])}
    return _fault_trial("grid", searcher, rng.choice([1, 2, 3]), rng)


def _halving(rng: Random, stop_once: bool) -> Configuration:
    searcher = {
        "name": "async_halving",
        "max_trials": rng.choice([6, 9]),
        "num_rungs": rng.choice([2, 3]),
        "divisor": rng.choice([2, 3]),
        "max_length": rng.choice([36, 45]),
        "max_concurrent_trials": rng.choice([2, 4]),
        "stop_once": stop_once,
    }
    name = "stopping" if stop_once else "promotion"
    return _fault_trial(name, searcher, rng.choice([1, 1, 2, 3]), rng)


def promotion(rng: Random) -> Configuration:
    return _halving(rng, stop_once=False)


def stopping(rng: Random) -> Configuration:
    return _halving(rng, stop_once=True)


def adaptive(rng: Random) -> Configuration:
    searcher = {
        "name": "adaptive_asha",
        "max_trials": rng.choice([6, 8]),
        "divisor": 2,
        "max_rungs": rng.choice([2, 3]),
        "max_length": rng.choice([24, 40]),
        "max_concurrent_trials": rng.choice([2, 3]),
        "stop_once": rng.random() < 0.5,
    }
    return _fault_trial("adaptive", searcher, rng.choice([1, 1, 2, 3]), rng)


def digits(rng: Random) -> Configuration:
    """A net that really learns: its weights, momenta and order of data must go on, too."""
    period = rng.choice([10, 15])
    document = {
        "name": "digits",
        "entrypoint": "digits:LeNetTrial",
        "hyperparameters": {
            "dataset": "strokes",
            "training_samples": 640,
            "global_batch_size": 16,
            "optimizer": rng.choice(["sgd", "adam"]),
            "lr": 0.003,
            "schedule": "one_cycle",
            "schedule_epochs": 2,
        },
        "searcher": {
            "name": "single",
            "metric": "val_accuracy",
            "smaller_is_better": False,
            "max_length": rng.choice([60, 90]),
        },
        "scheduling_unit": 10,
        "min_checkpoint_period": period,
        "max_restarts": 4,
        "reproducibility": {"experiment_seed": rng.randrange(3)},
        "resources": {"slots": "cpu:1"},
    }
    return Configuration(
        name="digits-1",
        yaml=json.dumps(document, indent=1),
        slots=1,
        scheduling_unit=10,
        validation_period=0,
        initial_validation=False,
        has_formula=False,
    )


def sweep_search() -> Configuration:
    """As short as can be with all that happens: two trials, two checkpoints each, one slot."""
    document = {
        "name": "sweep",
        "entrypoint": "builtin:FaultTrial",
        "hyperparameters": {"x": {"type": "double", "minval": 0, "maxval": 1}, "step_ms": 1},
        "searcher": {"name": "random", "metric": "loss", "max_trials": 2, "max_length": 20},
        "scheduling_unit": 5,
        "min_validation_period": 10,
        "min_checkpoint_period": 10,
        "reproducibility": {"experiment_seed": 5},
        "resources": {"slots": "cpu:1"},
    }
    return Configuration(
        name="random-1",
        yaml=json.dumps(document, indent=1),
        slots=1,
        scheduling_unit=5,
        validation_period=10,
        initial_validation=False,
    )


# Each with how often it is drawn.
CONFIGURATIONS: list[tuple[Callable[[Random], Configuration], int]] = [
    (single, 3),
    (random, 3),
    (grid, 2),
    (promotion, 4),
    (stopping, 3),
    (adaptive, 3),
    (digits, 2),
]


def draw(rng: Random) -> Configuration:
    makers = [maker for maker, _ in CONFIGURATIONS]
    make = rng.choices(makers, [weight for _, weight in CONFIGURATIONS])[0]
    return make(rng)
