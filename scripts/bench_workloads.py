"""The reference workloads beside their Python twins: the part of scripts/bench that trains."""
import json
import os
import statistics
import subprocess
import sys
import tempfile
from datetime import datetime

HERE = os.path.dirname(os.path.realpath(__file__))
TWINS = os.path.join(HERE, "bench_twins.py")

# Of each: its configuration, what is changed of it, samples in a batch, the batches that are trained
# and how many of them, the first ones, do not count, and the folder of the data it needs.
WORKLOADS = {
    "imagenet": ("imagenet_tiny.yaml", ["hyperparameters.data={data}/tiny-imagenet-20"], 64, 35, 5,
                 "tiny-imagenet-20"),
    "cifar10": ("cifar10.yaml", [], 256, 300, 50, "cifar-10-batches-bin"),
    "lenet": ("lenet.yaml", ["optimizations.sink_size=100"], 32, 2000, 200, "mnist"),
    "xception": ("xception.yaml", ["optimizations.update_in_backward=false"], 16, 4, 1, None),
}


def _seconds_of_dtrain(build: str, name: str, data: str) -> float:
    """From the report behind the batches that do not count to the last one."""
    config, changes, _, batches, warm, _ = WORKLOADS[name]
    with tempfile.TemporaryDirectory(prefix="dtrain-bench-") as store:
        environment = dict(os.environ, DTRAIN_STORE=store, DTRAIN_DATA=data)
        program = os.path.join(build, "bin/dtrain")
        path = os.path.join(os.path.dirname(HERE), "configs", config)
        words = [program, "create", path, "-q", "--slots", "none"]
        for change in [f"searcher.max_length={batches}", f"scheduling_unit={warm}",
                       "min_validation_period=0", *changes]:
            words += ["--set", change.format(data=data)]
        if name == "cifar10":
            words += ["--set", "early_stopping=null"]
        subprocess.run(words, env=environment, check=True, stdout=subprocess.DEVNULL)
        told = subprocess.run([program, "metrics", "1", "--kind", "training", "--json"],
                              env=environment, check=True, stdout=subprocess.PIPE)
    times = {row["batches"]: datetime.fromisoformat(row["time"].replace("Z", "+00:00"))
             for row in json.loads(told.stdout)["metrics"]}
    return (times[batches] - times[warm]).total_seconds()


def _seconds_of_twin(python: str, name: str, data: str, threads: int) -> float:
    _, _, _, batches, warm, _ = WORKLOADS[name]
    words = [python, TWINS, name, str(batches), str(warm), str(threads), data]
    told = subprocess.run(words, check=True, stdout=subprocess.PIPE)
    return json.loads(told.stdout)["seconds"]


def _has_torch(python: str) -> bool:
    done = subprocess.run([python, "-c", "import torch"], stderr=subprocess.DEVNULL)
    return done.returncode == 0


def measure(build: str, python: str, data: str, runs: int) -> dict:
    """Milliseconds a step of each workload, medians of alternating runs."""
    threads = os.cpu_count() or 1
    twin = _has_torch(python)
    figures = {}
    for name, (_, _, samples, batches, warm, folder) in WORKLOADS.items():
        if folder and not os.path.isdir(os.path.join(data, folder)):
            figures[name] = {"skipped": f"no {folder} in --data {data}"}
            continue
        taken = {"dtrain": [], "python": []}
        for run in range(runs):
            print(f"bench: {name}, run {run + 1} of {runs}", file=sys.stderr)
            taken["dtrain"].append(_seconds_of_dtrain(build, name, data))
            if twin:
                taken["python"].append(_seconds_of_twin(python, name, data, threads))
        figures[name] = {"batch": samples, "steps": batches - warm, "runs": runs,
                         "threads": threads}
        for side, seconds in taken.items():
            if not seconds:
                figures[name][side] = "not installed"
                continue
            median = statistics.median(seconds)
            figures[name][side] = {
                "ms_per_step": round(1000 * median / (batches - warm), 2),
                "samples_per_s": round(samples * (batches - warm) / median, 1),
                "min_s": round(min(seconds), 3), "max_s": round(max(seconds), 3)}
    return figures
