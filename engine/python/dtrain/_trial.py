"""A trial as its script sees it: hyperparameters, length, reports, checkpoints.

Several processes of one trial (ranks): only rank 0 reports, and the others follow its
decisions about the end of training (_connection.py).
"""

import argparse
import atexit
import json
import math
import os
import pickle
import shutil
import sys
import tempfile
import threading
from contextlib import contextmanager
from pathlib import Path
from typing import Any, Dict, Iterable, Iterator, List, Mapping, NoReturn, Optional, Tuple

from dtrain import _hparams, _reports, _unread
from dtrain._connection import Agreement, Connection

_REPORTER = "DTRAIN_REPORTER"  # value of DTRAIN_TRIAL, if a parent process has called init()


class Trial:
    """A trial of an experiment; `dtrain.init()` returns it. One thread runs the loop; others
    may report and ask whether to stop. Worker processes, such as those of a DataLoader, may
    only read attributes such as `hparams`; their reports raise RuntimeError.

    Training is counted in the unit of `searcher.max_length`: batches, epochs or records.
    `epochs()` and `batches()` count by themselves; in scripts without them each report
    names its count: `trial.validate(accuracy=0.9, epochs=3)`. The count of a report made
    in an iteration of such a loop includes that iteration.

    Outside dtrain, `active` is False: `hparams` is empty, loops have the given length,
    reports are checked and dropped.
    """

    def __init__(self, description: Optional[Dict[str, Any]], rank: int = 0,
                 world_size: int = 1) -> None:
        """For `init()`. `description`: the contents of the file of DTRAIN_TRIAL, or None."""
        facts = description or {}
        self.active: bool = description is not None
        """True if dtrain runs this script."""
        self.id: str = f"{facts['experiment']}.{facts['trial']}" if facts else ""
        """Experiment and number, such as "3.7"; empty outside dtrain."""
        self.rank: int = rank
        """Number of this process among those of the trial, from 0."""
        self.world_size: int = world_size
        """Number of processes of the trial."""
        self.hparams: _hparams.HParams = _hparams.HParams(facts.get("hyperparameters") or {})
        """Hyperparameters that the search chose."""
        self.data: Dict[str, Any] = facts.get("data") or {}
        """Section `data` of the experiment's YAML."""
        self.seed: int = facts.get("seed", 0)
        """Seed of the trial, from 0 to 2^32 - 1; the same in each run of it."""
        self.devices: List[int] = facts.get("devices") or []
        """CUDA device ordinals of the trial; empty if it trains on the CPU."""
        self.threads: int = facts.get("threads") or os.cpu_count() or 1
        """Number of CPU cores of the trial."""
        self.metric: str = facts.get("metric", "")
        """Validation metric of the searcher; empty outside dtrain."""
        self._requires_metric: bool = facts.get("requires_metric", True)
        self.time_metric: str = facts.get("time_metric") or ""
        """Metric that gives the count of a report of the Core API; empty without one."""
        self.smaller_is_better: bool = facts.get("smaller_is_better", True)
        """Direction of `metric`."""
        self.checkpoint_policy: str = facts.get("checkpoint_policy", "none")
        """Validations to be kept in a checkpoint: "best", "all" or "none"."""

        until = facts.get("until") or {}
        self._unit: Optional[str] = next(iter(until), None)
        self._until: Optional[int] = until.get(self._unit)
        saved = facts.get("checkpoint") or {}
        self._restored: Optional[str] = saved.get("path") or facts.get("warm_start")
        self._saved: Dict[str, float] = {unit: saved[unit] for unit in _reports.UNITS if unit in saved}

        self._alternatives: Dict[str, List[Any]] = facts.get("alternatives") or {}
        self._rules: int = facts.get("rules", 2)
        self._pid = os.getpid()
        self._lock = threading.RLock()  # of all below
        self._looping = False
        self._loops = 0  # begun
        self._counted: Optional[str] = None  # unit of the loop, also after its end
        self._count = 0  # in that unit, with the iteration that runs
        self._fixed: Optional[int] = None  # length that the script asks for
        # Count of the last validation; the checkpoint may have that of its count.
        self._validated = self._saved.get(self._unit or "", -1.0) if saved.get("validated") else -1.0
        self._best: Optional[float] = None  # value of `metric`
        self._keeps = False  # the last validation has no checkpoint yet and is to have one
        self._results = 0  # validations without a count
        self._has_said_lack = False  # that validations lack the searcher's metric
        self._asks_unread = True  # the first validation says what was not read until then
        self._last = dict.fromkeys(("training", "validation", "progress", "checkpoint"), -1.0)
        self._first_unit: Optional[str] = None  # of the first report
        self._means = _reports.Means()
        self._means_at: Dict[str, float] = {}
        # A validation, to be sent with a checkpoint of its count: position and metrics.
        self._held: Optional[Tuple[Dict[str, float], Dict[str, float]]] = None
        self._stop = False
        self._ended = False
        self._directory: str = facts.get("directory", "")  # deleted by dtrain
        self._checkpoints = 0
        self._link: Optional[Connection] = None
        self._agreement: Optional[Agreement] = None

    # ---- Hyperparameters.

    def parse_args(self, parser: argparse.ArgumentParser, args: Optional[List[str]] = None, *,
                   ignore: Iterable[str] = ()) -> argparse.Namespace:
        """Parses the command line with the hyperparameters as defaults.

        A hyperparameter belongs to the argument of its name; dots and dashes of a name
        are underscores there (`model.layers` is `--model-layers` or `--model_layers`).
        Its value is converted and checked as if it stood on the command line: `no_crop: true`
        is --no-crop, and null is None.

        Exits with 2, as the parser does, if a hyperparameter has no argument and is not in
        `ignore`, if its value is not valid there, if the argument has one value for two
        that the search chooses from, if two hyperparameters belong to one argument, or if
        the command line gives it another value than the search chose.
        """
        return _hparams.parse_args(self.hparams, parser, args, ignore, self._alternatives,
                                   self._rules)

    # ---- The length.

    def epochs(self, length: Optional[int] = None) -> Iterator[int]:
        """Returns the numbers of the epochs to train, from 0 or after the checkpoint's.

        Under dtrain the epochs end at the length that the search asks for, continue if the
        trial is promoted after a validation there, and end at once if it is stopped or
        closed. `length` is the number of epochs outside dtrain, and without
        `searcher.max_length`.

        Raises ValueError if there is no length, RuntimeError if the search counts another
        unit, or another loop is running.
        """
        return self._loop("epochs", length)

    def batches(self, length: Optional[int] = None) -> Iterator[int]:
        """As `epochs`, for a script that counts batches."""
        return self._loop("batches", length)

    def lengths(self, length: Optional[int] = None) -> Iterator[int]:
        """Returns the lengths to train to, for a script with a loop of its own, which must
        validate at each of them and give the count: one, and one more for each promotion.
        They end if the trial is stopped or closed. Outside dtrain, `length` is the only one.

        All ranks must iterate; rank 0 decides. Raises ValueError if there is no length,
        RuntimeError if the script asks for the next one without that validation.
        """
        if self._until is None and (self.active or length is None):
            raise ValueError("there is no length to train to: set searcher.max_length")
        if not self.active and length is not None:
            return iter([length])
        return self._follow_lengths() if self.rank else self._lead_lengths()

    def _lead_lengths(self) -> Iterator[int]:
        number = 0
        self._receive()
        until = None if self._stop else self._until
        try:
            if until is not None and self._validated >= until:
                until = self.await_length(until)  # the checkpoint has that validation
            while until is not None:
                if self._agreement:
                    self._agreement.begin(number, until)
                number += 1
                yield until
                if self._validated < until:
                    raise RuntimeError(f"no validation at {until} {self._unit} was reported; the "
                                       "search asks for the next length after it")
                until = self.await_length(until)
        finally:
            if self._agreement:
                self._agreement.end()

    def _follow_lengths(self) -> Iterator[int]:
        number = 0
        while self._agreement and self._agreement.await_step(number, self._has_lost_dtrain):
            number += 1
            yield int(self._agreement.limit)

    def await_length(self, count: float) -> Optional[int]:
        """Waits until the search asks for a length beyond `count`, and returns it; None if
        training must end, and without `searcher.max_length`. For rank 0, after a validation
        at a length."""
        self._send_means()
        self._send_held()
        self.flush()
        self._receive()
        while not self._stop and self._link and self._until is not None and self._until <= count:
            self._receive(wait=True)
        return None if self._stop or self._link is None else self._until

    def restored_count(self, unit: str) -> float:
        """Returns how many "batches", "epochs" or "records" had been trained by the checkpoint
        of `restore()`; 0 if there is none, or if it does not say."""
        return self._saved.get(unit, 0)

    @property
    def length(self) -> Optional[int]:
        """Length to train to, in the unit of `searcher.max_length`; None without one. It
        grows if the trial is promoted."""
        self._receive()
        return self._until

    @property
    def unit(self) -> Optional[str]:
        """Unit of `length`: "batches", "epochs" or "records"; None without one."""
        return self._unit

    @property
    def at_end(self) -> bool:
        """True in the last iteration of `epochs()` or `batches()` before a length is
        reached: the script must validate in it, or after the loop."""
        if not self._looping:
            return False
        if self._agreement and self.rank:
            return self._count >= self._agreement.limit
        return self._count >= self._limit

    @property
    def should_stop(self) -> bool:
        """True if training must end now: the trial is paused, closed, or dtrain has ended.
        Only needed within long iterations; `epochs()` and `batches()` end by themselves.
        All ranks must ask equally often, since they get the answers of rank 0."""
        return self._ask(saves=False)[0]

    @property
    def should_checkpoint(self) -> bool:
        """True if this is the time to save a checkpoint: at the end of a length, if the trial
        must stop, and after a validation that `checkpoint_policy` wants to keep: by default the
        best of the trial since its process started. So validate first.
        All ranks must ask equally often, since they get the answers of rank 0."""
        stops, saves = self._ask(self._keeps)
        return self.at_end or stops or saves

    # Returns whether training must stop, and whether a validation is to be kept.
    def _ask(self, saves: bool) -> Tuple[bool, bool]:
        if self._agreement and self.rank:
            return self._agreement.await_answer(self._has_lost_dtrain)
        self._receive()
        if self._agreement:
            self._agreement.answer(self._stop, saves)
        return self._stop, saves

    # ---- Reports.

    def report(self, metrics: Optional[Mapping[str, Any]] = None, *, batches: Optional[float] = None,
               epochs: Optional[float] = None, records: Optional[float] = None,
               **more: Any) -> None:
        """Reports training metrics: `trial.report(loss=0.3)`, or a dictionary for names
        that are no identifiers. Values are numbers, or scalar arrays and tensors.

        The reports of one count, such as an epoch, are recorded as one: their mean. The values
        of single batches are not kept, unless each report has a count of its own
        (`trial.report(loss=0.3, batches=120)`).

        Raises TypeError if a value is not a number, ValueError if the count is smaller than an
        earlier one, RuntimeError if the count is unknown.
        """
        values = _reports.metrics_of(metrics, more)
        self._require_owner("report")
        with self._lock:
            where = self._where("training", batches, epochs, records)
            if where != self._means_at:
                self._send_means()
                self._means_at = where
            self._means.add(values)

    def validate(self, metrics: Optional[Mapping[str, Any]] = None, *, batches: Optional[float] = None,
                 epochs: Optional[float] = None, records: Optional[float] = None,
                 **more: Any) -> None:
        """Reports validation metrics, the searcher's among them, all in one call.

        Without a count and outside a loop it is the result at the length that the search
        asked for. Raises as `report` does. Without the searcher's metric, a search ends the
        trial.
        """
        self._require_owner("validate")
        with self._lock:
            self._hold({**(metrics or {}), **more}, {
                unit: count for unit, count in zip(_reports.UNITS, (batches, epochs, records))
                if count is not None})
            if not self._looping:
                self._send_held()
                self.flush()

    # Checks a validation, and keeps it for a checkpoint of its count.
    def _hold(self, metrics: Mapping[str, Any], counts: Mapping[str, float]) -> None:
        values = _reports.metrics_of(metrics)
        lacks_metric = bool(self.metric) and self.metric not in values and self._requires_metric
        if lacks_metric:
            self._report_lack(values)
        where = self._where("validation", *(counts.get(unit) for unit in _reports.UNITS))
        if any(where.values()):  # an initial validation precedes what training reads
            self._send_unread_so_far()
        self._validated = where[self._unit] if self._unit in where else self._validated
        self._send_means()
        self._send_held()
        _reports.line("validation", **where, metrics=values)  # raises if it is too long
        self._held = where, values
        self._keeps = self.is_kept(values)
        if lacks_metric:  # dtrain decides what that means, before more is trained
            self._send_held()
            self.flush()

    def is_kept(self, values: Mapping[str, float]) -> bool:
        """Returns True if `checkpoint_policy` wants a checkpoint of a validation with these
        metrics, which counts as one from then on. For a framework that saves before it
        reports; in a script, `should_checkpoint` says it after `validate()`."""
        value = values.get(self.metric, math.nan)
        is_best = math.isfinite(value) and (
            self._best is None
            or (value < self._best if self.smaller_is_better else value > self._best))
        if is_best:
            self._best = value
        return self.checkpoint_policy == "all" or (self.checkpoint_policy == "best" and is_best)

    def progress(self, *, batches: Optional[float] = None, epochs: Optional[float] = None,
                 records: Optional[float] = None) -> None:
        """Says how far training is, without metrics. A trial that neither reports nor prints
        anything for `hang_timeout` is restarted."""
        self._require_owner("progress")
        with self._lock:
            self._send(_reports.line("progress", **self._where("progress", batches, epochs, records)))

    @contextmanager
    def checkpoint(self, *, batches: Optional[float] = None, epochs: Optional[float] = None,
                   records: Optional[float] = None) -> Iterator[Path]:
        """Saves a checkpoint: `with trial.checkpoint() as path:` gives an empty directory
        to write to, and reports it at the end unless there was an exception.

        dtrain copies the files and deletes the directory. On ranks other than 0 and outside
        dtrain, the directory is only deleted. Raises ValueError if it is left empty.
        """
        self._require_owner("checkpoint")
        with self._lock:
            where = self._where("checkpoint", batches, epochs, records)
        with self.checkpoint_files() as path:
            yield path
        self._send_checkpoint(where, path)

    @contextmanager
    def checkpoint_files(self) -> Iterator[Path]:
        """Gives a directory for the files of a checkpoint that `send_checkpoint()` reports.
        Raises as `checkpoint` does."""
        self._require_owner("checkpoint")
        with self._lock:
            path = self._checkpoint_directory()
            self._keeps = False
        try:
            yield path
            if self._is_reporter and not any(path.iterdir()):
                raise ValueError(f"the checkpoint is empty; write its files to {path}")
        except BaseException:
            shutil.rmtree(path, ignore_errors=True)
            raise
        if not self._is_reporter:
            shutil.rmtree(path, ignore_errors=True)

    def send_checkpoint(self, path: Path, counts: Mapping[str, float],
                        validation: Optional[Mapping[str, Any]] = None) -> None:
        """Reports the checkpoint that was written to `path`, at these counts, and with it the
        validation there. Raises as `validate` does."""
        with self._lock:
            where = self._where("checkpoint", *(counts.get(unit) for unit in _reports.UNITS))
            if validation is not None:
                self._hold(validation, where)
            self._send_checkpoint(where, path)

    # A checkpoint carries the validation of its count: dtrain stores both or neither, also if it
    # is killed. That of an earlier count must come first.
    def _send_checkpoint(self, where: Dict[str, float], path: Path) -> None:
        if not self._is_reporter:
            return
        with self._lock:
            self._send_means()
            fields: Dict[str, Any] = {**where, "path": str(path)}
            if self._held and self._is_at(where, self._held[0]):
                at, metrics = self._held
                try:
                    line = _reports.line("checkpoint", **{**at, **fields}, validation=metrics)
                    self._held = None
                except ValueError:  # too long for one line
                    line = _reports.line("checkpoint", **fields)
            else:
                self._send_held()
                line = _reports.line("checkpoint", **fields)
            self._send(line)
            self._send_held()
            self.flush()

    # True if both positions are of one count.
    def _is_at(self, where: Mapping[str, float], other: Mapping[str, float]) -> bool:
        unit = self._unit or self._first_unit
        return where.get(unit or "") == other.get(unit or "") and (
            where.get("batches", 0) == other.get("batches", 0)
            or not ("batches" in where and "batches" in other))

    def restore(self, file: Optional[str] = None) -> Optional[Path]:
        """Returns the directory of the checkpoint to continue from, or None. It has the
        files that were written in `checkpoint()`; do not write to it. In the first run of a
        trial of `searcher.source_checkpoint_uuid` these are initial weights.

        With `file`, returns the path of that file in it, or None without a checkpoint. Raises
        FileNotFoundError if the checkpoint lacks the file.
        """
        directory = Path(self._restored) if self._restored else None
        if file is None or directory is None:
            return directory
        if not (directory / file).exists():
            names = sorted(path.name for path in directory.iterdir())
            raise FileNotFoundError(f"the checkpoint {directory} has no file '{file}'"
                                    f"{_hparams.similar(file, names) or '; it has: ' + ', '.join(names)}")
        return directory / file

    def invalid(self, why: str, *, exits: bool = True) -> None:
        """Says that this combination of hyperparameters cannot be trained, and exits. The
        search draws another one. With `exits=False` the script must exit soon."""
        self._end("invalid_hp", why)
        if exits:
            raise SystemExit(0 if self.active else f"invalid hyperparameters: {why}")

    def fail(self, why: str) -> NoReturn:
        """Says that the trial cannot run here, for example because a data set is missing,
        and exits. The trial ends in ERROR with `why` and is not restarted."""
        if self.active:
            self._end("fatal", why)
        raise SystemExit(why)

    def finish(self, why: str = "") -> None:
        """Says that training has ended, before the length was reached: the trial is
        complete with its last validation. The script must exit soon."""
        self._end("user_stop", why)

    def flush(self) -> None:
        """Sends all reports now; otherwise they are sent within 50 ms."""
        if self._link and self._is_reporter:
            self._link.flush()

    def gather(self, value: Any) -> List[Any]:
        """Returns the values of all ranks, by rank; for dtrain.core. All must call it equally
        often, with what `pickle` takes. Raises RuntimeError outside dtrain with several ranks."""
        self._require_owner("gather")
        if self.world_size == 1:
            return [value]
        if self._agreement is None:
            raise RuntimeError("objects of several processes are exchanged only in a trial of dtrain")
        data = pickle.dumps(value)
        return [pickle.loads(found)
                for found in self._agreement.gather(data, self.world_size, self._has_lost_dtrain)]

    # ---- Loops.

    def _loop(self, unit: str, length: Optional[int]) -> Iterator[int]:
        if self._looping and not self._is_notebook:
            raise RuntimeError(f"a loop over {self._counted} is running; a trial counts one loop")
        if self._unit not in (None, unit):
            loop = "" if self._unit == "records" else f"trial.{self._unit}(), or "
            raise RuntimeError(
                f"the search counts {self._unit} (searcher.max_length), but this loop counts "
                f"{unit}; use {loop}max_length: {{{unit}: ...}}")
        if self._until is None and length is None:
            raise ValueError(f"the number of {unit} is unknown: give it here, "
                             f"trial.{unit}(10), or as searcher.max_length")
        if length is not None and (isinstance(length, bool) or length != int(length)):
            raise ValueError(f"the number of {unit} must be a whole number, got {length!r}")
        if self._counted is None:
            self._count = int(self._saved.get(unit, 0))
        elif self._is_notebook or not self.active and self._count >= (length or 0):
            self._start_over()
        self._counted, self._fixed, self._looping = unit, length, True
        self._loops += 1
        return self._iterate(self._loops)

    # Outside dtrain, a cell of a notebook may run again, also after it was interrupted.
    def _start_over(self) -> None:
        self._means = _reports.Means()
        self._first_unit = None
        self._count, self._validated = 0, -1.0
        self._last = dict.fromkeys(self._last, -1.0)

    @property
    def _is_notebook(self) -> bool:
        return not self.active and hasattr(sys, "ps1")

    def _iterate(self, number: int) -> Iterator[int]:
        try:
            while self._begin_iteration():
                self._count += 1
                self._keeps = False
                yield self._count - 1
        finally:
            if os.getpid() == self._pid and number == self._loops:
                self._end_loop()

    def count_on(self) -> None:
        """Counts one more iteration without beginning it, for a framework that cannot end where
        a stop was seen."""
        self._count += 1

    def _end_loop(self) -> None:
        self._looping = False
        if self._agreement and self.rank == 0:
            self._agreement.end()
        self._send_means()
        self._send_held()
        self.flush()

    @property
    def _limit(self) -> float:
        if self._until is not None:
            return self._until
        return math.inf if self._fixed is None else self._fixed

    # Rank 0 decides for all.
    def _begin_iteration(self) -> bool:
        if self._agreement and self.rank:
            return self._agreement.await_step(self._count, self._has_lost_dtrain)
        begins = self._decide()
        if self._agreement and begins:
            self._agreement.begin(self._count, self._limit)
        return begins

    def _decide(self) -> bool:
        self._send_means()
        self._send_held()
        self._receive()
        while not self._stop and self._count >= self._limit:
            # Without a validation there, dtrain asks for no further length.
            if not self.active or self._until is None or self._validated < self._until:
                return False
            self.flush()
            self._receive(wait=True)
        return not self._stop

    # ---- Counts.

    # Returns the position of a report, by unit.
    def _where(self, kind: str, batches: Optional[float], epochs: Optional[float],
               records: Optional[float]) -> Dict[str, float]:
        where = {unit: count for unit, count in zip(_reports.UNITS, (batches, epochs, records))
                 if count is not None}
        if self._counted:
            where.setdefault(self._counted, self._count)
        elif not where and kind == "validation":
            where = self._result_position()
        unit = self._unit or self._first_unit or next(
            (one for one in _reports.UNITS if one in where), "epochs")
        if unit not in where:
            raise RuntimeError(f"the count of this report is unknown: use trial.{unit}() as the "
                               f"loop, or give the count, such as {unit}=3")
        _reports.require_position(where, unit)
        if where[unit] < self._last[kind] and not self._is_notebook:
            raise ValueError(f"{kind} at {where[unit]:g} {unit} after {self._last[kind]:g}: counts "
                             "must not decrease")
        self._last[kind] = where[unit]
        self._first_unit = unit
        return where

    # A script without counts validates once, at the end; without a length, each
    # validation is an epoch.
    def _result_position(self) -> Dict[str, float]:
        self._results += 1
        if self._unit is None or self._until is None:
            return {"epochs": int(self._saved.get("epochs", 0)) + self._results}
        return {self._unit: self._until} if self._results == 1 else {}

    # ---- Messages.

    # A forked worker shares the socket with this process: it would take operations that are
    # for this one.
    def _require_owner(self, name: str) -> None:
        if os.getpid() != self._pid:
            raise RuntimeError(
                f"trial.{name} is used in a worker process, such as one of a DataLoader; use it in "
                "the process that called dtrain.init() first")

    @property
    def _is_reporter(self) -> bool:
        return self._link is not None and self.rank == 0

    def _checkpoint_directory(self) -> Path:
        if self._is_reporter:
            self._checkpoints += 1
            path = Path(self._directory, f"checkpoint-{self._checkpoints}")
            path.mkdir()
            return path
        if not self.active and self._checkpoints == 0 and self.rank == 0:
            print("dtrain: not started by dtrain; checkpoints are deleted", file=sys.stderr)
        self._checkpoints += 1
        return Path(tempfile.mkdtemp(prefix="dtrain-checkpoint-"))

    def _send_means(self) -> None:
        with self._lock:
            if self._means:
                self._send(_reports.line("training", **self._means_at, metrics=self._means.take()))

    def _send_held(self) -> None:
        with self._lock:
            if self._held:
                where, metrics = self._held
                self._held = None
                self._send(_reports.line("validation", **where, metrics=metrics))

    def _send(self, line: str) -> None:
        if self._link and self._is_reporter:
            self._link.send(line)

    def _end(self, reason: str, message: str) -> None:
        self._require_owner("finish" if reason == "user_stop" else "invalid")
        if self._ended:
            return
        self._ended = True
        self._send_means()
        self._send_held()
        self._send(_reports.line("end", reason=reason, message=_reports.message_of(message)))
        self.flush()

    # True if this is that rank, or may become it: rank 0 of processes that it starts itself.
    def _is_rank(self, rank: int, world_size: int) -> bool:
        if self.rank == rank == 0 and self.world_size == 1 < world_size and not self._counted:
            self.world_size = world_size
            self._join()
        return (self.rank, self.world_size) == (rank, world_size)

    # Agrees with the other ranks from now on.
    def _join(self) -> None:
        if self.active and self.world_size > 1:
            self._agreement = Agreement(Path(self._directory, "ranks"), self.rank)

    # Applies what dtrain has sent; with `wait`, waits up to a second for the next operation.
    # Another thread may have applied it by then.
    def _receive(self, wait: bool = False) -> None:
        self._require_owner("should_stop")
        if self._link is None:
            return
        if wait:
            self._link.wait(seconds=1)
        with self._lock:
            for operation in self._link.receive():
                kind = operation.get("type")
                if kind == "train":
                    self._unit, self._until = next(iter(operation["until"].items()))
                elif kind in ("stop", "close"):
                    self._stop = True
                    self._acknowledge_stop(kind)
            self._stop = self._stop or self._link.gone

    # A script that was told to stop does not end with its result, as one that did not ask.
    def _acknowledge_stop(self, kind: str) -> None:
        try:
            if kind == "stop":
                self._send(_reports.line("stopping"))
        except ConnectionError:
            pass  # the next report raises it

    def _has_lost_dtrain(self) -> bool:
        self._receive()
        return self._link is not None and self._link.gone

    # dtrain decides about a validation without the searcher's metric, if it gets one.
    def _report_lack(self, values: Mapping[str, float]) -> None:
        lack = (f"this validation lacks '{self.metric}', the metric of the searcher; it has "
                f"{', '.join(sorted(values)) or 'no metric'}{_hparams.similar(self.metric, values)}")
        if self._link is None or not values:
            raise ValueError(lack)
        if self.rank == 0 and not self._has_said_lack:
            self._has_said_lack = True
            print(f"dtrain: warning: {lack}", file=sys.stderr)

    # Before the first validation. Another process of the script may have read them.
    def _send_unread_so_far(self) -> None:
        if not self._is_reporter or not self._asks_unread or _all_hparams_read:
            return
        self._asks_unread = False
        names = _unread.before_validation(self.hparams)
        if names is not None:
            self._send(_reports.line("unread", names=names))

    # Sends what is left, when the interpreter exits.
    def _close(self) -> None:
        if self._link is None or self._link.pid != os.getpid() or self._link.gone:
            return
        self._send_means()
        self._send_held()
        unread = [] if _all_hparams_read else _hparams.unused(self.hparams)
        if not self._ended:
            self._send(_reports.line("unread", names=unread))
        self.flush()
        if unread and self.rank == 0 and not self._ended:
            print(f"dtrain: warning: the script never read the hyperparameter"
                  f"{'s' if len(unread) > 1 else ''} {', '.join(unread)}", file=sys.stderr)


_current: Optional[Trial] = None
_all_hparams_read = False  # outside Trial.hparams


def init(*, rank: Optional[int] = None, world_size: Optional[int] = None) -> Trial:
    """Returns the trial that this process trains; the same object in each call.

    `rank` and `world_size` are taken from the environment variables of torchrun, Open MPI,
    PMI, Slurm or Lightning if they are not given. Only rank 0 reports. A process that was
    alone may become rank 0 of several, which it starts later.

    Raises RuntimeError if dtrain cannot be reached, or if another program already
    reports for this trial as rank 0.
    """
    global _current
    if (rank is None) != (world_size is None):
        raise ValueError("give rank and world_size, or neither")
    if rank is None or world_size is None:
        rank, world_size = _ranks()
    if not 0 <= rank < world_size:
        raise ValueError(f"rank must be from 0 to world_size - 1, got {rank} of {world_size}")
    if _current is not None and _current._is_rank(rank, world_size):
        return _current
    if _current is not None:
        raise RuntimeError(f"dtrain.init() was called before, as rank {_current.rank} of "
                           f"{_current.world_size}")
    description = read_description()
    if description is None:
        _current = Trial(None, rank, world_size)
        return _current
    trial = Trial(description, rank, world_size)
    if world_size == 1 and _is_worker():
        trial._pid = 0
        _current = trial
        return trial
    os.environ[_REPORTER] = os.environ["DTRAIN_TRIAL"]
    trial._link = Connection(os.environ.get("DTRAIN_SOCKET", ""), rank)
    trial._join()
    atexit.register(trial._close)
    _current = trial
    return trial


def _is_worker() -> bool:
    """True in a process that multiprocessing started by "spawn" or "forkserver" from one that
    has called `init()`. It imports the script as the module __mp_main__."""
    return "__mp_main__" in sys.modules and (
        os.environ.get(_REPORTER) == os.environ.get("DTRAIN_TRIAL"))


def note_hparams_read() -> None:
    """Records that the script got all hyperparameters in another way than `Trial.hparams`; nobody
    can say then which of them it uses."""
    global _all_hparams_read
    _all_hparams_read = True


def read_description() -> Optional[Dict[str, Any]]:
    """Returns the contents of the file of DTRAIN_TRIAL, or None outside dtrain. Raises
    RuntimeError if it cannot be read."""
    path = os.environ.get("DTRAIN_TRIAL")
    if not path:
        return None
    try:
        with open(path, encoding="utf-8") as file:
            description: Dict[str, Any] = json.load(file)
    except (OSError, ValueError) as error:
        raise RuntimeError(f"the trial's description cannot be read ({error}); is DTRAIN_TRIAL a "
                           "variable of a trial that has ended?") from None
    if description.get("protocol") != 1:
        raise RuntimeError(f"dtrain speaks version {description.get('protocol')} of its protocol, "
                           "this module version 1; use the module of that dtrain")
    return description


def _ranks() -> Tuple[int, int]:
    for rank, size in (("RANK", "WORLD_SIZE"), ("OMPI_COMM_WORLD_RANK", "OMPI_COMM_WORLD_SIZE"),
                       ("PMIX_RANK", "PMIX_SIZE"), ("PMI_RANK", "PMI_SIZE"),
                       ("SLURM_PROCID", "SLURM_NTASKS"),
                       ("LOCAL_RANK", "WORLD_SIZE")):  # Lightning, on one machine
        try:
            found = int(os.environ[rank]), int(os.environ[size])
        except (KeyError, ValueError):
            continue
        if found[1] > 1:
            return found
    return 0, 1
