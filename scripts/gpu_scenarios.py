#!/usr/bin/env python3
"""Runs short experiments that show whether dtrain survives failures on GPU 0 and computes
reproducibly there.

  scripts/gpu_scenarios.py [--dtrain FILE] [--data DIR] [--out FILE] [--seconds N]
                           [--only NAME...] [--cpu] [--list]

Prints a line per scenario (name, ok, failed or not run, seconds, reason), and writes all results
to --out after each one. --cpu runs them on CPUs: that tests this script, not the GPU. Exits with
1 if a scenario failed, with 3 if none failed but the time was too short for all.

A scenario passes only if the events of `dtrain create --jsonl` or the recorded metrics show the
expected outcome; exit codes alone are not trusted.
"""
from __future__ import annotations

import argparse
import dataclasses
import functools
import json
import os
import signal
import subprocess
import sys
import tempfile
import threading
import time
from collections.abc import Callable, Iterator

ROOT = os.path.dirname(os.path.dirname(os.path.realpath(__file__)))
# Limits of one command: one that hangs is a failure and leaves time for the other scenarios.
GPU_COMMAND_SECONDS = 60
CPU_COMMAND_SECONDS = 240
TOO_MUCH_MIB = 1 << 30  # 1 PiB, more than any device has

LENET = {"entrypoint": "digits:LeNetTrial",
         "hyperparameters": {"global_batch_size": 32, "dataset": "strokes",
                             "training_samples": 2048}}
IMAGES = {"global_batch_size": 4, "dataset": "fake", "fake_samples": 16, "num_classes": 10,
          "crop_size": 64, "lr": 0.01, "schedule": "none", "workers": 2}


def images(arch: str, **more) -> dict:
    return {"entrypoint": "model_def:ImageNetTrial",
            "hyperparameters": {**IMAGES, "arch": arch, **more}}


# VGG and AlexNet pool adaptively: from 2x2 with images of 64x64, without effect with 224x224.
NETWORKS = {
    "lenet": LENET,
    "lenet-sink": {"entrypoint": "lenet:MNISTTrial",
                   "hyperparameters": {"global_batch_size": 32, "dataset": "strokes"}},
    "cifar10": {"entrypoint": "cifar10:CNNTrial", "hyperparameters": {"global_batch_size": 256}},
    "resnet18": images("resnet18"),
    "resnet18-files": images("resnet18", dataset="imagefolder"),
    "resnext50": images("resnext50_32x4d"),
    "alexnet": images("alexnet"),
    "alexnet-224": images("alexnet", crop_size=224),
    "vgg11": images("vgg11"),
    "vgg11-bn": images("vgg11_bn"),
    "xception": {"entrypoint": "xception:XceptionTrial",
                 "hyperparameters": {"global_batch_size": 2, "num_classes": 10}},
}


class Failed(Exception):
    """A scenario failed; the text is the reason."""


class OutOfTime(Exception):
    """The time of all scenarios is over."""


def check(condition: bool, reason: str) -> None:
    if not condition:
        raise Failed(reason)


def grid(**values: list) -> dict:
    """Returns hyperparameters for a grid search with one trial per combination."""
    return {name: {"type": "categorical", "vals": vals} for name, vals in values.items()}


class Lab:
    """Runs dtrain in a store and with slots of its own."""

    def __init__(self, dtrain: str, directory: str, data: str, cpu: bool, deadline: float):
        self.cpu = cpu
        self._dtrain = os.path.abspath(dtrain)
        self._directory = directory
        self._deadline = deadline
        self._command_seconds = CPU_COMMAND_SECONDS if cpu else GPU_COMMAND_SECONDS
        self._environment = {**os.environ, "DTRAIN_STORE": os.path.join(directory, "store"),
                             "DTRAIN_RUNTIME_DIR": os.path.join(directory, "slots"),
                             **({"DTRAIN_DATA": os.path.abspath(data)} if data else {})}

    def _limit(self) -> float:
        left = self._deadline - time.monotonic()
        if left <= 0:
            raise OutOfTime()
        return min(left, self._command_seconds)

    def run(self, *words: str) -> str:
        """Returns the stdout of a command that must succeed."""
        limit = self._limit()
        try:
            done = subprocess.run([self._dtrain, *words], capture_output=True, text=True,
                                  timeout=limit, env=self._environment)
        except subprocess.TimeoutExpired:
            raise self._late(f"dtrain {words[0]}", limit) from None
        check(done.returncode == 0, f"dtrain {' '.join(words)}: exit code {done.returncode}: "
              f"{last_line(done.stderr)}")
        return done.stdout

    def _late(self, what: str, limit: float) -> Exception:
        if limit < self._command_seconds:
            return OutOfTime()
        return Failed(f"{what} took longer than {limit:.0f} s")

    def start(self, configuration: dict) -> subprocess.Popen:
        """Starts `dtrain create` for a configuration."""
        number = sum(name.endswith(".yaml") for name in os.listdir(self._directory))
        path = os.path.join(self._directory, f"{number}.yaml")
        with open(path, "w") as file:
            json.dump(configuration, file)  # JSON is YAML
        slots = "none" if self.cpu else "[0]"
        with open(path + ".err", "w") as errors:
            return subprocess.Popen(
                [self._dtrain, "create", path, "--slots", slots, "--jsonl", "-q"], text=True,
                stdout=subprocess.PIPE, stderr=errors, env=self._environment)

    def events(self, process: subprocess.Popen) -> Iterator[dict]:
        """Yields the events of `dtrain create` until it ends; kills it when time is over."""
        limit = self._limit()
        is_late = threading.Event()

        def end() -> None:
            is_late.set()
            process.kill()

        timer = threading.Timer(limit, end)
        timer.start()
        try:
            for line in process.stdout:
                if line.endswith("\n"):  # a killed runner may leave a part of a line
                    yield json.loads(line)
            process.wait()
            if is_late.is_set():
                raise self._late("dtrain create", limit)
        finally:
            timer.cancel()
            process.kill()
            process.wait()
            process.stdout.close()

    def create(self, configuration: dict) -> Experiment:
        """Runs an experiment to its end."""
        process = self.start(configuration)
        events = list(self.events(process))
        return Experiment(self, events, process)

    def metrics(self, number: int) -> list[tuple]:
        """Returns all metrics of an experiment in a fixed order, without times."""
        rows = json.loads(self.run("metrics", str(number), "--json"))["metrics"]
        return sorted((row["trial"].partition(".")[2], row["kind"], row["batches"], row["name"],
                       row["value"]) for row in rows)


class Experiment:
    """The outcome of `dtrain create`."""

    def __init__(self, lab: Lab, events: list[dict], process: subprocess.Popen):
        begin = [event for event in events if event["event"] == "begin"]
        if not begin:
            with open(process.args[2] + ".err") as file:
                raise Failed(f"dtrain create: exit code {process.returncode}: "
                             f"{last_line(file.read())}")
        self.number: int = begin[0]["experiment"]
        self.slots: str = begin[0]["slots"]
        self.code = process.returncode
        self.error = next((event["error"] or "" for event in events if event["event"] == "end"),
                          "the runner ended early")
        # The last end of each trial: one that is restarted ends repeatedly.
        self.trials = list({event["id"]: event for event in events
                            if event["event"] == "trial_ended"}.values())
        # A trial whose GPU cannot be used ends without a start.
        starts = {event["id"]: event["time"] for event in events
                  if event["event"] == "trial_started"}
        self.spans = [(starts.get(one["id"], one["time"]), one["time"]) for one in self.trials]
        check(lab.cpu or "GPU" in self.slots, f"trains on {self.slots}")

    def expect_completed(self, trials: int) -> None:
        for one in self.trials:
            check(one["state"] == "COMPLETED",
                  f"trial {one['id']} is {one['state']}: {one['reason'] or ''}")
        check(len(self.trials) == trials, f"{len(self.trials)} trials ended instead of {trials}")
        check(self.code == 0, f"exit code {self.code}: {self.error}")


def last_line(text: str) -> str:
    return (text.strip().splitlines() or ["no message"])[-1]


def metric_of(model: dict) -> str:
    """Returns a metric that the model reports; two have no validation set."""
    without = model["entrypoint"] in ("builtin:FaultTrial", "xception:XceptionTrial")
    return "loss" if without else "val_loss"


def training(model: dict, batches: int, **more) -> dict:
    """Returns a configuration of one reproducible trial, with ten reports."""
    part = max(batches // 10, 1)
    return {"name": "gpu-check", **model,
            "searcher": {"name": "single", "metric": metric_of(model),
                         "max_length": {"batches": batches}},
            "scheduling_unit": part, "min_validation_period": {"batches": batches},
            "reproducibility": {"experiment_seed": 1, "deterministic": True},
            "max_restarts": 0, **more}


def searching(model: dict, batches: int, **more) -> dict:
    """Returns a configuration of a grid search without restarts."""
    return {**training(model, batches),
            "searcher": {"name": "grid", "metric": metric_of(model),
                         "max_length": {"batches": batches}},
            "reproducibility": {"experiment_seed": 1}, **more}


def with_hparams(model: dict, **more) -> dict:
    return {**model, "hyperparameters": {**model["hyperparameters"], **more}}


def fault(**hparams) -> dict:
    return {"entrypoint": "builtin:FaultTrial", "hyperparameters": hparams}


def fork(lab: Lab) -> None:
    """Two trials of one host, one after the other, both on the GPU named by its UUID."""
    found = lab.create(searching(with_hparams(LENET, **grid(lr=[0.05, 0.02])), 400,
                                 resources={"max_slots": 1}, profiling={"enabled": True}))
    found.expect_completed(trials=2)
    for one in found.trials:
        profile = json.loads(lab.run("describe", one["id"], "--json"))["profile"]
        check(lab.cpu or bool(profile and profile["gpu_memory_bytes"]),
              f"trial {one['id']} used no memory of the GPU")


def shares(lab: Lab) -> None:
    """Four trials on a quarter of the GPU each, at the same time."""
    found = lab.create(searching(with_hparams(LENET, **grid(lr=[0.05, 0.04, 0.03, 0.02])), 2000,
                                 resources={"slots_per_trial": 0.25}))
    found.expect_completed(trials=4)
    if not lab.cpu:
        check("quarter" in found.slots, f"trains on {found.slots}")
        check(max(start for start, _ in found.spans) < min(end for _, end in found.spans),
              "the four trials did not run at the same time")


def one_fails(lab: Lab, hparam: str, values: list[int], message: str) -> None:
    """Runs a trial with each value: the first must fail with `message`, the second complete."""
    found = lab.create(searching(fault(**grid(**{hparam: values})), 20,
                                 resources={"max_slots": 1}))
    check(len(found.trials) == 2, f"{len(found.trials)} trials ended instead of 2")
    bad, good = sorted(found.trials, key=lambda one: values.index(one["hparams"][hparam]))
    reason = bad["reason"] or found.error
    check(bad["state"] == "ERROR",
          f"trial {bad['id']} is {bad['state']} instead of ERROR: {reason}")
    check(message in reason, f"the error does not say '{message}': {reason}")
    check(good["state"] == "COMPLETED",
          f"trial {good['id']}, without a fault, is {good['state']}: {good['reason'] or ''}")


def memory(lab: Lab) -> None:
    """A trial that needs more memory than the device has; the error says who holds it."""
    one_fails(lab, "device_mb", [TOO_MUCH_MIB, 16],
              "can't allocate memory" if lab.cpu else "other processes and the driver")


def assertion(lab: Lab) -> None:
    """A label out of range: a device-side assertion, which ends this trial and not the next."""
    one_fails(lab, "label_out_of_range_at", [5, 1 << 20],
              "out of bounds" if lab.cpu else "device-side assert")


def interrupted(lab: Lab, model: dict, batches: int, send: int, after: str) -> None:
    """Compares an undisturbed run with one that `send` interrupts after the first event `after`
    and that is then resumed. Trains longer if the run ends before the signal arrives."""
    if lab.cpu:
        batches //= 10
    for length in (batches, 4 * batches, 16 * batches):
        configuration = training(model, length, min_checkpoint_period={"batches": length // 4})
        process = lab.start(configuration)
        events, sent = [], False
        for event in lab.events(process):
            events.append(event)
            if event["event"] == after and not sent:
                process.send_signal(send)
                sent = True
        broken = Experiment(lab, events, process)
        check(sent, f"no {after} before the end: {broken.error}")
        if broken.code:
            break
    else:
        raise Failed("the experiment ended before it could be interrupted")
    lab.run("resume", str(broken.number), "-q")
    whole = lab.create(configuration)
    whole.expect_completed(trials=1)
    compare(lab, whole.number, broken.number, "undisturbed", "resumed")


def compare(lab: Lab, first: int, second: int, one: str, other: str) -> None:
    """Fails unless both experiments have the same metrics, to the bit."""
    left, right = lab.metrics(first), lab.metrics(second)
    check(bool(left), "no metrics")
    for a, b in zip(left, right):
        check(a[:4] == b[:4], f"different metrics: {a[:4]} {one}, {b[:4]} {other}")
        check(a[4] == b[4], f"{a[1]} {a[3]} at batch {a[2]}: {a[4]!r} {one}, {b[4]!r} {other}")
    check(len(left) == len(right), f"{len(left)} metrics {one}, {len(right)} {other}")


def kill(lab: Lab) -> None:
    """kill -9 of the runner, then resume: the metrics of an undisturbed run."""
    interrupted(lab, LENET, 4000, signal.SIGKILL, "checkpoint")


def deterministic(lab: Lab, network: str) -> None:
    """The same training twice, with deterministic operations."""
    configuration = training(NETWORKS[network], 4, checkpoint_policy="none")
    runs = [lab.create(configuration) for _ in range(2)]
    for one in runs:
        one.expect_completed(trials=1)
    compare(lab, runs[0].number, runs[1].number, "first", "second")


def checkpoint(lab: Lab, network: str, batches: int) -> None:
    """A paused and resumed training: the metrics of an undisturbed one."""
    interrupted(lab, NETWORKS[network], batches, signal.SIGINT, "training")


@dataclasses.dataclass(frozen=True)
class Scenario:
    name: str
    what: str
    run: Callable[[Lab], None]


SCENARIOS = (
    *(Scenario(one.__name__, one.__doc__.partition("\n")[0], one)
      for one in (fork, shares, memory, assertion, kill)),
    *(Scenario(f"checkpoint-{name}", checkpoint.__doc__,
               functools.partial(checkpoint, network=name, batches=batches))
      for name, batches in (("lenet", 4000), ("resnet18", 40))),
    *(Scenario(f"deterministic-{name}", deterministic.__doc__,
               functools.partial(deterministic, network=name)) for name in NETWORKS),
)


def take(scenario: Scenario, options: argparse.Namespace, deadline: float) -> dict:
    """Runs a scenario and returns its result."""
    start = time.monotonic()
    ok, reason = True, ""
    # A failed scenario may leave processes that still write there.
    with tempfile.TemporaryDirectory(prefix="dtrain-gpu-check-",
                                     ignore_cleanup_errors=True) as directory:
        try:
            if start >= deadline:
                raise OutOfTime()
            scenario.run(Lab(options.dtrain, directory, options.data, options.cpu, deadline))
        except Failed as failure:
            ok, reason = False, str(failure)
        except OutOfTime:
            ok, reason = None, "not enough time"
        except Exception as error:  # an answer of dtrain that this script cannot read
            ok, reason = False, f"{type(error).__name__}: {error}"
    return {"name": scenario.name, "what": scenario.what, "ok": ok,
            "seconds": round(time.monotonic() - start, 1), "reason": reason}


def save(path: str, results: list[dict], cpu: bool) -> None:
    """Writes the results atomically."""
    os.makedirs(os.path.dirname(os.path.abspath(path)), exist_ok=True)
    with open(path + ".new", "w") as file:
        json.dump({"device": "cpu" if cpu else "gpu:0", "scenarios": results}, file, indent=2)
        file.write("\n")
    os.replace(path + ".new", path)


def parsed() -> tuple[argparse.Namespace, list[Scenario]]:
    parser = argparse.ArgumentParser(description=__doc__.partition("\n")[0])
    parser.add_argument("--dtrain", default=os.path.join(ROOT, "build/release/bin/dtrain"),
                        metavar="FILE", help="the program (build/release/bin/dtrain)")
    parser.add_argument("--data", default="", metavar="DIR", help="data sets of scripts/made_up_data.py")
    parser.add_argument("--out", metavar="FILE",
                        default=os.path.join(ROOT, "build/gpu-check/scenarios.json"),
                        help="receives the results (build/gpu-check/scenarios.json)")
    parser.add_argument("--seconds", type=float, default=600, metavar="N",
                        help="time for all scenarios (600)")
    parser.add_argument("--only", nargs="+", metavar="NAME", help="only these scenarios")
    parser.add_argument("--cpu", action="store_true", help="run on CPUs, to test this script")
    parser.add_argument("--list", action="store_true", help="list the scenarios and exit")
    options = parser.parse_args()
    names = {one.name: one for one in SCENARIOS}
    unknown = [name for name in options.only or () if name not in names]
    if unknown:
        parser.error(f"--only: unknown scenario '{unknown[0]}'; choose from {', '.join(names)}")
    return options, [names[name] for name in options.only or names]


def main() -> int:
    options, wanted = parsed()
    if options.list:
        for one in wanted:
            print(f"{one.name:26} {one.what}")
        return 0
    deadline = time.monotonic() + options.seconds
    results: list[dict] = []
    for one in wanted:
        found = take(one, options, deadline)
        results.append(found)
        state = {True: "ok", False: "failed", None: "not run"}[found["ok"]]
        print(f"{one.name:26} {state:8} {found['seconds']:6.1f} s  {found['reason']}".rstrip(),
              flush=True)
        save(options.out, results, options.cpu)
    if any(found["ok"] is False for found in results):
        return 1
    return 3 if any(found["ok"] is None for found in results) else 0


if __name__ == "__main__":
    sys.exit(main())
