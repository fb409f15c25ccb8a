"""Invariants of the files after a power cut, by the names of tests/crash/invariants.py.

`look` reads the files without dtrain in milliseconds; `use` lets dtrain open them and resume."""

import hashlib
import json
import shutil
import sqlite3
import threading
from pathlib import Path

import invariants
import processes
import record
from compare import Excuses, compare, outcome_of
from disk import Tree, write_tree
from experiment import Store
from invariants import Violation, few
from record import Record
from recording import (BACKUP, DATABASE, EXPORT, EXPORTED_YAML, STORAGE, Acknowledged, Done,
                       Recording, database_in, export_words)

_OPENED: dict[tuple[bytes | None, ...], dict[int, Record]] = {}
# Held while dtrain continues where a recording was made.
_RECORDED_HOME = threading.Lock()


def look(recording: Recording, cut: int, tree: Tree) -> list[Violation]:
    expected = recording.expected_at(cut)
    phase = recording.phase_at(cut)
    try:
        found = _check_backup(recording, cut, tree) + _check_export(recording, tree)
        records = _open(tree)
    except (sqlite3.Error, ValueError) as error:
        return [Violation("I1", f"cannot be opened: {error!r}")]
    for number, acknowledged in expected.items():
        if number in records:
            found += _check_record(acknowledged, records[number])
        elif phase.phase.name != "delete":
            text = f"experiment {number} is gone, though {acknowledged.what}"
            found.append(Violation("I2", text))
    if records and _is_deleted(recording, cut):
        found.append(Violation("I2", "the experiment exists, though 'delete' had ended"))
    for number, now in records.items():
        found += _check_files(recording, tree, number, now)
    return found


def _check_files(recording: Recording, tree: Tree, number: int, now: Record) -> list[Violation]:
    """I3: the files of a recorded experiment exist and are complete."""
    found = []
    for checkpoint in now.checkpoints:
        if checkpoint["state"] == "COMPLETED":
            found += _check_checkpoint(recording, tree, number, checkpoint)
    for name, text in recording.scenario.configuration.context.items():
        path = f"store/experiments/{number}/context/{name}"
        entry = tree.get(path)
        if entry is None or entry.content != text.encode():
            found.append(Violation("I3", f"{path} differs from what was stored"))
    return found


def _is_deleted(recording: Recording, cut: int) -> bool:
    done = [it for it in recording.phases if it.phase.name == "delete"]
    return bool(done) and cut >= done[0].end


def _open(tree: Tree) -> dict[int, Record]:
    """I1: SQLite opens the database and finds no error. Returns its experiments by ID."""
    files = tuple(
        entry.content if (entry := tree.get(DATABASE + suffix)) else None
        for suffix in ("", "-wal", "-journal")
    )
    if files[0] is None:
        return {}
    if files not in _OPENED:  # most states have equal databases
        with database_in(tree) as place:
            violations = invariants.check_database(place)  # type: ignore[arg-type]
            if violations:
                raise ValueError(few(violations))
            found = {number: record.read(place, number)  # type: ignore[arg-type]
                     for number in (1, 2)}
            _OPENED[files] = {number: it for number, it in found.items() if it}
    return _OPENED[files]


def _check_backup(recording: Recording, cut: int, tree: Tree) -> list[Violation]:
    """I1: a backup is complete as soon as it has its name, and exists once 'backup' has ended."""
    done = [it for it in recording.phases if it.phase.name == "backup"]
    if not done or cut < done[0].begin:
        return []
    if BACKUP not in tree:
        text = f"{BACKUP} does not exist, though 'backup' had ended"
        return [Violation("I2", text)] if cut >= done[0].end else []
    with database_in({BACKUP: tree[BACKUP]}, BACKUP) as place:
        found = invariants.check_database(place)  # type: ignore[arg-type]
        now = None if found else record.read(place)  # type: ignore[arg-type]
    expected = recording.expected_at(done[0].begin).get(1)
    if now is None or expected is None:
        return [Violation("I1", f"{BACKUP} is not a complete backup: {few(found)}")]
    return found + _check_record(expected, now)


def _check_export(recording: Recording, tree: Tree) -> list[Violation]:
    """I1: an exported directory is complete as soon as it has its name."""
    if EXPORT not in tree:
        return []
    expected = {name: text.encode()
                for name, text in recording.scenario.configuration.context.items()}
    expected[EXPORTED_YAML] = recording.exported_yaml
    wrong = [name for name, content in sorted(expected.items())
             if (entry := tree.get(f"{EXPORT}/{name}")) is None or entry.content != content]
    text = f"the export is missing files or parts of them: {few(wrong)}"
    return [Violation("I1", text)] if wrong else []


def _check_record(expected: Acknowledged, now: Record) -> list[Violation]:
    """I2: everything that was recorded before the last acknowledgement exists. A later run may have
    added to it."""
    before = expected.record
    lost: list[str] = []
    if before.state in record.FINAL and now.state != before.state:
        lost.append(f"state {before.state}, is {now.state}")
    for number, trial in before.trials.items():
        found = now.trials.get(number)
        if found is None:
            lost.append(f"trial {number}")
        elif trial["state"] in record.FINAL and found["state"] != trial["state"]:
            lost.append(f"trial {number}: {trial['state']}, is {found['state']}")
        elif any(found[name] != trial[name] for name in ("request_id", "hparams", "seed")):
            lost.append(f"columns of trial {number}")
    if now.events[: len(before.events)] != before.events:
        lost.append(f"{len(before.events)} events of the search, {len(now.events)} exist")
    stored = {it["uuid"]: it["state"] for it in now.checkpoints}
    for it in before.checkpoints:
        if it["uuid"] not in stored:
            lost.append(f"checkpoint {it['uuid']}")
        elif it["state"] == "DELETED" != stored[it["uuid"]]:
            lost.append(f"that checkpoint {it['uuid']} is deleted")
    metrics = now.superseded | now.metrics
    for key, value in (before.superseded | before.metrics).items():
        if metrics.get(key) != value:
            lost.append(f"metric {key} = {value}")
    text = f"lost, though {expected.what} afterwards: {few(lost)}"
    return [Violation("I2", text)] if lost else []


def _check_checkpoint(
    recording: Recording, tree: Tree, number: int, checkpoint: dict
) -> list[Violation]:
    place = (f"store/experiments/{number}/trials/{checkpoint['number']}/checkpoints/"
             f"{checkpoint['uuid']}/")
    if recording.scenario.has_storage:
        part = f"/{checkpoint['uuid']}/"
        names = (it for it in tree if it.startswith(f"{STORAGE}/") and part in it)
        place = next((it[: it.index(part) + len(part)] for it in names), f"{STORAGE}{part}")
    found = {
        name.removeprefix(place): hashlib.sha256(entry.content).hexdigest()
        for name, entry in tree.items()
        if name.startswith(place) and entry.kind != 2
    }
    expected = json.loads(checkpoint["files"])
    wrong = [name for name in sorted(expected) if found.get(name) != expected[name]]
    if not wrong:
        return []
    return [Violation("I3", f"listed checkpoint {place} has missing or wrong files: {few(wrong)}")]


def use(recording: Recording, cut: int, tree: Tree, dtrain: Path, recorder: Path,
        home: Path) -> list[Violation]:
    """I6: dtrain finds no damage, resumes, and ends like the undisturbed run. Uses the directory
    `home`, which exists afterwards if there is a violation."""
    if not recording.scenario.has_storage:
        return _use_in(home, recording, cut, tree, dtrain, recorder)
    with _RECORDED_HOME:
        shutil.rmtree(recording.home, ignore_errors=True)
        found = _use_in(recording.home, recording, cut, tree, dtrain, recorder)
        if found:
            shutil.copytree(recording.home, home, symlinks=True)
        return found


def _use_in(home: Path, recording: Recording, cut: int, tree: Tree, dtrain: Path,
            recorder: Path) -> list[Violation]:
    store = Store(dtrain, home, home.parent / "cache")
    boot = home / "boot_id"
    boot.write_text("00000000-0000-0000-0000-000000000000\n", encoding="utf-8")
    store.environment |= {"LD_PRELOAD": str(recorder), "DTRAIN_POWER_BOOT_ID": str(boot)}
    recording.scenario.prepare(store)
    write_tree(tree, home / "disk")
    try:
        return _Use(recording, cut, store).run()
    except (LookupError, OSError, ValueError, sqlite3.Error) as error:
        return [Violation("I1", f"cannot be checked: {error!r}")]
    finally:
        processes.kill_all(store.mark)


class _Use:
    def __init__(self, recording: Recording, cut: int, store: Store) -> None:
        self.recording = recording
        self.cut = cut
        self.store = store
        self.found: list[Violation] = []

    def run(self) -> list[Violation]:
        # Before the first acknowledgement the database may be incomplete; the next command that
        # writes completes it.
        if self.recording.expected_at(self.cut):
            self.found += invariants.check(self.store)
        phase = self.recording.phase_at(self.cut)
        if phase.phase.is_run:
            self._finish_experiment(phase)
        else:
            self._finish_command(phase)
        self._compare(phase)
        self.found += invariants.check_garbage(self.store) + invariants.check(self.store)
        return self.found

    def _expect(self, code: int, *words: str) -> None:
        result = self.store.command(*words)
        if result.code != code:
            self.found.append(Violation("I6", str(result)))

    def _finish_experiment(self, phase: Done) -> None:
        number = phase.phase.experiment
        create = self.store.creation if number == 1 else phase.words[:-1]  # without --jsonl
        for _ in range(2):
            now = record.read(self.store, number)
            if now is not None and now.state in record.FINAL:
                return
            words = create if now is None else ("resume", str(number))
            result = self.store.command(*words, "-q")
            self.found += invariants.check_words(result)
            if result.code != 0:
                self.found.append(Violation("I6", str(result)))
        now = record.read(self.store, number)
        if now is None or now.state not in record.FINAL:
            self.found.append(Violation("I6", "does not end after a resume"))

    def _finish_command(self, phase: Done) -> None:
        """Repeats the command unless it had finished."""
        name = phase.phase.name
        now = record.read(self.store)
        backup = self.store.home / "disk" / BACKUP
        if name == "backup" and not backup.exists():
            self._expect(0, "backup", str(backup))
        elif name == "export" and not (self.store.home / "disk" / EXPORT).exists():
            self._expect(0, *export_words(self.store))
        elif name == "delete" and now is not None:
            self._expect(0, *phase.words)
        elif name == "delete a checkpoint" and now is not None:
            uuid = phase.words[-1]
            if any(it["uuid"] == uuid and it["state"] != "DELETED" for it in now.checkpoints):
                self._expect(0, *phase.words)
        elif name == "gc":
            self._expect(0, "gc")

    def _compare(self, phase: Done) -> None:
        number = phase.phase.experiment
        now = record.read(self.store, number)
        if phase.outcome is None or now is None:
            if phase.outcome is not None or now is not None:
                self.found.append(Violation("I6", f"after '{phase.phase.name}' the experiment is "
                                                  f"{now.state if now else 'gone'}"))
            return
        configuration = self.recording.scenario.configuration
        outcome = outcome_of(self.store, now, number)
        self.found += compare(configuration, phase.outcome, outcome, Excuses())
