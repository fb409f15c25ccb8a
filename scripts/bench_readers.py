"""How much readers slow a run: the part of scripts/bench that needs no peers."""
import os
import subprocess
import tempfile
import threading
import time

from bench_figures import Bench, Failed, Figure, Measurement, Row, by_turns

READERS = 50
CONFIG = """\
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
    """Fifty readers, each of which lists once a second."""

    def __init__(self, program: str, environment: dict[str, str]) -> None:
        self.taken: list[float] = []
        self._program = program
        self._environment = environment
        self._over = threading.Event()
        self._threads = [
            threading.Thread(target=self._read, args=(number / READERS,))
            for number in range(READERS)
        ]

    def __enter__(self) -> "Readers":
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


def _run(program: str, readers: bool) -> tuple[float, list[float]]:
    """Seconds of a run in a store of its own, and those of each list."""
    with tempfile.TemporaryDirectory(prefix="dtrain-bench-") as directory:
        path = os.path.join(directory, "readers.yaml")
        with open(path, "w") as file:
            file.write(CONFIG)
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
    """Runs alone and beside readers by turns."""
    _run(bench.dtrain, readers=False)  # warms the page cache
    figures = by_turns(bench, "readers", {
        "alone": lambda: (_run(bench.dtrain, readers=False)[0], None),
        "beside": lambda: (_run(bench.dtrain, readers=True)[0], None)}, runs=3)
    alone, beside = figures["alone"], figures["beside"]
    if alone.median is None or beside.median is None:
        return {"dtrain": alone if alone.missing else beside}
    slower = Figure.of([(beside.median / alone.median - 1) * 100])
    slower.remark = f"{alone.median:.2f} s alone, {beside.median:.2f} s"
    slower.runs = alone.runs
    return {"dtrain": slower}


MEASUREMENTS = (
    Measurement("readers", 2, readers, (
        Row(f"two sleeping trials beside {READERS} readers, each a `dtrain list` a second: "
            "longer by", "%", 5),)),
)
