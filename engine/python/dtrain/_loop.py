"""Training that a framework loops over, counted as a trial: the part that the callbacks of
Keras and of the boosting libraries have in common.

The framework owns the loop, so a callback takes the steps of `Trial.epochs()` or
`Trial.batches()` one at a time: `begin()` takes the first, `advance()` the next.
"""

import json
import time
from pathlib import Path
from typing import Any, Callable, Dict, Iterable, Iterator, Mapping, Optional, Tuple

from dtrain import _trial

_STATE = "dtrain.json"
_ALIVE_SECONDS = 20.0  # between two signs of life


class Loop:
    """Steps of one training. One thread uses it."""

    def __init__(self, trial: Optional[_trial.Trial], steps: str,
                 save: Callable[[Path], None]) -> None:
        """`steps`: name of the framework's steps, for messages. `save` writes a checkpoint to
        a directory. Raises RuntimeError if the search counts records."""
        self.trial = _trial.init() if trial is None else trial
        if self.trial.unit == "records":
            raise RuntimeError(f"the search counts records (searcher.max_length), but {steps} are "
                               "counted here; use max_length: {epochs: ...}")
        self.unit: str = self.trial.unit or "epochs"
        """Unit of the steps: "epochs" or "batches"."""
        self.count: int = 0
        """Number of the step that runs, from 1, over all runs of the trial."""
        self.done: int = 0
        """Number of steps that have ended, over all runs of the trial."""
        self.saved: int = 0
        """Number of steps at the last checkpoint."""
        self._save = save
        self._iterator: Optional[Iterator[int]] = None
        self._last: Tuple[Mapping[str, Any], Optional[Mapping[str, Any]]] = {}, None  # to be saved
        self._reported = 0.0

    @property
    def resumes(self) -> bool:
        """True if this run of the trial continues a training. A checkpoint of another trial,
        with initial weights, has no count."""
        return self.trial.restore() is not None and self.restored_count > 0

    def state(self) -> Dict[str, Any]:
        """Returns what `end_step` saved in the checkpoint to resume from; empty without one."""
        path = self.trial.restore(_STATE) if self.resumes else None
        state: Dict[str, Any] = json.loads(path.read_text(encoding="utf-8")) if path else {}
        return state

    @property
    def restored_count(self) -> int:
        """Number of steps before this run of the trial."""
        return int(self.trial.restored_count(self.unit))

    def begin(self, length: int) -> bool:
        """Begins the first step; False if there is none to train. `length`: the number of
        steps without `searcher.max_length`. Raises RuntimeError in a second training."""
        if self._iterator is not None:
            raise RuntimeError("this callback has been used for a training before; a trial of "
                               "dtrain is one training")
        if self._take_first(length):
            return True
        # dtrain may have ended after the checkpoint at the length, before its validation.
        validation = self.state().get("validation")
        if validation and not self.trial.should_stop:
            self.trial.validate(validation)
            return self.trial.length is not None and self._take_first(length)
        return False

    def end_step(self, training: Mapping[str, Any], validation: Mapping[str, Any], *,
                 saves: bool = False, keeps_best: bool = True,
                 state: Optional[Mapping[str, Any]] = None) -> None:
        """Reports the metrics of the step that has run, and saves a checkpoint if it is time
        for one, or if `saves`. `state` is for `state()` of the next run. With `keeps_best` it is
        also time if `checkpoint_policy` wants to keep the validation.

        Raises ValueError if the metric of the searcher is not in `validation`.
        """
        trial = self.trial
        if training:
            trial.report(training)
        if validation:
            trial.validate(validation)
        elif trial.at_end and trial.active:
            raise ValueError(f"no validation after {self.count} {self.unit}, the length that the "
                             f"search asks for{only_training(training)}")
        self.done = self.count
        self._last = validation, state
        due = trial.should_checkpoint if keeps_best else trial.should_stop or trial.at_end
        if due or saves:
            self.save(validation, state)
        self._reported = time.monotonic()

    def save(self, validation: Mapping[str, Any], state: Optional[Mapping[str, Any]] = None,
             count: Optional[int] = None) -> None:
        """Saves a checkpoint after the step that runs, or after `count` steps; nothing outside
        dtrain."""
        if not self.trial.active:
            return
        values = {name: float(value) for name, value in validation.items()}
        self.saved = self.count if count is None else count
        with self.trial.checkpoint(**{self.unit: self.saved}) as path:
            self._save(path)
            text = json.dumps({**(state or {}), "validation": values})
            (path / _STATE).write_text(text + "\n", encoding="utf-8")

    def advance(self) -> bool:
        """Begins the next step; False if training must end. At a length it waits for the
        search's decision. Saves what a stop since `end_step` would lose."""
        if self._iterator is None:
            return False
        if next(self._iterator, None) is None:
            if self.saved < self.done == self.count and self.trial.should_stop:
                self.save(*self._last)
            return False
        self.count += 1
        return True

    def show_life(self) -> None:
        """Says, at most once in 20 seconds, that a long step is running."""
        now = time.monotonic()
        if now - self._reported > _ALIVE_SECONDS:
            self._reported = now
            self.trial.progress(**{self.unit: self.done})

    @property
    def is_short(self) -> bool:
        """True if the search asks for more steps than have ended, and for no stop."""
        return (self.trial.length is not None and self.done < self.trial.length
                and not self.trial.should_stop)

    def close(self) -> None:
        """Ends the loop after the step that runs, if any."""
        if self._iterator is not None:
            self._iterator.close()  # type: ignore[attr-defined]

    def _take_first(self, length: int) -> bool:
        trial = self.trial
        self._iterator = trial.epochs(length) if self.unit == "epochs" else trial.batches(length)
        self.count = self.done = self.saved = self.restored_count
        self._reported = time.monotonic()
        return self.advance()


def only_training(training: Mapping[str, Any]) -> str:
    """Returns the end of a message about a missing validation."""
    return f"; there are only training metrics: {', '.join(sorted(training))}" if training else ""


class Rounds(Loop):
    """Boosting rounds: XGBoost and LightGBM validate after each."""

    def __init__(self, trial: Optional[_trial.Trial], save: Callable[[Path], None],
                 save_every: Optional[int]) -> None:
        """Raises as `Loop`, and ValueError if `save_every` is not a positive number."""
        super().__init__(trial, "boosting rounds", save)
        if save_every is not None:
            require_positive("save_every", save_every)
        self._save_every = save_every

    def end_round(self, results: Iterable[Tuple[str, str, Any]], missing: str) -> None:
        """Reports the round that has run. `results`: data set, metric and value; metrics get
        names such as "valid-auc". A data set whose name begins with "train" is training data.

        Raises ValueError without a validation of the searcher's metric; `missing` says what
        to do if there is none at all.
        """
        training: Dict[str, Any] = {}
        validation: Dict[str, Any] = {}
        for data, metric, value in results:
            kind = training if data.startswith("train") else validation
            kind[f"{data}-{metric}"] = value
        if not validation and self.trial.active:
            raise ValueError(f"there is no validation{only_training(training)}; {missing}")
        every = self._save_every
        # Many rounds are the best so far, and a later model contains the earlier ones.
        self.end_step(training, validation, keeps_best=False,
                      saves=every is not None and self.count % every == 0)

    def finish(self) -> None:
        """Saves the model of a training that ended by itself, and ends the trial if that was
        before the length."""
        if self.saved < self.done:
            self.save({}, count=self.done)
        if self.is_short:
            self.trial.finish(f"early stopping after {self.done} of {self.trial.length} {self.unit}")


def require_positive(name: str, value: Any) -> None:
    """Raises ValueError if the argument `name` is not a whole number of at least 1."""
    if isinstance(value, bool) or not isinstance(value, int) or value < 1:
        raise ValueError(f"{name} must be a whole number of at least 1, got {value!r}")
