"""Invariants of a store after every fault and after every `resume`: I1 to I14.

`check` tests those that hold for every store whose runners have ended; rounds.py, the power cut
test and ./check, for all other tests, call it. Each check returns the violations that it found. A
new one is a function, a line in `check` and a row in self_test."""

import json
import os
import signal as signals
import sqlite3
import time
from collections.abc import Mapping, Set
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import bounds
import processes
import record
from experiment import Event, Place, Result, Runner
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

    experiment: int = 1
    metrics: dict[Key, Value] = field(default_factory=dict)
    checkpoints: dict[str, int] = field(default_factory=dict)  # the batches of each
    ended: dict[int, str] = field(default_factory=dict)

    def add(self, events: list[Event]) -> list[Violation]:
        """Adds the events of one runner. A metric that is printed twice must be equal."""
        violations = []
        for event in events:
            kind = event["event"]
            if not event.get("trial", "").startswith(f"{self.experiment}."):
                continue
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


def check_database(store: Place) -> list[Violation]:
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


def check_work(now: Record, damaged: Set[str]) -> list[Violation]:
    """I10: after a stop at most two checkpoint periods are trained again, whatever the disk did.
    Does not apply to a trial whose checkpoint was damaged: it resumes from an earlier one."""
    period = now.config["min_checkpoint_period"].get("batches", 0)
    if period == 0:
        return []
    spared = {it["number"] for it in now.checkpoints
              if it["uuid"] in damaged or it["state"] == "CORRUPT"}
    measured = dict.fromkeys(now.trials, 0)
    for number, _, batches, _ in now.metrics:
        measured[number] = max(measured[number], batches)
    saved = dict.fromkeys(now.trials, 0)
    for it in now.checkpoints:
        if it["state"] == "COMPLETED":
            saved[it["number"]] = max(saved[it["number"]], it["batches"])
    return [
        Violation("I10", f"trial {number} was trained to batch {measured[number]}, its last "
                         f"checkpoint is of batch {saved[number]}, and one is due every {period}")
        for number, trial in now.trials.items()
        if number not in spared and trial["state"] not in record.FINAL
        and measured[number] - saved[number] > 2 * period
    ]


def check_checkpoints(
    store: Place, now: Record, damaged: Set[str], experiment: int = 1
) -> list[Violation]:
    """I3: checkpoints listed as COMPLETED exist and are complete, according to this test and to
    dtrain. `checkpoint verify` is not called if some were damaged: it would record them as CORRUPT,
    but the next resume must find them by itself."""
    violations = []
    for checkpoint in now.checkpoints:
        if checkpoint["state"] != "COMPLETED" or checkpoint["uuid"] in damaged:
            continue
        try:
            violations += _check_files(store, checkpoint, experiment)
        except (OSError, ValueError, KeyError) as error:
            violations.append(Violation("I3", f"checkpoint {checkpoint['uuid']}: {error}"))
    if not damaged:
        result = store.command("checkpoint", "verify", str(experiment))
        is_corrupt = any(it["state"] == "CORRUPT" for it in now.checkpoints)
        if result.code not in (0, 1 if is_corrupt else 0):
            violations.append(Violation("I3", f"{result} {result.out.strip()[-400:]}"))
    return violations


def check_best(now: Record, without: Set[int], saves_best: bool = False) -> list[Violation]:
    """I12: the best validation of a trial has a checkpoint, if the policy keeps it. A program may
    not have saved one, unless `saves_best`; but one that was saved is not deleted."""
    policy, storage = now.config["checkpoint_policy"], now.config["checkpoint_storage"]
    if policy == "none" or (policy == "best" and storage["save_trial_best"] == 0):
        return []
    made = {(it["number"], it["batches"]) for it in now.checkpoints}
    saves_best |= isinstance(now.config["entrypoint"], str)
    saved = {
        (it["number"], it["batches"]) for it in now.checkpoints if it["state"] != "DELETED"
    }
    return [
        Violation("I12", f"trial {number}: its best validation, at batch {trial['best_batches']}, "
                         "has no checkpoint")
        for number, trial in now.trials.items()
        if number not in without and trial["best_batches"] is not None
        and (saves_best or (number, trial["best_batches"]) in made)
        and (number, trial["best_batches"]) not in saved
    ]


def _check_files(store: Place, checkpoint: dict[str, Any], experiment: int) -> list[Violation]:
    directory = record.directory_of(store, checkpoint, experiment)
    manifest = json.loads((directory / "MANIFEST.json").read_text(encoding="utf-8"))
    recorded = json.loads(checkpoint["files"])
    found = {name: record.sha256(path) for name, path in record.files_in(directory).items()}
    listed = {name: entry["sha256"] for name, entry in manifest["files"].items()}
    listed["MANIFEST.json"] = found["MANIFEST.json"]
    if found == listed == recorded:
        return []
    text = f"{directory}: has {found}, its manifest {listed}, the store {recorded}"
    return [Violation("I3", text)]


def check_leftovers(
    store: Place, now: Record, since: float, experiment: int = 1
) -> list[Violation]:
    """I4: incomplete files are newer than the start of the last runner, and every checkpoint is
    listed. Checkpoints that were being deleted when their runner died may wait for `gc`."""
    known = {checkpoint["uuid"] for checkpoint in now.checkpoints}
    return [
        Violation("I4", f"{path} is left over")
        for path in _checkpoint_paths(store, str(experiment))
        if path.name.removesuffix(".trash") not in known and path.stat().st_mtime < since
    ]


def check_garbage(store: Place) -> list[Violation]:
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


def _checkpoint_paths(store: Place, experiment: str) -> list[Path]:
    return sorted(store.root.glob(f"experiments/{experiment}/trials/*/checkpoints/*"))


def check_processes(store: Place, spares_daemons: bool) -> list[Violation]:
    """I5: all processes of the experiment end soon."""
    limit = bounds.SURVIVORS.limit
    passed, left = processes.wait_until_gone(store.mark, limit, spares_daemons)
    bounds.SURVIVORS.see(passed)
    if not left:
        return []
    text = f"alive {passed:.0f} s after their runner ended: {few(left)}"
    return [Violation("I5", text)]


def check_jobs(store: Place) -> list[Violation]:
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
    """I12: a trial that had time to pause is not restarted for that. One that crashes in its first
    run may have been paused before."""
    return [
        Violation("I12", f"trial {number} was restarted {trial['restarts']} times, undisturbed "
                         f"{undisturbed.trials[number]['restarts']} times")
        for number, trial in now.trials.items()
        if number in undisturbed.trials
        and trial["restarts"] > undisturbed.trials[number]["restarts"]
    ]


def check_announced(result: Result) -> list[Violation]:
    """I10: a trial that was asked to pause has saved a checkpoint."""
    lost = [line for line in result.err.splitlines() if "preempted; resumes from" in line]
    return [Violation("I10", f"work was lost: {few(lost)}")] if lost else []


def check_members(runner: Runner) -> list[Violation]:
    """I5: the workers of a fixed set end with their runner; one that still waits for a runner ends
    on SIGTERM."""
    violations = []
    for rank, member in runner.members.items():
        has_met = "joined the runner" in member.err.read_text(encoding="utf-8")
        start = time.monotonic()
        code = member.wait(bounds.MEMBERS.limit if has_met else 0.5)
        if has_met:
            bounds.MEMBERS.see(time.monotonic() - start)
        if code is None and has_met:
            violations.append(Violation("I5", f"RANK={rank} outlives its runner"))
        if code is None:
            start = time.monotonic()
            processes.signal(member.process.pid, signals.SIGTERM)
            code = member.wait(bounds.LONE_MEMBERS.limit)
            bounds.LONE_MEMBERS.see(time.monotonic() - start)
        result = member.result()
        violations += check_bounds(result, peak_kib=member.peak_kib) + check_words(result)
        if code is None:
            processes.signal(member.process.pid, signals.SIGKILL)
            member.wait()
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


def check_states(store: Place, experiment: int, now: Record) -> list[Violation]:
    """I7 and I12: without a runner nothing is listed as running, and all is listed as recorded."""
    listed, trials = store.facts("list", "-a"), store.facts("trials", str(experiment))
    rows = {row["id"]: row for row in listed["experiments"]} if listed else {}
    if experiment not in rows or trials is None:
        return [Violation("I7", str(store.command("trials", str(experiment))))]
    stored = {experiment: now.experiment}
    stored |= {f"{experiment}.{number}": trial for number, trial in now.trials.items()}
    shown = {experiment: rows[experiment]} | {row["trial"]: row for row in trials["trials"]}
    if stored.keys() != shown.keys():
        return [Violation("I12", f"listed are {few(list(shown))} of {few(list(stored))}")]
    violations = []
    for name, row in shown.items():
        state, best = row["state"], (row["best"] or {}).get("value")
        if state == "RUNNING" or (state == "PENDING" and name == experiment):
            violations.append(Violation("I7", f"{name} is {state}, but there is no runner"))
        recorded = stored[name]["state"], stored[name]["best_value"]
        unfinished = ("PENDING", "RUNNING")
        is_interrupted = now.state in unfinished and recorded[0] in unfinished
        is_invalid = recorded[0] == "ERROR" and name != experiment and "invalid" in (row["reason"] or "")
        expected = "INTERRUPTED" if is_interrupted else "INVALID" if is_invalid else recorded[0]
        if (state, best) != (expected, recorded[1]):
            violations.append(Violation("I12", f"{name} is listed as {state}, {best}, not as "
                                               f"{expected}, {recorded[1]}"))
    return violations


def check_truth(now: Record) -> list[Violation]:
    """I12: states, reasons, counts and the best are those of the trials and of their metrics."""
    wrong = []
    for number, trial in now.trials.items():
        values = now.at_batches(number)
        last = max(values, default=None)
        latest = None if last is None else values[last]
        shown = trial["latest_value"]
        if trial["latest_special"]:
            shown = record.SPECIAL[trial["latest_special"]]
        if (trial["latest_batches"], shown) != (last, latest):
            wrong.append(f"trial {number}: its latest validation is {shown}, not {latest}")
        found = trial["best_value"], trial["best_batches"]
        if found not in (_best(values, now) or {(None, None)}):
            wrong.append(f"trial {number}: its best is {found}, not one of {_best(values, now)}")
        is_final = trial["state"] in record.FINAL
        if is_final and trial["ended"] is None:
            wrong.append(f"trial {number}: {trial['state']} without a time of its end")
        if trial["state"] == "ERROR" and not trial["reason"]:
            wrong.append(f"trial {number}: ERROR without a reason")
        farthest = max((at for of, _, at, _ in now.metrics if of == number), default=0)
        if now.state in record.FINAL and not is_final:
            wrong.append(f"trial {number} is {trial['state']}, the experiment {now.state}")
        if is_final and trial["batches"] < farthest:
            wrong.append(f"trial {number} has {trial['batches']} batches, metrics of {farthest}")
    return [Violation("I12", it) for it in wrong + _find_untrue(now)]


def _best(values: Mapping[Any, Any], now: Record) -> set[tuple[Any, Any]]:
    """Returns the best finite values with their keys."""
    choose = min if now.experiment["smaller_is_better"] else max
    finite = {at: value for at, value in values.items() if isinstance(value, float)}
    best = choose(finite.values(), default=None)
    return {(value, at) for at, value in finite.items() if value == best}


def _best_of_points(now: Record) -> set[tuple[Any, Any]]:
    """Returns the best values of points that are known, each with every trial of it that may be the
    best. Without searcher.repeats each trial is a point."""
    repeats = now.config["searcher"].get("repeats", 1)
    if repeats == 1:
        return _best({number: trial["best_value"] for number, trial in now.trials.items()}, now)
    means, trials = {}, {}
    for point in {(number - 1) // repeats for number in now.trials}:
        own = {number: trial for number, trial in now.trials.items() if (number - 1) // repeats == point}
        values = {number: trial["best_value"] for number, trial in own.items()
                  if trial["state"] in ("COMPLETED", "STOPPED") and trial["best_value"] is not None}
        is_known = all(trial["state"] in record.FINAL for trial in own.values()) and (
            len(own) == repeats or now.state in record.FINAL)
        if values and is_known:
            means[point] = 0.0  # in the order of the program, for the same rounding
            for i, value in enumerate(sorted(values.values())):
                means[point] += (value - means[point]) / (i + 1)
            trials[point] = _best(values, now)
    return {(value, number) for value, point in _best(means, now) for _, number in trials[point]}


def _find_untrue(now: Record) -> list[str]:
    """Returns what an experiment's row says wrongly of its trials."""
    its = now.experiment
    wrong = []
    ended = sum(trial["state"] in record.FINAL for trial in now.trials.values())
    if (its["trials"], its["trials_ended"]) != (len(now.trials), ended):
        wrong.append(f"{its['trials_ended']} of {its['trials']} trials have ended, not {ended} of "
                     f"{len(now.trials)}")
    bests = _best_of_points(now)
    if (its["best_value"], its["best_trial"]) not in (bests or {(None, None)}):
        wrong.append(f"the best is {its['best_value']} of trial {its['best_trial']}, not one of {bests}")
    best = now.trials.get(its["best_trial"], {"best_batches": None})
    if its["best_batches"] != best["best_batches"]:
        wrong.append(f"the best is of batch {its['best_batches']}, not {best['best_batches']}")
    if its["state"] == "ERROR" and not its["error"]:
        wrong.append("ERROR without a reason")
    if its["state"] in record.FINAL and its["ended"] is None:
        wrong.append(f"{its['state']} without a time of its end")
    states = {trial["state"] for trial in now.trials.values()}
    if its["state"] == "COMPLETED" and (states == {"ERROR"} or its["progress"] != 1):
        wrong.append(f"COMPLETED with trials in {states}, progress {its['progress']}")
    return wrong


def _locked() -> set[tuple[int, int]]:
    """Returns device and inode of all files with a lock."""
    rows = [line.split() for line in Path("/proc/locks").read_text(encoding="ascii").splitlines()]
    files = [row[-3].split(":") for row in rows if "->" not in row]
    return {(os.makedev(int(major, 16), int(minor, 16)), int(inode)) for major, minor, inode in files}


def _is_locked(path: Path) -> bool:
    try:
        status = path.stat()
    except FileNotFoundError:
        return False
    return (status.st_dev, status.st_ino) in _locked()


def has_runner(store: Place, experiment: int) -> bool:
    return _is_locked(store.root / "experiments" / str(experiment) / "runner.lock")


def check_slots(store: Place) -> list[Violation]:
    """I11: slots and places in their queue come back soon."""
    directory = Path(store.environment.get("DTRAIN_RUNTIME_DIR", "/nowhere"))
    start = time.monotonic()
    while held := [it.name for it in directory.glob("*") if _is_locked(it)]:
        if time.monotonic() - start > bounds.SURVIVORS.limit:
            return [Violation("I11", f"held without a runner: {few(held)}")]
        time.sleep(0.02)
    listed = store.facts("slots") if directory.exists() else None
    held = [row["slot"] for row in (listed or {"slots": []})["slots"] if not row["free"]]
    return [Violation("I11", f"listed as taken without a runner: {few(held)}")] if held else []


def check_doctor(store: Place, found: list[Violation]) -> list[Violation]:
    """I13: `doctor` reports what is wrong, and nothing else. `found`: by the other checks."""
    result = store.command("doctor", "--json")
    if result.code not in (0, 1, 5):
        return [Violation("I13", str(result))]
    document = json.loads(result.out)
    # The disks of tests are small.
    rows = [row for row in document["checks"] if row["check"] != "disk"]
    bad = [row for row in rows if row["status"] != "ok"]
    code = 5 if any(row["status"] == "damage" for row in rows) else 1 if bad else 0
    wrong = []
    if result.code != max(code, min(result.code, 1)) or document["ok"] != (result.code == 0):
        wrong.append(f"exit code {result.code} and ok: {document['ok']} with {bad}")
    is_damaged = any(it.invariant == "I1" for it in found)
    expected = {} if is_damaged else _find_for_doctor(store)
    for row in bad:
        is_known = any(it in row["text"] for it in expected) or row["text"].startswith("and ")
        if row["check"] == "search":
            wrong.append(f"the search does not replay: {row['text']}")
        elif not (is_known or (is_damaged and row["check"] == "database")):
            wrong.append(f"without a reason: {row['check']}: {row['text']}")
    texts = " ".join(row["text"] for row in bad)
    wrong += [f"does not report {what}" for it, what in expected.items()
              if it not in texts and " more" not in texts]
    if is_damaged and not any(row["check"] == "database" for row in bad):
        wrong.append("does not report a damaged database")
    return [Violation("I6" if "replay" in it else "I13", f"doctor: {it}") for it in wrong]


def _find_for_doctor(store: Place) -> dict[str, str]:
    """Returns what `doctor` must report in a whole database: words of its text, and why."""
    expected = {}
    listed = set()
    known = record.experiments(store)
    for number in known:
        now = record.read(store, number)
        if now is None:
            continue
        if now.state in ("PENDING", "RUNNING") and not has_runner(store, number):
            expected[f"experiment {number} is INTERRUPTED"] = f"the dead runner of {number}"
        for it in now.checkpoints:
            directory = record.directory_of(store, it, number)
            listed |= {it["uuid"]} if it["state"] != "DELETED" else set()
            is_bad = it["state"] == "COMPLETED" and not _is_whole(directory, json.loads(it["files"]))
            if is_bad or it["state"] == "CORRUPT":
                expected[it["uuid"]] = f"checkpoint {it['uuid']}"
    begun = {it.read_text().strip() for it in store.root.glob("experiments/new-*/experiment")}
    paths = [it for it in store.root.glob("experiments/*") if it.name not in map(str, [*known, *begun])]
    paths += store.root.glob("experiments/*/*.trash")
    roots = record.storages(store) if known else []  # a new database may lack tables
    elsewhere = [it for root in roots for it in root.glob("[0-9]*/*/*")]
    paths += [it for it in elsewhere if it.name not in listed]
    return expected | {str(it): str(it) for it in paths}


def _is_whole(directory: Path, files: dict[str, str]) -> bool:
    """True if the manifest is the recorded one, and all files have their sizes."""
    try:
        manifest = directory / "MANIFEST.json"
        listed = json.loads(manifest.read_bytes())["files"]
        return record.sha256(manifest) == files["MANIFEST.json"] and all(
            (directory / name).stat().st_size == entry["bytes"] for name, entry in listed.items())
    except (OSError, ValueError):
        return False


def check(
    store: Place,
    known: Mapping[int, Acknowledged] | None = None,
    damaged: Set[str] = frozenset(),
    saves_best: bool | None = None,
) -> list[Violation]:
    """All invariants of a store whose runners have ended. Of an experiment that still has one, only
    what was printed is looked at. `damaged`: UUIDs of checkpoints that were damaged by the test.
    `saves_best`: False if no checkpoint could be saved for a while, True if programs do."""
    found = check_database(store)
    if found:
        return found + check_doctor(store, found)
    experiments = record.experiments(store)
    running = [number for number in experiments if has_runner(store, number)]
    for number in experiments:
        now = record.read(store, number)
        printed = (known or {}).get(number, Acknowledged(number))
        if now is None or number in running:
            found += check_metrics(printed, now) if now else []
            continue
        found += check_acknowledged(printed, now)
        found += check_checkpoints(store, now, damaged, number)
        found += check_states(store, number, now) + check_truth(now) + check_work(now, damaged)
        if now.state in record.FINAL:
            canceled = {it for it, trial in now.trials.items() if trial["state"] == "CANCELED"}
            found += [] if saves_best is False else check_best(now, canceled, bool(saves_best))
            lock = store.root / "experiments" / str(number) / "runner.lock"
            since = lock.stat().st_mtime if lock.exists() else 0
            found += check_leftovers(store, now, since, number)
    if not running:
        found += check_slots(store) + check_doctor(store, found)
    return found + check_documents(store)


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


def check_documents(store: Place) -> list[Violation]:
    """I14: all JSON that was read since the last call conforms to docs/schemas."""
    found = [Violation("I14", text) for text in dict.fromkeys(store.undocumented)]
    store.undocumented.clear()
    return found
