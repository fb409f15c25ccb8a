"""Makes a training of XGBoost the training of a trial.

    import xgboost
    from dtrain.xgboost import DtrainCallback

    model = xgboost.train(params, data, num_boost_round=100, evals=[(data2, "valid")],
                          callbacks=[DtrainCallback()])

docs/python.md describes it.
"""

import sys
from pathlib import Path
from typing import Any, Optional

import xgboost

from dtrain._loop import Rounds
from dtrain._trial import Trial

MODEL = "model.ubj"
"""File of a checkpoint with the model, for `xgboost.Booster(model_file=...)`."""


class DtrainCallback(xgboost.callback.TrainingCallback):  # type: ignore[misc,unused-ignore]
    """Reports the metrics of each boosting round, ends training at the length that the search
    asks for, continues it if the trial is promoted, saves checkpoints and resumes from them.

    A round counts as one epoch or one batch, whichever `searcher.max_length` names. Metrics
    have names such as "valid-logloss": data set and metric. Data sets whose names begin with
    "train" are training data, all others validation data. One instance is for one training.
    """

    def __init__(self, trial: Optional[Trial] = None, *, save_every: Optional[int] = None) -> None:
        """`trial`: that of `dtrain.init()`. `save_every`: number of rounds between checkpoints;
        one is saved at each length and before a pause in any case.

        Raises RuntimeError if the search counts records, ValueError if `save_every` is not a
        positive number.
        """
        super().__init__()
        self._rounds = Rounds(trial, self._save, save_every)
        self._model: Any = None
        self._begins = False

    def before_training(self, model: Any) -> Any:
        """Restores the checkpoint into the model, and begins the first round."""
        if not isinstance(model, xgboost.Booster):
            raise TypeError("a trial is one training, not a cross-validation: call "
                            "xgboost.train() instead of xgboost.cv()")
        self._model = model
        saved = self._rounds.trial.restore(MODEL)
        if saved is not None:
            model.load_model(str(saved))
        self._begins = self._rounds.begin(sys.maxsize)
        return model

    def before_iteration(self, model: Any, epoch: int, evals_log: Any) -> bool:
        """Begins a round, at a length after the search's decision. True ends training."""
        if epoch > 0:
            self._begins = self._rounds.advance()
        return not self._begins

    def after_iteration(self, model: Any, epoch: int, evals_log: Any) -> bool:
        """Reports a round."""
        self._rounds.end_round(((data, metric, values[-1]) for data, metrics in evals_log.items()
                                for metric, values in metrics.items()),
                               'give xgboost.train() evals=[(data, "valid")], or fit() an eval_set')
        return False

    def after_training(self, model: Any) -> Any:
        """Ends the trial, if another callback has ended training before the length."""
        rounds = self._rounds
        if self._begins:
            if rounds.is_short and model.attr("best_iteration") is None:
                raise ValueError(
                    f"training ended after {rounds.done} of {rounds.trial.length} {rounds.unit}, "
                    "the value of num_boost_round (or n_estimators); give it searcher.max_length")
            rounds.finish()
        rounds.close()
        return model

    def _save(self, path: Path) -> None:
        self._model.save_model(str(path / MODEL))
