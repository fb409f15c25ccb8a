"""What builtin:FaultTrial must have reported, from its formula and the boundaries of training.

Written from the documentation alone, so that it shares no mistake with the program."""

import json
import math
from typing import Any

from configurations import Configuration
from record import Key, Record, Value


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
    for number in numbers:  # in the trainer's order, one by one
        total += number
    return total / len(numbers)


def last_batch(hparams: dict[str, Any]) -> int:
    """After how many batches a trial always fails; 0 if it has no reason to."""
    faults = [hparams.get(name, -1) for name in ("crash_at", "abort_at", "invalid_hp_at")]
    always = [at - 1 for at in faults if at >= 1 and not hparams.get("once", True)]
    return min(always, default=0)


def operation_ends(record: Record) -> dict[int, list[int]]:
    """At which batches each trial, by its number, came to the end of what it was asked."""
    ends: dict[int, list[int]] = {number: [] for number in record.trials}
    for text, _ in record.events:
        event = json.loads(text)
        if event["event"] == "validation_completed":
            number = event["trial"] + 1  # the searcher counts from 0
            ends[number].append(min(event["length"], record.trials[number]["batches"]))
    return ends


def expected_rows(configuration: Configuration, record: Record) -> dict[Key, Value]:
    """Every metric row of trials that have come to their end."""
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
