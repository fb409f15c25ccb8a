"""I6: an experiment that was disturbed ends like the undisturbed run.

The metrics are also computed from FaultTrial's formula. That part is written from the documentation
alone, so that it does not share mistakes with the program."""

import json
import math
import re
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

import record
from configurations import Configuration
from experiment import Store
from invariants import Violation, few
from record import Key, Record, Value

# Columns of an experiment and of a trial that a fault must not change. It may change times,
# processes, restarts and reasons.
_OF_EXPERIMENT = ("state", "progress", "trials", "trials_ended", "best_trial", "best_value",
                  "best_batches")
_OF_TRIAL = ("request_id", "state", "hparams", "seed", "batches", "rung", "best_value",
             "best_batches", "latest_value", "latest_special", "latest_batches")


@dataclass(frozen=True)
class Outcome:
    """Final record of an experiment and the weights of its trials."""

    record: Record
    weights: dict[int, dict[str, str]]


@dataclass(frozen=True)
class Excuses:
    """Faults whose effects the end of an experiment may show."""

    # Trials that were killed by request.
    killed: frozenset[int] = frozenset()
    # Trials were started out of order.
    is_reordered: bool = False
    # UUIDs of damaged checkpoints.
    damaged: frozenset[str] = frozenset()
    # Checkpoints could not be written or deleted for a while.
    lacks_checkpoints: bool = False


def _without_seconds(record) -> dict:
    """Returns the searcher's events by their number, without the measured training times."""
    return {number: (re.sub(r'"seconds":[^,}]*,?', "", event), operations)
            for number, (event, operations) in enumerate(record.events)}


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
    # Only dtrain's own trainer measures an earlier length again.
    repeated = without
    unsaved: dict[int, list[int]] = {}
    if configuration.is_program:
        repeated |= _repeated(found.record)
    if configuration.is_program and excuses.lacks_checkpoints:
        unsaved = _unsaved(found.record)
        last = {number: trial["batches"] for number, trial in found.record.trials.items()}
        # Those that trained on had to resume before such a length.
        repeated |= {number for number, ends in unsaved.items() if min(ends) < last[number]}
    violations = _check_formula(configuration, found.record, repeated)
    is_sequential = configuration.is_sequential and not (excuses.is_reordered or without)
    if not (is_sequential or configuration.is_plain):
        return violations  # the search depends on the order of events
    expected, now = undisturbed.record, found.record
    if not without:
        violations += _differences(
            "experiment",
            {name: expected.experiment[name] for name in _OF_EXPERIMENT},
            {name: now.experiment[name] for name in _OF_EXPERIMENT},
        )
        if is_sequential:
            violations += _differences(
                "searcher events", _without_seconds(expected), _without_seconds(now)
            )
    violations += _differences("trials", _trials(expected, repeated), _trials(now, repeated))
    for what, before, after in (
        ("metrics", expected.metrics, now.metrics),
        ("validations", expected.validations, now.validations),
        ("weights", _by_key(undisturbed.weights), _by_key(found.weights)),
    ):
        ignored = repeated | unsaved.keys() if what == "weights" else repeated
        violations += _differences(what, _of_others(before, ignored), _of_others(after, ignored))
    violations += _check_kept(configuration, expected, now, excuses)
    return violations


def _repeated(now: Record) -> frozenset[int]:
    """Returns the trials that had to resume before a length that they had completed, because a
    checkpoint was damaged."""
    ends = operation_ends(now)
    return frozenset(
        it["number"] for it in now.checkpoints
        if it["state"] == "CORRUPT" and any(end <= it["batches"] for end in ends[it["number"]])
    )


def _unsaved(now: Record) -> dict[int, list[int]]:
    """Returns the batches at which each program validated and could not save a checkpoint. That
    validation counts, but the trial's last checkpoint is an earlier one, from which it resumes."""
    saved = {(it["number"], it["batches"]) for it in now.checkpoints}
    unsaved = {number: [end for end in ends if (number, end) not in saved]
               for number, ends in operation_ends(now).items()}
    return {number: ends for number, ends in unsaved.items() if ends}


@dataclass(frozen=True)
class _Retention:
    """Checkpoint policy of a configuration."""

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
    """The kept checkpoints are of the same batches of the same trials."""
    retention = _Retention.of(configuration)
    if excuses.killed and retention.best_of_experiment:
        return []  # those of a killed trial give way to others among the best
    corrupt = [it["uuid"] for it in now.checkpoints if it["state"] == "CORRUPT"]
    wrong = [uuid for uuid in corrupt if uuid not in excuses.damaged]
    violations = []
    if wrong:
        text = f"checkpoints are CORRUPT that were not damaged: {few(wrong)}"
        violations.append(Violation("I6", text))
    for number in sorted(now.trials.keys() - excuses.killed):
        violations += _check_kept_of(number, retention, expected, now, excuses)
    return violations


def _check_kept_of(
    number: int, retention: _Retention, expected: Record, now: Record, excuses: Excuses
) -> list[Violation]:
    rows = [it for it in now.checkpoints if it["number"] == number]
    kept = [it["batches"] for it in rows if it["state"] == "COMPLETED"]
    # A damaged checkpoint is not kept; one that did not fit on the disk was not made.
    damaged = {it["batches"] for it in rows if it["uuid"] in excuses.damaged}
    made = {it["batches"] for it in rows if it["uuid"] not in excuses.damaged}
    made_undisturbed = _batches(expected, number)
    kept_undisturbed = _batches(expected, number, state="COMPLETED")
    found, twice = set(kept), sorted(it for it in set(kept) if kept.count(it) > 1)
    # A trial that is stopped, or whose runner dies, saves an extra checkpoint. It counts among the
    # latest, and may displace one that the undisturbed run kept.
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
    """Returns the batches of a trial's checkpoints."""
    return {
        it["batches"] for it in record.checkpoints
        if it["number"] == number and state in ("", it["state"])
    }


def _by_key(weights: dict[int, dict[str, str]]) -> dict[tuple[int, str], str]:
    return {(number, name): it for number, files in weights.items() for name, it in files.items()}


def _of_others(rows: Mapping[Any, Any], without: frozenset[int]) -> dict[Any, Any]:
    """Returns the rows of other trials; keys begin with the number of a trial."""
    return {key: value for key, value in rows.items() if key[0] not in without}


def _trials(now: Record, without: frozenset[int]) -> dict[tuple[int, str], Any]:
    return {
        (number, name): trial[name]
        for number, trial in now.trials.items()
        if number not in without
        for name in _OF_TRIAL
    }


def _check_formula(
    configuration: Configuration, now: Record, without: frozenset[int]
) -> list[Violation]:
    """Applies to every end, even of a search that depends on timing."""
    if not configuration.has_formula:
        return []
    rows = _of_others(expected_rows(configuration, now), without)
    found = _of_others(now.metrics, without)
    return _differences("metrics by FaultTrial's formula", rows, found)


def _loss(hparams: dict[str, Any], step: int) -> float:
    if step == hparams.get("nan_at", -1):
        return math.nan
    if step == hparams.get("inf_at", -1):
        return math.inf
    x = hparams.get("x", 0.0)
    return (x - 0.3) * (x - 0.3) + 1 / (1 + step / 100)


def _value(number: float) -> Value:
    if math.isnan(number):
        return "NaN"
    if math.isinf(number):
        return "Infinity" if number > 0 else "-Infinity"
    return number


def _mean(numbers: list[float]) -> float:
    total = 0.0
    for number in numbers:  # not `sum`: the trainer adds in this order
        total += number
    return total / len(numbers)


def last_batch(hparams: dict[str, Any]) -> int:
    """Returns the number of batches after which a trial always fails, or 0."""
    faults = [hparams.get(name, -1) for name in ("crash_at", "abort_at", "invalid_hp_at")]
    always = [at - 1 for at in faults if at >= 1 and not hparams.get("once", True)]
    return min(always, default=0)


def operation_ends(record: Record) -> dict[int, list[int]]:
    """Returns the batches at which each trial, by number, completed its operations."""
    ends: dict[int, list[int]] = {number: [] for number in record.trials}
    for text, _ in record.events:
        event = json.loads(text)
        if event["event"] == "validation_completed":
            number = event["trial"] + 1  # the searcher counts from 0
            ends[number].append(min(event["length"], record.trials[number]["batches"]))
    return ends


def expected_rows(configuration: Configuration, record: Record) -> dict[Key, Value]:
    """Returns all metric rows of ended trials."""
    rows: dict[Key, Value] = {}
    ends = operation_ends(record)
    for number, trial in record.trials.items():
        hparams = json.loads(trial["hparams"])
        is_failed = trial["state"] == "ERROR"
        last = last_batch(hparams) if is_failed else trial["batches"]
        rows |= _rows_of(configuration, number, hparams, ends[number], last)
    return rows


def _rows_of(
    configuration: Configuration,
    number: int,
    hparams: dict[str, Any],
    ends: list[int],
    last: int,
) -> dict[Key, Value]:
    rows: dict[Key, Value] = {}
    since: list[int] = []  # the steps since the last report
    period = configuration.validation_period
    for batches in range(0, last + 1):
        is_end = batches in ends
        if batches > 0:
            since.append(batches)
        if since and (is_end or batches % configuration.scheduling_unit == 0):
            losses = [_loss(hparams, step) for step in since]
            rows[number, "training", batches, "loss"] = _value(_mean(losses))
            rows[number, "training", batches, "acc"] = _value(_mean([1 - it for it in losses]))
            since = []
        is_due = period > 0 and batches > 0 and batches % period == 0
        if is_end or is_due or (batches == 0 and configuration.initial_validation):
            loss = _loss(hparams, batches)
            rows[number, "validation", batches, "loss"] = _value(loss)
            rows[number, "validation", batches, "acc"] = _value(1 - loss)
    return rows
