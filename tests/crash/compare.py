"""I6: the end is that of the undisturbed run."""

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

import record
from configurations import Configuration
from experiment import Store
from invariants import Violation, few
from record import Record
from schedule import expected_rows

# What a fault may not change of an experiment and of a trial; times, processes, restarts and the
# reasons that tell of them it may.
_OF_EXPERIMENT = ("state", "progress", "trials", "trials_ended", "best_trial", "best_value",
                  "best_batches")
_OF_TRIAL = ("request_id", "state", "hparams", "seed", "batches", "rung", "best_value",
             "best_batches", "latest_value", "latest_special", "latest_batches")


@dataclass(frozen=True)
class Outcome:
    """What an experiment came to."""

    record: Record
    weights: dict[int, dict[str, str]]


def outcome_of(store: Store, now: Record, experiment: int = 1) -> Outcome:
    return Outcome(now, record.weights(store, now, experiment))


def _differences(
    what: str, expected: Mapping[Any, Any], found: Mapping[Any, Any]
) -> list[Violation]:
    missing = sorted(expected.keys() - found.keys())
    added = sorted(found.keys() - expected.keys())
    other = [
        f"{key}: {found[key]!r} instead of {expected[key]!r}"
        for key in sorted(expected.keys() & found.keys())
        if found[key] != expected[key]
    ]
    texts = [("missing", missing), ("too many", added), ("not as undisturbed", other)]
    return [Violation("I6", f"{what}, {text}: {few(items)}") for text, items in texts if items]


def compare(
    configuration: Configuration,
    undisturbed: Outcome,
    found: Outcome,
    without: set[int],
    is_reordered: bool,
) -> list[Violation]:
    """`without` are trials that were killed by request: nothing is known of their end."""
    violations = _check_end(configuration, found, without)
    is_sequential = configuration.is_sequential and not (is_reordered or without)
    if not (is_sequential or configuration.is_plain):
        return violations  # a search that depends on what came first
    expected, now = undisturbed.record, found.record
    if not without:
        violations += _differences(
            "experiment",
            {name: expected.experiment[name] for name in _OF_EXPERIMENT},
            {name: now.experiment[name] for name in _OF_EXPERIMENT},
        )
        if is_sequential:
            violations += _differences(
                "searcher events", dict(enumerate(expected.events)), dict(enumerate(now.events))
            )
    violations += _differences("trials", _trials(expected, without), _trials(now, without))
    for what, before, after in (
        ("metrics", expected.metrics, now.metrics),
        ("validations", expected.validations, now.validations),
        ("weights", _by_key(undisturbed.weights), _by_key(found.weights)),
    ):
        violations += _differences(what, _of_others(before, without), _of_others(after, without))
    return violations


def _by_key(weights: dict[int, dict[str, str]]) -> dict[tuple[int, str], str]:
    return {(number, name): it for number, files in weights.items() for name, it in files.items()}


def _of_others(rows: Mapping[Any, Any], without: set[int]) -> dict[Any, Any]:
    """Rows whose key begins with the number of a trial."""
    return {key: value for key, value in rows.items() if key[0] not in without}


def _trials(now: Record, without: set[int]) -> dict[tuple[int, str], Any]:
    return {
        (number, name): trial[name]
        for number, trial in now.trials.items()
        if number not in without
        for name in _OF_TRIAL
    }


def _check_end(configuration: Configuration, found: Outcome, without: set[int]) -> list[Violation]:
    """What holds at every end, also of a search that depends on the moment."""
    now = found.record
    violations = []
    unfinished = [n for n, trial in now.trials.items() if trial["state"] not in record.FINAL]
    if unfinished:
        violations.append(Violation("I6", f"trials have not ended: {few(unfinished)}"))
    violations += _check_batches(now, without)
    if configuration.has_formula:
        rows = _of_others(expected_rows(configuration, now), without)
        found_rows = _of_others(now.metrics, without)
        violations += _differences("metrics by FaultTrial's formula", rows, found_rows)
    return violations


def _check_batches(now: Record, without: set[int]) -> list[Violation]:
    """A trial has come as far as its metrics."""
    farthest = {key[0]: 0 for key in now.metrics}
    for number, _, batches, _ in now.metrics:
        farthest[number] = max(farthest[number], batches)
    return [
        Violation("I6", f"trial {number} has {now.trials[number]['batches']} batches, and metrics "
                        f"of batch {batches}")
        for number, batches in farthest.items()
        if number not in without and now.trials[number]["batches"] < batches
    ]
