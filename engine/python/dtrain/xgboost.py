"""Makes a training of XGBoost the training of a trial.

    import xgboost
    from dtrain.xgboost import DtrainCallback

    model = xgboost.train(params, data, num_boost_round=100, evals=[(data2, "valid")],
                          callbacks=[DtrainCallback()])

docs/python.md describes it.

XGBoost numbers the rounds of one call of `train()` from 0. A trial that resumes is another
call, so the callback changes the object that calls all callbacks: they get the numbers that
they would get in a trial that ran through. That object and `num_boost_round` are found in
the frames of the callers.
"""

import json
import sys
from pathlib import Path
from typing import Any, Dict, Optional, Tuple

import xgboost

from dtrain._loop import Rounds
from dtrain._trial import Trial

MODEL = "model.ubj"
"""File of a checkpoint with the model, for `xgboost.Booster(model_file=...)`."""
_PARAMETERS = "parameters.json"  # that callbacks have set, which the model does not contain


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
        rounds = self._rounds
        saved = rounds.trial.restore(MODEL)
        if saved is not None:
            # Loading forgets the parameters of a model that another callback has asked for its
            # rounds, as EarlyStopping does.
            parameters = model.save_config()
            model.load_model(str(saved))
            model.load_config(parameters)
        _Parameters.model = model
        if saved is not None and rounds.resumes and (saved.parent / _PARAMETERS).exists():
            model.set_param(json.loads((saved.parent / _PARAMETERS).read_text(encoding="utf-8")))
        container, number = _find_training()
        self._follow(container)
        self._begins = rounds.begin(number)
        return model

    def before_iteration(self, model: Any, epoch: int, evals_log: Any) -> bool:
        """Begins a round, at a length after the search's decision. True ends training."""
        if epoch > self._rounds.restored_count:
            self._begins = self._rounds.advance()
        return not self._begins

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
        (path / _PARAMETERS).write_text(json.dumps(_Parameters.values), encoding="utf-8")

    # Numbers rounds over all runs of the trial, and ends one after all callbacks: another one may
    # set the learning rate of the next round.
    def _follow(self, container: Any) -> None:
        before, after = container.before_iteration, container.after_iteration
        earlier = self._rounds.restored_count

        def before_iteration(model: Any, epoch: int, *data: Any) -> Any:
            for callback in container.callbacks if epoch == 0 else []:
                if hasattr(callback, "starting_round"):  # EarlyStopping adds it
                    callback.starting_round = model.num_boosted_rounds() - earlier
            return before(model, epoch + earlier, *data)

        def after_iteration(model: Any, epoch: int, *data: Any) -> Any:
            ends = after(model, epoch + earlier, *data)
            self._rounds.end_round(
                ((data, metric, values[-1]) for data, metrics in container.history.items()
                 for metric, values in metrics.items()),
                'give xgboost.train() evals=[(data, "valid")], or fit() an eval_set')
            return ends

        container.before_iteration, container.after_iteration = before_iteration, after_iteration


# Returns what calls the callbacks, and `num_boost_round`.
def _find_training() -> Tuple[Any, int]:
    frame = sys._getframe(1)
    container: Any = None
    while frame.f_back is not None:
        frame = frame.f_back
        if isinstance(frame.f_locals.get("self"), xgboost.callback.CallbackContainer):
            container = frame.f_locals["self"]
        elif container is not None and "num_boost_round" in frame.f_locals:
            return container, int(frame.f_locals["num_boost_round"])
    raise RuntimeError("DtrainCallback must be called by xgboost.train(); this version of XGBoost "
                       f"({xgboost.__version__}) calls it in another way")


# Parameters that callbacks set on the model of the trial, such as the learning rate.
class _Parameters:
    model: Any = None
    values: Dict[str, str] = {}
    _set = xgboost.Booster.set_param

    @staticmethod
    def set(model: Any, params: Any, value: Any = None) -> Any:
        if model is _Parameters.model:
            named = {params: value} if isinstance(params, str) else dict(params)
            _Parameters.values.update(
                {name: str(one) for name, one in named.items() if one is not None})
        return _Parameters._set(model, params, value)


xgboost.Booster.set_param = _Parameters.set
