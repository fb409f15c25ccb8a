"""What a search costs: dtrain's, and beside it those of other tools.

Part of scripts/bench. Everything is run in turn, each in a directory of its
own, so that a slow moment of the machine meets all alike; medians count.
"""
import json
import os
import resource
import subprocess
import tempfile
import threading
import time

from bench_faults import family
from bench_figures import (Failed, Figure, LIMIT_SECONDS, Measurement, NOT_INSTALLED, Row,
                           by_turns)
from bench_peers import searches

PEERS = os.path.realpath(searches.__file__)

# An asynchronous halving over trials that train nothing. A batch of FaultTrial
# is an empty step, and one is a report (`scheduling_unit: 1`); so every trial
# has the ten reports of the bottom rung, a validation and a checkpoint. One in
# four goes on: at once, or from its checkpoint in a further process.
YAML = f"""\
name: trivial trials
entrypoint: builtin:FaultTrial
hyperparameters:
  x: {{type: double, minval: 0, maxval: 1}}
scheduling_unit: 1
searcher:
  name: async_halving
  metric: loss
  max_length: {searches.RUNGS[-1]}
  num_rungs: {len(searches.RUNGS)}
  divisor: {searches.DIVISOR}
  max_trials: 1
  max_concurrent_trials: {searches.AT_ONCE}
resources: {{slots: "cpu:{searches.AT_ONCE}"}}
reproducibility: {{experiment_seed: {searches.SEED}}}
max_restarts: 0
"""

class PeakMemory(threading.Thread):
    """Watches what a process keeps in memory until `stopped` is set.

    Of one process the kernel knows its own peak. With its descendants it is the
    greatest sum seen, in which pages that they share count for each.
    """

    def __init__(self, pid, with_descendants):
        super().__init__(daemon=True)
        self.pid = pid
        self.with_descendants = with_descendants
        self.stopped = threading.Event()
        self.kilobytes = 0

    def run(self):
        pause = 0.5 if self.with_descendants else 0.02
        while True:
            if self.with_descendants:
                pids = family(self.pid)
                now = sum(status_field(pid, "VmRSS:") for pid in pids)
            else:
                now = status_field(self.pid, "VmHWM:")
            self.kilobytes = max(self.kilobytes, now)
            if self.stopped.wait(pause):
                return


def status_field(pid, name):
    """A number of /proc/PID/status; 0 once the process has ended."""
    try:
        with open(f"/proc/{pid}/status") as f:
            return next((int(l.split()[1]) for l in f if l.startswith(name)), 0)
    except (FileNotFoundError, ProcessLookupError):
        return 0


def watched(command, directory, with_descendants=False, environment=None):
    """Runs `command`, its output in `directory`; returns what it took."""
    before = resource.getrusage(resource.RUSAGE_CHILDREN)
    with open(os.path.join(directory, "out"), "w") as out, \
            open(os.path.join(directory, "err"), "w") as err:
        start = time.perf_counter()
        try:
            process = subprocess.Popen(
                command, stdin=subprocess.DEVNULL, stdout=out, stderr=err, env=environment
            )
        except OSError as error:
            raise Failed(f"{command[0]}: {error.strerror}") from None
        memory = PeakMemory(process.pid, with_descendants)
        memory.start()
        try:
            status = process.wait(LIMIT_SECONDS)
        except subprocess.TimeoutExpired:
            process.kill()
            process.wait()
            raise Failed(f"no end after {LIMIT_SECONDS} s") from None
        finally:
            memory.stopped.set()
        elapsed = time.perf_counter() - start
    memory.join()
    if status != 0:
        with open(os.path.join(directory, "err")) as f:
            last = ([""] + [l.strip() for l in f if l.strip()])[-1]
        raise Failed(f"status {status}: {last}")
    after = resource.getrusage(resource.RUSAGE_CHILDREN)
    return {
        "wall_ms": elapsed * 1000,
        "cpu_ms": (after.ru_utime + after.ru_stime - before.ru_utime - before.ru_stime) * 1000,
        "peak_rss_mib": memory.kilobytes / 1024,
    }


def create(build, trials):
    """`dtrain create` from its start to its end, in an empty store."""

    def run(directory):
        program = [os.path.join(build, "bin/dtrain"), "--store", os.path.join(directory, "store")]
        yaml = os.path.join(directory, "bench.yaml")
        with open(yaml, "w") as f:
            f.write(YAML)
        # Slots of its own: those of the machine would be waited for in turn with
        # every other experiment.
        slots = {**os.environ, "DTRAIN_RUNTIME_DIR": os.path.join(directory, "slots")}
        took = watched(
            [*program, "create", yaml, "--json", "--set", f"searcher.max_trials={trials}"],
            directory,
            environment=slots,
        )
        listed = subprocess.run([*program, "trials", "1", "--json"], capture_output=True)
        rows = json.loads(listed.stdout)["trials"] if listed.returncode == 0 else []
        if len(rows) != trials:
            raise Failed(f"{len(rows)} trials instead of {trials}")
        return {
            "ms_per_trial": took["wall_ms"] / trials,
            **took,
            "trials": trials,
            "processes": sum(row["runs"] for row in rows),
            "reports_per_trial": sum(row["batches"] for row in rows) / trials,
        }

    return run


def search_store(build):
    """What dtrain-bench says of search and store without processes."""

    def run(directory):
        store = os.path.join(directory, "store")
        os.mkdir(store)
        watched([os.path.join(build, "bin/dtrain-bench"), "search-store", store], directory)
        with open(os.path.join(directory, "out")) as f:
            return json.load(f)

    return run


def peer(python, name, trials):
    """A peer's search, in a process of its own."""

    def run(directory):
        ray = name == "ray-tune"
        took = watched(
            [python, PEERS, name, str(trials), directory], directory, with_descendants=ray
        )
        if ray:
            del took["cpu_ms"]  # its daemons are not waited for
        with open(os.path.join(directory, "result.json")) as f:
            return {**json.load(f), **took}

    return run


class Played:
    """Milliseconds a trial of a search, each run in a directory of its own."""

    def __init__(self, run):
        self._run = run
        self.last = {}

    def __call__(self):
        with tempfile.TemporaryDirectory(
            prefix="dtrain-bench-", ignore_cleanup_errors=True
        ) as directory:
            self.last = self._run(directory)
        return self.last["ms_per_trial"], None

    def remark(self):
        """What it took besides."""
        if "peak_rss_mib" not in self.last:
            return ""
        setup = f"set-up {self.last['setup_ms'] / 1000:.2g} s, " if "setup_ms" in self.last else ""
        return f"{setup}{self.last['peak_rss_mib']:,.0f} MiB"


def beside(bench, name, contenders, runs):
    """The figures of those that are played, by turns."""
    figures = by_turns(bench, name, contenders, runs)
    for side, played in contenders.items():
        if isinstance(played, Played):
            figures[side].remark = played.remark()
    return figures


def peers(bench, *names):
    """Their searches; what is not installed says so."""
    return {
        name: Played(peer(bench.python, name, bench.trials))
        if bench.has(name.split("-")[0])
        else Figure.none(NOT_INSTALLED)
        for name in names
    }


def without_start(whole, one, trials):
    """What a trial costs beyond the start of dtrain, which one trial has too."""
    if trials == 1 or whole.median is None or one.median is None:
        return Figure.none("needs both searches")
    return Figure.of([(whole.median * trials - one.median) / (trials - 1)])


def search(bench):
    own = {
        "dtrain": Played(create(bench.build, bench.trials)),
        "one trial": Played(create(bench.build, 1)),
    }
    names = ("optuna-rdb", "optuna-journal", "optuna-memory")
    figures = beside(bench, "search", {**own, **peers(bench, *names)}, runs=3)
    started = without_start(figures["dtrain"], figures["one trial"], bench.trials)
    return {**figures, "without start": started}


def ray(bench):
    own = {"dtrain": Played(create(bench.build, bench.trials))}
    return beside(bench, "ray", {**own, **peers(bench, "ray-tune")}, runs=1)


def search_store_ways(bench):
    """Milliseconds a trial of search and store, by how safely SQLite writes."""
    taken = {}
    run = search_store(bench.build)

    def once():
        with tempfile.TemporaryDirectory(prefix="dtrain-bench-") as directory:
            for way, found in run(directory).items():
                if isinstance(found, dict) and "ms_per_trial" in found:
                    taken.setdefault(way, []).append(found["ms_per_trial"])
        return 0, None

    whole = by_turns(bench, "search-store", {"all": once}, runs=3)["all"]
    if whole.missing:
        return {way: whole for way in ("normal", "full_where_durable", "full_always")}
    return {way: Figure.of(values) for way, values in taken.items()}


TRIVIAL = "ASHA of trivial trials, 2 CPU slots, a process a trial: a trial"
MEASUREMENTS = (
    Measurement("search", 1, search, (
        Row(TRIVIAL, "ms", 12),
        Row("the same without dtrain's start, taken from a search of 1 trial", "ms",
            figure="without start"),
        Row(TRIVIAL, "ms", None, "Optuna in one process, SQLite", "optuna-rdb"),
        Row(TRIVIAL, "ms", None, "Optuna in one process, journal file", "optuna-journal"),
        Row(TRIVIAL, "ms", None, "Optuna in one process, in memory", "optuna-memory"))),
    Measurement("ray", 6, ray, (Row(TRIVIAL, "ms", None, "Ray Tune, 2 CPUs", "ray-tune"),)),
    Measurement("search-store", 1, search_store_ways, (
        Row("search and store alone, 10 reports a trial, NORMAL: a trial", "ms", 0.5,
            figure="normal"),
        Row("the same, FULL where a checkpoint or an end is recorded, as dtrain runs", "ms",
            figure="full_where_durable"),
        Row("the same, FULL for every transaction", "ms", figure="full_always"))),
)
