"""Measurements of Python scripts as trials: start, reports, and a sweep beside other tools."""
from __future__ import annotations

import io
import json
import os
import shutil
import time
import tokenize
from collections.abc import Callable

from bench_figures import (Bench, Failed, Figure, Measurement, NOT_INSTALLED, Row, Run, by_turns,
                           output_of)
from bench_training import PEERS, scratch

SWEEP = os.path.join(PEERS, "seconds")
TRIALS = 50  # of each file in SWEEP, 2 at once
STARTS = 15
REPORTS = 200_000

YAML = """\
name: python
entrypoint: [python3, trial.py, {times}]
searcher: {{name: single, metric: loss, max_length: {{batches: {batches}}}}}
resources: {{slots: "cpu:1"}}
max_restarts: 0
"""

# The first line needs no import from a file: `time` is part of the interpreter.
START_SCRIPT = """\
import time; first_line = time.time()
import sys
import dtrain
trial = dtrain.init()
initialized = time.time()
with open(sys.argv[1], "w") as file:
    file.write(f"{first_line} {initialized}")
trial.validate(loss=0)
"""

REPORTS_SCRIPT = f"""\
import sys
import time
import dtrain
trial = dtrain.init()
with open(sys.argv[1], "w") as file:
    file.write(str(time.time()))
for batch in trial.batches({REPORTS}):
    trial.report(loss=1 / (batch + 1))
trial.validate(loss=0)
"""


def environment_of(bench: Bench, environment: dict[str, str]) -> dict[str, str]:
    """Returns an environment whose `python3` is the interpreter of all contenders."""
    return {**environment, "PATH": os.pathsep.join(
        [os.path.dirname(bench.python), environment["PATH"]])}


def python_trial(bench: Bench, script: str, batches: int,
                 read: Callable[[float, list[float], dict[str, str]], float]) -> Run:
    """Returns a run of a script as a single trial.

    `read` returns the value from the start of `create`, the times that the script wrote, and the
    environment.
    """
    def run() -> tuple[float, None]:
        with scratch() as (directory, plain):
            environment = environment_of(bench, plain)
            times = os.path.join(directory, "times")
            path = os.path.join(directory, "python.yaml")
            with open(path, "w") as file:
                file.write(YAML.format(times=times, batches=batches))
            with open(os.path.join(directory, "trial.py"), "w") as file:
                file.write(script)
            start = time.time()
            output_of([bench.dtrain, "create", path, "-q"], bench.limit(), environment)
            with open(times) as file:
                written = [float(word) for word in file.read().split()]
            return read(start, written, environment), None

    return run


def interpreter(bench: Bench) -> tuple[float, None]:
    """Measures the time from the start of an interpreter to the first line of a script."""
    start = time.time()
    words = [os.path.join(os.path.dirname(bench.python), "python3"), "-c",
             "import time; print(time.time())"]
    return 1000 * (float(output_of(words, bench.limit())) - start), None


def starts(bench: Bench) -> dict[str, Figure]:
    """Measures the start of a trial; the interpreter's own start is measured alternately."""
    initialized: list[float] = []

    def read(start: float, times: list[float], _: dict[str, str]) -> float:
        initialized.append(1000 * (times[1] - start))
        return 1000 * (times[0] - start)

    figures = by_turns(bench, "python-start", {
        "first line": python_trial(bench, START_SCRIPT, 1, read),
        "interpreter": lambda: interpreter(bench)}, STARTS)
    whole, own = figures["first line"], figures["interpreter"]
    if whole.median is None or own.median is None:
        missing = whole if whole.missing else own
        return {**figures, "dtrain": missing, "initialized": missing}
    return {**figures, "dtrain": Figure.of([whole.median - own.median]),
            "initialized": Figure.of(initialized)}


def reports(bench: Bench) -> dict[str, Figure]:
    """Measures the reports a second, from the first one until `create` has ended.

    dtrain stores means of reports that come so fast, the last one included.
    """
    def read(_: float, times: list[float], environment: dict[str, str]) -> float:
        seconds = time.time() - times[0]
        listed = json.loads(output_of(
            [bench.dtrain, "metrics", "1", "--kind", "training", "--json"], bench.limit(),
            environment))
        last = max(row["batches"] for row in listed["metrics"])
        if last != REPORTS:
            raise Failed(f"failed: the last report is of batch {last} instead of {REPORTS}")
        return REPORTS / seconds

    return by_turns(bench, "python-reports",
                    {"dtrain": python_trial(bench, REPORTS_SCRIPT, REPORTS, read)}, runs=3)


NO_CODE = (tokenize.COMMENT, tokenize.NL, tokenize.NEWLINE, tokenize.INDENT, tokenize.DEDENT,
           tokenize.ENDMARKER)


def code_lines(name: str, text: str) -> int:
    """Counts the lines of a file without blank ones, comments and docstrings."""
    if not name.endswith(".py"):
        return sum(bool(line.strip()) and not line.lstrip().startswith("#")
                   for line in text.splitlines())
    lines: set[int] = set()
    for token in tokenize.generate_tokens(io.StringIO(text).readline):
        alone = not token.line[:token.start[1]].strip()
        if token.type not in NO_CODE and not (token.type == tokenize.STRING and alone):
            lines.update(range(token.start[0], token.end[0] + 1))
    return len(lines)


def lines_of(tool: str) -> int:
    """Counts the lines that a user writes with a tool."""
    total = 0
    for name in FILES[tool]:
        with open(os.path.join(SWEEP, name)) as file:
            total += code_lines(name, file.read())
    return total


# Files that a user writes with each tool.
FILES = {"dtrain": ("dtrain_sweep.yaml", "dtrain_trial.py"),
         "optuna": ("optuna_sweep.py", "optuna_trial.py"),
         "ray": ("ray_sweep.py",),
         "wandb": ("wandb_sweep.py", "wandb_trial.py")}


def sweep_run(bench: Bench, tool: str) -> Run | Figure:
    """Returns a run of a tool's sweep in a copy of its files."""
    if tool != "dtrain" and not bench.has(tool):
        return Figure.none(NOT_INSTALLED)

    def run() -> tuple[float, None]:
        with scratch() as (directory, plain):
            environment = {**environment_of(bench, plain), "RAY_USAGE_STATS_ENABLED": "0",
                           "WANDB_SILENT": "true", "HOME": directory}
            for name in FILES[tool]:
                shutil.copy(os.path.join(SWEEP, name), directory)
            words = [bench.dtrain, "create", FILES[tool][0], "-q"] if tool == "dtrain" else \
                [bench.python, FILES[tool][0]]
            start = time.perf_counter()
            output_of(words, bench.limit(), environment, directory)
            seconds = time.perf_counter() - start
            if tool == "dtrain":
                told = output_of([bench.dtrain, "trials", "1", "--json"], 60, environment)
                states = [trial["state"] for trial in json.loads(told)["trials"]]
                if states != TRIALS * ["COMPLETED"]:
                    raise Failed(f"failed: {states.count('COMPLETED')} of {TRIALS} trials")
        return seconds, None

    return run


def sweep(bench: Bench) -> dict[str, Figure]:
    figures = by_turns(bench, "python-sweep",
                       {tool: sweep_run(bench, tool) for tool in FILES}, runs=3)
    for tool, figure in figures.items():
        if figure.median is not None:
            figure.remark = f"{lines_of(tool)} lines"
    return figures


SECONDS = f"{TRIALS} Python trials of a second, 2 at once, start to end; the user's code"
MEASUREMENTS = (
    Measurement("python-start", 0.3, starts, (
        Row("`dtrain create` to the first line of a Python trial", "ms", figure="first line"),
        Row("the interpreter's own start, to the same line", "ms", figure="interpreter"),
        Row("`dtrain create` to that line without the interpreter's start", "ms"),
        Row("`dtrain create` to the end of `dtrain.init()`", "ms", figure="initialized"))),
    Measurement("python-reports", 0.3, reports, (
        Row("reports of a Python trial, one a batch, until the last is stored", "reports/s",
            20_000),)),
    Measurement("python-sweep", 8, sweep, (
        Row(SECONDS, "s", None, "Optuna, a process a trial, SQLite", "optuna"),
        Row(SECONDS, "s", None, "Ray Tune", "ray"),
        Row(SECONDS, "s", None, "W&B offline, a loop over processes", "wandb"))),
)
