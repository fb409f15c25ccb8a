"""Connects a training script with dtrain, which runs it as a trial.

    import dtrain

    trial = dtrain.init()
    for epoch in trial.epochs(10):
        ...
        trial.validate(accuracy=accuracy)

A script that dtrain did not start works unchanged, and reports nothing. Any script can
read results: `dtrain.experiment(3).trials()`, `dtrain.best(3).checkpoint`. The module
needs Python 3.8 or newer and nothing but the standard library. docs/python.md is its
manual, docs/protocol.md describes what it sends.
"""

import sys

if sys.version_info < (3, 8):
    raise ImportError(
        "the module 'dtrain' needs Python 3.8 or newer, but this is Python %d.%d (%s); name a "
        "newer interpreter in the entrypoint" % (sys.version_info[0], sys.version_info[1],
                                                 sys.executable))

from typing import TYPE_CHECKING

from dtrain import core
from dtrain._hparams import HParams
from dtrain._results import Best, Experiment, Rows, best, experiment
from dtrain._trial import Trial, init
from dtrain.core import LOG_FORMAT, get_cluster_info

__all__ = ["Best", "Experiment", "HParams", "LOG_FORMAT", "Rows", "Trial", "best", "core",
           "experiment", "get_cluster_info", "init"]

if not TYPE_CHECKING:  # for which any name would exist

    def __getattr__(name):
        """Names what Determined has and dtrain lacks."""
        if name in ("experimental", "pytorch"):
            # `from dtrain import` would replace an AttributeError by its own message.
            raise ImportError("determined.%s has no counterpart in dtrain; use Determined's Core API, "
                              "or dtrain's own module (docs/python.md)" % name)
        if name == "keras":
            raise AttributeError("determined.keras has no counterpart in dtrain; use DtrainCallback: "
                                 "from dtrain.keras import DtrainCallback (docs/python.md)")
        raise AttributeError("module 'dtrain' has no attribute '%s'" % name)
