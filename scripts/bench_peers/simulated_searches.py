"""Simulates searches of Optuna or Syne Tune on a task of dtrain-bench.

  simulated_searches.py DTRAIN_BENCH TASK REFERENCE SEARCHER SEEDS WORKERS BUDGET

Prints the mean regrets at the times of `dtrain-bench simulate-search`, whose rules hold here too:
a step takes the time of the task, everything else none. These tools report each step and stop
trials; none is continued later.
"""
from __future__ import annotations

import heapq
import json
import logging
import math
import random
import subprocess
import sys
import warnings

DIVISOR = 4
TIMES = (0.25, 0.5, 1, 2, 4, 8, 16)
NO_REPORT = 1.5  # error before the first report, in medians


class Task:
    """Learning curves of `dtrain-bench serve-task`."""

    def __init__(self, program: str, task: str, reference: str) -> None:
        self._process = subprocess.Popen([program, "serve-task", task, reference], text=True,
                                         stdin=subprocess.PIPE, stdout=subprocess.PIPE)
        about = self._read()
        self.space = about["hyperparameters"]
        self.steps = about["steps"]
        self.noise = about["noise"]
        self.reference = about["reference"]

    def _read(self) -> dict:
        line = self._process.stdout.readline()
        if not line:
            sys.exit(f"dtrain-bench serve-task ended with status {self._process.wait()}")
        return json.loads(line)

    def curve(self, hparams: dict) -> tuple[list[float], float]:
        """Returns the error after each step and the seconds of a step."""
        self._process.stdin.write(json.dumps(hparams) + "\n")
        self._process.stdin.flush()
        answer = self._read()
        return answer["errors"], answer["seconds_per_step"]

    def close(self) -> None:
        self._process.communicate()


class OptunaSearch:
    """The tree-structured Parzen estimator with a pruner."""

    def __init__(self, task: Task, pruner: str, seed: int) -> None:
        import optuna

        optuna.logging.set_verbosity(optuna.logging.WARNING)
        warnings.simplefilter("ignore")
        pruners = {"hyperband": lambda: optuna.pruners.HyperbandPruner(
                       min_resource=1, max_resource=task.steps, reduction_factor=DIVISOR),
                   "halving": lambda: optuna.pruners.SuccessiveHalvingPruner(
                       min_resource=1, reduction_factor=DIVISOR)}
        self._study = optuna.create_study(
            sampler=optuna.samplers.TPESampler(seed=seed, constant_liar=True),
            pruner=pruners[pruner]())
        self._pruned = optuna.trial.TrialState.PRUNED
        self._space = task.space
        self._steps = task.steps

    def create(self) -> tuple[object, dict]:
        trial = self._study.ask()
        return trial, {name: self._suggest(trial, name, range_)
                       for name, range_ in self._space.items()}

    def _suggest(self, trial: object, name: str, range_: dict) -> object:
        if range_["type"] == "categorical":
            return trial.suggest_categorical(name, range_["vals"])
        if range_["type"] == "int":
            return trial.suggest_int(name, range_["minval"], range_["maxval"])
        if range_["type"] == "log":
            return trial.suggest_float(name, *bounds(range_), log=True)
        return trial.suggest_float(name, range_["minval"], range_["maxval"])

    def stops(self, trial: object, step: int, error: float) -> bool:
        trial.report(error, step)
        if step < self._steps and not trial.should_prune():
            return False
        if step < self._steps:
            self._study.tell(trial, state=self._pruned)
        else:
            self._study.tell(trial, error)
        return True


class SyneTuneSearch:
    """A method of Syne Tune over asynchronous halving."""

    def __init__(self, task: Task, method: str, seed: int) -> None:
        logging.disable(logging.WARNING)
        from syne_tune.backend.trial_status import Trial
        from syne_tune.optimizer import baselines

        import numpy
        numpy.random.seed(seed)  # brackets are drawn from it
        self._trial = Trial
        self._count = 0
        self._scheduler = getattr(baselines, method)(
            {name: self._domain(range_) for name, range_ in task.space.items()},
            metric="error", time_attr="step", max_t=task.steps, random_seed=seed,
            reduction_factor=DIVISOR)

    @staticmethod
    def _domain(range_: dict) -> object:
        from syne_tune import config_space as space

        if range_["type"] == "categorical":
            return space.choice(range_["vals"])
        if range_["type"] == "int":
            return space.randint(range_["minval"], range_["maxval"])
        if range_["type"] == "log":
            return space.loguniform(*bounds(range_))
        return space.uniform(range_["minval"], range_["maxval"])

    def create(self) -> tuple[object, dict]:
        import datetime

        config = self._scheduler.suggest().config
        trial = self._trial(self._count, config, datetime.datetime.now())
        self._count += 1
        self._scheduler.on_trial_add(trial)
        return trial, config

    def stops(self, trial: object, step: int, error: float) -> bool:
        decision = self._scheduler.on_trial_result(trial, {"error": error, "step": step})
        return decision != "CONTINUE"


def bounds(range_: dict) -> tuple[float, float]:
    """Returns the range of values of a `log`, whose bounds are exponents."""
    base = range_.get("base", 10)
    return base ** range_["minval"], base ** range_["maxval"]


SEARCHERS = {
    "optuna-hyperband": lambda task, seed: OptunaSearch(task, "hyperband", seed),
    "optuna-halving": lambda task, seed: OptunaSearch(task, "halving", seed),
    "syne-tune-bohb": lambda task, seed: SyneTuneSearch(task, "BOHB", seed),
}


def simulate(task: Task, search: object, seed: int, workers: int, budget: float) -> list[float]:
    """Returns the regrets at TIMES up to the budget."""
    noise = random.Random(seed + 1_000_000)
    steps: list[tuple] = []  # finished at a time; a heap
    best, improvements = math.inf, []

    def begin(now: float) -> None:
        trial, hparams = search.create()
        errors, seconds = task.curve(hparams)
        heapq.heappush(steps, (now + seconds, begin.count, trial, 1, errors, seconds))
        begin.count += 1

    begin.count = 0
    end = budget * task.reference["unit_seconds"]
    for _ in range(workers):
        begin(0.0)
    while steps[0][0] <= end:
        now, order, trial, step, errors, seconds = heapq.heappop(steps)
        reported = errors[step - 1] + noise.gauss(0, 1) * task.noise
        if reported < best:
            best = reported
            improvements.append((now, errors[step - 1]))
        if search.stops(trial, step, reported):
            begin(now)
        else:
            heapq.heappush(steps, (now + seconds, order, trial, step + 1, errors, seconds))
    return [regret_at(task, improvements, time) for time in TIMES if time <= budget]


def regret_at(task: Task, improvements: list[tuple[float, float]], time: float) -> float:
    """Returns the regret of the incumbent: 0 is the reference's best, 1 its median."""
    known = task.reference
    seconds = time * known["unit_seconds"]
    error = ([error for when, error in improvements if when <= seconds]
             or [NO_REPORT * known["median"]])[-1]
    return (error - known["best"]) / (known["median"] - known["best"])


def main() -> None:
    program, task, reference, searcher, seeds, workers, budget = sys.argv[1:]
    opened = Task(program, task, reference)
    regrets = [simulate(opened, SEARCHERS[searcher](opened, seed), seed, int(workers),
                        float(budget)) for seed in range(int(seeds))]
    opened.close()
    json.dump({"mean_regret": [sum(at) / len(at) for at in zip(*regrets)]}, sys.stdout)


if __name__ == "__main__":
    main()
