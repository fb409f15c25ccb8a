"""What scripts/bench measures with: figures, their goals, and runs by turns."""
from __future__ import annotations

import dataclasses
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
    """A command ended badly; the text says how."""


@dataclasses.dataclass
class Figure:
    """What several runs gave; or `missing` says why there is no number."""

    median: float | None = None
    least: float | None = None
    most: float | None = None
    runs: int = 0
    faults: float | None = None  # minor page faults a step
    remark: str = ""             # what else was seen of it
    missing: str = ""

    @staticmethod
    def of(values: list[float], faults: list[float] = (), remark: str = "") -> Figure:
        return Figure(statistics.median(values), min(values), max(values), len(values),
                      statistics.median(faults) if faults else None, remark)

    @staticmethod
    def none(why: str) -> Figure:
        return Figure(missing=why)


def busy_cores(seconds: float = 1.0) -> float:
    """How many cores the machine's programs kept busy in the time that this takes."""
    def spent() -> float:
        with open("/proc/stat") as file:
            user, nice, system, _, _, irq, softirq = map(int, file.readline().split()[1:8])
        return (user + nice + system + irq + softirq) / os.sysconf("SC_CLK_TCK")

    before, start = spent(), time.monotonic()
    time.sleep(seconds)
    return (spent() - before) / (time.monotonic() - start)


@dataclasses.dataclass(frozen=True)
class Row:
    """A line of the page: a figure of dtrain's, alone or beside another's."""

    what: str
    unit: str                  # ending in /s: more is better
    goal: float | None = None  # times, beside another; else the bound itself
    beside: str = ""
    figure: str = "dtrain"
    threads: int | None = None
    allocator: str = ""        # the other's; dtrain tunes its own


@dataclasses.dataclass(frozen=True)
class Measurement:
    """`take` gives its figures by name; `rows` tell what the page makes of them."""

    name: str
    minutes: float
    take: Callable[[Bench], dict[str, Figure]]
    rows: tuple[Row, ...]
    gpu: bool = False


@dataclasses.dataclass
class Bench:
    """What is measured, and with what."""

    build: str
    python: str
    data: str
    trials: int = 200
    runs: int | None = None       # instead of each measurement's own
    deadline: float | None = None  # of time.monotonic()
    _modules: dict[str, bool] = dataclasses.field(default_factory=dict)

    @property
    def dtrain(self) -> str:
        return os.path.join(self.build, "bin/dtrain")

    @property
    def engine(self) -> str:
        """The program that measures from inside; an installed dtrain has none."""
        return os.path.join(self.build, "bin/dtrain-bench")

    def has(self, *modules: str) -> bool:
        """Whether the interpreter of the peers can import them all."""
        for module in modules:
            if module not in self._modules:
                code = ("import importlib.util, sys\n"
                        f"sys.exit(not importlib.util.find_spec('{module}'))")
                done = subprocess.run([self.python, "-c", code], stderr=subprocess.DEVNULL)
                self._modules[module] = done.returncode == 0
        return all(self._modules[module] for module in modules)

    def limit(self) -> float:
        """Seconds that a command may take."""
        if self.deadline is None:
            return LIMIT_SECONDS
        return min(LIMIT_SECONDS, self.deadline - time.monotonic())


def say(text: str) -> None:
    print(f"bench: {text}", file=sys.stderr, flush=True)


def cores() -> int:
    return len(os.sched_getaffinity(0))


def tcmalloc() -> str | None:
    """The library to preload; None where it is not installed."""
    listed = subprocess.run([shutil.which("ldconfig") or "/sbin/ldconfig", "-p"],
                            stdout=subprocess.PIPE, text=True).stdout
    found = [line.split()[-1] for line in listed.splitlines()
             if line.split()[:1] and line.split()[0].startswith("libtcmalloc_minimal.so.")]
    return found[0] if found else None


def output_of(words: list[str], limit: float, environment: dict[str, str] | None = None) -> str:
    """What a command prints; Failed says its last words if it fails."""
    if limit <= 0:
        raise Failed(OUT_OF_TIME)
    try:
        done = subprocess.run(words, env=environment, timeout=limit, text=True,
                              stdin=subprocess.DEVNULL, stdout=subprocess.PIPE,
                              stderr=subprocess.PIPE)
    except subprocess.TimeoutExpired:
        raise Failed(f"no end after {limit:.0f} s") from None
    except OSError as error:
        raise Failed(f"{words[0]}: {error.strerror}") from None
    if done.returncode != 0:
        last = ([""] + [line.strip() for line in done.stderr.splitlines() if line.strip()])[-1]
        raise Failed(f"failed: status {done.returncode}: {last}")
    return done.stdout


# A run gives a value and the minor faults of a step, if it counts them.
Run = Callable[[], tuple[float, float | None]]


def by_turns(bench: Bench, name: str, contenders: dict[str, Run | Figure],
             runs: int, once: tuple[str, ...] = ()) -> dict[str, Figure]:
    """Runs all of them alternating, so that a slow moment meets each alike.

    A Figure among them is one that is missing; `once` are run in the first turn
    only. One that fails is left out of further turns, and its figure says why.
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
                continue  # what there is must do
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
    """The least of them, and whose it is; if all are missing, the first."""
    taken = [name for name in names if figures[name].median is not None]
    if not taken:
        return figures[names[0]]
    best = min(taken, key=lambda name: figures[name].median)
    without = [name for name in names if name not in taken]
    return dataclasses.replace(figures[best], remark=best + (
        f", without {' and '.join(without)}" if without else ""))
