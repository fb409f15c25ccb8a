"""Makes `model.fit()` of Keras 3 the training of a trial.

    from dtrain.keras import DtrainCallback

    model.fit(x, y, epochs=9, validation_data=(x2, y2), callbacks=[DtrainCallback()])

docs/python.md describes it.
"""

import json
import sys
from pathlib import Path
from typing import TYPE_CHECKING, Any, Dict, List, Mapping, Optional

import keras

from dtrain import _random
from dtrain._loop import Loop, require_positive
from dtrain._trial import Trial

if int(keras.__version__.split(".")[0]) < 3:
    raise ImportError(f"dtrain.keras needs Keras 3, but this is Keras {keras.__version__}")

WEIGHTS = "model.weights.h5"
"""File of a checkpoint with the weights and the state of the optimizer, for
`model.load_weights()`."""
_RANDOM = "random.json"
_TENSORS = ("torch", "cuda")  # of _random


class DtrainCallback(keras.callbacks.Callback):  # type: ignore[misc,unused-ignore]
    """Reports the metrics of each epoch, ends training at the length that the search asks for,
    continues it if the trial is promoted, saves checkpoints and resumes from them.

    Metrics have the names that Keras gives them; those with "val_" are the validation. One
    instance is for one `fit()`, whose `epochs` must not be below the length.
    """

    def __init__(self, trial: Optional[Trial] = None, *, save_every: int = 1) -> None:
        """`trial`: that of `dtrain.init()`. `save_every`: number of epochs between
        checkpoints; at each length one is saved in any case.

        Raises RuntimeError if the search counts records, ValueError if `save_every` is not
        a positive number.
        """
        super().__init__()
        require_positive("save_every", save_every)
        self._loop = Loop(trial, "epochs and batches", self._save)
        self._save_every = save_every
        self._first_epoch: Optional[int] = None  # of this run, if it resumes
        self._epoch = 0
        self._unsaved = 0  # epochs since the last checkpoint
        self._fits = False
        self._must_advance = False  # before the next batch
        self._interrupted = False  # by a stop, within an epoch
        self._at_length = False  # this epoch ends early, at a length in batches

    # ---- What Keras calls.

    def on_train_begin(self, logs: Optional[Mapping[str, Any]] = None) -> None:
        """Begins the first epoch, and restores the checkpoint."""
        per_call = getattr(self.model, "steps_per_execution", 1)
        if self._counts_batches and per_call != 1:
            raise ValueError(f"the search counts batches, but steps_per_execution is {per_call}; "
                             "compile the model without it, or use max_length: {epochs: ...}")
        self._fits = self._loop.begin(self._most_epochs)
        self._restore()
        if not self._fits:
            self._start_at(self._most_epochs)  # no epoch is trained

    def on_epoch_begin(self, epoch: int, logs: Optional[Mapping[str, Any]] = None) -> None:
        """Checks that the epochs of `fit()` are enough for the length."""
        if self._first_epoch is not None and epoch != self._first_epoch:
            raise RuntimeError(f"fit() begins at epoch {epoch} instead of {self._first_epoch}; pass "
                               f"it initial_epoch={self._first_epoch}")
        self._first_epoch = None
        self._epoch = epoch
        left = self._most_epochs - epoch
        length = self._loop.trial.length
        if not self._counts_batches and length is not None and length - self._loop.done > left:
            raise ValueError(
                f"fit() has epochs={self._most_epochs}, but the search asks for {length} epochs; "
                "give it those of searcher.max_length, or epochs=trial.length")

    def on_train_batch_begin(self, batch: int, logs: Optional[Mapping[str, Any]] = None) -> None:
        """Counts the batch, if the search counts batches."""
        if self._must_advance:
            self._must_advance = False
            if not self._loop.advance():
                self._interrupt(saves=True)  # this batch will not count

    def on_train_batch_end(self, batch: int, logs: Optional[Mapping[str, Any]] = None) -> None:
        """Ends the epoch if the trial must stop, and at a length in batches."""
        if not self._fits or self._interrupted:
            return
        trial = self._loop.trial
        if self._counts_batches and trial.at_end:
            # Keras draws a random number after the last batch of an epoch, unless it is stopped.
            if batch + 1 != self.params["steps"]:
                self._at_length = self.model.stop_training = True
        elif trial.should_stop:
            self._interrupt(saves=self._counts_batches)
        else:
            self._must_advance = self._counts_batches
        self._loop.show_life()

    def on_test_batch_end(self, batch: int, logs: Optional[Mapping[str, Any]] = None) -> None:
        """Ends the validation of an epoch that was interrupted."""
        if self._interrupted:
            self.model.stop_evaluating = True
        elif self._fits:
            self._loop.show_life()

    def on_epoch_end(self, epoch: int, logs: Optional[Mapping[str, Any]] = None) -> None:
        """Reports the epoch, and waits at a length for the search's decision."""
        if not self._fits or self._interrupted:
            return
        training: Dict[str, Any] = {}
        validation: Dict[str, Any] = {}
        for name, value in (logs or {}).items():
            (validation if name.startswith("val_") else training)[name] = value
        self._unsaved += 1
        self._loop.end_step(training, validation, saves=self._unsaved >= self._save_every,
                            state={"epoch": epoch + 1})
        is_ended = self.model.stop_training and not self._at_length  # by another callback
        if is_ended or epoch + 1 >= self._most_epochs:
            return
        self.model.stop_training = not self._loop.advance()
        self._must_advance = self._at_length = False

    def on_train_end(self, logs: Optional[Mapping[str, Any]] = None) -> None:
        """Ends the trial, if another callback has ended training before the length."""
        loop = self._loop
        self.model._initial_epoch = 0
        if self._fits and not self._interrupted and loop.is_short:
            what = f"fit() ended after {loop.done} of {loop.trial.length} {loop.unit}"
            if not self.model.stop_training:
                raise RuntimeError(f"{what}, since it has epochs={self._most_epochs}; give it more")
            loop.trial.finish(f"{what}: model.stop_training was set")
        loop.close()

    # ---- Checkpoints.

    @property
    def _most_epochs(self) -> int:
        return int(self.params["epochs"])

    @property
    def _counts_batches(self) -> bool:
        return self._loop.unit == "batches"

    def _interrupt(self, saves: bool = False) -> None:
        """Ends `fit()` within an epoch, which is trained again after the pause unless batches
        are counted."""
        if saves:
            self._loop.save({}, {"epoch": self._epoch + 1})
        self._interrupted = self.model.stop_training = True

    def _start_at(self, epoch: int) -> None:
        self._first_epoch = epoch
        self.model._initial_epoch = epoch  # as keras.callbacks.BackupAndRestore does

    def _save(self, path: Path) -> None:
        self.model.save_weights(str(path / WEIGHTS))
        (path / _RANDOM).write_text(json.dumps(_random_states(self.model)), encoding="utf-8")
        self._unsaved = 0

    def _restore(self) -> None:
        weights = self._loop.trial.restore(WEIGHTS)
        if weights is None:
            return
        optimizer = self.model.optimizer
        if optimizer is not None and not optimizer.built:
            optimizer.build(self.model.trainable_variables)
        self.model.load_weights(str(weights))
        random = self._loop.trial.restore(_RANDOM) if self._loop.resumes else None
        if random is not None:
            _set_random_states(self.model, json.loads(random.read_text(encoding="utf-8")))
            self._start_at(int(self._loop.state()["epoch"]))


def _seeds(model: Any) -> List[Any]:
    """Returns the variables that `save_weights()` leaves out: the states of dropout's
    generators."""
    weights = {id(variable) for variable in model.weights}
    return [variable for variable in model.variables if id(variable) not in weights]


def _random_states(model: Any) -> Dict[str, Any]:
    """Returns the states of the generators of random numbers, as values of JSON."""
    states: Dict[str, Any] = _random.states()
    for name in _TENSORS:
        if name in states:
            states[name] = states[name].tolist()
    states["layers"] = [variable.numpy().tolist() for variable in _seeds(model)]
    return states


def _set_random_states(model: Any, states: Dict[str, Any]) -> None:
    for variable, state in zip(_seeds(model), states["layers"]):
        variable.assign(state)
    torch = sys.modules.get("torch")
    for name in _TENSORS:
        if torch is not None and name in states:
            states[name] = torch.tensor(states[name], dtype=torch.uint8)
    _random.restore(states)


if not TYPE_CHECKING:

    def __getattr__(name: str) -> Any:
        """Names what determined.keras has and this module lacks."""
        if name in ("DeterminedCallback", "TFKerasContext", "TFKerasTrial", "TFKerasTrialContext",
                    "callbacks", "init"):
            raise ImportError(f"determined.keras.{name} has no counterpart in dtrain; use "
                              "DtrainCallback of dtrain.keras (docs/python.md)")
        raise AttributeError(f"module 'dtrain.keras' has no attribute '{name}'")
