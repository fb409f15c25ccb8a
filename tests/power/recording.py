"""Recordings of short experiments: their file operations in order, and the points at which they
acknowledged something as durable."""

import json
import os
import re
import subprocess
import tempfile
from collections.abc import Callable
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any

import record
from compare import Outcome, outcome_of
from configurations import Configuration
from disk import KEPT, Disk, Kind, Op, Tree, log_bytes, read_log, read_tree
from experiment import Store
from record import Record

# Outputs of `backup` and `config --export`, below the recorded directory.
BACKUP = "backup.db"
EXPORT = "exported"
EXPORTED_YAML = "experiment-1.yaml"
# Directory of checkpoints outside the store.
STORAGE = "kept"
# Stands for the home of a store in the YAML of a configuration.
_HOME = "@HOME@"
DATABASE = "store/dtrain.db"
# Files without meaning after a power cut: shared memory and locks of SQLite.
_SHARED_MEMORY = re.compile(r".*\.db-shm")
_OUTPUT = re.compile(r"out\.\d+")


@dataclass(frozen=True)
class Phase:
    """A command."""

    name: str
    # Returns the arguments for a store and its record so far. A function of this module, so that
    # recordings can be pickled.
    words: Callable[[Store, Record | None], tuple[str, ...]]
    experiment: int = 1

    @property
    def is_run(self) -> bool:
        return self.name in ("create", "continue")


@dataclass(frozen=True)
class Scenario:
    name: str
    configuration: Configuration
    phases: tuple[Phase, ...]  # the first creates the experiment
    needs_torch: bool = False
    # Checkpoints are outside the store, whose record has their absolute path. So dtrain can only
    # continue where the recording was made.
    has_storage: bool = False

    def prepare(self, store: Store) -> None:
        """Writes the files that `create` reads."""
        yaml = self.configuration.yaml.replace(_HOME, str(store.home))
        store.prepare(replace(self.configuration, yaml=yaml))


def _search(*, program: str, **changes: Any) -> Configuration:
    """Returns a short search with promotions, restarts and deletions by policy."""
    document = {
        "name": "power",
        "entrypoint": ["python3", program] if program else "builtin:FaultTrial",
        "hyperparameters": {
            "x": {"type": "double", "minval": 0, "maxval": 1},
            "step_ms": 0,
            # Long enough that the runner records a checkpoint and the next validation separately.
            **({"pause_ms": 40} if program else {}),
        },
        "searcher": {
            "name": "async_halving",
            "metric": "loss",
            "max_trials": 4,
            "num_rungs": 2,
            "divisor": 2,
            "max_length": 12,
            "max_concurrent_trials": 2,
        },
        "scheduling_unit": 3,
        "min_validation_period": 3,
        "min_checkpoint_period": 3,
        "checkpoint_policy": "best",
        "checkpoint_storage": {
            "save_experiment_best": 1,
            "save_trial_best": 1,
            "save_trial_latest": 1,
        },
        "max_restarts": 4,
        "reproducibility": {"experiment_seed": 7},
        "resources": {"slots": "cpu:1"},
    } | changes
    files = {"data/notes.txt": "of the user\n" * 40}
    if program:
        files[program] = Path(record.__file__).with_name(program).read_text(encoding="utf-8")
    return Configuration(
        name="power-1",
        yaml=json.dumps(document, indent=1),  # JSON is YAML
        at_once=1,
        scheduling_unit=3,
        validation_period=3,
        initial_validation=False,
        is_plain=False,
        context=files if program else {},
    )


def _create(store: Store, _: Record | None) -> tuple[str, ...]:
    return (*store.creation, "--jsonl")


def _backup(store: Store, _: Record | None) -> tuple[str, ...]:
    return ("backup", str(store.home / "disk" / BACKUP))


def export_words(store: Store, _: Record | None = None) -> tuple[str, ...]:
    return ("config", "1", "--export", str(store.home / "disk" / EXPORT))


def _continue(_store: Store, _: Record | None) -> tuple[str, ...]:
    return ("continue", "1", "--jsonl")


def _delete_a_checkpoint(_: Store, now: Record | None) -> tuple[str, ...]:
    """Deletes the first checkpoint; any of an ended trial may be deleted."""
    assert now is not None
    uuid = next(it["uuid"] for it in now.checkpoints if it["state"] == "COMPLETED")
    return ("checkpoint", "delete", uuid)


def _gc(_store: Store, _: Record | None) -> tuple[str, ...]:
    return ("gc",)


def _delete(_store: Store, _: Record | None) -> tuple[str, ...]:
    return ("delete", "1", "--yes")


_CREATE = Phase("create", _create)
_LATER = (
    Phase("backup", _backup),
    Phase("export", export_words),
    Phase("delete a checkpoint", _delete_a_checkpoint),
    Phase("gc", _gc),
    Phase("delete", _delete),
)

SCENARIOS = (
    Scenario("program", _search(program="program_trial.py"), (_CREATE, *_LATER)),
    Scenario("script", _search(
        program="script_trial.py",
        searcher={
            "name": "async_halving",
            "metric": "loss",
            "max_trials": 3,
            "num_rungs": 2,
            "divisor": 2,
            "max_length": 6,
        },
    ), (_CREATE,)),
    Scenario("builtin", _search(program=""), (_CREATE,), needs_torch=True),
    Scenario("continued", _search(
        program="program_trial.py",
        searcher={"name": "single", "metric": "loss", "max_length": 9},
        checkpoint_storage={"host_path": f"{_HOME}/disk", "storage_path": STORAGE},
    ), (_CREATE, Phase("continue", _continue, experiment=2)), has_storage=True),
)


@dataclass(frozen=True)
class Done:
    """A recorded phase; its operations are ops[begin:end]."""

    phase: Phase
    words: tuple[str, ...]
    begin: int
    end: int
    outcome: Outcome | None  # of the experiment at the end of the phase; None if it is deleted


@dataclass(frozen=True)
class Acknowledged:
    """At operation `at` something was acknowledged as durable, and so everything in `record` is."""

    at: int
    what: str
    record: Record
    experiment: int = 1


@dataclass
class Recording:
    scenario: Scenario
    root: int  # inode of the recorded directory
    outputs: list[int]  # inodes of the files that the commands printed to
    ops: list[Op] = field(default_factory=list)
    phases: list[Done] = field(default_factory=list)
    acknowledged: list[Acknowledged] = field(default_factory=list)
    # The command and the path of each sync, by its operation.
    syncs: dict[int, str] = field(default_factory=dict)
    exported_yaml: bytes = b""  # written by `config --export`
    home: Path = Path()  # of the store that was recorded

    def disk(self, journal: bool = False) -> Disk:
        return Disk(self.root, journal)

    def apply(self, disk: Disk, number: int) -> None:
        op = self.ops[number]
        if not (op.kind in (Kind.WRITE, Kind.TRUNCATE) and op.a in self.outputs):
            disk.apply(op)

    def phase_at(self, cut: int) -> Done:
        """Returns the last phase that had begun."""
        return [it for it in self.phases if it.begin <= cut][-1]

    def expected_at(self, cut: int) -> dict[int, Acknowledged]:
        """Returns the last acknowledgement of each experiment."""
        return {it.experiment: it for it in self.acknowledged if it.at < cut}


class database_in:
    """A temporary copy of a tree's database, with the attribute `database` of a Store."""

    def __init__(self, tree: Tree, name: str = DATABASE) -> None:
        self._tree = tree
        self._name = name

    def __enter__(self) -> "database_in":
        shared = "/dev/shm" if os.access("/dev/shm", os.W_OK) else None
        self._place = tempfile.TemporaryDirectory(prefix="dtrain-power-", dir=shared)
        self.database = Path(self._place.name, "dtrain.db")
        for suffix in ("", "-wal", "-journal"):
            entry = self._tree.get(self._name + suffix)
            if entry is not None:
                Path(f"{self.database}{suffix}").write_bytes(entry.content)
        return self

    def __exit__(self, *_: object) -> None:
        self._place.cleanup()


def make(scenario: Scenario, dtrain: Path, recorder: Path, home: Path) -> Recording:
    store = Store(dtrain, home, home.parent / "cache")
    scenario.prepare(store)
    disk = home / "disk"
    log = home / "log"
    with open(log, "wb") as file:
        file.truncate(1 << 30)  # sparse, and an upper limit
    store.environment |= {
        "LD_PRELOAD": str(recorder),
        "DTRAIN_POWER_ROOT": str(disk),
        "DTRAIN_POWER_LOG": str(log),
    }
    recording = Recording(scenario, disk.stat().st_ino, [], home=home)
    found: list[Tree] = []  # at the end of each phase
    # Created first, so that no file of the store can have had their inodes before.
    outputs = [disk / f"out.{number}" for number in range(len(scenario.phases))]
    for out in outputs:
        out.touch()
        recording.outputs.append(out.stat().st_ino)
    for phase, out in zip(scenario.phases, outputs, strict=True):
        now = record.read(store)
        words = phase.words(store, now)
        with open(out, "r+b") as to_out:
            done = subprocess.run(
                [str(dtrain), "--store", str(store.root), *words],
                env=store.environment,
                stdin=subprocess.DEVNULL,
                stdout=to_out,
                stderr=subprocess.PIPE,
                timeout=300,
                check=False,
            )
        if done.returncode != 0:
            text = done.stderr.decode(errors="replace")
            raise RuntimeError(f"{scenario.name}: '{phase.name}' ended with "
                               f"{done.returncode}: {text}")
        now = record.read(store, phase.experiment)
        outcome = outcome_of(store, now, phase.experiment) if now else None
        recording.phases.append(Done(phase, words, 0, log_bytes(log), outcome))
        found.append(read_tree(disk))
        if phase.name == "export":
            recording.exported_yaml = found[-1][f"{EXPORT}/{EXPORTED_YAML}"].content
    recording.ops = read_log(log)
    _number_phases(recording)
    _follow(recording, found)
    return recording


def _number_phases(recording: Recording) -> None:
    """Converts the ends of phases from bytes of the log to operations."""
    begin, numbered = 0, []
    for it in recording.phases:
        end = sum(op.end <= it.end for op in recording.ops)
        numbered.append(Done(it.phase, it.words, begin, end, it.outcome))
        begin = end
    recording.phases = numbered


def _without(tree: Tree) -> Tree:
    return {
        name: entry for name, entry in tree.items()
        if not _SHARED_MEMORY.fullmatch(name) and not _OUTPUT.fullmatch(name)
    }


def _follow(recording: Recording, found: list[Tree]) -> None:
    """Replays the log to find acknowledgements, and checks that it is complete."""
    disk = recording.disk()
    printed = b""
    ends = {it.end: it for it in recording.phases}
    runs = {output: it.phase for output, it in zip(recording.outputs, recording.phases, strict=True)
            if it.phase.is_run}
    for number, op in enumerate(recording.ops):
        if op.kind == Kind.SYNC:
            name = recording.phase_at(number).phase.name
            recording.syncs[number] = f"{name}: {disk.node_path(op.a)}"
        recording.apply(disk, number)
        if op.kind == Kind.WRITE and op.a in runs:
            printed += op.data
            *lines, printed = printed.split(b"\n")
            what = [text for line in lines if (text := _durable(line))]
            if what:
                _acknowledge(recording, disk, number, what[-1], runs[op.a].experiment)
        if number + 1 in ends:
            _compare(disk.state(KEPT), found[recording.phases.index(ends[number + 1])])
            if number + 1 < len(recording.ops):
                phase = ends[number + 1].phase
                _acknowledge(recording, disk, number, f"'{phase.name}' had ended", phase.experiment)


def _compare(seen: Tree, found: Tree) -> None:
    seen, found = _without(seen), _without(found)
    names = sorted(seen.keys() | found.keys())
    wrong = [name for name in names if seen.get(name) != found.get(name)]
    if wrong:
        first = [f"{it.kind.name} {it.mode:o} {len(it.content)} bytes" if it else "nothing"
                 for it in (seen.get(wrong[0]), found.get(wrong[0]))]
        raise RuntimeError(f"the recorder has missed changes of {', '.join(wrong[:5])}: "
                           f"recorded {first[0]}, found {first[1]}")


def _durable(line: bytes) -> str:
    """Returns the text of an acknowledgement if the line is one, otherwise "". Everything that was
    recorded before it must survive a power cut."""
    if not line.startswith(b"{"):
        return ""
    event = json.loads(line)
    kind = event.get("event", "")
    if kind == "checkpoint":
        return f"checkpoint {event['uuid']} was printed"
    if kind == "trial_ended" and event["state"] in record.FINAL:
        return f"trial {event['id']} was printed as {event['state']}"
    return f"'{kind}' was printed" if kind in ("begin", "end") else ""


def _acknowledge(recording: Recording, disk: Disk, number: int, what: str, experiment: int) -> None:
    with database_in(disk.state(KEPT)) as place:
        now = record.read(place, experiment)  # type: ignore[arg-type]
    if now is not None:
        recording.acknowledged.append(Acknowledged(number, what, now, experiment))

