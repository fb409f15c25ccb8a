"""Measurement of the same LeNet search on MNIST by dtrain and other tools."""
from __future__ import annotations

import json
import os
import tempfile
import time

from bench_figures import (Bench, Figure, Measurement, NOT_INSTALLED, Row, Run, better, by_turns,
                           output_of)
from bench_peers import sweep
from bench_training import PEERS, lacks, scratch

TRIALS = 32
CORES = 2

# `stop_once`, since the other tools never resume a stopped trial either.
YAML = f"""\
name: LeNet sweep
entrypoint: lenet:MNISTTrial
hyperparameters:
  global_batch_size: {sweep.BATCH}
  lr: {{type: double, minval: 0.0001, maxval: 1}}
  momentum: {{type: double, minval: 0, maxval: 1}}
searcher:
  name: async_halving
  metric: val_accuracy
  smaller_is_better: false
  max_length: {sweep.RUNGS[-1]}
  num_rungs: {len(sweep.RUNGS)}
  divisor: {sweep.DIVISOR}
  stop_once: true
  max_trials: {TRIALS}
  max_concurrent_trials: {CORES}
  points: {json.dumps(sweep.points(TRIALS))}
scheduling_unit: {sweep.RUNGS[0]}
resources: {{slots: "cpu:{CORES}"}}
reproducibility: {{experiment_seed: 1}}
"""


def told_of(batches: int, best: float) -> str:
    return f"{batches:,} batches, best {best:.3f}"


class Sweep:
    """Measures the seconds of one tool's search; `remark` describes the last one."""

    def __init__(self, bench: Bench) -> None:
        self._bench = bench
        self.remark = ""

    def dtrain(self) -> tuple[float, None]:
        with scratch() as (directory, environment):
            environment["DTRAIN_DATA"] = self._bench.data
            path = os.path.join(directory, "sweep.yaml")
            with open(path, "w") as file:
                file.write(YAML)
            start = time.perf_counter()
            output_of([self._bench.dtrain, "create", path, "-q"], self._bench.limit(), environment)
            seconds = time.perf_counter() - start
            words = [self._bench.dtrain, "trials", "1", "--json"]
            trials = json.loads(output_of(words, 60, environment))["trials"]
        self.remark = told_of(sum(trial["batches"] for trial in trials),
                              max(trial["best"]["value"] for trial in trials))
        return seconds, None

    def peer(self, tool: str, jobs: int, threads: int) -> Run | Figure:
        if not self._bench.has("torch", "torchvision", tool):
            return Figure.none(NOT_INSTALLED)

        def run() -> tuple[float, None]:
            with tempfile.TemporaryDirectory(prefix="dtrain-bench-",
                                             ignore_cleanup_errors=True) as directory:
                words = [self._bench.python, os.path.join(PEERS, "sweep.py"), tool, str(TRIALS),
                         str(jobs), str(threads), self._bench.data, directory]
                start = time.perf_counter()
                told = json.loads(output_of(words, self._bench.limit()).splitlines()[-1])
                self.remark = told_of(**told)
                return time.perf_counter() - start, None

        return run


def lenet_sweep(bench: Bench) -> dict[str, Figure]:
    asked = {"dtrain": None, "Optuna, 2 at once": ("optuna", CORES, 1),
             "Optuna, 2 threads": ("optuna", 1, CORES), "Ray Tune": ("ray", CORES, 1)}
    missing = lacks(bench, "mnist")
    if missing:
        return {side: Figure.none(missing) for side in (*asked, "Optuna")}
    sweeps = {side: Sweep(bench) for side in asked}
    runs = {side: sweeps[side].peer(*how) if how else sweeps[side].dtrain
            for side, how in asked.items()}
    figures = by_turns(bench, "lenet-sweep", runs, runs=3, once=("Optuna, 2 threads", "Ray Tune"))
    for side, figure in figures.items():
        figure.remark = sweeps[side].remark
    return {**figures, "Optuna": better(figures, "Optuna, 2 at once", "Optuna, 2 threads")}


WHAT = "ASHA of LeNet on MNIST, 32 trials, 2 cores, start to best"
MEASUREMENTS = (
    Measurement("lenet-sweep", 15, lenet_sweep, (
        Row(WHAT, "s", 5, "Optuna in process, the better of the next two", "Optuna", 1, "glibc"),
        Row(WHAT, "s", None, "Optuna, 2 trials at once", "Optuna, 2 at once", 1, "glibc"),
        Row(WHAT, "s", None, "Optuna, a trial with 2 threads", "Optuna, 2 threads", 2, "glibc"),
        Row(WHAT, "s", 8, "Ray Tune", "Ray Tune", 1, "glibc"))),
)
