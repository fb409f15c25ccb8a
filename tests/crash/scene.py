"""The state that faults act on: a store and its runner; and the moments of faults."""

import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from random import Random

import bounds
from compare import Excuses, Outcome
from configurations import Configuration
from experiment import Result, Runner, Store
from invariants import Violation, check_bounds, check_words
from record import Record


@dataclass(frozen=True)
class Launch:
    """Start of a runner whose fault must exist from its first moment."""

    wrapper: Sequence[str] = ()
    variables: dict[str, str] = field(default_factory=dict)
    options: Sequence[str] = ()  # of the command
    quiet: bool = False  # prints no events
    when: str = ""  # for people


@dataclass
class Scene:
    store: Store
    configuration: Configuration
    undisturbed: Outcome
    seconds: float  # that the undisturbed run took
    rng: Random
    runner: Runner | None = None
    violations: list[Violation] = field(default_factory=list)
    damaged: set[str] = field(default_factory=set)  # UUIDs of checkpoints
    canceled: set[int] = field(default_factory=set)  # trials that were killed by request
    killed_twice: bool = False  # trials, within one run
    is_reordered: bool = False  # trials were started out of order
    lacks_checkpoints: bool = False  # could not be written or deleted for a while
    # Concurrent experiments, compared when they end.
    beside: list[Runner] = field(default_factory=list)
    # Commands of experiments that were begun and killed.
    begun: dict[int, tuple[str, ...]] = field(default_factory=dict)
    # Called when the runner has ended.
    undo: list[Callable[[], None]] = field(default_factory=list)
    _paths: int = 0

    @property
    def alive(self) -> bool:
        return self.runner is not None and self.runner.poll() is None

    def excuses(self, now: Record) -> Excuses:
        """Returns the effects that the end may show. There is none of a kill that came too late."""
        killed = {it for it in self.canceled if now.trials[it]["state"] == "CANCELED"}
        return Excuses(
            killed=frozenset(killed),
            is_reordered=self.is_reordered,
            damaged=frozenset(self.damaged),
            lacks_checkpoints=self.lacks_checkpoints,
        )

    def violate(self, invariant: str, evidence: str) -> None:
        self.violations.append(Violation(invariant, evidence))

    def fresh(self, name: str) -> Path:
        """Returns an unused path in the round's directory."""
        self._paths += 1
        return self.store.home / f"{name}{self._paths}"

    def nap(self, most: float) -> None:
        """Sleeps up to `most` seconds, or until the runner has ended."""
        deadline = time.monotonic() + self.rng.uniform(0, most)
        while time.monotonic() < deadline and self.alive:
            time.sleep(0.001)

    def wait_for_end(self, runner: Runner) -> int | None:
        """Waits for a run without faults of an experiment like this one."""
        code = runner.wait(self.seconds + bounds.RUNS.limit)
        is_in_time = bounds.RUNS.see(runner.age - self.seconds)
        self.violations += check_bounds(runner.result(), is_in_time, runner.peak_kib)
        return code

    def call(self, *words: str, codes: set[int]) -> Result:
        """Runs a command beside the runner, which must exit with one of `codes`."""
        result = self.store.command(*words)
        self.violations += check_bounds(result) + check_words(result)
        if result.code is not None and result.code not in codes:
            self.violate("I8", f"{result}, not with one of {codes}")
        return result


# Events that a moment can wait for: printed lines by kind, or checkpoint directories.
_EVENTS = ("trial_started", "training", "validation", "checkpoint", "trial_ended", "directory")


@dataclass(frozen=True)
class Moment:
    """A time after the start, or after the `count`-th event of a kind if one is given."""

    seconds: float
    event: str = ""
    count: int = 0

    def __str__(self) -> str:
        after = f"{self.seconds:.3f} s"
        return f"{after} after {self.event} {self.count}" if self.event else after


def draw_moment(
    rng: Random, seconds: float, counts: dict[str, int], on_slurm: bool = False
) -> Moment:
    """Draws a moment uniformly over the undisturbed run, or just after one of its events. A run on
    Slurm begins with a wait for its first job, which is of no interest most of the time."""
    kinds = [event for event in _EVENTS if counts.get(event, 0) > 0]
    if rng.random() < (0.1 if on_slurm else 0.6) or not kinds:
        return Moment(rng.uniform(0, seconds))
    event = rng.choice(kinds)
    count = rng.randint(1, counts[event])
    return Moment(rng.choice([0.0, 0.0, rng.uniform(0, 0.02)]), event, count)


def _directories(store: Store) -> set[Path]:
    found: set[Path] = set()
    for trial in store.trial_directories():
        found.update(trial.glob("checkpoints/*"))
    return found


def wait_for(moment: Moment, scene: Scene) -> bool:
    """Waits for the moment; returns False if the runner ended before."""
    runner = scene.runner
    assert runner is not None
    seen: set[Path] = _directories(scene.store) if moment.event == "directory" else set()
    known = len(seen)
    deadline = runner.started + (0 if moment.event else moment.seconds)
    while scene.alive:
        if moment.event == "directory":
            seen |= _directories(scene.store)
            has_come = len(seen) - known >= moment.count
        elif moment.event:
            has_come = runner.count(moment.event) >= moment.count
        else:
            has_come = time.monotonic() >= deadline
        if has_come:
            time.sleep(moment.seconds if moment.event else 0)
            return scene.alive
        time.sleep(0.001)
    return False
