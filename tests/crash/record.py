"""Reads the record of an experiment from the store with SQLite, without dtrain."""

import hashlib
import json
import shutil
import sqlite3
import tempfile
import time
from collections.abc import Iterator
from contextlib import closing, contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import bounds
from experiment import Place

# A metric's trial, kind ("training" or "validation"), batches and name.
Key = tuple[int, str, int, str]
# A finite number, or "NaN", "Infinity", "-Infinity" as in the JSON of the command line.
Value = float | str

_KINDS = {0: "training", 1: "validation"}
SPECIAL = {1: "NaN", 2: "Infinity", 3: "-Infinity"}
FINAL = ("COMPLETED", "CANCELED", "ERROR", "STOPPED")


def _copy_with_journal(database: Path, place: str) -> Path | None:
    """Copies the database and its rollback journal, which keeps readers from opening the original.
    Returns None if there is no such journal (any more)."""
    journal = database.with_name(database.name + "-journal")
    try:
        shutil.copy(journal, place)
    except FileNotFoundError:
        return None
    return Path(shutil.copy(database, place))


@contextmanager
def connection(store: Place) -> Iterator[sqlite3.Connection]:
    with tempfile.TemporaryDirectory() as place:
        copy = _copy_with_journal(store.database, place)
        uri = f"file:{copy}" if copy else f"file:{store.database}?mode=ro"
        wait = bounds.READS.limit
        with closing(sqlite3.connect(uri, uri=True, timeout=wait)) as database:
            database.row_factory = sqlite3.Row
            yield database


@dataclass(frozen=True)
class Record:
    experiment: dict[str, Any]
    trials: dict[int, dict[str, Any]]
    metrics: dict[Key, Value]  # not superseded
    superseded: dict[Key, Value]  # of earlier runs, replaced by a later one
    validations: dict[tuple[int, int], Value]
    events: list[tuple[str, str]]  # with their operations
    checkpoints: list[dict[str, Any]]  # in order of recording

    @property
    def state(self) -> str:
        """Stored state; a dead runner leaves RUNNING."""
        return str(self.experiment["state"])

    @property
    def config(self) -> dict[str, Any]:
        return json.loads(self.experiment["config"])

    def at_batches(self, number: int) -> dict[int, Value]:
        """Returns the validations of a trial."""
        return {at: value for (of, at), value in self.validations.items() if of == number}


def _value(row: sqlite3.Row) -> Value:
    return row["value"] if row["special"] == 0 else SPECIAL[row["special"]]


def read(store: Place, experiment: int = 1) -> Record | None:
    """Returns None if the experiment is not recorded."""
    if not store.database.exists():
        return None
    start = time.monotonic()
    found = _read(store, experiment)
    bounds.READS.see(time.monotonic() - start)
    return found


def _first_column(store: Place, query: str) -> list[Any]:
    """Returns nothing if there is no database yet, or an empty one."""
    if not store.database.exists():
        return []
    with connection(store) as database:
        if not database.execute("SELECT 1 FROM sqlite_schema LIMIT 1").fetchone():
            return []
        return [row[0] for row in database.execute(query)]


def experiments(store: Place) -> list[int]:
    """Returns the IDs of all experiments."""
    return _first_column(store, "SELECT id FROM experiments ORDER BY id")


def storages(store: Place) -> list[Path]:
    """Returns the directories elsewhere that hold checkpoints."""
    query = "SELECT path || '/' || (SELECT uuid FROM store) FROM storages"
    return [Path(it) for it in _first_column(store, query)]


def _read(store: Place, experiment: int) -> Record | None:
    with connection(store) as database:
        if not database.execute("SELECT 1 FROM sqlite_schema LIMIT 1").fetchone():
            return None
        database.execute("BEGIN")  # reads one snapshot
        found = database.execute(
            "SELECT e.*, d.config FROM experiments e "
            "JOIN experiment_details d ON d.experiment = e.id WHERE e.id = ?", (experiment,)
        ).fetchone()
        if found is None:
            return None
        rows = database.execute("SELECT * FROM trials WHERE experiment = ?", (experiment,))
        trials = {row["number"]: dict(row) for row in rows}
        return Record(
            experiment=dict(found),
            trials=trials,
            metrics=_metrics(database, experiment, superseded=False),
            superseded=_metrics(database, experiment, superseded=True),
            validations=_validations(database, experiment),
            events=_events(database, experiment),
            checkpoints=_checkpoints(database, experiment),
        )


def _metrics(
    database: sqlite3.Connection, experiment: int, superseded: bool
) -> dict[Key, Value]:
    rows = database.execute(
        "SELECT t.number, m.kind, m.batches, n.name, m.value, m.special FROM metrics m "
        "JOIN trials t ON t.id = m.trial JOIN metric_names n ON n.id = m.name "
        "WHERE t.experiment = ? AND m.superseded = ?",
        (experiment, superseded),
    )
    return {
        (row["number"], _KINDS[row["kind"]], row["batches"], row["name"]): _value(row)
        for row in rows
    }


def _validations(database: sqlite3.Connection, experiment: int) -> dict[tuple[int, int], Value]:
    rows = database.execute(
        "SELECT t.number, v.batches, v.value, v.special FROM validations v "
        "JOIN trials t ON t.id = v.trial WHERE t.experiment = ? AND v.superseded = 0",
        (experiment,),
    )
    return {(row["number"], row["batches"]): _value(row) for row in rows}


def _events(database: sqlite3.Connection, experiment: int) -> list[tuple[str, str]]:
    rows = database.execute(
        "SELECT event, operations FROM searcher_events WHERE experiment = ? ORDER BY seq",
        (experiment,),
    )
    return [(row["event"], row["operations"]) for row in rows]


def _checkpoints(database: sqlite3.Connection, experiment: int) -> list[dict[str, Any]]:
    rows = database.execute(
        "SELECT c.*, t.number, s.path || '/' || (SELECT uuid FROM store) AS elsewhere "
        "FROM checkpoints c JOIN trials t ON t.id = c.trial "
        "LEFT JOIN storages s ON s.id = c.storage WHERE t.experiment = ? ORDER BY c.id",
        (experiment,),
    )
    return [dict(row) for row in rows]


def directory_of(store: Place, checkpoint: dict[str, Any], experiment: int = 1) -> Path:
    number = str(checkpoint["number"])
    if checkpoint["elsewhere"]:
        return Path(checkpoint["elsewhere"], str(experiment), number, checkpoint["uuid"])
    trial = store.root / "experiments" / str(experiment) / "trials" / number
    return trial / "checkpoints" / checkpoint["uuid"]


def files_in(directory: Path) -> dict[str, Path]:
    """Returns all files below the directory by relative path."""
    paths = sorted(path for path in directory.rglob("*") if not path.is_dir())
    return {path.relative_to(directory).as_posix(): path for path in paths}


def sha256(path: Path) -> str:
    with open(path, "rb") as file:
        return hashlib.file_digest(file, "sha256").hexdigest()


def weights(store: Place, record: Record, experiment: int = 1) -> dict[int, dict[str, str]]:
    """Returns the SHA-256 of the tensors and random states in each trial's last checkpoint, if that
    one is of the trial's last batch."""
    found: dict[int, dict[str, str]] = {}
    for checkpoint in record.checkpoints:
        number = checkpoint["number"]
        is_last = checkpoint["batches"] == record.trials[number]["batches"]
        if checkpoint["state"] != "COMPLETED" or not is_last:
            continue
        directory = directory_of(store, checkpoint, experiment)
        try:
            state = json.loads((directory / "state.json").read_text(encoding="utf-8"))
        except (OSError, ValueError):
            continue  # incomplete, which check_checkpoints reports
        # A program's checkpoint holds the files that the program saved.
        random = json.dumps(state.get("random"), sort_keys=True).encode()
        paths = [*directory.glob("*.safetensors"), *directory.glob("files/*")]
        found[number] = {path.name: sha256(path) for path in paths}
        found[number]["random"] = hashlib.sha256(random).hexdigest()
    return found
