"""Measurements of searchers on simulated workers: regrets of dtrain and of other tools.

dtrain-bench plays a search without training: each step of a trial takes the time that the task
says, everything else none. The figures depend on seeds, not on the speed of the machine.
"""
from __future__ import annotations

import glob
import json
import os
import statistics
import tempfile
from collections.abc import Callable

from bench_figures import Bench, Failed, Figure, Measurement, NOT_INSTALLED, Row, output_of, say
from bench_training import PEERS, lacks

SEEDS = 10
WORKERS = 4
BUDGET = 8  # median full trainings of each worker
OTHERS = os.path.join(PEERS, "simulated_searches.py")

# Sections `searcher` by the names of their figures.
OWN = {"random": "{name: random}",
       "async_halving": "{name: async_halving, num_rungs: 5}",
       "async_halving, stop_once": "{name: async_halving, num_rungs: 5, stop_once: true}",
       "adaptive_asha": "{name: adaptive_asha}",
       "bayesian_asha": "{name: bayesian_asha}"}
# Searchers of OTHERS, each with its module and its name in the rows.
PEER_SEARCHERS = {"optuna-halving": ("optuna", "Optuna, TPE and SuccessiveHalvingPruner"),
                  "optuna-hyperband": ("optuna", "Optuna, TPE and HyperbandPruner"),
                  "syne-tune-bohb": ("syne_tune", "Syne Tune, BOHB")}


def networks(bench: Bench) -> list[str]:
    file = os.path.join(bench.data, "lcbench_surrogate/lcbench.safetensors")
    return [f"lcbench:{file}:{task}" for task in
            ("3945", "34539", "126025", "7593", "146212", "167149")]


def tables(bench: Bench) -> list[str]:
    return [f"table:{path}"
            for path in sorted(glob.glob(os.path.join(bench.data, "lcbench/table_*.csv")))]


class Regrets:
    """Mean regrets of searchers on the tasks so far; a searcher that fails has none."""

    def __init__(self, bench: Bench) -> None:
        self._bench = bench
        self._seeds = str(bench.runs or SEEDS)
        self._found: dict[str, list[list[float]]] = {side: [] for side in (*OWN, *PEER_SEARCHERS)}
        self._missing = {side: Figure.none(NOT_INSTALLED)
                         for side, (module, _) in PEER_SEARCHERS.items() if not bench.has(module)}

    def add_task(self, task: str, reference: str) -> None:
        """Simulates all searches on a task; `reference` is a file for its normalization."""
        told = self._output([self._bench.engine, "simulate-search", task, *OWN.values(),
                             "--seeds", self._seeds, "--workers", str(WORKERS),
                             "--budget", str(BUDGET), "--reference", reference])
        for side, one in zip(OWN, json.loads(told)["searchers"]):
            self._found[side].append(one["mean_regret"])
        for side in PEER_SEARCHERS:
            if side in self._missing:
                continue
            try:
                told = self._output([self._bench.python, OTHERS, self._bench.engine, task,
                                     reference, side, self._seeds, str(WORKERS), str(BUDGET)])
            except Failed as failure:
                say(f"{side}: {failure}")
                self._missing[side] = Figure.none(str(failure))
            else:
                self._found[side].append(json.loads(told)["mean_regret"])

    def _output(self, words: list[str]) -> str:
        return output_of(words, self._bench.limit())

    def figures(self) -> dict[str, Figure]:
        """Returns the means over the tasks at the end, with those of earlier times as remarks."""
        return {side: self._missing.get(side) or self._figure(found)
                for side, found in self._found.items()}

    @staticmethod
    def _figure(found: list[list[float]]) -> Figure:
        means = [1000 * statistics.mean(regrets) for regrets in zip(*found)]
        return Figure.of(means[-1:], remark="at 1, 2 and 4: " + ", ".join(
            f"{value:.0f}" for value in means[2:5]))


def quality(name: str, tasks: Callable[[Bench], list[str]],
            folder: str) -> Callable[[Bench], dict[str, Figure]]:
    """Returns a measurement of all searchers on tasks, which are in a folder of the data."""
    def take(bench: Bench) -> dict[str, Figure]:
        missing = lacks(bench, folder)
        if missing:
            return {side: Figure.none(missing) for side in (*OWN, *PEER_SEARCHERS)}
        regrets = Regrets(bench)
        found = tasks(bench)
        with tempfile.TemporaryDirectory(prefix="dtrain-bench-") as directory:
            for number, task in enumerate(found, 1):
                say(f"{name}: task {number} of {len(found)}")
                regrets.add_task(task, os.path.join(directory, f"{number}.json"))
        return regrets.figures()

    return take


def measurement(name: str, minutes: float, what: str, tasks: Callable[[Bench], list[str]],
                folder: str = "") -> Measurement:
    sides = {**{side: side for side in OWN},
             **{side: told for side, (_, told) in PEER_SEARCHERS.items()}}
    return Measurement(name, minutes, quality(name, tasks, folder), tuple(
        Row(f"{what}, regret after {BUDGET} trainings: {told}", "‰", figure=side)
        for side, told in sides.items()))


MEASUREMENTS = (
    measurement("searchers-networks", 20, "6 LCBench networks", networks, "lcbench_surrogate"),
    measurement("searchers-tables", 8, "5 LCBench tables", tables, "lcbench"),
    measurement("searchers-mixed", 2, "closed form, mixed", lambda _: ["mixed"]),
    measurement("searchers-noisy", 2, "closed form, noisy", lambda _: ["noisy"]),
)
