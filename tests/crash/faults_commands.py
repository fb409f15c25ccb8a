"""Faults by commands that are killed halfway: their results must be complete or absent."""

import shutil
import sqlite3
from collections.abc import Callable
from contextlib import closing
from pathlib import Path

import processes
import record
from compare import Excuses, compare, outcome_of
from configurations import Configuration
from experiment import Runner, Store
from faults import Fault
from invariants import (
    Violation,
    check_database,
    check_documents,
    check_members,
    few,
)
from scene import Scene

# Maximum duration of commands that only read and copy; one in four is not killed.
_SHORT = 0.06
# States of trials to continue from; a trial that failed by itself may do so again.
_GOOD = ("COMPLETED", "STOPPED", "PAUSED", "RUNNING")


def _begin_and_kill(scene: Scene, *words: str, most: float) -> Runner:
    """Kills the command up to `most` seconds after its start, and waits for its trials to end."""
    command = scene.store.start_alone(*words)
    code = command.wait(scene.rng.uniform(0, most))
    if code is None:
        processes.signal(command.process.pid, 9)
        command.wait()
    return command


def _begin_experiment_and_kill(
    scene: Scene, words: tuple[str, ...], most: float, codes: set[int]
) -> None:
    """Begins an experiment and kills its command. If the experiment is recorded, it is resumed
    later, see end_what_was_begun."""
    before = _experiments(scene.store).keys()
    command = _begin_and_kill(scene, *words, most=most)
    _check_code(scene, command, codes)
    for number in _experiments(scene.store).keys() - before:
        scene.begun[number] = words


def _experiments(store: Store) -> dict[int, str]:
    """Returns the states of all experiments by ID."""
    with record.connection(store) as database:
        rows = database.execute("SELECT id, state FROM experiments")
        return {row["id"]: row["state"] for row in rows}


def _check_code(scene: Scene, command: Runner, codes: set[int]) -> None:
    if command.code not in codes | {-9}:
        scene.violate("I8", f"{command.result()}, not with one of {sorted(codes)}")


def _some_checkpoint(scene: Scene) -> str | None:
    now = record.read(scene.store)
    found = [
        it["uuid"] for it in (now.checkpoints if now else [])
        if it["state"] == "COMPLETED" and it["uuid"] not in scene.damaged
        and now and now.trials[it["number"]]["state"] in _GOOD
    ]
    return scene.rng.choice(found) if found else None


def create_and_kill(scene: Scene) -> bool:
    """Creates another experiment and kills it while its files are copied, it is recorded, or its
    trials run. Once it is recorded, it must be able to end like any other."""
    if record.read(scene.store) is None:
        return False
    most = 0.1 if scene.rng.random() < 0.7 else scene.seconds
    _begin_experiment_and_kill(scene, scene.store.creation, most, {0, 1})
    return True


def continue_and_kill(scene: Scene) -> bool:
    uuid = _some_checkpoint(scene)
    if uuid is None:
        return False
    most = 0.1 if scene.rng.random() < 0.5 else scene.seconds
    # The checkpoint policy may have deleted the checkpoint.
    codes = {0, 1} | ({3} if scene.alive else set())
    _begin_experiment_and_kill(scene, ("continue", uuid), most, codes)
    return True


def reproduce_and_kill(scene: Scene) -> bool:
    """Reproduces a trial, which must give the same results whatever happened to either run."""
    now = record.read(scene.store)
    numbers = [
        number for number, trial in (now.trials.items() if now else [])
        if trial["state"] in ("COMPLETED", "STOPPED")
    ]
    if not numbers:
        return False
    source = f"1.{scene.rng.choice(numbers)}"
    _begin_experiment_and_kill(scene, ("reproduce", source), scene.seconds, {0})
    return True


def delete_and_kill(scene: Scene) -> bool:
    """Deletes the experiment. The record must go first: as long as it exists, so do all files."""
    command = _begin_and_kill(scene, "delete", "1", "--yes", most=_SHORT)
    _check_code(scene, command, {0})
    if command.code == 0 and record.read(scene.store) is not None:
        scene.violate("I8", f"{command.result()}, but the experiment still exists")
    return True


def gc_and_kill(scene: Scene) -> bool:
    if not scene.store.database.exists():
        return False
    _check_code(scene, _begin_and_kill(scene, "gc", most=_SHORT), {0})
    return True


def _check_copy(scene: Scene, path: Path) -> None:
    with closing(sqlite3.connect(f"file:{path}?mode=ro", uri=True)) as copy:
        found = [row[0] for row in copy.execute("PRAGMA integrity_check")]
    if found != ["ok"]:
        scene.violate("I1", f"the backup {path}: {few(found)}")


def backup_and_kill(scene: Scene) -> bool:
    """Backs up the store. A backup under its name must be complete, and an unfinished one must not
    prevent another."""
    if not scene.store.database.exists():
        return False
    path = scene.fresh("backup")
    _check_code(scene, _begin_and_kill(scene, "backup", str(path), most=_SHORT), {0})
    if path.exists():
        _check_copy(scene, path)
    elif scene.call("backup", str(path), codes={0}).code == 0:
        _check_copy(scene, path)
    return True


def restore(scene: Scene) -> bool:
    """Restores a backup and a copy of the experiments, which must resume to the same end."""
    if record.read(scene.store) is None:
        return False
    home = scene.fresh("restored")
    store = Store(scene.store.dtrain, home, Path(scene.store.environment["XDG_CACHE_HOME"]))
    store.processes, store.creation = scene.store.processes, scene.store.creation
    store.root.mkdir(mode=0o700)
    scene.call("backup", str(store.database), codes={0})
    # Sockets of running trials cannot be copied.
    shutil.copytree(scene.store.root / "experiments", store.root / "experiments", symlinks=True,
                    ignore=shutil.ignore_patterns("scratch"))
    try:
        _end_restored(scene, store)
    finally:
        processes.kill_all(store.mark)
    shutil.rmtree(home)
    return True


def _end_restored(scene: Scene, store: Store) -> None:
    found = check_database(store)
    now = record.read(store)
    if now is not None and now.state not in record.FINAL:
        runner = store.start("resume", "1")
        if scene.wait_for_end(runner) is None:
            return
        found += check_members(runner)
        now = record.read(store)
    if now is None or now.state not in record.FINAL:
        scene.violate("I6", f"a restored store is {now.state if now else 'empty'}")
        return
    if now.state != "CANCELED" and not scene.damaged:
        found += compare(
            scene.configuration,
            scene.undisturbed,
            outcome_of(store, now),
            scene.excuses(now),
        )
    found += check_documents(store)
    scene.violations += [Violation(it.invariant, f"restored: {it.evidence}") for it in found]


def _tree(path: Path) -> dict[str, str]:
    if path.is_file():
        return {"": record.sha256(path)}
    return {name: record.sha256(it) for name, it in record.files_in(path).items()}


def _export_and_kill(scene: Scene, words: Callable[[Path], tuple[str, ...]]) -> None:
    """Exports something. A result under its name must equal an undisturbed export."""
    path, whole = scene.fresh("export"), scene.fresh("export")
    command = _begin_and_kill(scene, *words(path), most=_SHORT)
    _check_code(scene, command, {0, 3} if scene.alive else {0})
    if not path.exists():
        return
    if scene.call(*words(whole), codes={0, 3} if scene.alive else {0}).code == 0:
        if _tree(path) != _tree(whole):
            text = f"{command.result().words}: an incomplete export has its final name"
            scene.violate("I4", text)


def export_config(scene: Scene) -> bool:
    if record.read(scene.store) is None:
        return False
    _export_and_kill(scene, lambda path: ("config", "1", "--export", str(path)))
    return True


def export_checkpoint(scene: Scene) -> bool:
    uuid = _some_checkpoint(scene)
    if uuid is None:
        return False
    last = ("--to", scene.rng.choice(["safetensors", "state_dict"]), "--out")
    _export_and_kill(scene, lambda path: ("checkpoint", "export", uuid, *last, str(path)))
    return True


def end_what_was_begun(scene: Scene) -> None:
    """Resumes experiments that were killed; they must end as if they had not been."""
    for number, words in scene.begun.items():
        if _experiments(scene.store)[number] not in record.FINAL:
            scene.wait_for_end(scene.store.start("resume", str(number)))
        now = record.read(scene.store, number)
        if now is None or now.state not in record.FINAL:
            scene.violate("I6", f"{words} was killed and does not end after a resume")
            continue
        outcome = outcome_of(scene.store, now, number)
        if words[0] == "create":
            found = compare(scene.configuration, scene.undisturbed, outcome, Excuses())
            scene.violations += [Violation("D8", f"{words}, killed: {it}") for it in found]
        elif words[0] == "continue" and now.state == "COMPLETED":
            scene.call("reproduce", f"{number}.1", codes={0})
        elif words[0] == "reproduce" and _experiments(scene.store).get(1):
            scene.call("reproduce", words[1], "--against", f"{number}.1", codes={0})


def _is_alone(configuration: Configuration) -> bool:
    """True unless other processes of distributed training would have to be started as well."""
    return configuration.processes == 1


def _has_weights(configuration: Configuration) -> bool:
    return not configuration.is_program


COMMAND_FAULTS = [
    Fault("create, killed", strike=create_and_kill, suits=_is_alone),
    Fault("create, killed after", after=create_and_kill, suits=_is_alone),
    Fault("continue, killed", strike=continue_and_kill, suits=_is_alone),
    Fault("continue, killed after", after=continue_and_kill, suits=_is_alone),
    Fault("reproduce, killed", strike=reproduce_and_kill, suits=_is_alone),
    Fault("reproduce, killed after", after=reproduce_and_kill, suits=_is_alone),
    Fault("delete, killed", after=delete_and_kill),
    Fault("gc, killed", strike=gc_and_kill),
    Fault("gc, killed between", between=gc_and_kill),
    Fault("gc, killed after", after=gc_and_kill),
    Fault("backup, killed", strike=backup_and_kill),
    Fault("backup, restored", between=restore),
    Fault("backup, restored after", after=restore),
    Fault("config exported, killed", strike=export_config),
    Fault("config exported, killed after", after=export_config),
    Fault("checkpoint exported, killed", strike=export_checkpoint, suits=_has_weights),
    Fault("checkpoint exported, killed after", after=export_checkpoint, suits=_has_weights),
]
