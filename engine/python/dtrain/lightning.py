"""A PyTorch Lightning training as a trial.

    import dtrain
    from dtrain.lightning import DtrainCallback

    trial = dtrain.init()
    callback = DtrainCallback()
    trainer = Trainer(callbacks=[callback])
    trainer.fit(Model(trial.hparams.lr), data, ckpt_path=callback.ckpt_path)

Needs the package `lightning` or `pytorch_lightning`: the one that the script has imported.
docs/python.md is its manual.

The loop is Lightning's, and the trial's loop follows it: after each epoch or batch, in the
unit of the search, the callback asks whether another one begins. At the end of a length that
waits for the decision of the search. A checkpoint is Lightning's file, with the states of the
generators of random numbers. Lightning does not record the position in the data, so a
training that continues within an epoch draws the batches of that epoch again, in the same
order, and skips those that it has trained. Gradients that batches have accumulated are not in
it either, so a pause waits for the next step of an optimizer.
"""

import sys
import time
from typing import Any, Dict, Iterator, List, Optional

import torch
import torch.distributed

from dtrain import _random, _trial

if "pytorch_lightning" in sys.modules and "lightning.pytorch" not in sys.modules:
    from pytorch_lightning.callbacks import Checkpoint
else:
    try:
        from lightning.pytorch.callbacks import (  # type: ignore[assignment,unused-ignore]
            Checkpoint)
    except ModuleNotFoundError:
        from pytorch_lightning.callbacks import Checkpoint

_FILE = "trainer.ckpt"
_ALIVE_SECONDS = 30
_STEP_SECONDS = 15.0  # of the 30 that a program has after a stop
_VALIDATE_NOW = {"check_val_every_n_epoch": None, "val_check_batch": 1,
                 "_val_check_time_interval": None}


# A Checkpoint is called after all other callbacks and, at the end of an epoch, after the
# module, so that it sees what they have logged and decided.
class DtrainCallback(Checkpoint):  # type: ignore[misc,unused-ignore]
    """Reports the metrics that the module logs, saves checkpoints, and ends the training when
    the search says so.

    The search decides the length; `max_epochs` and `max_steps` of the Trainer count only
    outside dtrain and without `searcher.max_length`. The module must log `searcher.metric`
    in its validation, which takes place at the end of each length in any case. Metrics of
    the training are reported every `log_every_n_steps` batches and after each epoch. A batch
    is one of the DataLoader, also with `accumulate_grad_batches`.

    Outside dtrain it does nothing.
    """

    def __init__(self) -> None:
        """Raises as `dtrain.init()` does."""
        super().__init__()
        self._trial = _trial.init()
        self._loop: Optional[Iterator[int]] = None  # while the Trainer trains
        self._ended = False  # by dtrain
        self._batches = 0  # trained, in the life of the trial
        self._done = 0  # batches of this epoch
        self._epoch_random: Dict[str, Any] = {}  # at the beginning of this epoch
        self._random_before: Dict[str, Any] = {}  # a validation that dtrain asked for
        self._training: Dict[str, Any] = {}  # metrics not reported yet
        self._validation: Optional[Dict[str, Any]] = None
        self._saved_at = 0  # batches
        self._steps = 0  # of the optimizers, before this batch
        self._stopped = 0.0  # when a stop was seen, or 0
        self._alive = time.monotonic()
        self._settings: Dict[str, Any] = {}  # of the Trainer, while others are in force
        self._state: Dict[str, Any] = {}  # while a checkpoint is saved or loaded

    @property
    def ckpt_path(self) -> Optional[str]:
        """File to continue from, for `trainer.fit(..., ckpt_path=callback.ckpt_path)`; None if
        the trial starts from its beginning, also with the weights of another trial."""
        path = self._trial.restore()
        return str(path / _FILE) if path and self._trial.restored_count("batches") else None

    # ---- Hooks of Lightning.

    def setup(self, trainer: Any, pl_module: Any, stage: str) -> None:
        """Joins the other processes of the training, and loads initial weights of another trial
        (`searcher.source_checkpoint_uuid`)."""
        if not self._trial.active or stage != "fit":
            return
        ours, theirs = (kind.__module__.split(".")[0] for kind in (Checkpoint, type(trainer)))
        if ours != theirs:
            raise RuntimeError(f"the Trainer is of the package '{theirs}', but DtrainCallback of "
                               f"'{ours}'; import {theirs} before dtrain.lightning")
        if self._trial.unit == "records":
            raise RuntimeError("the search counts records (searcher.max_length), but Lightning "
                               "epochs and batches; use max_length: {epochs: ...}")
        self._trial = _trial.init(rank=trainer.global_rank, world_size=trainer.world_size)
        weights = self._trial.restore()
        if weights and not self.ckpt_path:
            saved = torch.load(weights / _FILE, map_location="cpu", weights_only=False)
            pl_module.load_state_dict(saved["state_dict"])
        if self._trial.unit == "epochs" and trainer.max_epochs >= 0:
            # Otherwise Lightning refuses a checkpoint at max_epochs.
            trainer.fit_loop.max_epochs = max(trainer.max_epochs, self._trial.length)

    def on_fit_start(self, trainer: Any, pl_module: Any) -> None:
        """Records the random numbers of the first epoch."""
        if self._trial.active:
            self._epoch_random = _random.states()

    def on_train_start(self, trainer: Any, pl_module: Any) -> None:
        """Checks the Trainer, restores the position in the data, and begins the first epoch."""
        if not self._trial.active:
            return
        if self.ckpt_path and str(trainer.ckpt_path) != self.ckpt_path:
            raise RuntimeError("this trial continues from a checkpoint; give it to Lightning: "
                               "trainer.fit(..., ckpt_path=callback.ckpt_path)")
        if not trainer.enable_validation:
            raise RuntimeError(
                "this training has no validation, from which the search takes its metric; give "
                "the Trainer val_dataloaders and the module a validation_step")
        if self._state:
            self._restore_position(trainer)
        self._steps = trainer.global_step
        self._begin(trainer)

    def on_train_epoch_start(self, trainer: Any, pl_module: Any) -> None:
        """Records the random numbers of the epoch."""
        if self._loop is not None and self._batches:
            self._done = 0
            self._epoch_random = _random.states()

    def on_train_batch_end(self, trainer: Any, pl_module: Any, *_: Any) -> None:
        """Counts a batch, and saves a checkpoint if training must stop after it."""
        if self._loop is None or self._ended:
            return
        self._batches += 1
        self._done += 1
        stepped, self._steps = trainer.global_step > self._steps, trainer.global_step
        self._report_batch(trainer)
        counts_batches = self._counts_batches()
        if self._trial.at_end and (counts_batches or trainer.is_last_batch):
            self._validate_now(trainer)
        elif trainer.is_last_batch:
            pass  # see on_train_epoch_end()
        elif not stepped and not self._cannot_wait(trainer):
            if counts_batches:
                self._trial.count_on()
        elif counts_batches:
            self._step(trainer)
        elif self._trial.should_stop:
            self._save(trainer)
            self._end(trainer)

    def on_validation_batch_end(self, trainer: Any, *_: Any, **__: Any) -> None:
        """Tells dtrain in a long validation that the trial is alive."""
        if self._loop is not None and not self._ended:
            self._stay_alive(trainer)

    def on_validation_end(self, trainer: Any, pl_module: Any) -> None:
        """Reports a validation within an epoch."""
        if self._loop is None or self._ended or trainer.sanity_checking:
            return
        if self._random_before:
            _random.restore(self._random_before)
            self._random_before = {}
        self._validation = _updated(trainer)
        if trainer.is_last_batch:
            return  # see on_train_epoch_end()
        self._report_validation(trainer)
        if self._settings:
            self._reset(trainer)
            self._step(trainer)

    def on_train_epoch_end(self, trainer: Any, pl_module: Any) -> None:
        """Reports an epoch, and its validation."""
        if self._loop is None or self._ended:
            return
        self._reset(trainer)
        self._training.update(_updated(trainer))
        self._report_training(trainer)
        if self._validation is not None:
            self._report_validation(trainer)
        self._step(trainer)

    def on_train_end(self, trainer: Any, pl_module: Any) -> None:
        """Reports that the Trainer has ended the training, such as by EarlyStopping."""
        if self._loop is None:
            return
        self._reset(trainer)
        if not self._ended:
            self._loop.close()  # type: ignore[attr-defined]
            self._trial.finish(f"the Trainer ended the training in epoch {trainer.current_epoch}")
        self._loop = None

    def state_dict(self) -> Dict[str, Any]:
        """Returns what a checkpoint of dtrain has beside Lightning's state."""
        return self._state

    def load_state_dict(self, state_dict: Dict[str, Any]) -> None:
        """Takes it from a checkpoint."""
        self._state = state_dict

    # ---- The loop of the trial.

    def _begin(self, trainer: Any) -> None:
        trial = self._trial
        self._ended = False
        if trial.unit is None:
            most = trainer.max_epochs
            self._loop = trial.epochs(most if most and most >= 0 else sys.maxsize)
        else:
            self._loop = trial.batches() if trial.unit == "batches" else trial.epochs()
            trainer.fit_loop.max_epochs = -1
            trainer.fit_loop.epoch_loop.max_steps = -1
        self._next(trainer)

    def _counts_batches(self) -> bool:
        return self._trial.unit == "batches"

    # Ends an epoch or batch, and begins the next one.
    def _step(self, trainer: Any) -> None:
        ends_itself = trainer.should_stop and (
            trainer.current_epoch + 1 >= (trainer.min_epochs or 0)
            and trainer.global_step >= (trainer.min_steps or 0))
        trial = self._trial
        # A validation within an epoch follows the step of its batch.
        due = (trial.at_end or trial.should_stop if self._counts_batches()
               else trial.should_checkpoint)
        if due or ends_itself:
            self._save(trainer)
        if not ends_itself:
            self._next(trainer)

    # True if training must stop although this batch has only added to the gradients.
    def _cannot_wait(self, trainer: Any) -> bool:
        if not self._trial.should_stop:
            return False
        self._stopped = self._stopped or time.monotonic()
        if trainer.strategy.broadcast(time.monotonic() - self._stopped < _STEP_SECONDS):
            return False
        _warn(trainer, f"no step of an optimizer within {_STEP_SECONDS:g} s of the stop; the "
              "gradients that were accumulated since the last one are lost")
        return True

    def _next(self, trainer: Any) -> None:
        if next(self._loop, None) is None:  # type: ignore[arg-type]
            if self._saved_at < self._batches:
                self._save(trainer)
            self._end(trainer)

    # Lightning would validate before it stops.
    def _end(self, trainer: Any) -> None:
        self._ended = True
        self._set(trainer, limit_val_batches=0)
        trainer.fit_loop.min_epochs = 0
        trainer.fit_loop.epoch_loop.min_steps = None
        trainer.should_stop = True

    # Asks for a validation after this batch. One that Lightning would not make must not change
    # the random numbers of the training, which a trial without this length would have.
    def _validate_now(self, trainer: Any) -> None:
        loop = trainer.fit_loop
        if not loop.epoch_loop._should_check_val_fx(loop._data_fetcher):
            self._random_before = _random.states()
        self._set(trainer, **_VALIDATE_NOW)

    def _set(self, trainer: Any, **settings: Any) -> None:
        for name, value in settings.items():
            if hasattr(trainer, name):
                self._settings.setdefault(name, getattr(trainer, name))
                setattr(trainer, name, value)

    def _reset(self, trainer: Any) -> None:
        for name, value in self._settings.items():
            setattr(trainer, name, value)
        self._settings = {}

    # ---- Reports.

    # Counts of a report. Those of the loop would be of the end of the epoch.
    def _where(self, trainer: Any) -> Dict[str, float]:
        where: Dict[str, float] = {"batches": self._batches}
        if trainer.is_last_batch:
            where["epochs"] = trainer.current_epoch + 1
        elif trainer.num_training_batches < sys.maxsize:
            where["epochs"] = trainer.current_epoch + self._done / trainer.num_training_batches
        return where

    def _report_batch(self, trainer: Any) -> None:
        self._stay_alive(trainer)
        every = trainer.log_every_n_steps
        if trainer.is_last_batch:
            self._training = _updated(trainer)  # see on_train_epoch_end()
        elif every and self._batches % every == 0:
            self._training = _updated(trainer)
            self._report_training(trainer)

    def _stay_alive(self, trainer: Any) -> None:
        if time.monotonic() - self._alive > _ALIVE_SECONDS:
            self._alive = time.monotonic()
            self._trial.progress(**self._where(trainer))

    def _report_training(self, trainer: Any) -> None:
        if self._training:
            self._trial.report(self._training, **self._where(trainer))
        self._training = {}

    def _report_validation(self, trainer: Any) -> None:
        self._trial.validate(self._validation, **self._where(trainer))
        self._validation = None

    # ---- Checkpoints.

    def _save(self, trainer: Any) -> None:
        self._state = {"batches": self._batches, "done": 0 if trainer.is_last_batch else self._done,
                       "random": _of_all_ranks(_random.states()),
                       "epoch_random": _of_all_ranks(self._epoch_random)}
        with self._trial.checkpoint(**self._where(trainer)) as path:
            trainer.save_checkpoint(trainer.strategy.broadcast(str(path / _FILE)))
        self._state = {}
        self._saved_at = self._batches

    def _restore_position(self, trainer: Any) -> None:
        state, self._state = self._state, {}
        self._batches = self._saved_at = state["batches"]
        self._done = state["done"]
        if len(state["random"]) != trainer.world_size:
            return  # other ranks draw other batches
        now, begin = (state[name][trainer.global_rank] for name in ("random", "epoch_random"))
        self._epoch_random = begin if self._done else now
        _random.restore(self._epoch_random)
        loop = trainer.fit_loop
        if any(getattr(loader, "persistent_workers", False)
               for loader in loop._combined_loader.flattened):
            _warn(trainer, "the random numbers of the DataLoader's persistent workers are not "
                  "restored; with persistent_workers=False they are")
        if _keep_their_position(loop._combined_loader.flattened):
            return _random.restore(now)
        # Lightning made the iterator before, and makes none at the beginning of this epoch.
        if self._done or getattr(loop, "is_resuming", False):
            _restart(loop._data_fetcher, trainer.current_epoch)
        for _ in range(self._done):
            # Lightning itself counts these as fetched if it knows the number of batches.
            next(loop._data_fetcher.iterator if loop._data_fetcher.length else loop._data_fetcher)
        if self._done:
            _random.restore(now)


def _warn(trainer: Any, text: str) -> None:
    if trainer.global_rank == 0:
        print(f"dtrain: warning: {text}", file=sys.stderr)


# Metrics of the loop that runs. Each access to callback_metrics computes those again, and
# leaves the others as they were.
def _updated(trainer: Any) -> Dict[str, Any]:
    before = dict(trainer.callback_metrics)
    return {name: value for name, value in trainer.callback_metrics.items()
            if value is not before.get(name)}


def _of_all_ranks(value: Any) -> List[Any]:
    distributed = torch.distributed
    if not distributed.is_available() or not distributed.is_initialized():
        return [value]
    values: List[Any] = [None] * distributed.get_world_size()
    distributed.all_gather_object(values, value)
    return values


# True of loaders such as torchdata's StatefulDataLoader, whose state Lightning saves.
def _keep_their_position(loaders: List[Any]) -> bool:
    return all(hasattr(loader, "state_dict") and hasattr(loader, "load_state_dict")
               for loader in loaders)


def _restart(fetcher: Any, epoch: int) -> None:
    for loader in fetcher.combined_loader.flattened:
        for owner in (loader, getattr(loader, "batch_sampler", None)):
            set_epoch = getattr(getattr(owner, "sampler", None), "set_epoch", None)
            if set_epoch is not None:
                set_epoch(epoch)
    iter(fetcher)
