"""Measurements of training steps of the reference workloads, beside PyTorch in Python."""
from __future__ import annotations

import concurrent.futures
import contextlib
import dataclasses
import json
import os
import statistics
import tempfile
from collections.abc import Iterator
from datetime import datetime

from bench_figures import (Bench, Failed, Figure, Measurement, NOT_INSTALLED, Row, Run, better,
                           by_turns, cores, faults_per_second, output_of, tcmalloc, watched)
from made_up_data import MARK

ROOT = os.path.dirname(os.path.dirname(os.path.realpath(__file__)))
PEERS = os.path.join(ROOT, "scripts/bench_peers")
TWINS = os.path.join(PEERS, "twins.py")
EPOCH = 157  # batches of CIFAR-10


@dataclasses.dataclass(frozen=True)
class Workload:
    """A training that dtrain and its Python twin run; the first `warm` batches do not count."""

    config: str
    twin: str
    batch: int
    batches: int
    warm: int
    threads: int | None = None  # None: all cores
    changes: tuple[str, ...] = ()
    folder: str = ""            # required data set
    ranks: int = 1              # each with `batch` and `threads`
    gpu: bool = False
    precision: str = "fp32"     # one of PRECISIONS
    fixed: bool = False         # each step on the same batch, kept on the device


# Names of precisions, and their values of optimizations.mixed_precision. With fp32, LibTorch's
# convolutions may use TF32 on a GPU, in dtrain and in Python.
PRECISIONS = {"fp32": "none", "tf32": "tf32", "bf16": "bf16"}


def lacks(bench: Bench, folder: str) -> str:
    """Returns the reason if a data set is missing, otherwise ""."""
    if not folder or os.path.isdir(os.path.join(bench.data, folder)):
        return ""
    return f"no {folder} in --data {bench.data}"


@contextlib.contextmanager
def scratch() -> Iterator[tuple[str, dict[str, str]]]:
    """Yields a temporary directory and an environment with a store and slots in it."""
    with tempfile.TemporaryDirectory(prefix="dtrain-bench-") as directory:
        yield directory, {**os.environ, "DTRAIN_STORE": os.path.join(directory, "store"),
                          "DTRAIN_RUNTIME_DIR": os.path.join(directory, "slots")}


def slots_of(work: Workload) -> str:
    if work.gpu:
        return "0"
    return f"cpu:{max(cores() // (work.threads or cores()), work.ranks)}"


def train_words(bench: Bench, work: Workload, *more: str) -> list[str]:
    """Returns the command that trains the workload with `more` settings."""
    words = [bench.dtrain, "create", os.path.join(ROOT, "configs", work.config), "-q",
             "--slots", slots_of(work)]
    for change in (*changes(work), *more):
        words += ["--set", change.format(data=bench.data)]
    return words


def train(bench: Bench, work: Workload, directory: str, environment: dict[str, str],
          *more: str) -> list[tuple[float, int]]:
    """Trains the workload as experiment 1 with `more` settings; returns faults as `watched` does."""
    environment["DTRAIN_DATA"] = bench.data
    environment["DTRAIN_REPEAT_BATCH"] = str(int(work.fixed))
    return watched(train_words(bench, work, *more), directory, bench.limit(), environment)


def dtrain_steps(bench: Bench, work: Workload) -> Run:
    """Measures milliseconds per step between two reports, and the page faults of all ranks."""

    def run() -> tuple[float, float | None]:
        with scratch() as (directory, environment):
            seen = train(bench, work, directory, environment)
            told = output_of([bench.dtrain, "metrics", "1", "--kind", "training", "--json"],
                             60, environment)
        times = {row["batches"]: datetime.fromisoformat(row["time"].replace("Z", "+00:00"))
                 for row in json.loads(told)["metrics"]}
        start, end = (times[batch].timestamp() for batch in (work.warm, work.batches))
        step = (end - start) / (work.batches - work.warm)
        rate = faults_per_second(seen, start, end)
        return 1000 * step, None if rate is None else rate * step

    return run


def changes(work: Workload) -> tuple[str, ...]:
    """Returns the settings that replace those of its configuration."""
    return (f"searcher.max_length={work.batches}", f"scheduling_unit={work.warm}",
            f"hyperparameters.global_batch_size={work.batch * work.ranks}",
            f"resources.slots_per_trial={work.ranks}", "min_validation_period=0",
            f"optimizations.mixed_precision={PRECISIONS[work.precision]}", *work.changes)


def twin_words(bench: Bench, work: Workload, how: str, loader: str = "pictures") -> list[str]:
    """Returns the command that trains the workload's twin."""
    return [bench.python, TWINS, work.twin, "--how", how, "--loader", loader,
            "--batch", str(work.batch), "--batches", str(work.batches), "--warm", str(work.warm),
            "--threads", str(work.threads or cores()), "--data", bench.data,
            "--device", "cuda" if work.gpu else "cpu", "--precision", work.precision,
            *(["--fixed"] if work.fixed else [])]


def twin_steps(bench: Bench, work: Workload, how: str = "eager", loader: str = "pictures",
               preload: str = "") -> Run | Figure:
    needed = ["torch", "torchvision"]
    if not bench.has(*needed):
        return Figure.none(NOT_INSTALLED)
    words = twin_words(bench, work, how, loader)
    environment = {**os.environ, **({"LD_PRELOAD": preload} if preload else {})}

    def run() -> tuple[float, float | None]:
        # torch.compile may print lines before it.
        told = json.loads(output_of(words, bench.limit(), environment).splitlines()[-1])
        return 1000 * told["seconds"] / (work.batches - work.warm), told["faults_per_step"]

    return run


def beside(bench: Bench, name: str, work: Workload, twins: dict[str, Run | Figure],
           runs: int, once: tuple[str, ...] = ()) -> dict[str, Figure]:
    """Measures the steps of dtrain and of the twins alternately."""
    missing = lacks(bench, work.folder)
    if missing:
        return {side: Figure.none(missing) for side in ("dtrain", *twins)}
    figures = by_turns(bench, name, {"dtrain": dtrain_steps(bench, work), **twins}, runs, once)
    if work.folder and os.path.exists(os.path.join(bench.data, work.folder, MARK)):
        for figure in figures.values():
            figure.remark = "" if figure.missing else "made-up data"
    if work.gpu:
        for figure in figures.values():
            figure.precision = work.precision
    return figures


LENET = Workload("lenet.yaml", "lenet", 32, batches=1200, warm=200, threads=1,
                 changes=("optimizations.sink_size=100",), folder="mnist")


def lenet_step(bench: Bench) -> dict[str, Figure]:
    library = tcmalloc()
    return beside(bench, "lenet-step", LENET, {
        "eager": twin_steps(bench, LENET),
        "eager, tcmalloc": twin_steps(bench, LENET, preload=library) if library
        else Figure.none(NOT_INSTALLED)}, runs=5)


CIFAR10 = Workload("cifar10.yaml", "cifar10", 256, batches=3 * EPOCH, warm=EPOCH, threads=2,
                   changes=("early_stopping=null",), folder="cifar-10-batches-bin")


def cifar10_epoch(bench: Bench) -> dict[str, Figure]:
    figures = beside(bench, "cifar10-epoch", CIFAR10, {
        "its loader": twin_steps(bench, CIFAR10),
        "tensors": twin_steps(bench, CIFAR10, loader="tensors")}, runs=3)
    for figure in figures.values():
        if figure.median is not None:  # converted to seconds per epoch
            figure.median, figure.least, figure.most = (
                step * EPOCH / 1000 for step in (figure.median, figure.least, figure.most))
    return figures


TINY = Workload("imagenet_tiny.yaml", "imagenet-tiny", 64, batches=35, warm=5,
                changes=("hyperparameters.data={data}/tiny-imagenet-20",),
                folder="tiny-imagenet-20")
MADE_UP = ("hyperparameters.dataset=fake", "hyperparameters.crop_size=224",
           "hyperparameters.num_classes=1000", "hyperparameters.schedule=step",
           "hyperparameters.fake_samples=64")
RESNET18 = Workload("imagenet_tiny.yaml", "resnet18", 16, batches=10, warm=2, threads=2,
                    changes=(*MADE_UP, "hyperparameters.workers=0"))
XCEPTION = Workload("xception.yaml", "xception", 16, batches=4, warm=1, threads=2,
                    changes=("optimizations.update_in_backward=false",))


def three_ways(bench: Bench, name: str, work: Workload) -> dict[str, Figure]:
    """Measures beside eager mode and beside the better of two faster modes."""
    figures = beside(bench, name, work, {
        how: twin_steps(bench, work, how) for how in ("eager", "channels-last", "compile")},
        runs=3)
    return {**figures, "best": better(figures, "channels-last", "compile")}


def ways(what: str, goal: float) -> tuple[Row, ...]:
    return (
        Row(what, "ms", goal, "PyTorch eager", "eager", 2, "glibc"),
        Row(what, "ms", 1.0, "the better of the next two", "best", 2, "glibc"),
        Row(what, "ms", None, "eager, channels_last", "channels-last", 2, "glibc"),
        Row(what, "ms", None, "torch.compile, channels_last", "compile", 2, "glibc"))


TWO_RANKS = dataclasses.replace(RESNET18, batches=8, threads=1, ranks=2)


def waiting(bench: Bench, work: Workload) -> Figure:
    """Measures the share of time that rank 0 waits for gradients of the others, in percent."""
    try:
        with scratch() as (directory, environment):
            train(bench, work, directory, environment, "profiling.enabled=true")
            told = output_of([bench.dtrain, "describe", "1.1", "--json"], 60, environment)
    except Failed as failure:
        return Figure.none(str(failure))
    phases = json.loads(told)["profile"]["phases"]
    steps = [phases[name] for name in ("data", "forward", "backward", "exchange", "optimizer")]
    figure = Figure.of([100 * phases["exchange"]["seconds"] /
                        sum(phase["seconds"] for phase in steps)])
    figure.remark = f"{phases['exchange']['milliseconds_per_batch']:.1f} ms"
    return figure


def at_once(run: Run) -> Run:
    """Runs one independent training per rank concurrently; returns their mean step."""

    def runs() -> tuple[float, None]:
        with concurrent.futures.ThreadPoolExecutor(TWO_RANKS.ranks) as pool:
            steps = [future.result()[0] for future in
                     [pool.submit(run) for _ in range(TWO_RANKS.ranks)]]
        return statistics.harmonic_mean(steps), None

    return runs


def two_ranks(bench: Bench) -> dict[str, Figure]:
    """Measures samples per second of two ranks beside one rank and beside two independent
    trainings, and the sum of gradients alone."""
    one = dataclasses.replace(TWO_RANKS, ranks=1)
    steps = by_turns(bench, "ranks", {"two": dtrain_steps(bench, TWO_RANKS),
                                      "one": dtrain_steps(bench, one),
                                      "apart": at_once(dtrain_steps(bench, one))}, runs=3)
    try:
        told = json.loads(output_of([bench.engine, "all-reduce"], bench.limit()))
    except Failed as failure:
        share = Figure.none(str(failure))
    else:
        share = Figure.none("see above")
        if steps["two"].median is not None:
            sum_ms = told["wall_ms_median"]
            share = Figure.of([100 * sum_ms / steps["two"].median])
            share.remark = f"{sum_ms:.1f} ms for 46.8 MB"
    figures = {"dtrain": rate(steps["two"], TWO_RANKS), "one rank": rate(steps["one"], one),
               "apart": rate(steps["apart"], TWO_RANKS)}
    return {**figures, "share": share, "waiting": waiting(bench, TWO_RANKS)}


def rate(step: Figure, work: Workload) -> Figure:
    """Converts milliseconds per step to samples per second."""
    if step.median is None:
        return step
    samples = 1000 * work.batch * work.ranks
    return Figure(samples / step.median, samples / step.most, samples / step.least, step.runs,
                  step.faults)


MEASUREMENTS = (
    Measurement("lenet-step", 3, lenet_step, (
        Row("LeNet, batch 32, a step", "ms", 2.5, "PyTorch eager", "eager", 1, "glibc"),
        Row("LeNet, batch 32, a step", "ms", 2.2, "PyTorch eager", "eager, tcmalloc", 1,
            "tcmalloc"))),
    Measurement("cifar10-epoch", 3, cifar10_epoch, (
        Row("CIFAR-10, batch 256, an epoch with its data", "s", 2.2,
            "PyTorch eager, the guide's DataLoader", "its loader", 2, "glibc"),
        Row("CIFAR-10, batch 256, an epoch with its data", "s", 2.2,
            "PyTorch eager, DataLoader over tensors", "tensors", 2, "glibc"))),
    Measurement("resnet18-step", 7, lambda bench: three_ways(bench, "resnet18-step", RESNET18),
                ways("ResNet-18, 16 images of 224×224, a step", 1.15)),
    Measurement("xception-step", 13, lambda bench: three_ways(bench, "xception-step", XCEPTION),
                ways("Xception, 16 images of 299×299, a step", 1.6)),
    Measurement("imagenet-tiny", 4, lambda bench: beside(
        bench, "imagenet-tiny", TINY, {"eager": twin_steps(bench, TINY)}, runs=3), (
            Row("ResNet-18, 64 images of 64×64 from files, a step", "ms", None, "PyTorch eager",
                "eager", None, "glibc"),)),
    Measurement("ranks", 4, two_ranks, (
        Row("ResNet-18, 16 images of 224×224 a rank, 2 ranks", "samples/s", 1.8, "1 rank",
            "one rank", 1),
        Row("ResNet-18, 16 images of 224×224 a rank, 2 ranks", "samples/s", None,
            "2 trainings of 1 rank at once", "apart", 1),
        Row("the sum of ResNet-18's gradients over 2 ranks, of a step", "%", 5,
            figure="share"),
        Row("waiting for the other rank's gradients, of a step", "%", 5, figure="waiting"))),
)
