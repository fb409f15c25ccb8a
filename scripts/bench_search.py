"""What a search costs: dtrain's, and beside it those of other tools.

Part of scripts/bench. Everything is run in turn, each in a directory of its
own, so that a slow moment of the machine meets all alike; medians count.
"""
import json
import os
import resource
import statistics
import subprocess
import sys
import tempfile
import threading
import time

import bench_peers

PEERS = os.path.realpath(bench_peers.__file__)

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
  max_length: {bench_peers.RUNGS[-1]}
  num_rungs: {len(bench_peers.RUNGS)}
  divisor: {bench_peers.DIVISOR}
  max_trials: 1
  max_concurrent_trials: {bench_peers.AT_ONCE}
resources: {{slots: "cpu:{bench_peers.AT_ONCE}"}}
reproducibility: {{experiment_seed: {bench_peers.SEED}}}
max_restarts: 0
"""

LIMIT_SECONDS = 1800


class Failed(Exception):
    """A command ended badly; the text says how."""


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
                pids = descendants(self.pid)
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


def descendants(root):
    """`root` and every process that comes from it."""
    children = {}
    for entry in os.listdir("/proc"):
        if entry.isdigit():
            children.setdefault(status_field(entry, "PPid:"), []).append(int(entry))
    found = [root]
    for pid in found:
        found.extend(children.get(pid, []))
    return found


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


def merged(samples):
    """The medians of several samples of one shape."""
    first = samples[0]
    if isinstance(first, dict):
        return {key: merged([sample[key] for sample in samples]) for key in first}
    if isinstance(first, (int, float)) and not isinstance(first, bool):
        middle = statistics.median(samples)
        return round(middle, 3) if isinstance(middle, float) else middle
    return first


def in_turn(contenders, runs):
    """Runs every contender `runs` times, alternating; Ray, which takes minutes, once."""
    samples = {name: [] for name in contenders}
    failed = {}
    for turn in range(runs):
        for name, run in contenders.items():
            if name in failed or (name == "ray-tune" and turn > 0):
                continue
            print(f"bench: {name}, run {turn + 1}", file=sys.stderr)
            with tempfile.TemporaryDirectory(
                prefix="dtrain-bench-", ignore_cleanup_errors=True
            ) as directory:
                try:
                    samples[name].append(run(directory))
                except Failed as failure:
                    failed[name] = {"failed": str(failure)}
                    print(f"bench: {name}: {failure}", file=sys.stderr)
    return {name: failed.get(name) or summary(taken) for name, taken in samples.items()}


def summary(samples):
    each = [round(sample["ms_per_trial"], 2) for sample in samples if "ms_per_trial" in sample]
    return {**merged(samples), "runs": len(samples), **({"each_ms": each} if each else {})}


def peer_versions(python):
    done = subprocess.run([python, PEERS, "versions"], stdout=subprocess.PIPE)
    if done.returncode != 0:
        sys.exit(f"bench: {python} cannot run bench_peers.py; give another --peer-python")
    return json.loads(done.stdout)


def measure(parts, build, python, trials, runs):
    """The figures of those `parts` that are searches, by name."""
    contenders = {}
    if "search" in parts:
        contenders["dtrain"] = create(build, trials)
        contenders["dtrain, 1 trial"] = create(build, 1)
    if "search-store" in parts:
        contenders["dtrain search-store"] = search_store(build)
    asked = [name for name in bench_peers.PEERS if name.split("-")[0] in parts]
    versions = peer_versions(python) if asked else {}
    for name in asked:
        if versions[name.split("-")[0]]:
            contenders[name] = peer(python, name, trials)
    figures = in_turn(contenders, runs)
    for name in asked:
        version = versions[name.split("-")[0]]
        figures[name] = {"version": version, **figures[name]} if version else "not installed"
    whole, one = figures.get("dtrain", {}), figures.get("dtrain, 1 trial", {})
    if trials > 1 and "wall_ms" in whole and "wall_ms" in one:
        spent = whole["wall_ms"] - one["wall_ms"]
        whole["ms_per_trial_without_start"] = round(spent / (trials - 1), 3)
    return figures
