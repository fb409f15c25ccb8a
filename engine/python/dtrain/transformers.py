"""A training by the Trainer of Hugging Face Transformers as a trial.

    import dtrain
    from dtrain.transformers import DtrainCallback

    trial = dtrain.init()
    callback = DtrainCallback()
    arguments = TrainingArguments(num_train_epochs=9, save_strategy="no", ...)
    trainer = Trainer(model, arguments, callbacks=[callback], ...)
    trainer.train(resume_from_checkpoint=callback.checkpoint)

docs/python.md is its manual.

The loop is the Trainer's, and the trial's loop follows it: after each epoch or step, in the
unit of the search, the callback asks whether another one begins. At the end of a length the
Trainer evaluates and saves first, which it does after the event, so the callback asks in
`on_save`. A checkpoint is the directory that the Trainer saved: with optimizer, schedule,
random numbers and position in the data.
"""

import os
import shutil
import sys
import time
from typing import Any, Dict, Iterator, Optional

import torch.distributed
from transformers import TrainerCallback

from dtrain import _random, _trial

# Measured times would differ in a trial that is reproduced.
_TIMES = ("_runtime", "_samples_per_second", "_steps_per_second", "_jit_compilation_time")
_ALIVE_SECONDS = 30


class DtrainCallback(TrainerCallback):  # type: ignore[misc,unused-ignore]
    """Reports what the Trainer logs and evaluates, saves checkpoints, and ends the training
    when the search says so.

    `num_train_epochs` or `max_steps` must be the longest length of the search: the schedule
    of the learning rate is made for it. The search ends trials before. The Trainer evaluates
    at the end of each length in any case, and `searcher.metric` is a metric of its evaluation
    such as `eval_loss`. A batch is a step of the optimizer, as `max_steps` counts.

    Outside dtrain it does nothing.
    """

    def __init__(self) -> None:
        """Raises as `dtrain.init()` does."""
        self._trial = _trial.init()
        self._loop: Optional[Iterator[int]] = None  # while the Trainer trains
        self._ended = False  # by dtrain
        self._due = False  # a checkpoint was asked for
        self._keeps = False  # likewise, by checkpoint_policy
        self._waits = False  # the search is asked after that checkpoint
        self._random_before: Dict[str, Any] = {}  # an evaluation that dtrain asked for
        self._evaluated: Dict[str, Any] = {}  # metrics not reported yet
        self._evaluated_at: Dict[str, float] = {}
        self._alive = time.monotonic()
        self._counts_steps = False  # the loop of the trial, rather than epochs
        self._counted_step = 0

    @property
    def checkpoint(self) -> Optional[str]:
        """Directory for `trainer.train(resume_from_checkpoint=callback.checkpoint)`; None if the
        trial starts from its beginning, also with the weights of another trial."""
        path = self._trial.restore()
        return str(path) if path and self._trial.restored_count("batches") else None

    # ---- Events of the Trainer.

    def on_train_begin(self, args: Any, state: Any, control: Any, model: Any = None,
                       **_: Any) -> None:
        """Checks the Trainer, and begins the first epoch or step. Loads initial weights of
        another trial (`searcher.source_checkpoint_uuid`)."""
        trial = self._trial
        if not trial.active:
            return
        if trial.unit == "records":
            raise RuntimeError("the search counts records (searcher.max_length), but the Trainer "
                               "epochs and steps; use max_length: {epochs: ...}")
        if self.checkpoint and state.global_step != trial.restored_count("batches"):
            raise RuntimeError("this trial continues from a checkpoint; give it to the Trainer: "
                               "trainer.train(resume_from_checkpoint=callback.checkpoint)")
        self._ended = False
        if trial.restore() and not self.checkpoint:
            _load_weights(model, os.path.join(str(trial.restore()), "model.safetensors"))
        is_stream = state.num_train_epochs >= sys.maxsize
        if is_stream and trial.unit == "epochs":
            raise RuntimeError("the search counts epochs (searcher.max_length), but this data set "
                               "has no length, so the Trainer counts steps; use max_length: "
                               "{batches: ...}")
        self._counts_steps = trial.unit == "batches" or is_stream
        self._counted_step = state.global_step
        if self._counts_steps:
            self._loop = trial.batches(state.max_steps)
        else:
            self._loop = trial.epochs(max(1, int(state.num_train_epochs)))
        if self.checkpoint and getattr(args, "dataloader_persistent_workers", False):
            print("dtrain: warning: the random numbers of the DataLoader's persistent workers are "
                  "not restored", file=sys.stderr)
        if next(self._loop, None) is None:
            self._loop = None
            raise SystemExit(0)  # the Trainer would begin an epoch
        self._check_length(state)

    def on_step_end(self, args: Any, state: Any, control: Any, **_: Any) -> None:
        """Counts a step. Asks for a checkpoint if training must stop within an epoch."""
        if self._loop is None or self._ended:
            return
        self._report_evaluation()
        self._stay_alive(state)
        if _is_epoch_end(state):
            return  # see on_epoch_end()
        if self._counts_steps:
            self._counted_step = state.global_step
            self._step(control)
        elif self._trial.should_stop:
            self._ask(control, waits=False)

    def on_epoch_end(self, args: Any, state: Any, control: Any, **_: Any) -> None:
        """Counts an epoch, or the last step of one unless `on_step_end` has: the Trainer does not
        know the end of a data set without a length before."""
        if self._loop is None:
            return
        self._report_evaluation()
        if self._ended:
            control.should_evaluate = control.should_save = control.should_log = False
        elif not self._counts_steps or self._counted_step < state.global_step:
            self._counted_step = state.global_step
            self._step(control)

    def on_evaluate(self, args: Any, state: Any, control: Any, metrics: Any = None,
                    **_: Any) -> None:
        """Keeps the metrics: an evaluation on several data sets has one event for each. Asks for
        a checkpoint if `checkpoint_policy` wants one."""
        if self._loop is None or self._ended:
            return
        if self._random_before:
            _random.restore(self._random_before)
        values = _numbers(metrics or {})
        self._evaluated.update(values)
        self._evaluated_at = _where(state)
        if self._trial.metric in values and self._trial.is_kept(values):
            control.should_save = self._keeps = True

    def on_save(self, args: Any, state: Any, control: Any, **_: Any) -> None:
        """Takes the checkpoint, and waits for the decision of the search at a length."""
        if self._loop is None or self._ended:
            return
        self._report_evaluation()
        self._random_before = {}
        others_end = control.should_training_stop and state.global_step < state.max_steps
        if self._due or self._keeps or others_end:
            self._take_checkpoint(args, state)
        self._keeps = False
        if not self._due or others_end:
            return
        self._due = False
        if not self._waits or next(self._loop, None) is None:
            self._ended = control.should_training_stop = True
        else:
            self._check_length(state)

    def on_log(self, args: Any, state: Any, control: Any, logs: Any = None, **_: Any) -> None:
        """Reports metrics of the training."""
        if self._loop is None or self._ended or "train_runtime" in (logs or {}):
            return
        metrics = {name: value for name, value in _numbers(logs or {}).items()
                   if not name.startswith("eval_")}
        if metrics:
            self._trial.report(metrics, **_where(state))

    def on_prediction_step(self, args: Any, state: Any, control: Any, **_: Any) -> None:
        """Tells dtrain in a long evaluation that the trial is alive."""
        if self._loop is not None and not self._ended:
            self._stay_alive(state)

    def on_train_end(self, args: Any, state: Any, control: Any, **_: Any) -> None:
        """Reports that the Trainer has ended the training, such as by EarlyStoppingCallback."""
        if self._loop is None:
            return
        self._report_evaluation()
        if not self._ended:
            self._loop.close()  # type: ignore[attr-defined]
            self._trial.finish(f"the Trainer ended the training at step {state.global_step}")
        self._loop = None

    # ---- The loop of the trial.

    # Ends an epoch or step, and begins the next one unless a length ends here.
    def _step(self, control: Any) -> None:
        if self._trial.at_end:
            # An evaluation that the Trainer would not make must not change the random numbers of
            # the training, which a trial without this length would have.
            self._random_before = {} if control.should_evaluate else _random.states()
            control.should_evaluate = True
            self._ask(control, waits=True)
        elif self._trial.should_stop or next(self._loop, None) is None:  # type: ignore[arg-type]
            self._ask(control, waits=False)

    def _ask(self, control: Any, waits: bool) -> None:
        control.should_save = self._due = True
        self._waits = waits

    def _check_length(self, state: Any) -> None:
        trial, length = self._trial, self._trial.length
        most = state.max_steps if self._counts_steps else state.num_train_epochs
        if trial.unit and length and length > most:
            name = "max_steps" if trial.unit == "batches" else "num_train_epochs"
            raise RuntimeError(f"the search asks for {length} {trial.unit}, but the Trainer ends "
                               f"at {name}={most:g}; set it to searcher.max_length")

    # ---- Reports.

    def _report_evaluation(self) -> None:
        if self._evaluated:
            metrics, self._evaluated = self._evaluated, {}
            self._trial.validate(metrics, **self._evaluated_at)

    def _stay_alive(self, state: Any) -> None:
        if time.monotonic() - self._alive > _ALIVE_SECONDS:
            self._alive = time.monotonic()
            self._trial.progress(**_where(state))

    # Moves the checkpoint, or links its files if the Trainer keeps it.
    def _take_checkpoint(self, args: Any, state: Any) -> None:
        saved = os.path.join(args.output_dir, f"checkpoint-{state.global_step}")
        with self._trial.checkpoint(**_where(state)) as path:
            _barrier()  # until all ranks have saved
            if self._trial.rank == 0:
                shutil.copytree(saved, path, copy_function=_link, dirs_exist_ok=True)
                if str(getattr(args.save_strategy, "value", args.save_strategy)) == "no":
                    shutil.rmtree(saved)
            _barrier()


def _load_weights(model: Any, file: str) -> None:
    import safetensors.torch  # only here: most trials have no initial weights

    if not os.path.exists(file):
        raise RuntimeError(f"there is no {file} with initial weights; without "
                           "searcher.source_checkpoint_uuid the trial begins with the model's own")
    safetensors.torch.load_model(model, file)


def _where(state: Any) -> Dict[str, float]:
    return {"batches": state.global_step, "epochs": state.epoch}


def _is_epoch_end(state: Any) -> bool:
    return float(state.epoch).is_integer()


def _numbers(metrics: Dict[str, Any]) -> Dict[str, Any]:
    return {name: value for name, value in metrics.items()
            if isinstance(value, (int, float)) and not isinstance(value, bool)
            and name != "epoch" and not name.endswith(_TIMES)}


def _barrier() -> None:
    if torch.distributed.is_available() and torch.distributed.is_initialized():
        torch.distributed.barrier()


def _link(source: str, target: str) -> None:
    try:
        os.link(source, target)
    except OSError:  # another file system
        shutil.copy2(source, target)
