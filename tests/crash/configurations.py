"""Experiments of the crash test. A new one is a function and its row in CONFIGURATIONS."""

import json
import os
from collections.abc import Callable
from dataclasses import dataclass, field, replace
from pathlib import Path
from random import Random
from typing import Any


@dataclass(frozen=True)
class Configuration:
    name: str
    yaml: str
    # Maximum number of concurrent trials.
    at_once: int
    scheduling_unit: int
    validation_period: int
    initial_validation: bool
    # No trial depends on another one, so the end is the same for every order of events.
    is_plain: bool
    # Trials fail repeatedly. Each restart waits longer than the one before, others use the slot
    # meanwhile, and a resume resets the wait, so that the order depends on timing.
    has_restarts: bool = False
    # The metrics follow FaultTrial's formula.
    has_formula: bool = True
    # Files of its context, if any.
    context: dict[str, str] = field(default_factory=dict)
    # Its context is written by `dtrain init` and compiled.
    is_own_model: bool = False
    # Number of processes in distributed training, by RANK and WORLD_SIZE.
    processes: int = 1
    # Trials run in jobs of Slurm, but those of the undisturbed run on this machine.
    on_slurm: bool = False
    # Tool of tools.py that it needs.
    needs: str = ""
    # Only for runs of half an hour or more.
    is_long: bool = False

    @property
    def is_sequential(self) -> bool:
        """True if even the events of the searcher have only one order."""
        return self.at_once == 1 and not self.has_restarts

    @property
    def is_program(self) -> bool:
        return bool(self.context)


# Faults inside trials, in addition to those from outside. A fault that changes a trial's end must
# not depend on the number of its run, hence `once: false`.
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


# Those that the program supports.
_INNER_OF_PROGRAM: list[dict[str, Any]] = [
    {"crash_at": 13},
    {"spawn_daemon": True, "once": False},
]

Searcher = dict[str, Any]


def _hyperparameters(is_grid: bool, rng: Random) -> dict[str, Any]:
    x = {"type": "double", "minval": 0, "maxval": 1}
    return {
        "x": x | ({"count": 5} if is_grid else {}),
        "step_ms": rng.choice([2, 4, 8]),
        "ckpt_mb": rng.choice([0, 0, 1]),
    }


def _single(rng: Random) -> Searcher:
    return {"name": "single", "max_length": rng.choice([60, 97, 150])}


def _random(rng: Random) -> Searcher:
    return {
        "name": "random",
        "max_trials": rng.choice([3, 5, 6]),
        "max_length": rng.choice([24, 41]),
        "max_concurrent_trials": rng.choice([1, 2, 16]),
    }


def _repeats(rng: Random) -> Searcher:
    return _random(rng) | {"max_trials": rng.choice([2, 3]), "repeats": 2}


def _grid(rng: Random) -> Searcher:
    return {"name": "grid", "max_length": rng.choice([20, 33])}


def _halving(rng: Random, stop_once: bool) -> Searcher:
    return {
        "name": "async_halving",
        "max_trials": rng.choice([6, 9]),
        "num_rungs": rng.choice([2, 3]),
        "divisor": rng.choice([2, 3]),
        "max_length": rng.choice([36, 45]),
        "max_concurrent_trials": rng.choice([2, 4]),
        "stop_once": stop_once,
    }


def _promotion(rng: Random) -> Searcher:
    return _halving(rng, stop_once=False)


def _stopping(rng: Random) -> Searcher:
    return _halving(rng, stop_once=True)


def _adaptive(rng: Random) -> Searcher:
    return {
        "name": "adaptive_asha",
        "max_trials": rng.choice([6, 8]),
        "divisor": 2,
        "max_rungs": rng.choice([2, 3]),
        "max_length": rng.choice([24, 40]),
        "max_concurrent_trials": rng.choice([2, 3]),
        "stop_once": rng.random() < 0.5,
    }


def _short_rungs(rng: Random) -> Searcher:
    """Nearly every checkpoint is at a length, whose validation decides about the trial."""
    return {
        "name": "async_halving",
        "max_trials": rng.choice([6, 8]),
        "num_rungs": 3,
        "divisor": 2,
        "max_length": 4,
        "max_concurrent_trials": 2,
    }


def _bayesian(rng: Random) -> Searcher:
    return {
        "name": "bayesian_asha",
        "max_trials": 6,
        "num_rungs": 2,
        "divisor": 2,
        "max_length": rng.choice([4, 12]),
        "max_concurrent_trials": 1,
        "cost": "length",  # no clock enters a decision
    }


# Searchers with the possible numbers of concurrent trials.
_SEARCHERS: dict[str, tuple[Callable[[Random], Searcher], list[int]]] = {
    "single": (_single, [1]),
    "random": (_random, [1, 2, 3]),
    "repeats": (_repeats, [1, 2, 3]),
    "grid": (_grid, [1, 2, 3]),
    "promotion": (_promotion, [1, 1, 2, 3]),
    "stopping": (_stopping, [1, 1, 2, 3]),
    "adaptive": (_adaptive, [1, 1, 2, 3]),
    "short-rungs": (_short_rungs, [1, 1, 2]),
    "bayesian": (_bayesian, [1]),
}
_PLAIN = ("single", "random", "repeats", "grid")


def _search(name: str, rng: Random, inner: list[dict[str, Any]], ranks: int = 1) -> Configuration:
    """Returns a search over FaultTrials. Some have one of the `inner` faults."""
    make, slots = _SEARCHERS[name]
    searcher, at_once = make(rng), rng.choice(slots)
    hyperparameters = _hyperparameters(name == "grid", rng)
    if inner and rng.random() < 0.4:
        hyperparameters |= rng.choice(inner)
    unit, period = rng.choice([4, 7, 10]), rng.choice([0, 5, 10, 12])
    checkpoint_period = rng.choice([0, 5, 8, 15])
    initial = rng.random() < 0.2
    document = {
        "name": name,
        "entrypoint": "builtin:FaultTrial",
        "hyperparameters": hyperparameters,
        "searcher": {"metric": "loss"} | searcher,
        "scheduling_unit": unit,
        "min_validation_period": period,
        "min_checkpoint_period": checkpoint_period,
        "perform_initial_validation": initial,
        "checkpoint_policy": rng.choice(["best", "best", "all", "none"]),
        "checkpoint_storage": {
            "save_experiment_best": rng.choice([0, 1, 2]),
            "save_trial_best": rng.choice([0, 1]),
            "save_trial_latest": rng.choice([1, 1, 2]),
        },
        # More than a round kills, so that no trial fails because of faults.
        "max_restarts": rng.choice([4, 5]),
        "reproducibility": {"experiment_seed": rng.randrange(1000)},
        "resources": {"slots": f"cpu:{at_once * ranks}", "slots_per_trial": ranks},
    }
    return Configuration(
        name=f"{name}-{at_once}",
        yaml=json.dumps(document, indent=1),  # JSON is YAML
        at_once=at_once,
        scheduling_unit=unit,
        validation_period=period,
        initial_validation=initial,
        is_plain=name in _PLAIN,
        has_restarts="crash_at" in hyperparameters and not hyperparameters.get("once", True),
    )


def _changed(configuration: Configuration, kind: str, **changes: Any) -> Configuration:
    """Returns the configuration with other values of top-level keys in its YAML."""
    document = json.loads(configuration.yaml) | changes
    name = f"{kind}-{configuration.name}"
    return replace(configuration, name=name, yaml=json.dumps(document, indent=1))


def fault_trial(name: str) -> Callable[[Random], Configuration]:
    inner = _INNER + (_INNER_OF_SEARCH if name not in ("single", "grid") else [])
    return lambda rng: _search(name, rng, inner)


def program(rng: Random) -> Configuration:
    """Trials are processes of a program in the experiment's copy of its files."""
    name = rng.choice(["single", "random", "grid", "promotion", "stopping"])
    found = _search(name, rng, _INNER_OF_PROGRAM)
    source = Path(__file__).with_name("program_trial.py").read_text(encoding="utf-8")
    # Enough files that copying takes a moment.
    others = {f"data/{number}.txt": f"{number}\n" * 500 for number in range(40)}
    found = _changed(found, "program", entrypoint="python3 program_trial.py")
    return replace(found, context={"program_trial.py": source} | others)


def script(rng: Random) -> Configuration:
    """Trials are Python scripts with `import dtrain`."""
    name = rng.choice(["single", "random", "repeats", "promotion", "stopping"] + ["short-rungs", "bayesian"] * 2)
    return _script(name, rng, _INNER_OF_PROGRAM)


def _script(
    name: str, rng: Random, inner: list[dict[str, Any]], **hparams: Any
) -> Configuration:
    found = _search(name, rng, inner)
    hyperparameters = json.loads(found.yaml)["hyperparameters"] | hparams
    if name in ("short-rungs", "bayesian"):
        hyperparameters["step_ms"] = rng.choice([30, 60])
    source = Path(__file__).with_name("script_trial.py").read_text(encoding="utf-8")
    found = _changed(found, "script", entrypoint="python3 script_trial.py",
                     hyperparameters=hyperparameters)
    return replace(found, context={"script_trial.py": source})


def big_script(rng: Random) -> Configuration:
    """A checkpoint is copied and synced for longer than a step takes."""
    found = _script("short-rungs", rng, [], ckpt_mb=64)
    searcher = json.loads(found.yaml)["searcher"] | {"max_trials": 4, "num_rungs": 2, "max_length": 2}
    return replace(_changed(found, "big", searcher=searcher), is_long=True)


def ranks(rng: Random) -> Configuration:
    """Trials have two processes each, which exchange gradients."""
    if rng.random() < 0.3:
        found = digits(rng)
        return _changed(found, "ranks", resources={"slots": "cpu:2", "slots_per_trial": 2})
    name = rng.choice(["single", "random", "promotion", "stopping"])
    found = _search(name, rng, [{"crash_at": 13}], ranks=2)
    return replace(found, name=f"ranks-{found.name}")


def processes(rng: Random) -> Configuration:
    """Two dtrain processes with different RANK, each with one rank of every trial."""
    name = rng.choice(["single", "random", "promotion"])
    found = _search(name, rng, [])
    searcher = json.loads(found.yaml)["searcher"]
    if name != "single":
        searcher["max_concurrent_trials"] = 1
    # Enough slots for both processes of two experiments, which take a trial's slots one after the
    # other.
    resources = {"slots": "cpu:4", "slots_per_trial": 1}
    found = _changed(found, "processes", searcher=searcher, resources=resources)
    return replace(found, name=f"processes-{name}-1", at_once=1, processes=2)


def own_model(rng: Random) -> Configuration:
    """A model of `dtrain init`, compiled once and then found in the cache."""
    name = rng.choice(["single", "random"])
    period = rng.choice([100, 150])
    searcher: Searcher = {"name": name, "metric": "val_accuracy", "smaller_is_better": False}
    searcher["max_length"] = 1200 if name == "single" else 500
    if name == "random":
        searcher["max_trials"] = 3
    document = {
        "name": "own",
        "entrypoint": "model_def:MyTrial",
        "hyperparameters": {
            "global_batch_size": 64,
            "hidden": 32,
            "optimizer": "adam",
            "lr": {"type": "log", "base": 10, "minval": -3, "maxval": -1},
        },
        "searcher": searcher,
        "scheduling_unit": 50,
        "min_validation_period": period,
        "min_checkpoint_period": 100,
        "max_restarts": 4,
        "reproducibility": {"experiment_seed": rng.randrange(3)},
        "resources": {"slots": "cpu:1"},
    }
    return Configuration(
        name=f"own-{name}-1",
        yaml=json.dumps(document, indent=1),
        at_once=1,
        scheduling_unit=50,
        validation_period=period,
        initial_validation=False,
        is_plain=True,
        has_formula=False,
        is_own_model=True,
        needs="compiler",
    )


def digits(rng: Random) -> Configuration:
    """A real network, whose weights, momenta and order of data must be restored, too."""
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
        at_once=1,
        scheduling_unit=10,
        validation_period=0,
        initial_validation=False,
        is_plain=True,
        has_formula=False,
    )


def on_slurm(rng: Random) -> Configuration:
    """Trials in jobs with one slot each. They take longer than the start of a job."""
    faulty = [fault_trial(name) for name in _SEARCHERS]
    make = rng.choice([program, script, digits] + faulty * 2)
    found = make(rng)
    document = json.loads(found.yaml)
    if "step_ms" in document["hyperparameters"]:
        document["hyperparameters"]["step_ms"] = rng.choice([15, 25, 60])
    document["hyperparameters"].pop("spawn_daemon", None)
    if make is digits:  # the slot of a worker has one thread
        document["resources"]["slots"] = f"cpu:{os.cpu_count()}"
    name, text = f"slurm-{found.name}", json.dumps(document, indent=1)
    return replace(found, name=name, yaml=text, on_slurm=True)


def sweep_search(step_ms: int = 1, batches: int = 20) -> Configuration:
    """A minimal search: two trials, two checkpoints each, one slot."""
    document = {
        "name": "sweep",
        "entrypoint": "builtin:FaultTrial",
        "hyperparameters": {"x": {"type": "double", "minval": 0, "maxval": 1}, "step_ms": step_ms},
        "searcher": {"name": "random", "metric": "loss", "max_trials": 2, "max_length": batches},
        "scheduling_unit": 5,
        "min_validation_period": 10,
        "min_checkpoint_period": 10,
        "reproducibility": {"experiment_seed": 5},
        "resources": {"slots": "cpu:1"},
    }
    return Configuration(
        name="random-1",
        yaml=json.dumps(document, indent=1),
        at_once=1,
        scheduling_unit=5,
        validation_period=10,
        initial_validation=False,
        is_plain=True,
    )


def program_search() -> Configuration:
    """The same with a program."""
    name = "program_trial.py"
    source = Path(__file__).with_name(name).read_text(encoding="utf-8")
    found = _changed(sweep_search(), "program", entrypoint=f"python3 {name}")
    return replace(found, context={name: source})


def slurm_search(is_long: bool) -> Configuration:
    """A minimal search that takes as long as a fault needs: 2 s or 7 s."""
    search = sweep_search(step_ms=65 if is_long else 20, batches=50)
    return replace(search, name="slurm-sweep-1", on_slurm=True)


# Configurations with their relative frequencies.
CONFIGURATIONS: list[tuple[Callable[[Random], Configuration], int]] = [
    (fault_trial("single"), 2),
    (fault_trial("random"), 1),
    (fault_trial("repeats"), 1),
    (fault_trial("grid"), 1),
    (fault_trial("promotion"), 3),
    (fault_trial("stopping"), 2),
    (fault_trial("adaptive"), 2),
    (digits, 1),
    (program, 3),
    (script, 3),
    (big_script, 1),
    (ranks, 2),
    (processes, 2),
    (own_model, 1),
]


def draw(seed: int, number: int, rng: Random) -> Configuration:
    """Returns the configuration of a round. The order is random, but each occurs with its
    frequency, so that even a short run has all of them."""
    makers = [make for make, often in CONFIGURATIONS for _ in range(often)]
    Random(f"{seed}-order-{number // len(makers)}").shuffle(makers)
    return makers[number % len(makers)](rng)


def draw_any(rng: Random) -> Configuration:
    makers = [make for make, _ in CONFIGURATIONS]
    return rng.choices(makers, [often for _, often in CONFIGURATIONS])[0](rng)
