"""Determined's Core API, for scripts that were written for it.

    import dtrain as det

    info = det.get_cluster_info()
    with det.core.init() as core_context:
        for op in core_context.searcher.operations():
            ...

What differs from Determined, and what is not supported, is in docs/python.md. A name that
is not supported raises an error that says so. New scripts use `dtrain.init()`.

The searcher of dtrain takes its metric from a validation, but Determined's from
`op.report_completed()`. So the last validation is held until the script reports the next
step, completes the operation, is stopped or ends. A checkpoint of that step waits with it,
unless the validation is known to be complete: dtrain must not have one without the other.
"""

import enum
import json
import math
import os
import shutil
import sys
import uuid as _uuid
from contextlib import contextmanager
from pathlib import Path
from typing import Any, Dict, Iterator, List, Mapping, Optional, Tuple, Union

from dtrain import _reports, _trial

LOG_FORMAT = "%(asctime)s %(levelname)s %(name)s: %(message)s"
"""For logging.basicConfig()."""

_TRIALS = 1_000_000  # numbers of trials in an experiment, for trial_id
# Position in epochs of a script that has not said where it is. With 0, dtrain would take
# its steps for epochs.
_UNKNOWN = 0.001
_METADATA = "metadata.json"


class _Unsupported:
    """Base of the classes below: names that Determined has and dtrain lacks raise."""

    _what = "this object"

    def __getattr__(self, name: str) -> Any:
        if name.startswith("_"):
            raise AttributeError(name)
        raise NotImplementedError(f"dtrain.core does not support {self._what}.{name}; "
                                  "see docs/python.md")


class PreemptMode(enum.Enum):
    """How ranks learn that they must stop. dtrain's ranks follow rank 0, as in the first two
    modes; the third is not supported."""

    WorkersAskChief = "WORKERS_ASK_CHIEF"
    ChiefOnly = "CHIEF_ONLY"
    WorkersAskMaster = "WORKERS_ASK_MASTER"


class EarlyExitReason(enum.Enum):
    """Reasons of `train.report_early_exit()`."""

    INVALID_HP = "EXITED_REASON_INVALID_HP"
    USER_REQUESTED_STOP = "EXITED_REASON_USER_REQUESTED_STOP"


class Unit(enum.Enum):
    """Unit of `searcher.max_length`."""

    EPOCHS = "EPOCHS"
    RECORDS = "RECORDS"
    BATCHES = "BATCHES"


class DistributedContext(_Unsupported):
    """Rank of this process among those of a trial on one machine."""

    _what = "DistributedContext"

    def __init__(self, *, rank: int = 0, size: int = 1, local_rank: Optional[int] = None,
                 local_size: Optional[int] = None, cross_rank: int = 0, cross_size: int = 1,
                 chief_ip: Optional[str] = None, port_offset: int = 0,
                 force_tcp: bool = False) -> None:
        """The last three are ignored. Raises ValueError if the rank is not below the size, or
        for several machines."""
        if not 0 <= rank < size:
            raise ValueError(f"rank must be from 0 to size - 1, got {rank} of {size}")
        if cross_size != 1 or cross_rank != 0:
            raise ValueError(f"cross_size must be 1, got {cross_size}: all processes of a trial "
                             "are on one machine")
        self.rank = rank
        self.size = size
        self.local_rank = rank if local_rank is None else local_rank
        self.local_size = size if local_size is None else local_size
        self.cross_rank = cross_rank
        self.cross_size = cross_size

    @classmethod
    def from_torch_distributed(cls, chief_ip: Optional[str] = None) -> "DistributedContext":
        """Returns the ranks that torchrun has set. Raises RuntimeError without torchrun."""
        names = ("RANK", "WORLD_SIZE", "LOCAL_RANK", "LOCAL_WORLD_SIZE")
        missing = [name for name in names if name not in os.environ]
        if missing:
            raise RuntimeError(f"{', '.join(missing)} not set; start the script by torchrun")
        rank, size, local_rank, local_size = (int(os.environ[name]) for name in names)
        return cls(rank=rank, size=size, local_rank=local_rank, local_size=local_size,
                   cross_size=size // max(local_size, 1))

    def get_rank(self) -> int:
        """Returns the number of this process, from 0."""
        return self.rank

    def get_size(self) -> int:
        """Returns the number of processes."""
        return self.size

    def get_local_rank(self) -> int:
        """Returns the number of this process on this machine, from 0."""
        return self.local_rank

    def get_num_agents(self) -> int:
        """Returns the number of machines: 1."""
        return self.cross_size

    def allgather(self, stuff: Any) -> List[Any]:
        """Returns the objects of all ranks, by rank; all must call it, and they are pickled.
        Raises RuntimeError with several ranks outside dtrain."""
        if self.size == 1:
            return [stuff]
        return _trial.init(rank=self.rank, world_size=self.size).gather(stuff)

    def gather(self, stuff: Any) -> Optional[List[Any]]:
        """Returns the objects of all ranks at rank 0, and None at the others. As `allgather`."""
        found = self.allgather(stuff)
        return found if self.rank == 0 else None

    def broadcast(self, stuff: Any) -> Any:
        """Returns rank 0's object. As `allgather`."""
        return self.allgather(stuff if self.rank == 0 else None)[0]

    allgather_local = allgather
    gather_local = gather
    broadcast_local = broadcast

    def close(self) -> None:
        """Does nothing."""


class _Reports:
    """Reports of one process, with the position of each in the unit of the search."""

    def __init__(self, trial: _trial.Trial) -> None:
        self.time_metric = trial.time_metric  # of Determined 0.38; "" with max_length
        if trial.unit == "records" and not self.time_metric:
            raise NotImplementedError("dtrain.core does not support searcher.max_length in "
                                      "records; use batches or epochs")
        self.trial = trial
        self.unit = trial.unit or "batches"
        self.steps = int(trial.restored_count("batches"))  # the largest reported
        # Where the script is in the unit of the search, as far as it has said.
        self.done = float(trial.restored_count(self.unit))
        if self.unit != "batches":
            self.done = max(self.done, _UNKNOWN)
        self._counted = 0.0  # by the time metric of the last validation
        self.counts_operations = False
        self._held: Optional[Tuple[int, Dict[str, float]]] = None
        self._released: Optional[Tuple[int, Dict[str, float]]] = None  # the last one
        self._released_at: Dict[str, float] = {}  # its position
        self._saved: Optional[Tuple[int, Path]] = None  # a checkpoint that waits
        self.in_operation = False  # report_completed() is due
        # True if the script says how far an epoch gets before it reports it, False if after.
        self._leads: Optional[bool] = None

    def training(self, steps: int, metrics: Mapping[str, Any]) -> None:
        self._advance(steps)
        self._count(metrics)
        self.trial.report(metrics, **self._position(steps))

    def validation(self, steps: int, metrics: Mapping[str, Any]) -> None:
        values = _reports.metrics_of(metrics)
        if self._held:
            self.release()
        self._advance(steps)
        self._count(values)
        if self.unit != "batches" and self.time_metric and self.time_metric not in values \
                and not self.counts_operations:
            raise ValueError(
                f"this validation lacks '{self.time_metric}', the count of the search "
                f"(searcher.time_metric); it has {', '.join(sorted(values)) or 'no metric'}")
        count = values.get(self.time_metric, self._counted)
        if count < self._counted:
            raise ValueError(f"'{self.time_metric}', the count of the search (searcher.time_metric), "
                             f"must not decrease: {count:g} after {self._counted:g}")
        self._counted = count
        self._position(steps)  # raises if it is unknown
        self._leads = bool(self._leads)
        self._held = steps, values

    @contextmanager
    def checkpoint(self, steps: int) -> Iterator[Path]:
        self._advance(steps)
        self._position(steps)  # raises if it is unknown
        self._leads = bool(self._leads)
        self._send_saved()
        with self.trial.checkpoint_files() as path:
            yield path
        self._saved = steps, path
        if not self._may_complete(steps):
            self.release()

    def progress(self, length: float) -> None:
        _reports.require_count("progress", length)
        self._leads = self._leads is not False
        if self._leads and self._is_between:
            self.release()  # of the epoch before
        self.done = max(self.done, length)
        if not self._leads and self._is_between:
            self.release()
        if self.unit == "batches":
            self.trial.progress(batches=int(self.done))
        else:
            self.trial.progress(batches=self.steps, **{self.unit: self.done})

    def release(self) -> None:
        """Reports the validation that is held, and the checkpoint that waits."""
        if self._held:
            self._released, self._held = self._held, None
            steps, metrics = self._released
            self._released_at = self._position(steps)
            if self._saved and self._saved[0] == steps:
                path, self._saved = self._saved[1], None
                self.trial.send_checkpoint(path, self._released_at, metrics)
            else:
                self._send_saved()
                self.trial.validate(metrics, **self._released_at)
        self._send_saved()

    def _send_saved(self) -> None:
        if self._saved:
            (steps, path), self._saved = self._saved, None
            self.trial.send_checkpoint(path, self._position(steps))

    # True if report_completed() may be about to follow, with the result at this step. The end of
    # an operation in epochs is known only from report_progress().
    def _may_complete(self, steps: int) -> bool:
        if not self.in_operation:
            return False
        if self._held and self.trial.metric and self.trial.metric not in self._held[1]:
            return True
        if self.unit == "batches":
            return steps >= (self.trial.length or 0)
        return not (self._leads and self._is_between)

    # True if the script has said that it is within an operation in epochs.
    @property
    def _is_between(self) -> bool:
        return (self.unit == "epochs" and self.in_operation
                and _UNKNOWN < self.done < (self.trial.length or 0)
                and (not self._held or not self.trial.metric
                     or self.trial.metric in self._held[1]))

    def complete(self, length: int, value: float) -> None:
        """Reports the result at the end of an operation."""
        name = self.trial.metric or "metric"
        steps, metrics = self._result(length)
        known = metrics.get(name, value)
        if known != value and not (known != known and value != value):
            print(f"dtrain: report_completed() has {name} = {value:g}, the validation before it "
                  f"{known:g}; {value:g} is recorded", file=sys.stderr)
        result = steps, {**metrics, name: value}
        self.steps = max(self.steps, steps)
        self.done = max(self.done, length)
        self.in_operation = False
        if result != self._released or self._position(steps) != self._released_at:
            self._held = result
        self.release()
        self.trial.flush()

    def await_length(self) -> None:
        """Waits for the next length after a validation at one, in a script that does not
        iterate over operations."""
        trial = self.trial
        last = self._held or self._released
        if self.counts_operations or not last:
            return
        count = last[0] if self.unit == "batches" else self.done
        if count < (trial.length or math.inf):
            return
        self.release()
        trial.await_length(count)

    # Returns the validation that ends an operation.
    def _result(self, length: int) -> Tuple[int, Dict[str, float]]:
        counts_batches = self.unit == "batches"
        if self._held is None:
            # One that a stop has released is completed with its other metrics.
            if self._released and self._released[0] >= (length if counts_batches else self.steps):
                return self._released
            return (length if counts_batches else self.steps), {}
        steps = self._held[0]
        if counts_batches and steps < length:
            raise ValueError(
                f"report_completed() at {length} batches, but the last validation has "
                f"steps_completed={steps}; report one at {length}, or is searcher.max_length in "
                "epochs?")
        return self._held

    def _advance(self, steps: int) -> None:
        if isinstance(steps, bool) or not isinstance(steps, int) or steps < 0:
            raise ValueError("steps_completed must be a whole number of at least 0, got "
                             f"{steps!r}")
        if any(waits and steps > waits[0] for waits in (self._held, self._saved)):
            self.release()
        self.steps = max(self.steps, steps)

    # Reads the count from metrics that have it, as Determined 0.38 does.
    def _count(self, metrics: Mapping[str, Any]) -> None:
        if self.unit == "batches" or self.time_metric not in metrics:
            return
        count = _reports.number_of(self.time_metric, metrics[self.time_metric])
        _reports.require_count(self.time_metric, count)
        self.done = max(self.done, count)

    def _position(self, steps: int) -> Dict[str, float]:
        if self.unit == "batches":
            return {"batches": steps}
        if not self.counts_operations and not self.time_metric:
            raise RuntimeError(
                f"the search counts {self.unit} (searcher.max_length), but this script reports "
                "steps outside searcher.operations(); use max_length: {batches: ...}, or "
                "max_time with time_metric, the name of a metric that gives the count")
        return {"batches": steps, self.unit: self.done}


class SearcherOperation(_Unsupported):
    """A length to train to, counted from the beginning of the trial."""

    _what = "SearcherOperation"

    def __init__(self, length: int, reports: _Reports, is_chief: bool) -> None:
        self.length = length
        """In the unit of `searcher.max_length`."""
        self.completed = False
        self._reports = reports
        self._is_chief = is_chief

    def report_progress(self, length: float) -> None:
        """Says how far training is, in the unit of `length`. Raises RuntimeError on other
        ranks than 0."""
        self._require_chief("report_progress")
        self._reports.progress(length)

    def report_completed(self, searcher_metric: Any) -> None:
        """Reports the searcher's metric at `length`. It joins the last validation.

        Raises RuntimeError on other ranks than 0 and in a second call, TypeError if the
        metric is not a number, ValueError if that validation is before `length`.
        """
        self._require_chief("report_completed")
        if self.completed:
            raise RuntimeError("op.report_completed() was called before for this operation")
        value = _reports.number_of(self._reports.trial.metric or "metric", searcher_metric)
        self._reports.complete(self.length, value)
        self.completed = True

    def _require_chief(self, name: str) -> None:
        if not self._is_chief:
            raise RuntimeError(f"only rank 0 may call op.{name}()")


class SearcherContext(_Unsupported):
    """Lengths that the search asks for."""

    _what = "searcher"

    def __init__(self, trial: _trial.Trial, reports: _Reports) -> None:
        self._trial = trial
        self._reports = reports

    def operations(self, *_mode: Any, **_modes: Any) -> Iterator[SearcherOperation]:
        """Returns the operations of the trial: one, and one more for each promotion. It ends
        if the trial is paused or closed. Outside dtrain it has one of length 1.

        All ranks must iterate. Raises RuntimeError without `searcher.max_length`, and if rank
        0 asks for the next operation before it has completed this one.
        """
        trial = self._trial
        if trial.active and trial.length is None:
            raise RuntimeError("searcher.operations() has no length: set searcher.max_length")
        self._reports.counts_operations = True
        return self._operations()

    def get_configured_units(self) -> Optional[Unit]:
        """Returns the unit of `searcher.max_length`."""
        return Unit[self._trial.unit.upper()] if self._trial.unit else None

    def _operations(self) -> Iterator[SearcherOperation]:
        is_chief = self._trial.rank == 0
        for length in self._trial.lengths(1):
            operation = SearcherOperation(length, self._reports, is_chief)
            self._reports.in_operation = True
            yield operation
            if is_chief and not operation.completed:
                raise RuntimeError("op.report_completed() must be called for each operation")


class TrainContext(_Unsupported):
    """Reports of metrics. Only rank 0 reports."""

    _what = "train"

    def __init__(self, trial: _trial.Trial, reports: _Reports) -> None:
        self._trial = trial
        self._reports = reports

    def report_training_metrics(self, steps_completed: int, metrics: Mapping[str, Any],
                                batch_metrics: Optional[List[Mapping[str, Any]]] = None) -> None:
        """Reports training metrics after that many batches. `batch_metrics` are not recorded.
        Raises TypeError if a metric is not a number."""
        self._reports.training(steps_completed, metrics)

    def report_validation_metrics(self, steps_completed: int, metrics: Mapping[str, Any]) -> None:
        """Reports validation metrics after that many batches.

        Raises TypeError if a metric is not a number. Without the searcher's metric,
        `op.report_completed()` must follow; otherwise the next report raises ValueError.
        """
        self._reports.validation(steps_completed, metrics)

    def report_metrics(self, group: str, steps_completed: int,
                       metrics: Mapping[str, Any]) -> None:
        """Reports metrics of the group "training" or "validation"; NotImplementedError for
        another one."""
        if group == "training":
            self.report_training_metrics(steps_completed, metrics)
        elif group == "validation":
            self.report_validation_metrics(steps_completed, metrics)
        else:
            raise NotImplementedError(f"dtrain.core does not support the group '{group}' of "
                                      "metrics; use training or validation")

    def report_progress(self, progress: float) -> None:
        """Says which part of the training, from 0 to 1, is done."""
        if self._trial.length:
            self._reports.progress(progress * self._trial.length)

    def report_early_exit(self, reason: EarlyExitReason) -> None:
        """Says why the script is about to exit before the length was reached."""
        if reason == EarlyExitReason.INVALID_HP:
            self._trial.invalid("report_early_exit(INVALID_HP)", exits=False)
        else:
            self._reports.release()
            self._trial.finish("report_early_exit(USER_REQUESTED_STOP)")

    def set_status(self, status: str) -> None:
        """Prints the status."""
        print(status)


class CheckpointContext(_Unsupported):
    """Checkpoints of the trial. Only rank 0 saves them."""

    _what = "checkpoint"

    def __init__(self, trial: _trial.Trial, reports: _Reports) -> None:
        self._trial = trial
        self._reports = reports

    @contextmanager
    def store_path(self, metadata: Optional[Dict[str, Any]] = None, *,
                   shard: bool = False) -> Iterator[Tuple[Path, str]]:
        """Saves what is written to a directory: `with store_path({"steps_completed": 10}) as
        (path, uuid):`. The metadata are in it as metadata.json.

        The uuid names the checkpoint only for this script; `dtrain checkpoints` shows
        dtrain's. Raises ValueError without `steps_completed`, RuntimeError on other ranks than
        0, NotImplementedError with `shard` and several ranks.
        """
        if shard and self._trial.world_size > 1:
            raise NotImplementedError("dtrain.core does not support checkpoints with shard=True; "
                                      "save all files on rank 0")
        if self._trial.rank > 0:
            raise RuntimeError("only rank 0 may save a checkpoint")
        if metadata is None or "steps_completed" not in metadata:
            raise ValueError("the metadata of a checkpoint must have 'steps_completed'")
        text = json.dumps(metadata, indent=2)  # raises before the script writes its files
        with self._reports.checkpoint(metadata["steps_completed"]) as path:
            yield path, str(_uuid.uuid4())
            (path / _METADATA).write_text(text + "\n", encoding="utf-8")

    def upload(self, ckpt_dir: Union[str, "os.PathLike[str]"],
               metadata: Optional[Dict[str, Any]] = None, *, shard: bool = False) -> str:
        """Saves a copy of a directory, and returns an id. Raises as `store_path`."""
        with self.store_path(metadata, shard=shard) as (path, uuid):
            _copy(Path(ckpt_dir), path)
        return uuid

    @contextmanager
    def restore_path(self, storage_id: str) -> Iterator[Path]:
        """Gives the directory of the checkpoint `info.latest_checkpoint`; do not write to it.
        Raises ValueError for another one."""
        yield self._find(storage_id)

    def download(self, storage_id: str, ckpt_dir: Union[str, "os.PathLike[str]"]) -> None:
        """Copies the files of `info.latest_checkpoint` to a directory."""
        source = self._find(storage_id)
        Path(ckpt_dir).mkdir(parents=True, exist_ok=True)
        _copy(source, Path(ckpt_dir))

    def get_metadata(self, storage_id: str) -> Dict[str, Any]:
        """Returns the metadata of `info.latest_checkpoint`; empty if it has none."""
        path = self._find(storage_id) / _METADATA
        return json.loads(path.read_text(encoding="utf-8")) if path.exists() else {}

    def _find(self, storage_id: str) -> Path:
        latest = self._trial.restore()
        if latest is None or str(storage_id) != str(latest):
            raise ValueError(f"checkpoint '{storage_id}' cannot be restored: only "
                             "get_cluster_info().latest_checkpoint can")
        return latest


class PreemptContext(_Unsupported):
    """Requests to stop."""

    _what = "preempt"

    def __init__(self, trial: _trial.Trial, reports: _Reports) -> None:
        self._trial = trial
        self._reports = reports

    def should_preempt(self, auto_ack: bool = True) -> bool:
        """True if the script must save a checkpoint and end. All ranks must ask equally often,
        unless only rank 0 asks. In a script without `operations()` it waits, after a
        validation at the length that the search asked for, for the search's decision."""
        if self._trial.rank == 0:
            self._reports.await_length()
        stops = self._trial.should_stop
        if stops and self._trial.rank == 0:
            self._reports.release()
        return stops

    def acknowledge_preemption_signal(self) -> None:
        """Does nothing."""


class Context(_Unsupported):
    """Parts of the Core API; `init()` returns it. One thread uses it."""

    _what = "core_context"

    def __init__(self, trial: _trial.Trial, distributed: DistributedContext) -> None:
        self._reports = _Reports(trial)
        self.distributed = distributed
        self.searcher = SearcherContext(trial, self._reports)
        self.train = TrainContext(trial, self._reports)
        self.checkpoint = CheckpointContext(trial, self._reports)
        self.preempt = PreemptContext(trial, self._reports)

    def __enter__(self) -> "Context":
        return self

    def __exit__(self, kind: Any, error: Any, trace: Any) -> None:
        if kind is None:
            self.close()

    def close(self) -> None:
        """Reports what is held."""
        self._reports.release()
        self._reports.trial.flush()


def init(*, distributed: Optional[DistributedContext] = None,
         preempt_mode: PreemptMode = PreemptMode.WorkersAskChief, **others: Any) -> Context:
    """Returns the context of the trial: `with core.init() as core_context:`.

    Raises NotImplementedError for another argument of Determined's and for a search in
    records, and as `dtrain.init()` does.
    """
    if others:
        raise NotImplementedError(f"dtrain.core does not support init({sorted(others)[0]}=...); "
                                  "remove it")
    if preempt_mode == PreemptMode.WorkersAskMaster:
        raise NotImplementedError("dtrain.core does not support PreemptMode.WorkersAskMaster; use "
                                  "WorkersAskChief")
    if distributed is None:
        trial = _trial.init()
        distributed = DistributedContext(rank=trial.rank, size=trial.world_size)
    else:
        trial = _trial.init(rank=distributed.rank, world_size=distributed.size)
    return Context(trial, distributed)


class TrialInfo(_Unsupported):
    """Facts of the trial."""

    _what = "get_cluster_info().trial"

    def __init__(self, facts: Mapping[str, Any]) -> None:
        self.experiment_id: int = facts["experiment"]
        self.trial_id: int = facts["experiment"] * _TRIALS + facts["trial"]
        """An integer that no other trial of the store has: 3000007 for trial 3.7."""
        self.trial_seed: int = facts["seed"]
        self._hparams: Dict[str, Any] = facts.get("hyperparameters") or {}

    @property
    def hparams(self) -> Dict[str, Any]:
        """The hyperparameters, as nested dictionaries."""
        _trial.note_hparams_read()
        return self._hparams


class ClusterInfo(_Unsupported):
    """Facts of this process; `get_cluster_info()` returns it."""

    _what = "get_cluster_info()"

    def __init__(self, facts: Mapping[str, Any]) -> None:
        saved = facts.get("checkpoint") or {}
        self.trial = TrialInfo(facts)
        self.task_type = "TRIAL"
        self.latest_checkpoint: Optional[str] = saved.get("path") or facts.get("warm_start")
        """For `checkpoint.restore_path()`; None if the trial starts from its beginning."""
        self.user_data: Dict[str, Any] = facts.get("data") or {}
        """Section `data` of the experiment's YAML."""
        self.slot_ids: List[int] = list(facts.get("devices") or [0])
        """Its GPUs; [0] if it trains on the CPU."""
        self.container_addrs = ["127.0.0.1"]
        self.container_rank = 0


def get_cluster_info() -> Optional[ClusterInfo]:
    """Returns facts of the trial that this process trains, or None outside dtrain. Raises
    RuntimeError if they cannot be read."""
    facts = _trial.read_description()
    return None if facts is None else ClusterInfo(facts)


def _copy(source: Path, target: Path) -> None:
    for entry in source.iterdir():
        if entry.is_dir():
            shutil.copytree(entry, target / entry.name)
        else:
            shutil.copy2(entry, target / entry.name)


def __getattr__(name: str) -> Any:
    if name.startswith("__"):
        raise AttributeError(name)
    raise AttributeError(f"dtrain.core does not support core.{name}; see docs/python.md")
