"""I6: the end is that of the undisturbed run."""

import json
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


@dataclass(frozen=True)
class Excuses:
    """What was done to an experiment that its end may show."""

    # Trials that ended because they were killed by request.
    killed: frozenset[int] = frozenset()
    # Trials were started later than their turn was.
    is_reordered: bool = False
    # UUIDs of checkpoints.
    damaged: frozenset[str] = frozenset()
    # Checkpoints could not be written or deleted for a while.
    lacks_checkpoints: bool = False


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
    excuses: Excuses,
) -> list[Violation]:
    without = excuses.killed
    violations = _check_end(configuration, found, without)
    is_sequential = configuration.is_sequential and not (excuses.is_reordered or without)
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
    violations += _check_kept(configuration, expected, now, excuses)
    return violations


@dataclass(frozen=True)
class _Retention:
    """What a configuration says of the checkpoints that are kept."""

    latest: int
    keeps_all: bool
    best_of_experiment: int

    @staticmethod
    def of(configuration: Configuration) -> "_Retention":
        document = json.loads(configuration.yaml)
        policy = document.get("checkpoint_policy", "best")
        storage = document.get("checkpoint_storage", {})
        return _Retention(
            latest=0 if policy == "none" else storage.get("save_trial_latest", 1),
            keeps_all=policy == "all",
            best_of_experiment=storage.get("save_experiment_best", 0) if policy == "best" else 0,
        )

    def latest_of(self, batches: set[int]) -> set[int]:
        if self.keeps_all:
            return batches
        return set(sorted(batches)[max(len(batches) - self.latest, 0) :])


def _check_kept(
    configuration: Configuration, expected: Record, now: Record, excuses: Excuses
) -> list[Violation]:
    """The checkpoints that are left are of the same batches of the same trials."""
    retention = _Retention.of(configuration)
    if excuses.killed and retention.best_of_experiment:
        return []  # those of a killed trial make room for others among the best
    corrupt = [it["uuid"] for it in now.checkpoints if it["state"] == "CORRUPT"]
    wrong = [uuid for uuid in corrupt if uuid not in excuses.damaged]
    violations = []
    if wrong:
        text = f"checkpoints are CORRUPT that nobody damaged: {few(wrong)}"
        violations.append(Violation("I6", text))
    for number in sorted(now.trials.keys() - excuses.killed):
        violations += _check_kept_of(number, retention, expected, now, excuses)
    return violations


def _check_kept_of(
    number: int, retention: _Retention, expected: Record, now: Record, excuses: Excuses
) -> list[Violation]:
    rows = [it for it in now.checkpoints if it["number"] == number]
    kept = [it["batches"] for it in rows if it["state"] == "COMPLETED"]
    # What was damaged is not left; what there was no room for was not made.
    damaged = {it["batches"] for it in rows if it["uuid"] in excuses.damaged}
    made = {it["batches"] for it in rows if it["uuid"] not in excuses.damaged}
    made_undisturbed = _batches(expected, number)
    kept_undisturbed = _batches(expected, number, state="COMPLETED")
    found, twice = set(kept), sorted(it for it in set(kept) if kept.count(it) > 1)
    # A run that is stopped, or whose runner dies, makes a checkpoint where it is. That one counts
    # among the latest, and may take the place of one that the undisturbed run kept.
    of_stops = retention.latest_of(made) - made_undisturbed
    displaced = retention.latest_of(made_undisturbed) if of_stops else set()
    missing = kept_undisturbed - displaced - found - damaged
    if excuses.lacks_checkpoints:
        missing = set()
    missing |= of_stops - found
    added = found - kept_undisturbed - of_stops
    texts = [("missing", missing), ("too many", added), ("twice", twice)]
    return [
        Violation("I6", f"checkpoints of trial {number}, {text}: those of batches {few(list(it))}")
        for text, it in texts if it
    ]


def _batches(record: Record, number: int, state: str = "") -> set[int]:
    """Of the checkpoints of a trial."""
    return {
        it["batches"] for it in record.checkpoints
        if it["number"] == number and state in ("", it["state"])
    }


def _by_key(weights: dict[int, dict[str, str]]) -> dict[tuple[int, str], str]:
    return {(number, name): it for number, files in weights.items() for name, it in files.items()}


def _of_others(rows: Mapping[Any, Any], without: frozenset[int]) -> dict[Any, Any]:
    """Rows whose key begins with the number of a trial."""
    return {key: value for key, value in rows.items() if key[0] not in without}


def _trials(now: Record, without: frozenset[int]) -> dict[tuple[int, str], Any]:
    return {
        (number, name): trial[name]
        for number, trial in now.trials.items()
        if number not in without
        for name in _OF_TRIAL
    }


def _check_end(
    configuration: Configuration, found: Outcome, without: frozenset[int]
) -> list[Violation]:
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


def _check_batches(now: Record, without: frozenset[int]) -> list[Violation]:
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
