"""Measurements of a search by dtrain and by other tools.

Contenders run alternately, each in its own directory, so that a slow moment of the machine affects
all alike; medians count.
"""
import json
import os
import resource
import subprocess
import tempfile
import threading
import time

from bench_figures import (Failed, Figure, LIMIT_SECONDS, Measurement, NOT_INSTALLED, Row,
                           by_turns, family)
from bench_peers import searches

PEERS = os.path.realpath(searches.__file__)

# Asynchronous halving over trials that train nothing. A batch of FaultTrial is an
# empty step, and each batch makes a report (`scheduling_unit: 1`). So every trial
# has the ten reports of the bottom rung, a validation and a checkpoint. One in four
# is promoted: it continues at once, or from its checkpoint in another process.
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
    """Measures the peak memory of a process until `stopped` is set.

    The kernel records the peak of a single process. With descendants it is the maximum of sampled
    sums, in which shared pages count for each process.
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
    """Returns a number of /proc/PID/status, or 0 if the process has ended."""
    try:
        with open(f"/proc/{pid}/status") as f:
            return next((int(line.split()[1]) for line in f if line.startswith(name)), 0)
    except (FileNotFoundError, ProcessLookupError):
        return 0


def watched(command, directory, with_descendants=False, environment=None):
    """Runs `command` with its output in `directory`; returns its time and memory."""
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
            raise Failed(f"no result after {LIMIT_SECONDS} s") from None
        finally:
            memory.stopped.set()
        elapsed = time.perf_counter() - start
    memory.join()
    if status != 0:
        with open(os.path.join(directory, "err")) as f:
            last = ([""] + [line.strip() for line in f if line.strip()])[-1]
        raise Failed(f"status {status}: {last}")
    after = resource.getrusage(resource.RUSAGE_CHILDREN)
    return {
        "wall_ms": elapsed * 1000,
        "cpu_ms": (after.ru_utime + after.ru_stime - before.ru_utime - before.ru_stime) * 1000,
        "peak_rss_mib": memory.kilobytes / 1024,
    }


def create(build, trials):
    """Runs `dtrain create` in an empty store."""

    def run(directory):
        program = [os.path.join(build, "bin/dtrain"), "--store", os.path.join(directory, "store")]
        yaml = os.path.join(directory, "bench.yaml")
        with open(yaml, "w") as f:
            f.write(YAML)
        # Own slots: for those of the machine it would wait for other experiments.
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
    """Runs search and store without processes in dtrain-bench."""

    def run(directory):
        store = os.path.join(directory, "store")
        os.mkdir(store)
        watched([os.path.join(build, "bin/dtrain-bench"), "search-store", store], directory)
        with open(os.path.join(directory, "out")) as f:
            return json.load(f)

    return run


def peer(python, name, trials):
    """Runs another tool's search in its own process."""

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


class SearchRun:
    """Measures milliseconds per trial of a search; each run has its own directory."""

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
        """Returns set-up time and memory of the last run."""
        if "peak_rss_mib" not in self.last:
            return ""
        setup = f"set-up {self.last['setup_ms'] / 1000:.2g} s, " if "setup_ms" in self.last else ""
        return f"{setup}{self.last['peak_rss_mib']:,.0f} MiB"


def beside(bench, name, contenders, runs):
    """Runs the contenders alternately and adds their remarks."""
    figures = by_turns(bench, name, contenders, runs)
    for side, run in contenders.items():
        if isinstance(run, SearchRun):
            figures[side].remark = run.remark()
    return figures


def peers(bench, *names):
    """Returns the searches of other tools, marked if they are not installed."""
    return {
        name: SearchRun(peer(bench.python, name, bench.trials))
        if bench.has(name.split("-")[0])
        else Figure.none(NOT_INSTALLED)
        for name in names
    }


def without_start(whole, one, trials):
    """Returns the time per trial without the start of dtrain, which a search of one trial has."""
    if trials == 1 or whole.median is None or one.median is None:
        return Figure.none("needs both searches")
    return Figure.of([(whole.median * trials - one.median) / (trials - 1)])


def search(bench):
    own = {
        "dtrain": SearchRun(create(bench.build, bench.trials)),
        "one trial": SearchRun(create(bench.build, 1)),
    }
    names = ("optuna-rdb", "optuna-journal", "optuna-memory")
    figures = beside(bench, "search", {**own, **peers(bench, *names)}, runs=3)
    started = without_start(figures["dtrain"], figures["one trial"], bench.trials)
    return {**figures, "without start": started}


def ray(bench):
    own = {"dtrain": SearchRun(create(bench.build, bench.trials))}
    return beside(bench, "ray", {**own, **peers(bench, "ray-tune")}, runs=1)


def search_store_ways(bench):
    """Measures search and store per trial for three levels of durability."""
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


def search_at_scale(bench, slots):
    """Runs a search on simulated workers in dtrain-bench and returns its figures."""
    with tempfile.TemporaryDirectory(prefix="dtrain-bench-") as directory:
        store = os.path.join(directory, "store")
        watched([bench.engine, "scale", store, "--slots", str(slots)], directory)
        with open(os.path.join(directory, "out")) as f:
            found = json.load(f)
    waits = found["start_after_free_slot_ms"]
    return (
        Figure.of([waits["p99"]],
                  remark=f"half of them {waits['p50']:.2g}, the slowest {waits['max']:.3g}"),
        Figure.of([found["cpu_ms_per_trial"]],
                  remark=f"{found['reports'] / found['trials']:.0f} reports a trial, "
                         f"{found['events_per_cpu_second']:,.0f} events/s"),
        Figure.of([found["peak_mb"]]))


def scale(bench):
    figures = {}
    for slots in SCALES:
        try:
            found = search_at_scale(bench, slots)
        except Failed as failure:
            found = 3 * (Figure.none(str(failure)),)
        names = (f"start {slots}", f"cpu {slots}", f"memory {slots}")
        figures |= dict(zip(names, found, strict=True))
    return figures


def scale_rows(slots):
    what = f"10,000 trials of ASHA on {slots:,} slots of simulated workers"
    return (
        Row(f"{what}: a free slot until the next start, 99 %", "ms", 20, figure=f"start {slots}"),
        Row(f"{what}: the runner's processor time of a trial", "ms", figure=f"cpu {slots}"),
        Row(f"{what}: memory, at most", "MB", 100, figure=f"memory {slots}"))


SCALES = (10, 100, 1000)
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
    Measurement("scale", 6, scale, tuple(row for slots in SCALES for row in scale_rows(slots))),
)
