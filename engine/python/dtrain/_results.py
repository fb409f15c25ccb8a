"""Results of experiments, read from a store by `dtrain ... --json`.

    dtrain.experiment(3).metrics(kind="validation").to_pandas()
    weights = dtrain.best(3).load_state_dict()

The program `dtrain` is the one that DTRAIN_PROGRAM names, else that of the installation
this module is part of, else the first one on PATH. Each call runs it once and returns what
the store holds at that time, also of an experiment that is running.
"""

import json
import os
import shutil
import sys
import tempfile
from pathlib import Path
from typing import IO, Any, Dict, Iterable, List, Optional, Sequence, Union

_NUMBERS = {"NaN", "Infinity", "-Infinity"}  # strings, since JSON has no such numbers
_TIMES = ("time", "created", "started", "ended", "modified")
_TRIAL_COLUMNS = ("trial", "state", "reason", "hparams", "batches", "length", "unit", "rung",
                  "best", "latest", "checkpoint", "seed", "restarts", "preemptions", "runs",
                  "slots", "created", "started", "ended", "duration", "star", "note")
_FILE_COLUMNS = ("file", "bytes", "modified", "path")
_SAMPLE_COLUMNS = ("trial", "rank", "time", "seconds", "cores", "processes", "memory_bytes",
                   "pss_bytes", "read_bytes", "written_bytes", "gpus")
_METRIC_COLUMNS = ("trial", "kind", "batches", "length", "unit", "epoch", "name", "value", "time")
_WEIGHTS = (".pt", ".pth", ".safetensors")
_NOT_FOUND = 3  # exit code of dtrain
_Name = Union[int, str, Sequence[Union[int, str]]]  # of an experiment, or of several


class Rows(List[Dict[str, Any]]):
    """A list of dictionaries with the fields of `--json` (docs/schemas)."""

    def __init__(self, rows: Iterable[Dict[str, Any]], columns: Sequence[str]) -> None:
        """`columns`: the fields that a table shows first; an empty one has them as well."""
        super().__init__(rows)
        self._columns = columns

    def to_pandas(self) -> Any:
        """Returns a pandas.DataFrame with a row for each dictionary.

        Nested fields are columns with dots, such as `hparams.lr` and `best.value`; a field
        that a row lacks is missing there. Times are timestamps in UTC.

        Raises ModuleNotFoundError if pandas is not installed.
        """
        try:
            import pandas
        except ModuleNotFoundError as error:
            if error.name != "pandas":
                raise
            raise ModuleNotFoundError(
                f"to_pandas() needs the package 'pandas', which {sys.executable} does not have; "
                "install it, or use the list as it is", name="pandas") from None
        flat = [_flatten(row) for row in self]
        found = dict.fromkeys(name for row in flat for name in row)
        order = [name for first in self._columns for name in found
                 if name == first or name.startswith(first + ".")]
        columns = list(dict.fromkeys(order + list(found))) if flat else list(self._columns)
        table = pandas.DataFrame(flat, columns=columns)
        for name in _TIMES:
            if name in table:
                table[name] = pandas.to_datetime(table[name], utc=True)
        return table


class _Files:
    """What a trial's program wrote in its working directory, beside its checkpoints, and what
    it used."""

    _trial: str
    _place: Union[str, Path, None]

    def files(self) -> Rows:
        """Returns a dictionary for each file, by name, as `dtrain files --json`: "file" (its
        name, such as "out/model.pt"), "bytes", "modified" (a time) and "path".

        Raises RuntimeError if dtrain fails.
        """
        found = _run(["files", "--json", "--", self._trial], self._place)
        return Rows(found["files"], _FILE_COLUMNS)

    def system(self) -> Rows:
        """Returns a dictionary for each sample of what the trial's processes and GPUs used, by
        rank and time: "time" (its end), "seconds" (its length), "cores" (that were busy),
        "processes", "memory_bytes", "pss_bytes", "read_bytes", "written_bytes", and "gpus", each
        with "gpu", "percent", "memory_bytes", "watts" and "celsius". Unknown values are None.

        Raises RuntimeError if dtrain fails.
        """
        found = _run(["plot", "--kind=system", "--json", "--", self._trial], self._place)
        return Rows(found["samples"], _SAMPLE_COLUMNS)

    def open(self, name: str, mode: str = "rb") -> IO[Any]:
        """Opens one of `files()` for reading: `torch.load(best.open("model.pt"))`.

        `mode`: "rb", or "r" for text. Raises LookupError if there is no such file, ValueError
        for a mode that writes.
        """
        if mode not in ("r", "rb", "rt"):
            raise ValueError(f"mode={mode!r}: files of a trial are only read; use 'rb' or 'r'")
        found = _run(["files", "--json", "--", self._trial, name], self._place)["files"]
        paths = [row["path"] for row in found if row["file"] == os.path.normpath(name)]
        if not paths:
            raise LookupError(f"'{name}' of trial {self._trial} is a directory; it has: " +
                              ", ".join(row["file"] for row in found))
        return open(paths[0], mode, encoding=None if mode == "rb" else "utf-8")


class Trial(Dict[str, Any], _Files):
    """A row of `Experiment.trials()`: a dictionary, and the trial's files."""

    def __init__(self, row: Dict[str, Any], store: Union[str, Path, None] = None) -> None:
        """For `trials()`. `row`: an item of "trials" in `dtrain trials --json`."""
        super().__init__(row)
        self._trial = row.get("trial", "")
        self._place = store


class Experiment:
    """A recorded experiment, or several; `dtrain.experiment()` returns it."""

    def __init__(self, name: _Name, store: Union[str, Path, None] = None) -> None:
        """For `experiment()`."""
        names = list(name) if isinstance(name, (list, tuple)) else [name]
        for one in names or [name]:
            if isinstance(one, bool) or not isinstance(one, (int, str)) or one == "":
                raise TypeError("an experiment is given by its ID, such as 3, or by its name, "
                                f"several by a list of these; got {one!r}")
        self._names = [str(one) for one in names]
        self._store = store

    def trials(self) -> Rows:
        """Returns a dictionary for each trial, by number, as `dtrain trials --json`: among
        others "trial" ("3.7"), "state", "hparams", "length" and "unit" (how long it has
        trained: 9 "epochs"), "best" and "latest" (None, or "metric", "value", "length",
        "unit" and "checkpoint"), "duration" (seconds), "reason". Each also has `files()` and
        `open()`.

        Raises LookupError if there is no such experiment, RuntimeError if dtrain fails.
        """
        rows = self._read("trials")["trials"]
        for row in rows:
            _numbers(row, "duration")
            for validation in (row["best"], row["latest"]):
                _numbers(validation, "value")
        return Rows((Trial(row, self._store) for row in rows), _TRIAL_COLUMNS)

    def metrics(self, kind: Optional[str] = None, name: Optional[str] = None) -> Rows:
        """Returns a dictionary for each reported value, as `dtrain metrics --json`: "trial",
        "kind", "length", "unit", "epoch", "name", "value" and "time". Values that a restarted trial
        reported again are left out.

        `kind`: only "training" or "validation". `name`: only this metric.

        Raises LookupError if there is no such experiment, or it has ended without such a
        metric, RuntimeError if dtrain fails.
        """
        chosen = [f"--kind={kind}"] if kind is not None else []
        chosen += [f"--name={name}"] if name is not None else []
        rows = self._read("metrics", *chosen)["metrics"]
        for row in rows:
            _numbers(row, "value", "epoch")
        return Rows(rows, _METRIC_COLUMNS)

    def best(self) -> "Best":
        """Returns the trial with the best validation by the searcher's metric.

        Raises LookupError if there is no such experiment or none of its trials has reported
        a finite value of it, RuntimeError if dtrain fails.
        """
        found = self._read("best")
        if not found["best"]:
            several = ", ".join(map(str, found.get("experiments", [])))
            raise LookupError((f"experiments {several} have" if several else
                               f"experiment {found['experiment']} has") +
                              f" no finite validation value of '{found['metric']}'")
        return Best(found["best"][0], self._store)

    def _read(self, command: str, *options: str) -> Any:
        return _run([command, "--json", *options, "--", *self._names], self._store)


class Best(_Files):
    """The best trial of an experiment, as it was when `dtrain.best()` read it."""

    def __init__(self, row: Dict[str, Any], store: Union[str, Path, None] = None) -> None:
        """For `best()`. `row`: an item of "best" in `dtrain best --json`."""
        _numbers(row, "value")
        _numbers(row["best_saved"], "value")
        self._row = row
        self._store = self._place = store
        self._trial = row["trial"]
        self.trial: str = row["trial"]
        """Experiment and number, such as "3.7"."""
        self.metric: str = row["metric"]
        """Name of the searcher's metric."""
        self.value: float = row["value"]
        """Value of `metric` at the trial's best validation."""
        self.batches: int = row["batches"]
        """As `length`."""
        self.length: int = row["length"]
        """How long the trial had trained by then, in `unit`."""
        self.unit: str = row["unit"]
        """"batches"; "epochs" or "records" of a script that counts only these."""
        self.hparams: Dict[str, Any] = row["hparams"]
        """Hyperparameters of the trial."""
        self.state: str = row["state"]
        """State of the trial, such as "COMPLETED"."""

    def __repr__(self) -> str:
        return (f"Best(trial={self.trial!r}, {self.metric}={self.value!r}, "
                f"{self.unit}={self.length})")

    @property
    def checkpoint(self) -> Path:
        """Directory with the files that the program saved at this validation; the
        checkpoint's own directory (model.safetensors, ...) if the trial is no program.

        Raises LookupError if this validation has no checkpoint: the trial has saved none
        then, or it is deleted or damaged.
        """
        if self._row["path"] is None:
            saved = self._row["best_saved"]
            other = (f"; the best one with a checkpoint has {saved['value']}: "
                     f"{_files_of(Path(saved['path']))}" if saved else "")
            raise LookupError(f"the best validation of trial {self.trial} ({self.metric} "
                              f"{self.value}) has no checkpoint{other}")
        path = _files_of(Path(self._row["path"]))
        if not path.is_dir():
            raise LookupError(f"the checkpoint of trial {self.trial} is not at {path}; it was "
                              "deleted, or its storage is not mounted")
        return path

    def load_state_dict(self, file: Optional[str] = None, model: Optional[str] = None) -> Any:
        """Returns the weights at this validation, on the CPU, after comparing the
        checkpoint with its checksums.

        Of a program's checkpoint: the contents of its one file named *.pt, *.pth or
        *.safetensors, as the program saved them; `file` names one of several, relative to
        `checkpoint`. Of any other trial: a dictionary of tensors; `model` chooses those whose
        names begin with it and a dot, and removes that prefix, as `checkpoint export` does.

        Needs PyTorch, and safetensors for such a file of a program. Only tensors and plain
        values are read, never code.

        Raises LookupError if there is no checkpoint or no such file or model, ValueError if
        the file is not unique or holds other objects, RuntimeError if the checkpoint is
        damaged, ModuleNotFoundError if a package is not installed.
        """
        path = self.checkpoint
        if path == Path(self._row["path"]):
            if file is not None:
                raise ValueError(f"file={file!r}: trial {self.trial} is not a program, its "
                                 "checkpoint has one set of weights; omit it")
            return self._exported(model)
        if model is not None:
            raise ValueError(f"model={model!r}: trial {self.trial} is a program; name one of the "
                             "files in its checkpoint by file=")
        chosen = _weights_file(path, file)
        _run(["checkpoint", "verify", "--json", self._row["checkpoint"]], self._store)
        return _load(chosen)

    def _exported(self, model: Optional[str]) -> Any:
        """The export writes tied tensors, which are saved once, under each name."""
        _import_torch()
        with tempfile.TemporaryDirectory(prefix="dtrain-") as directory:
            file = Path(directory, "weights.pth")
            chosen = [f"--model={model}"] if model is not None else []
            _run(["checkpoint", "export", "--json", "--to=state_dict", f"--out={file}", *chosen,
                  self._row["checkpoint"]], self._store)
            return _load(file)


def experiment(name: _Name, store: Union[str, Path, None] = None) -> Experiment:
    """Returns the experiment with this ID, or of this name; of a list, such as [3, 5], the
    experiments together, which must have one metric and direction. `store` is the directory of
    their store (default: that of DTRAIN_STORE, else dtrain's own default).

    Nothing is read yet: an unknown experiment is an error of the first method called.
    """
    return Experiment(name, store)


def best(name: _Name, store: Union[str, Path, None] = None) -> Best:
    """Returns the best trial of an experiment, or of a list of experiments:
    `experiment(name, store).best()`."""
    return Experiment(name, store).best()


def _program() -> str:
    """Returns the path of dtrain; raises FileNotFoundError if there is none."""
    named = os.environ.get("DTRAIN_PROGRAM")
    if named:
        if shutil.which(named) is None:
            raise FileNotFoundError(f"DTRAIN_PROGRAM names '{named}', which is not an executable")
        return named
    # P/lib/dtrain/python/dtrain/_results.py, or P/lib/python3.x/site-packages/dtrain/...
    here = Path(os.path.abspath(__file__))
    beside = str(here.parents[4] / "bin" / "dtrain") if len(here.parents) > 4 else "dtrain"
    found = shutil.which(beside) or shutil.which("dtrain")
    if found is None:
        raise FileNotFoundError("the program 'dtrain' is not on PATH; add its directory to PATH, "
                                "or set DTRAIN_PROGRAM to its path")
    return found


def _run(arguments: List[str], store: Union[str, Path, None]) -> Any:
    """Runs dtrain and returns the JSON that it prints. Its notices go to stderr."""
    import subprocess  # here: a training script that reads no results need not wait for it

    place = [f"--store={os.fspath(store)}"] if store is not None else []
    command = [_program(), *place, *arguments]
    run = subprocess.run(command, stdin=subprocess.DEVNULL, stdout=subprocess.PIPE,
                         stderr=subprocess.PIPE, check=False)
    notices = run.stderr.decode("utf-8", "replace")
    if run.returncode != 0:
        text = _problem(run.stdout) or notices.strip().replace("dtrain: error: ", "")
        raise (LookupError if run.returncode == _NOT_FOUND else RuntimeError)(
            text or f"{' '.join(command)}: ended with code {run.returncode}")
    sys.stderr.write(notices)
    try:
        return json.loads(run.stdout.decode("utf-8"))
    except ValueError as error:
        raise RuntimeError(f"{' '.join(command)}: printed no JSON ({error}); is it dtrain, and "
                           "of the same version as this module?") from None


def _problem(output: bytes) -> str:
    """Returns why `checkpoint verify` rejects a checkpoint, from what it printed."""
    try:
        checked = json.loads(output.decode("utf-8"))["checkpoints"]
        return "; ".join(item["problem"] for item in checked if item["problem"])
    except (ValueError, LookupError, TypeError):
        return ""


def _numbers(row: Optional[Dict[str, Any]], *fields: str) -> None:
    """Replaces the strings of these fields that stand for numbers, such as "NaN"."""
    for field in fields:
        if row is not None and isinstance(row[field], str) and row[field] in _NUMBERS:
            row[field] = float(row[field])


def _flatten(row: Dict[str, Any], prefix: str = "") -> Dict[str, Any]:
    flat: Dict[str, Any] = {}
    for name, value in row.items():
        if isinstance(value, dict):
            flat.update(_flatten(value, prefix + name + "."))
        elif value is not None or prefix + name not in ("best", "latest", "waiting"):
            flat[prefix + name] = value
    return flat


def _files_of(checkpoint: Path) -> Path:
    """Returns where a program's files are in its checkpoint; the checkpoint if there are none."""
    files = checkpoint / "files"
    return files if files.is_dir() else checkpoint


def _weights_file(directory: Path, name: Optional[str]) -> Path:
    """Returns the file of a program's checkpoint that holds weights."""
    files = sorted(path.relative_to(directory) for path in directory.rglob("*") if path.is_file())
    names = ", ".join(map(str, files))
    if name is not None:
        if Path(name) not in files:
            raise LookupError(f"no file '{name}' in the checkpoint {directory}; it has: {names}")
        return directory / name
    weights = [path for path in files if path.suffix in _WEIGHTS]
    if not weights:
        raise LookupError(f"no file {', '.join('*' + end for end in _WEIGHTS)} in the checkpoint "
                          f"{directory}; it has: {names}")
    if len(weights) > 1:
        raise ValueError(f"several files with weights in the checkpoint {directory}: "
                         f"{', '.join(map(str, weights))}; name one by file=")
    return directory / weights[0]


def _import_torch() -> Any:
    try:
        import torch
    except ModuleNotFoundError as error:
        if error.name != "torch":
            raise
        raise ModuleNotFoundError(
            f"load_state_dict() needs PyTorch, which {sys.executable} does not have; install the "
            "package 'torch', or read the files in .checkpoint", name="torch") from None
    return torch


def _load(file: Path) -> Any:
    torch = _import_torch()
    if file.suffix == ".safetensors":
        try:
            from safetensors.torch import load_file
        except ModuleNotFoundError as error:
            raise ModuleNotFoundError(
                f"{file} needs the package 'safetensors', which {sys.executable} does not have; "
                "install it", name=error.name) from None
        return load_file(file)
    import pickle

    try:
        return torch.load(file, map_location="cpu", weights_only=True)
    except pickle.UnpicklingError as error:
        raise ValueError(
            f"{file} holds objects that are neither tensors nor plain values; if you trust the "
            "program that wrote it, use torch.load with weights_only=False") from error
