"""Measurements of the reference workloads on one GPU, beside PyTorch in Python."""
from __future__ import annotations

import dataclasses
import glob
import shutil
import subprocess

from bench_figures import Bench, Figure, Measurement, Row, better
from bench_training import (CIFAR10, LENET, MADE_UP, RESNET18, XCEPTION, Workload, beside,
                            dtrain_steps, twin_steps)

HOWS = {"eager": "PyTorch eager",
        "fused": "channels_last, fused optimizer",
        "max-autotune": "the same, torch.compile(max-autotune): CUDA graphs"}

# Batch sizes suit a GPU or are those of the workload's configuration.
WORKLOADS = {
    "gpu-resnet18": ("ResNet-18, 128 images of 224×224, a step", dataclasses.replace(
        RESNET18, batch=128, batches=120, warm=20,
        changes=(*MADE_UP, "hyperparameters.workers=14", "hyperparameters.fake_samples=1024"))),
    "gpu-lenet": ("LeNet, batch 32, a step", dataclasses.replace(
        LENET, batches=6000, warm=1000)),
    "gpu-cifar10": ("CIFAR-10, batch 256, a step", dataclasses.replace(
        CIFAR10, batches=10 * CIFAR10.warm)),
    "gpu-xception": ("Xception, 16 images of 299×299, a step", dataclasses.replace(
        XCEPTION, batches=120, warm=20)),
}


def there_is_one() -> bool:
    """True if the machine has an NVIDIA GPU."""
    if glob.glob("/dev/nvidia[0-9]*"):
        return True
    program = shutil.which("nvidia-smi")
    return program is not None and subprocess.run(
        [program, "-L"], stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL).returncode == 0


def name() -> str:
    """Returns the driver's name of the GPU."""
    program = shutil.which("nvidia-smi")
    if program is None:
        return "a GPU"
    words = [program, "--query-gpu=name", "--format=csv,noheader"]
    return subprocess.run(words, stdout=subprocess.PIPE, text=True).stdout.partition("\n")[0]


COMPUTE = ", compute only"


def taking(measurement: str, work: Workload):
    """Measures steps with their data, and steps that repeat a batch on the GPU."""

    def take(bench: Bench) -> dict[str, Figure]:
        used = dataclasses.replace(work, precision=bench.precision)
        fixed = dataclasses.replace(used, fixed=True)
        sides = {"dtrain" + COMPUTE: dtrain_steps(bench, fixed)}
        for how in HOWS:
            sides[how] = twin_steps(bench, used, how)
            sides[how + COMPUTE] = twin_steps(bench, fixed, how)
        # Its compilation may take all the remaining time.
        figures = beside(bench, measurement, used, sides, runs=2,
                         once=("max-autotune", "max-autotune" + COMPUTE))
        return {**figures, "best": better(figures, *HOWS),
                "best" + COMPUTE: better(figures, *(how + COMPUTE for how in HOWS))}

    return take


def rows(what: str) -> tuple[Row, ...]:
    return tuple(row for end, title in (("", what + " with its data"), (COMPUTE, what + COMPUTE))
                 for row in (
        Row(title, "ms", 1.0, "the best of the next three", "best" + end, own="dtrain" + end),
        *(Row(title, "ms", None, told, how + end, own="dtrain" + end)
          for how, told in HOWS.items())))


MEASUREMENTS = tuple(
    Measurement(measurement, 2, taking(measurement, dataclasses.replace(work, gpu=True)),
                rows(what), gpu=True)
    for measurement, (what, work) in WORKLOADS.items())
