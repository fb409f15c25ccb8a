"""Makes a training of LightGBM the training of a trial.

    import lightgbm
    from dtrain.lightgbm import DtrainCallback

    callback = DtrainCallback()
    model = lightgbm.train(params, data, num_boost_round=100, valid_sets=[data2],
                           valid_names=["valid"], callbacks=[callback],
                           init_model=callback.init_model)

docs/python.md describes it.
"""

import atexit
from pathlib import Path
from typing import Any, Optional

import lightgbm

from dtrain._loop import Rounds
from dtrain._trial import Trial

if not hasattr(lightgbm.callback, "_ResetParameterCallback"):  # see _Rounds
    raise ImportError("dtrain.lightgbm needs LightGBM 4, but this is "
                      f"{getattr(lightgbm, '__version__', 'another version')}")

MODEL = "model.txt"
"""File of a checkpoint with the model, for `lightgbm.Booster(model_file=...)`."""


class DtrainCallback:
    """Reports the metrics of each boosting round, ends training at the length that the search
    asks for, continues it if the trial is promoted, and saves checkpoints. To resume from
    them, the training must be given `init_model`.

    A round counts as one epoch or one batch, whichever `searcher.max_length` names. Metrics
    have names such as "valid-auc": data set and metric. Data sets whose names begin with
    "train" are training data, all others validation data. One instance is for one training.
    """

    def __init__(self, trial: Optional[Trial] = None, *, save_every: Optional[int] = None) -> None:
        """`trial`: that of `dtrain.init()`. `save_every`: number of rounds between checkpoints;
        one is saved at each length and before a pause in any case.

        Raises RuntimeError if the search counts records, ValueError if `save_every` is not a
        positive number.
        """
        self.order = 20
        """Place among the callbacks: before LightGBM's early_stopping, which raises."""
        self._rounds = Rounds(trial, self._save, save_every)
        self._model: Any = None
        self._ends = False  # after this round

    @property
    def init_model(self) -> Optional[str]:
        """Path of the model to continue, for the argument of this name; None without a
        checkpoint."""
        saved = self._rounds.trial.restore(MODEL)
        _Rounds.earlier = self._rounds.restored_count
        return None if saved is None else str(saved)

    def __call__(self, env: Any) -> None:
        """Reports a round. Raises lightgbm.callback.EarlyStopException to end training."""
        if not isinstance(env.model, lightgbm.Booster):
            raise TypeError("a trial is one training, not a cross-validation: call "
                            "lightgbm.train() instead of lightgbm.cv()")
        rounds = self._rounds
        if env.iteration == env.begin_iteration:
            self._begin(env)
            if self._ends:  # the round that has run is one too many
                env.model.rollback_one_iter()
        if not self._ends:
            rounds.end_round(
                ((result[0], result[1], result[2]) for result in env.evaluation_result_list or []),
                "give lightgbm.train() valid_sets and valid_names, or fit() an eval_set")
            if env.iteration + 1 == env.end_iteration:
                rounds.close()
                return
            self._ends = not rounds.advance()
        if self._ends:
            rounds.close()
            raise lightgbm.callback.EarlyStopException(env.iteration,
                                                       env.evaluation_result_list or [])

    def _begin(self, env: Any) -> None:
        rounds = self._rounds
        if rounds.trial.restore() is not None and env.begin_iteration == 0:
            raise ValueError("the training does not continue the checkpoint: give it "
                             "init_model=callback.init_model")
        number = env.end_iteration - env.begin_iteration
        self._model = env.model
        self._ends = not rounds.begin(number)
        length = rounds.trial.length
        if length is not None and length - rounds.done > number:
            raise ValueError(f"num_boost_round (or n_estimators) is {number}, but the search asks "
                             f"for {length} {rounds.unit}; give it searcher.max_length")
        atexit.register(self._finish)

    def _finish(self) -> None:
        """Ends the trial, if LightGBM's early_stopping has ended training: no callback is
        called after it. After another exception, `best_iteration` is 0."""
        if self._model.best_iteration > 0:
            self._rounds.finish()

    def _save(self, path: Path) -> None:
        self._model.save_model(str(path / MODEL), num_iteration=-1)


class _Rounds:
    """Numbers of the rounds that `reset_parameter` gets: from 0 in each run of a trial, so those
    of earlier runs are added. Other callbacks get `iteration`, which counts all runs."""

    earlier = 0
    _reset = lightgbm.callback._ResetParameterCallback.__call__

    @staticmethod
    def reset(callback: Any, env: Any) -> None:
        """Calls it as in a trial that ran through."""
        if 0 < _Rounds.earlier <= env.begin_iteration:
            env = lightgbm.callback.CallbackEnv(
                env.model, env.params, env.iteration, env.begin_iteration - _Rounds.earlier,
                env.end_iteration - _Rounds.earlier, env.evaluation_result_list)
        _Rounds._reset(callback, env)


lightgbm.callback._ResetParameterCallback.__call__ = _Rounds.reset
