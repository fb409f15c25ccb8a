"""Tools of scripts/bench: figures with their goals, alternating runs, page faults."""
from __future__ import annotations

import contextlib
import dataclasses
import glob
import os
import shutil
import statistics
import subprocess
import sys
import time
from collections.abc import Callable

NOT_INSTALLED = "not installed"
OUT_OF_TIME = "not taken: out of time"
LIMIT_SECONDS = 1800


class Failed(Exception):
    """A command failed; the text is the reason."""


@dataclasses.dataclass
class Figure:
    """Result of several runs; or `missing`, the reason why there is none."""

    median: float | None = None
    least: float | None = None
    most: float | None = None
    runs: int = 0
    faults: float | None = None  # minor page faults per step
    remark: str = ""             # additional observation
    missing: str = ""
    precision: str = ""          # of a GPU

    @staticmethod
    def of(values: list[float], faults: list[float] = (), remark: str = "") -> Figure:
        return Figure(statistics.median(values), min(values), max(values), len(values),
                      statistics.median(faults) if faults else None, remark)

    @staticmethod
    def none(why: str) -> Figure:
        return Figure(missing=why)


def busy_cores(seconds: float = 1.0) -> float:
    """Measures for some seconds how many cores the machine's programs keep busy."""
    def spent() -> float:
        with open("/proc/stat") as file:
            user, nice, system, _, _, irq, softirq = map(int, file.readline().split()[1:8])
        return (user + nice + system + irq + softirq) / os.sysconf("SC_CLK_TCK")

    before, start = spent(), time.monotonic()
    time.sleep(seconds)
    return (spent() - before) / (time.monotonic() - start)


@dataclasses.dataclass(frozen=True)
class Row:
    """A row of the page: a figure of dtrain, alone or beside another tool's."""

    what: str
    unit: str                  # larger is better if it ends in /s
    goal: float | None = None  # factor beside another tool, otherwise the bound itself
    beside: str = ""
    figure: str = "dtrain"
    threads: int | None = None
    allocator: str = ""        # of the other tool; dtrain tunes its own
    own: str = "dtrain"        # dtrain's figure beside it


@dataclasses.dataclass(frozen=True)
class Measurement:
    """`take` measures and returns figures by name; `rows` are the rows of the page."""

    name: str
    minutes: float
    take: Callable[[Bench], dict[str, Figure]]
    rows: tuple[Row, ...]
    gpu: bool = False


@dataclasses.dataclass
class Bench:
    """The build to measure and the settings of all measurements."""

    build: str
    python: str
    data: str
    trials: int = 200
    runs: int | None = None       # instead of each measurement's own
    deadline: float | None = None  # of time.monotonic()
    precision: str = "bf16"       # of measurements on a GPU
    _modules: dict[str, bool] = dataclasses.field(default_factory=dict)

    @property
    def dtrain(self) -> str:
        return os.path.join(self.build, "bin/dtrain")

    @property
    def engine(self) -> str:
        """Program that measures the engine directly; not part of an installation."""
        return os.path.join(self.build, "bin/dtrain-bench")

    def has(self, *modules: str) -> bool:
        """True if the interpreter of the peers can import all modules."""
        for module in modules:
            if module not in self._modules:
                code = ("import importlib.util, sys\n"
                        f"sys.exit(not importlib.util.find_spec('{module}'))")
                done = subprocess.run([self.python, "-c", code], stderr=subprocess.DEVNULL)
                self._modules[module] = done.returncode == 0
        return all(self._modules[module] for module in modules)

    def limit(self) -> float:
        """Time limit of a command in seconds."""
        if self.deadline is None:
            return LIMIT_SECONDS
        return min(LIMIT_SECONDS, self.deadline - time.monotonic())


def say(text: str) -> None:
    print(f"bench: {text}", file=sys.stderr, flush=True)


def cores() -> int:
    return len(os.sched_getaffinity(0))


def tcmalloc() -> str | None:
    """Returns the library to preload, or None if it is not installed."""
    listed = subprocess.run([shutil.which("ldconfig") or "/sbin/ldconfig", "-p"],
                            stdout=subprocess.PIPE, text=True).stdout
    found = [line.split()[-1] for line in listed.splitlines()
             if line.split()[:1] and line.split()[0].startswith("libtcmalloc_minimal.so.")]
    return found[0] if found else None


def output_of(words: list[str], limit: float, environment: dict[str, str] | None = None,
              directory: str | None = None) -> str:
    """Returns the output of a command; raises Failed with the last line of stderr."""
    if limit <= 0:
        raise Failed(OUT_OF_TIME)
    try:
        done = subprocess.run(words, env=environment, cwd=directory, timeout=limit, text=True,
                              stdin=subprocess.DEVNULL, stdout=subprocess.PIPE,
                              stderr=subprocess.PIPE)
    except subprocess.TimeoutExpired:
        raise Failed(f"no result after {limit:.0f} s") from None
    except OSError as error:
        raise Failed(f"{words[0]}: {error.strerror}") from None
    if done.returncode != 0:
        last = ([""] + [line.strip() for line in done.stderr.splitlines() if line.strip()])[-1]
        raise Failed(f"failed: status {done.returncode}: {last}")
    return done.stdout


# A run returns a value and the minor page faults of a step, or None.
Run = Callable[[], tuple[float, float | None]]


def by_turns(bench: Bench, name: str, contenders: dict[str, Run | Figure],
             runs: int, once: tuple[str, ...] = ()) -> dict[str, Figure]:
    """Runs all contenders alternately, so that a slow moment of the machine affects all alike.

    A contender that is a Figure is missing; those of `once` run in the first turn only. One that
    fails is left out of further turns, and its figure has the reason.
    """
    runs = bench.runs or runs
    figures = {side: run for side, run in contenders.items() if isinstance(run, Figure)}
    values: dict[str, list[float]] = {side: [] for side in contenders}
    faults: dict[str, list[float]] = {side: [] for side in contenders}
    for turn in range(runs):
        for side, run in contenders.items():
            if side in figures or (side in once and turn > 0):
                continue
            if values[side] and bench.limit() <= 0:
                continue  # the runs so far must suffice
            say(f"{name}: {side}, run {turn + 1} of {runs}")
            try:
                value, count = run()
            except Failed as failure:
                say(f"{name}: {side}: {failure}")
                if bench.limit() > 0 or not values[side]:
                    figures[side] = Figure.none(str(failure))
                continue
            values[side].append(value)
            if count is not None:
                faults[side].append(count)
    return {side: figures.get(side) or Figure.of(values[side], faults[side])
            for side in contenders}


def better(figures: dict[str, Figure], *names: str) -> Figure:
    """Returns the smallest figure with its name as remark; the first one if all are missing."""
    taken = [name for name in names if figures[name].median is not None]
    if not taken:
        return figures[names[0]]
    best = min(taken, key=lambda name: figures[name].median)
    without = [name for name in names if name not in taken]
    remark = best + (f", without {' and '.join(without)}" if without else "")
    earlier = figures[best].remark
    return dataclasses.replace(figures[best], remark=remark + (f", {earlier}" if earlier else ""))


def family(pid: int) -> list[int]:
    """Returns a process and its descendants."""
    found = [pid]
    for parent in found:  # which grows
        for path in glob.glob(f"/proc/{parent}/task/*/children"):
            with contextlib.suppress(OSError), open(path) as file:
                found += [int(child) for child in file.read().split()]
    return found


def faults_of(pids: list[int]) -> int:
    """Returns the sum of their minor page faults so far."""
    total = 0
    for pid in pids:
        with contextlib.suppress(OSError), open(f"/proc/{pid}/stat") as file:
            total += int(file.read().rpartition(")")[2].split()[7])
    return total


def watched(words: list[str], directory: str, limit: float,
            environment: dict[str, str]) -> list[tuple[float, int]]:
    """Runs a command; returns times and the total faults of its processes at them."""
    if limit <= 0:
        raise Failed(OUT_OF_TIME)
    seen = []
    deadline = time.monotonic() + limit
    errors = os.path.join(directory, "errors")
    with open(errors, "w") as file:
        process = subprocess.Popen(words, env=environment, stdin=subprocess.DEVNULL,
                                   stdout=subprocess.DEVNULL, stderr=file)
    while process.poll() is None:
        if time.monotonic() > deadline:
            process.terminate()
            process.wait()
            raise Failed(f"no result after {limit:.0f} s")
        seen.append((time.time(), faults_of(family(process.pid))))
        time.sleep(0.1)
    if process.returncode != 0:
        with open(errors) as file:
            last = ([""] + [line.strip() for line in file if line.strip()])[-1]
        raise Failed(f"failed: status {process.returncode}: {last}")
    return seen


def faults_per_second(seen: list[tuple[float, int]], start: float, end: float) -> float | None:
    """Returns the rate between two times, or None with fewer than two samples there."""
    inside = [(time, faults) for time, faults in seen if start <= time <= end]
    if len(inside) < 2:
        return None
    return (inside[-1][1] - inside[0][1]) / (inside[-1][0] - inside[0][0])
