"""Experiments that nothing happens to: what all others are compared with."""

from collections import Counter
from dataclasses import dataclass

import bounds
import invariants
import processes
import record
from compare import Excuses, Outcome, compare, outcome_of
from configurations import Configuration
from experiment import Store
from invariants import Violation


@dataclass(frozen=True)
class Undisturbed:
    outcome: Outcome
    code: int
    seconds: float
    counts: dict[str, int]  # of what was printed, and of checkpoint directories
    violations: list[Violation]


def run_undisturbed(configuration: Configuration, store: Store) -> Undisturbed:
    """What everything is compared with; itself checked as what is disturbed."""
    store.prepare(configuration)
    if configuration.is_own_model:
        _compile(store)
    runner = store.start(*store.creation)
    try:
        saw_processes = False
        while runner.wait(0.02) is None and runner.age < bounds.UNDISTURBED.limit:
            if not saw_processes:
                saw_processes = any(it.of_experiment for it in processes.living(store.mark))
        bounds.UNDISTURBED.see(runner.age)
        violations = invariants.check_followers(runner)
        violations += invariants.check_processes(store, spares_daemons=False)
    finally:
        processes.kill_all(store.mark)
    now = record.read(store)
    if runner.code is None or now is None or now.state not in record.FINAL:
        raise RuntimeError(f"{configuration.name} does not run at all: {runner.result()}")
    if not saw_processes:
        raise RuntimeError("no process carries the mark: survivors would not be seen")
    counts = Counter(line["event"] for line in runner.events())
    counts["directory"] = counts["checkpoint"]
    result, outcome = runner.result(), outcome_of(store, now)
    violations += compare(configuration, outcome, outcome, Excuses())
    violations += invariants.check_documents(store)
    return Undisturbed(outcome, runner.code, result.seconds, dict(counts), violations)


def _compile(store: Store) -> None:
    """So that it is in the cache, and no fault's moment is one of the compiler's."""
    result = store.command(*store.creation, "--test", bound=bounds.COMPILES)
    if result.code != 0:
        raise RuntimeError(f"the model of one's own: {result}")
