"""Measurements of dtrain itself: commands, starts, rows, convolutions, images, readers."""
from __future__ import annotations

import json
import os
import subprocess
import tempfile
import threading
import time

from bench_figures import (Bench, Failed, Figure, Measurement, NOT_INSTALLED, Row, Run, by_turns,
                           output_of)
from bench_training import PEERS, ROOT, lacks, scratch

COMMAND_RUNS = 41


def milliseconds(words: list[str]) -> float:
    """Measures the time from posix_spawn to the end of the process."""
    null = os.open(os.devnull, os.O_RDWR)
    files = [(os.POSIX_SPAWN_DUP2, null, number) for number in (0, 1, 2)]
    start = time.perf_counter()
    pid = os.posix_spawn(words[0], words, os.environ, file_actions=files)
    _, status = os.waitpid(pid, 0)
    elapsed = (time.perf_counter() - start) * 1000
    os.close(null)
    if status != 0:
        raise Failed(f"failed: {' '.join(words)} ended with status {status}")
    return elapsed


def commands(bench: Bench) -> dict[str, Figure]:
    """Measures short commands alternately, on a store of 1,000 experiments."""
    with tempfile.TemporaryDirectory(prefix="dtrain-bench-") as store:
        timed = {"version": [bench.dtrain, "--version"]}
        # The wrapper only runs build/release, which it also updates.
        if bench.build == os.path.join(ROOT, "build/release"):
            timed["wrapper"] = [os.path.join(ROOT, "scripts/dtrain"), "--version"]
        missing = {}
        try:
            output_of([bench.engine, "fill-store", store], bench.limit())
            timed["list"] = [bench.dtrain, "--store", store, "list"]
        except Failed as failure:
            missing["list"] = Figure.none(str(failure))
        taken: dict[str, list[float]] = {name: [] for name in timed}
        for turn in range((bench.runs or COMMAND_RUNS) + 1):
            for name, words in timed.items():
                elapsed = milliseconds(words)
                if turn > 0:  # the first turn warms the page cache
                    taken[name].append(elapsed)
    figures = {name: Figure.of(values) for name, values in taken.items()}
    over = Figure.none("only of build/release")
    if "wrapper" in figures:
        over = Figure.of([figures["wrapper"].median - figures["version"].median])
    return {**figures, **missing, "over": over}


def from_engine(bench: Bench, name: str, keys: dict[str, str], runs: int) -> dict[str, Figure]:
    """Returns the values of `keys` in the output of several runs of `dtrain-bench NAME DIR`."""
    values: dict[str, list[float]] = {figure: [] for figure in keys}

    def run() -> tuple[float, None]:
        with tempfile.TemporaryDirectory(prefix="dtrain-bench-") as directory:
            told = json.loads(output_of([bench.engine, name, directory], bench.limit()))
        for figure, key in keys.items():
            values[figure].append(told[key])
        return 0, None

    whole = by_turns(bench, name, {"dtrain-bench": run}, runs)["dtrain-bench"]
    if whole.missing:
        return {figure: whole for figure in keys}
    return {figure: Figure.of(taken) for figure, taken in values.items()}


LAYERS = ("lenet conv1, batch 32", "lenet conv2, batch 32", "cifar10 conv1, batch 256",
          "cifar10 conv2, batch 256")
WAYS = {"forward by AVX-512": ("avx512", "forward"),
        "backward by AVX-512": ("avx512", "backward"),
        "forward by AVX2": ("avx2", "forward"), "backward by AVX2": ("avx2", "backward"),
        "forward without either": ("portable", "forward"),
        "backward without either": ("portable", "backward")}


def convolutions(bench: Bench) -> dict[str, Figure]:
    """Measures the minimum time per layer; medians depend more on other programs."""
    try:
        told = json.loads(output_of([bench.engine, "conv"], bench.limit()))
    except Failed as failure:
        return {f"{layer}, {way}": Figure.none(str(failure)) for layer in LAYERS for way in WAYS}
    figures = {}
    for layer in LAYERS:
        for way, (kernels, direction) in WAYS.items():
            found = told[layer].get(kernels)
            figures[f"{layer}, {way}"] = Figure.of([found[direction]["ms_least"]]) if found \
                else Figure.none("not on this processor")
    return figures


def all_reduce(bench: Bench) -> dict[str, Figure]:
    return by_turns(bench, "all-reduce", {"dtrain": lambda: (json.loads(output_of(
        [bench.engine, "all-reduce"], bench.limit()))["wall_ms_median"], None)}, runs=3)


def images(bench: Bench) -> dict[str, Figure]:
    """Measures milliseconds per image, from its file to training data."""
    missing = lacks(bench, "hymenoptera")
    if missing:
        return {side: Figure.none(missing) for side in ("dtrain", "cached", "torchvision")}
    folder = os.path.join(bench.data, "hymenoptera/train")

    def told_by(*words: str) -> Run:
        return lambda: (json.loads(output_of([*words, folder], bench.limit()))["ms_per_image"],
                        None)

    peer = told_by(bench.python, os.path.join(PEERS, "images.py"))
    if not bench.has("torch", "torchvision"):
        peer = Figure.none(NOT_INSTALLED)
    return by_turns(bench, "images", {"dtrain": told_by(bench.engine, "images"),
                                      "cached": told_by(bench.engine, "cached-images"),
                                      "torchvision": peer}, runs=5)


def learned(bench: Bench, name: str, folder: str) -> dict[str, Figure]:
    """Measures accuracy and duration of a configuration."""
    missing = lacks(bench, folder)
    if missing:
        return {figure: Figure.none(missing) for figure in ("accuracy", "seconds")}
    accuracies = []

    def run() -> tuple[float, None]:
        with scratch() as (_, environment):
            environment["DTRAIN_DATA"] = bench.data
            path = os.path.join(ROOT, "configs", f"{name}.yaml")
            start = time.perf_counter()
            output_of([bench.dtrain, "create", path, "-q"], bench.limit(), environment)
            seconds = time.perf_counter() - start
            told = output_of([bench.dtrain, "trials", "1", "--json"], 60, environment)
        accuracies.append(json.loads(told)["trials"][0]["best"]["value"])
        return seconds, None

    seconds = by_turns(bench, name, {"seconds": run}, runs=1)["seconds"]
    accuracy = Figure.of(accuracies) if accuracies else seconds
    return {"accuracy": accuracy, "seconds": seconds}


READERS = 50
READERS_CONFIG = """\
name: readers
entrypoint: builtin:FaultTrial
hyperparameters: {x: {type: categorical, vals: [0.1, 0.3]}, step_ms: 5}
searcher: {name: grid, metric: loss, max_length: 1500}
scheduling_unit: 10
min_validation_period: 50
min_checkpoint_period: 300
resources: {slots: "cpu:2"}
"""


class Readers:
    """Fifty threads that run `dtrain list` once a second each."""

    def __init__(self, program: str, environment: dict[str, str]) -> None:
        self.taken: list[float] = []
        self._program = program
        self._environment = environment
        self._over = threading.Event()
        self._threads = [
            threading.Thread(target=self._read, args=(number / READERS,))
            for number in range(READERS)
        ]

    def __enter__(self) -> Readers:
        for thread in self._threads:
            thread.start()
        return self

    def __exit__(self, *_: object) -> None:
        self._over.set()
        for thread in self._threads:
            thread.join()

    def _read(self, delay: float) -> None:
        due = time.monotonic() + delay
        while not self._over.wait(max(0.0, due - time.monotonic())):
            start = time.monotonic()
            subprocess.run([self._program, "list"], env=self._environment, check=True,
                           stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)
            self.taken.append(time.monotonic() - start)
            due = max(due + 1, time.monotonic())


def run_with_readers(program: str, readers: bool) -> tuple[float, list[float]]:
    """Returns the seconds of a run in its own store, and those of each `list`."""
    with tempfile.TemporaryDirectory(prefix="dtrain-bench-") as directory:
        path = os.path.join(directory, "readers.yaml")
        with open(path, "w") as file:
            file.write(READERS_CONFIG)
        environment = {
            **os.environ,
            "DTRAIN_STORE": os.path.join(directory, "store"),
            "DTRAIN_RUNTIME_DIR": os.path.join(directory, "slots"),
        }
        command = [program, "create", path, "-q"]
        start = time.monotonic()
        run = subprocess.Popen(command, env=environment, stdout=subprocess.DEVNULL)
        taken: list[float] = []
        if readers:
            with Readers(program, environment) as beside:
                code = run.wait()
                elapsed = time.monotonic() - start
            taken = beside.taken
        else:
            code = run.wait()
            elapsed = time.monotonic() - start
        if code != 0:
            raise Failed(f"failed: {' '.join(command)} ended with status {code}")
        return elapsed, taken


def readers(bench: Bench) -> dict[str, Figure]:
    """Measures how much readers slow a run down, with alternating runs."""
    run_with_readers(bench.dtrain, readers=False)  # warms the page cache
    figures = by_turns(bench, "readers", {
        "alone": lambda: (run_with_readers(bench.dtrain, readers=False)[0], None),
        "beside": lambda: (run_with_readers(bench.dtrain, readers=True)[0], None)}, runs=3)
    alone, beside = figures["alone"], figures["beside"]
    if alone.median is None or beside.median is None:
        return {"dtrain": alone if alone.missing else beside}
    slower = Figure.of([(beside.median / alone.median - 1) * 100])
    slower.remark = f"{alone.median:.2f} s alone, {beside.median:.2f} s"
    slower.runs = alone.runs
    return {"dtrain": slower}


START = {"dtrain": "start_to_constructor_ms_median",
         "first step": "start_to_first_step_ms_median"}
MEASUREMENTS = (
    Measurement("start-latency", 0.5, lambda bench: from_engine(bench, "start-latency", START, 3), (
        Row("a trial's start, to its constructor, warm host", "ms", 8),
        Row("the same to the first finished LeNet step (batch 32)", "ms", 40,
            figure="first step"))),
    Measurement("metric-rows", 0.5, lambda bench: from_engine(
        bench, "metric-rows", {"dtrain": "metric_rows_per_second"}, 3), (
            Row("metric rows, trial → runner → store, a report a batch with 8 values", "rows/s",
                100_000),)),
    Measurement("commands", 1.5, commands, (
        Row("`dtrain list`, 1,000 experiments, 10,000 trials, 1,000,000 metric rows", "ms", 30,
            figure="list"),
        Row("`dtrain --version`", "ms", 5, figure="version"),
        Row("`scripts/dtrain` over the binary", "ms", 20, figure="over"))),
    Measurement("all-reduce", 0.2, all_reduce, (
        Row("the gradients of a ResNet-18 (46.8 MB) summed over 2 processes", "ms", 40),)),
    Measurement("conv", 0.5, convolutions, tuple(
        Row(f"{layer}, {way}", "ms", figure=f"{layer}, {way}")
        for layer in LAYERS for way in WAYS)),
    Measurement("images", 0.7, images, (
        Row("JPEG file → RandomResizedCrop(224) → flip → normalise, one core: an image", "ms", 1.8,
            "torchvision and PIL, antialiased", "torchvision", 1),
        Row("the same from `image_cache: 256`: crop, flip, normalise, one core: an image", "ms",
            figure="cached"))),
    Measurement("digits", 0.5, lambda bench: learned(bench, "digits", ""), (
        Row("`configs/digits.yaml`: val_accuracy", "", 0.98, figure="accuracy"),
        Row("`configs/digits.yaml`: start to end", "s", 120, figure="seconds"))),
    Measurement("mnist", 0.5, lambda bench: learned(bench, "mnist", "mnist"), (
        Row("`configs/mnist.yaml`, 2 epochs: val_accuracy", "", 0.985, figure="accuracy"),
        Row("`configs/mnist.yaml`, 2 epochs: start to end", "s", figure="seconds"))),
    Measurement("readers", 2, readers, (
        Row(f"two sleeping trials beside {READERS} readers, each a `dtrain list` a second: "
            "longer by", "%", 5),)),
)
