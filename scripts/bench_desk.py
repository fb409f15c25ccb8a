"""Measurements of looking at experiments: reports, pages, queries, on stores of up to 10,000
trials that `dtrain-bench fill-searches` makes."""
from __future__ import annotations

import json
import os
import subprocess
import tempfile
import time
import urllib.request
from collections.abc import Callable, Iterator
from contextlib import contextmanager

from bench_figures import (NOT_INSTALLED, Bench, Failed, Figure, Measurement, Row, Run, by_turns,
                           output_of)
from bench_program import milliseconds
from bench_training import PEERS

SMALL, LARGE, WIDE = "1", "2", "3"  # experiments, see FillSearches in tests/bench/bench_main.cc
SEARCHES = [str(number) for number in range(4, 14)]
PLOTS = "window.dtrain && [...dtrain.charts, ...dtrain.slices].every(one => one.drawn)"
PAGE_SECONDS = 300
# Debian's Python, the only one that sees its Selenium.
BROWSER = ["/usr/bin/python3", os.path.join(PEERS, "open_page.py")]


@contextmanager
def searches(bench: Bench) -> Iterator[str]:
    """Yields a store with searches."""
    with tempfile.TemporaryDirectory(prefix="dtrain-bench-") as store:
        output_of([bench.engine, "fill-searches", store], bench.limit())
        yield store


def timed(bench: Bench, name: str, commands: dict[str, list[str]], runs: int) -> dict[str, Figure]:
    """Measures commands alternately, in milliseconds."""
    def run(words: list[str]) -> Callable:
        return lambda: (milliseconds(words), None)

    for words in commands.values():
        milliseconds(words)  # warms the page cache
    return by_turns(bench, name, {name: run(words) for name, words in commands.items()}, runs)


def failed(names: list[str], failure: Failed) -> dict[str, Figure]:
    return {name: Figure.none(str(failure)) for name in names}


def queries(bench: Bench) -> dict[str, Figure]:
    commands = {
        "importance": ["importance", WIDE],
        "trials": ["trials", LARGE, "--filter", "hp.x0 < 0.1", "--limit", "20"],
        "best": ["best", LARGE, "-n", "20", "--filter", "hp.x0 < 0.1"],
        "metric": ["best", LARGE, "-n", "20", "--filter", "min(loss) < 0.5"],
        "compare": ["compare", *SEARCHES],
    }
    try:
        with searches(bench) as store:
            return timed(bench, "queries", {
                name: [bench.dtrain, "--store", store, *words]
                for name, words in commands.items()}, runs=11)
    except Failed as failure:
        return failed(list(commands), failure)


def reports(bench: Bench) -> dict[str, Figure]:
    """Measures the time and the size of reports."""
    names = {"small": SMALL, "large": LARGE}
    try:
        with searches(bench) as store, tempfile.TemporaryDirectory() as directory:
            files = {name: os.path.join(directory, f"{name}.html") for name in names}
            figures = timed(bench, "report", {
                name: [bench.dtrain, "--store", store, "report", experiment, "--html",
                       files[name], "--force"]
                for name, experiment in names.items()}, runs=5)
            for name, file in files.items():
                figures[f"{name} size"] = Figure.of([os.path.getsize(file) / 1e6])
            return figures
    except Failed as failure:
        return failed([*names, *(f"{name} size" for name in names)], failure)


def drawn(address: str, condition: str, limit: float) -> float:
    """Returns the milliseconds until a page is drawn in Chromium."""
    seconds = max(1.0, min(PAGE_SECONDS, limit))
    try:
        told = output_of([*BROWSER, address, condition, str(seconds)], seconds + 60)
    except Failed as failure:
        if "status 77" in str(failure):
            raise Failed("Chromium or Selenium is not installed") from None
        raise
    return json.loads(told)["milliseconds"]


STUDY = """
import random, sys, optuna
from optuna.distributions import CategoricalDistribution, FloatDistribution, IntDistribution
optuna.logging.set_verbosity(optuna.logging.ERROR)
study = optuna.create_study(storage=sys.argv[1], study_name="bench")
space = {"x0": FloatDistribution(0, 1), "x1": FloatDistribution(1e-5, 1e-1, log=True),
         "x2": IntDistribution(1, 64), "x3": CategoricalDistribution(["sgd", "adam", "adamw"])}
study.add_trials([optuna.trial.create_trial(
    params={"x0": random.random(), "x1": 10 ** random.uniform(-5, -1),
            "x2": random.randint(1, 64), "x3": random.choice(["sgd", "adam", "adamw"])},
    distributions=space, value=random.random()) for _ in range(10000)])
"""


@contextmanager
def serving(words: list[str], ready: str) -> Iterator[str]:
    """Runs a server until the block ends; yields its first line that contains `ready`."""
    with subprocess.Popen(words, stdin=subprocess.DEVNULL, stdout=subprocess.PIPE,
                          stderr=subprocess.STDOUT, text=True) as server:
        try:
            for line in server.stdout:
                if ready in line:
                    yield line
                    break
            else:
                raise Failed(f"{words[0]} ended with status {server.wait()}")
        finally:
            server.terminate()


def pages(bench: Bench) -> dict[str, Figure]:
    """Measures how long a page of 10,000 trials takes until all its plots are drawn."""
    try:
        with searches(bench) as store, tempfile.TemporaryDirectory() as directory:
            file = os.path.join(directory, "report.html")
            output_of([bench.dtrain, "--store", store, "report", LARGE, "--html", file],
                      bench.limit())
            storage = f"sqlite:///{directory}/study.db"
            contenders: dict[str, Run | Figure] = {
                "dtrain": lambda: (drawn(f"file://{file}", PLOTS, bench.limit()), None)}
            if not bench.has("optuna_dashboard"):
                contenders["optuna"] = Figure.none(NOT_INSTALLED)
                return by_turns(bench, "page", contenders, runs=3)
            output_of([bench.python, "-c", STUDY, storage], bench.limit())
            server = [os.path.join(os.path.dirname(bench.python), "optuna-dashboard"), storage,
                      "--host", "127.0.0.1", "--port", "18917"]
            with serving(server, ready="Listening on"):
                contenders["optuna"] = lambda: (drawn(
                    "http://127.0.0.1:18917/dashboard/studies/1",
                    "document.querySelector('.js-plotly-plot .main-svg')", bench.limit()), None)
                return by_turns(bench, "page", contenders, runs=3, once=("optuna",))
    except Failed as failure:
        return failed(["dtrain", "optuna"], failure)


def first_reply(bench: Bench, store: str) -> tuple[float, float]:
    """Starts a server; returns the milliseconds until its first reply about 10,000 trials, from
    the request on, and then its memory in MB."""
    words = [bench.dtrain, "--store", store, "serve", "--port", "0"]
    with subprocess.Popen(words, stdin=subprocess.DEVNULL, stdout=subprocess.PIPE,
                          stderr=subprocess.DEVNULL, text=True) as server:
        try:
            address, _, token = server.stdout.readline().strip().partition("#token=")
            request = urllib.request.Request(
                f"{address}api/experiment/{LARGE}",
                headers={"Authorization": f"Bearer {token}", "Accept-Encoding": "gzip"})
            start = time.perf_counter()
            with urllib.request.urlopen(request, timeout=60) as reply:
                size = len(reply.read())
            elapsed = (time.perf_counter() - start) * 1000
            if size < 10_000:
                raise Failed(f"the reply has {size} bytes")
            with open(f"/proc/{server.pid}/status") as file:
                peak = next(line for line in file if line.startswith("VmHWM:"))
            return elapsed, int(peak.split()[1]) / 1000
        except OSError as error:
            raise Failed(str(error)) from None
        finally:
            server.terminate()


def serve(bench: Bench) -> dict[str, Figure]:
    """Measures the first reply of a live page of 10,000 trials, with a new server each time."""
    peaks: list[float] = []

    def run() -> tuple[float, None]:
        elapsed, peak = first_reply(bench, store)
        peaks.append(peak)
        return elapsed, None

    try:
        with searches(bench) as store:
            figures = by_turns(bench, "serve", {"dtrain": run}, runs=5)
        return {**figures, "memory": Figure.of(peaks) if peaks else figures["dtrain"]}
    except Failed as failure:
        return failed(["dtrain", "memory"], failure)


MEASUREMENTS = (
    Measurement("desk-queries", 1, queries, (
        Row("`dtrain importance`, 10,000 trials, 32 hyperparameters", "ms", 50,
            figure="importance"),
        Row("`dtrain trials --filter 'hp.x0 < 0.1' --limit 20`, 10,000 trials", "ms", 60,
            figure="trials"),
        Row("`dtrain best --filter 'hp.x0 < 0.1'`, 10,000 trials", "ms", 60, figure="best"),
        Row("`dtrain best --filter 'min(loss) < 0.5'`, 10,000 trials, 1,000,000 metric rows",
            "ms", 60, figure="metric"),
        Row("`dtrain compare` of 10 searches of 500 trials", "ms", 30, figure="compare"))),
    Measurement("desk-report", 1, reports, (
        Row("`dtrain report --html`, 200 trials, 20,000 metric rows", "ms", 200, figure="small"),
        Row("the size of its file", "MB", 0.5, figure="small size"),
        Row("`dtrain report --html`, 10,000 trials, 1,000,000 metric rows", "ms", 3000,
            figure="large"),
        Row("the size of its file", "MB", 6, figure="large size"))),
    Measurement("desk-serve", 1, serve, (
        Row("the first reply of `dtrain serve` about 10,000 trials", "ms", 300),
        Row("its memory then, at most", "MB", 60, figure="memory"))),
    Measurement("desk-page", 3, pages, (
        Row("the report of 10,000 trials in Chromium: all plots drawn", "ms", 1000),
        Row("10,000 trials in Chromium: all plots drawn, of the other the first", "ms",
            beside="optuna-dashboard, trials without metric rows", figure="optuna"))),
)
