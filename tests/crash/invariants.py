"""Invariants after every fault and after every `resume`: I1 to I9 and I11 to I14.

Each check returns the violations that it found. A new one is a function, a line in rounds.py and a
row in self_test."""

import json
import signal as signals
import sqlite3
import time
from collections.abc import Set
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import bounds
import processes
import record
from experiment import Event, Result, Runner, Store
from record import Key, Record, Value

MAX_RUNNER_KIB = 400 * 1024
# Traces of a C++ program that crashed instead of reporting an error.
_RUDE = ("terminate called", "Backtrace", "frame #", "Sanitizer", "runtime error:", "what():")


@dataclass(frozen=True)
class Violation:
    invariant: str
    evidence: str

    def __str__(self) -> str:
        return f"{self.invariant}: {self.evidence}"


@dataclass
class Acknowledged:
    """Events of an experiment that its runners have printed, and which must therefore be stored."""

    metrics: dict[Key, Value] = field(default_factory=dict)
    checkpoints: dict[str, int] = field(default_factory=dict)  # the batches of each
    ended: dict[int, str] = field(default_factory=dict)

    def add(self, events: list[Event]) -> list[Violation]:
        """Adds the events of one runner. A metric that is printed twice must be equal."""
        violations = []
        for event in events:
            kind = event["event"]
            if kind in ("training", "validation"):
                violations += self._add_metrics(kind, event)
            elif kind == "checkpoint":
                self.checkpoints[event["uuid"]] = event["batches"]
            elif kind == "trial_ended" and event["state"] in record.FINAL:
                self.ended[_number(event["id"])] = event["state"]
        return violations

    def _add_metrics(self, kind: str, event: Event) -> list[Violation]:
        violations = []
        for name, value in event["metrics"].items():
            key = (_number(event["trial"]), kind, event["batches"], name)
            if self.metrics.get(key, value) != value:
                text = f"{key} was printed as {self.metrics[key]!r}, then as {value!r}"
                violations.append(Violation("I2", text))
            self.metrics[key] = value
        return violations


def _number(trial: str) -> int:
    return int(trial.partition(".")[2])


def few(items: list[Any]) -> str:
    """Returns the first items as text for a message."""
    text = ", ".join(str(item) for item in items[:4])
    return text if len(items) <= 4 else f"{text} and {len(items) - 4} more"


def check_database(store: Store) -> list[Violation]:
    """I1: SQLite finds no error in the database."""
    if not store.database.exists():
        return []
    try:
        with record.connection(store) as database:
            integrity = [row[0] for row in database.execute("PRAGMA integrity_check")]
            foreign = [tuple(row) for row in database.execute("PRAGMA foreign_key_check")]
    except sqlite3.Error as error:
        return [Violation("I1", f"the database cannot be checked: {error}")]
    violations = []
    if integrity != ["ok"]:
        violations.append(Violation("I1", f"integrity_check: {few(integrity)}"))
    if foreign:
        violations.append(Violation("I1", f"foreign_key_check: {few(foreign)}"))
    return violations


def check_metrics(known: Acknowledged, now: Record) -> list[Violation]:
    """I2: printed metrics are stored with the same value at any time; a later run may only mark
    them as superseded. The primary key ensures one row per trial, kind, batches and name."""
    violations = []
    stored_metrics = now.superseded | now.metrics
    for key, value in known.metrics.items():
        if key not in stored_metrics:
            violations.append(Violation("I2", f"{key} was printed and is not in the store"))
        elif stored_metrics[key] != value:
            text = f"{key} was printed as {value!r} and is stored as {stored_metrics[key]!r}"
            violations.append(Violation("I2", text))
    return violations


def check_acknowledged(known: Acknowledged, now: Record) -> list[Violation]:
    """I2: all other printed events are stored once their runner has ended."""
    violations = check_metrics(known, now)
    stored = {checkpoint["uuid"] for checkpoint in now.checkpoints}
    for uuid in known.checkpoints.keys() - stored:
        violations.append(Violation("I2", f"checkpoint {uuid} was printed and is not stored"))
    for number, state in known.ended.items():
        stored_state = now.trials[number]["state"]
        if stored_state != state:
            text = f"trial {number} was printed as {state} and is stored as {stored_state}"
            violations.append(Violation("I2", text))
    return violations


def check_work(now: Record, period: int, damaged: set[str]) -> list[Violation]:
    """I12: after a stop at most two checkpoint periods are trained again, whatever the disk did.
    Does not apply to a trial whose checkpoint was damaged: it resumes from an earlier one."""
    if period == 0:
        return []
    spared = {it["number"] for it in now.checkpoints if it["uuid"] in damaged}
    measured = dict.fromkeys(now.trials, 0)
    for number, _, batches, _ in now.metrics:
        measured[number] = max(measured[number], batches)
    saved = dict.fromkeys(now.trials, 0)
    for it in now.checkpoints:
        if it["state"] == "COMPLETED":
            saved[it["number"]] = max(saved[it["number"]], it["batches"])
    return [
        Violation("I12", f"trial {number} was trained to batch {measured[number]}, its last "
                         f"checkpoint is of batch {saved[number]}, and one is due every {period}")
        for number, trial in now.trials.items()
        if number not in spared and trial["state"] not in record.FINAL
        and measured[number] - saved[number] > 2 * period
    ]


def check_checkpoints(store: Store, now: Record, damaged: set[str]) -> list[Violation]:
    """I3: checkpoints listed as COMPLETED exist and are complete, according to this test and to
    dtrain. `checkpoint verify` is not called if some were damaged: it would record them as CORRUPT,
    but the next resume must find them by itself."""
    violations = []
    for checkpoint in now.checkpoints:
        if checkpoint["state"] != "COMPLETED" or checkpoint["uuid"] in damaged:
            continue
        try:
            violations += _check_files(store, checkpoint)
        except (OSError, ValueError, KeyError) as error:
            violations.append(Violation("I3", f"checkpoint {checkpoint['uuid']}: {error}"))
    if not damaged:
        result = store.command("checkpoint", "verify")
        if result.code != 0:
            violations.append(Violation("I3", f"{result} {result.out.strip()[-400:]}"))
    return violations


def check_best(now: Record, without: Set[int]) -> list[Violation]:
    """I11: the best validation of a trial has a checkpoint."""
    saved = {
        (it["number"], it["batches"]) for it in now.checkpoints if it["state"] != "DELETED"
    }
    return [
        Violation("I11", f"trial {number}: its best validation, at batch {trial['best_batches']}, "
                         "has no checkpoint")
        for number, trial in now.trials.items()
        if number not in without and trial["best_batches"] is not None
        and (number, trial["best_batches"]) not in saved
    ]


def _check_files(store: Store, checkpoint: dict[str, Any]) -> list[Violation]:
    directory = record.directory_of(store, checkpoint)
    manifest = json.loads((directory / "MANIFEST.json").read_text(encoding="utf-8"))
    recorded = json.loads(checkpoint["files"])
    found = {name: record.sha256(path) for name, path in record.files_in(directory).items()}
    listed = {name: entry["sha256"] for name, entry in manifest["files"].items()}
    listed["MANIFEST.json"] = found["MANIFEST.json"]
    if found == listed == recorded:
        return []
    text = f"{directory}: has {found}, its manifest {listed}, the store {recorded}"
    return [Violation("I3", text)]


def check_leftovers(store: Store, now: Record, since: float) -> list[Violation]:
    """I4: incomplete files are newer than the start of the last runner, and every checkpoint is
    listed. Checkpoints that were being deleted when their runner died may wait for `gc`."""
    known = {checkpoint["uuid"] for checkpoint in now.checkpoints}
    return [
        Violation("I4", f"{path} is left over")
        for path in _checkpoint_paths(store)
        if path.name.removesuffix(".trash") not in known and path.stat().st_mtime < since
    ]


def check_garbage(store: Store) -> list[Violation]:
    """I4: after `gc` only listed files exist."""
    if not store.database.exists():
        return []
    result = store.command("gc")
    if result.code != 0:
        return [Violation("I4", str(result))]
    with record.connection(store) as database:
        rows = database.execute("SELECT id FROM experiments")
        experiments = {str(row["id"]) for row in rows}
        rows = database.execute("SELECT uuid FROM checkpoints WHERE state <> 'DELETED'")
        listed = {row["uuid"] for row in rows}
    found = [path for path in _checkpoint_paths(store, "*") if path.name not in listed]
    directories = sorted(store.root.glob("experiments/*"))
    found += [path for path in directories if path.name not in experiments]
    return [Violation("I4", f"{path} is left over after gc") for path in found]


def _checkpoint_paths(store: Store, experiment: str = "1") -> list[Path]:
    return sorted(store.root.glob(f"experiments/{experiment}/trials/*/checkpoints/*"))


def check_processes(store: Store, spares_daemons: bool) -> list[Violation]:
    """I5: all processes of the experiment end soon."""
    limit = bounds.SURVIVORS.limit
    passed, left = processes.wait_until_gone(store.mark, limit, spares_daemons)
    bounds.SURVIVORS.see(passed)
    if not left:
        return []
    text = f"alive {passed:.0f} s after their runner ended: {few(left)}"
    return [Violation("I5", text)]


def check_jobs(store: Store) -> list[Violation]:
    """I5: the jobs of Slurm end with their runner, and with them the workers and their trials."""
    if store.cluster is None:
        return []
    start = time.monotonic()
    while jobs := store.cluster.jobs():
        if time.monotonic() - start > bounds.JOBS.limit:
            return [Violation("I5", f"jobs outlive their runner: {few(jobs)}")]
        time.sleep(0.1)
    limit = bounds.JOBS.limit - (time.monotonic() - start)
    _, left = processes.wait_until_gone(store.mark, limit, spares_daemons=True)
    bounds.JOBS.see(time.monotonic() - start)
    return [Violation("I5", f"alive after the end of their job: {few(left)}")] if left else []


def check_restarts(now: Record, undisturbed: Record) -> list[Violation]:
    """I14: a trial that had time to pause is not restarted for that. One that crashes in its first
    run may have been paused before."""
    return [
        Violation("I14", f"trial {number} was restarted {trial['restarts']} times, undisturbed "
                         f"{undisturbed.trials[number]['restarts']} times")
        for number, trial in now.trials.items()
        if number in undisturbed.trials
        and trial["restarts"] > undisturbed.trials[number]["restarts"]
    ]


def check_announced(result: Result) -> list[Violation]:
    """I14: a trial that was asked to pause has saved a checkpoint."""
    lost = [line for line in result.err.splitlines() if "preempted; resumes from" in line]
    return [Violation("I14", f"work was lost: {few(lost)}")] if lost else []


def check_followers(runner: Runner) -> list[Violation]:
    """I5: the followers of a runner that has ended end as well; one that still waits for a runner
    ends on SIGTERM."""
    violations = []
    for rank, follower in runner.followers.items():
        has_met = "following the runner" in follower.err.read_text(encoding="utf-8")
        start = time.monotonic()
        code = follower.wait(bounds.FOLLOWERS.limit if has_met else 0.5)
        if has_met:
            bounds.FOLLOWERS.see(time.monotonic() - start)
        if code is None and has_met:
            violations.append(Violation("I5", f"RANK={rank} outlives the runner that it followed"))
        if code is None:
            start = time.monotonic()
            processes.signal(follower.process.pid, signals.SIGTERM)
            code = follower.wait(bounds.LONE_FOLLOWERS.limit)
            bounds.LONE_FOLLOWERS.see(time.monotonic() - start)
        result = follower.result()
        violations += check_bounds(result, peak_kib=follower.peak_kib) + check_words(result)
        if code is None:
            processes.signal(follower.process.pid, signals.SIGKILL)
            follower.wait()
        elif code not in (0, 1, 143, -signals.SIGTERM, -signals.SIGKILL):
            violations.append(Violation("I8", f"RANK={rank}: {result}"))
    return violations


def check_death(runner: Runner, now: Record | None) -> list[Violation]:
    """I8: a signal that pauses an experiment may kill the program only before the first trial is
    started and after the end of all trials is recorded."""
    has_ended = now is not None and now.state in ("PAUSED", *record.FINAL)
    is_idle = has_ended or not runner.count("trial_started")
    if runner.code not in (-signals.SIGHUP, -signals.SIGINT, -signals.SIGTERM) or is_idle:
        return []
    return [Violation("I8", f"did not pause its trials: {runner.result()}")]


def check_states(store: Store) -> list[Violation]:
    """I7: without a runner nothing is listed as running."""
    listed = store.facts("list", "-a")
    if listed is None:
        return [Violation("I7", str(store.command("list", "-a")))]
    violations = []
    for row in listed["experiments"]:
        trials = store.facts("trials", str(row["id"]))
        if trials is None:
            violations.append(Violation("I7", str(store.command("trials", str(row["id"])))))
            continue
        states = {"experiment " + str(row["id"]): row["state"]}
        states |= {f"trial {trial['trial']}": trial["state"] for trial in trials["trials"]}
        violations += [
            Violation("I7", f"{name} is {state}, but there is no runner")
            for name, state in states.items()
            if state in ("RUNNING",) or (state == "PENDING" and name.startswith("experiment"))
        ]
    return violations


def check_words(result: Result) -> list[Violation]:
    """I8: there is no stack trace, and an error names its cause and a remedy."""
    violations = [
        Violation("I8", f"{result}") for words in _RUDE if words in result.err
    ]
    errors = [line for line in result.err.splitlines() if line.startswith("dtrain: error:")]
    if result.code in (2, 3, 5, 6) and not errors:
        violations.append(Violation("I8", f"no line 'dtrain: error: …': {result}"))
    for line in errors:
        if ";" not in line:
            violations.append(Violation("I8", f"does not say what to do: {line}"))
    return violations


def check_bounds(result: Result, is_in_time: bool = True, peak_kib: int = 0) -> list[Violation]:
    """I9: the command ended in time and used little memory."""
    if result.code is None:
        return [Violation("I9", f"did not end within {result.seconds:.0f} s: {result}")]
    if not is_in_time:
        return [Violation("I9", f"took {result.seconds:.1f} s: {result}")]
    if peak_kib > MAX_RUNNER_KIB:
        return [Violation("I9", f"took {peak_kib >> 10} MiB: {result}")]
    return []


def check_documents(store: Store) -> list[Violation]:
    """I13: all JSON that was read since the last call conforms to docs/schemas."""
    found = [Violation("I13", text) for text in dict.fromkeys(store.undocumented)]
    store.undocumented.clear()
    return found
