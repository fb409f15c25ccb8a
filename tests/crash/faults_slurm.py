"""Faults of Slurm, of its jobs and of the workers that they start."""

import signal
import socket
from dataclasses import replace

import processes
import record
from configurations import Configuration
from faults import KILLED, PROCESS_FAULTS, Fault, stop_for_a_while
from faults_beside import BESIDE_FAULTS
from scene import Launch, Scene
from slurm import Cluster

# Faults of other tables that are made on Slurm, too.
_COMMON = (
    "kill runner", "kill trial", "kill trials", "kill host", "power cut", "SIGINT", "SIGTERM",
    "SIGHUP", "SIGINT twice", "stop runner", "stop runner, kill", "stop trial",
    "stop trial, kill runner", "pause", "cancel", "kill one trial", "second resume", "readers",
)
# A walltime of a minute, the shortest one, of which a job uses so many seconds, its start included.
_USED = (5, 7)


def _cluster(scene: Scene) -> Cluster:
    cluster = scene.store.cluster
    assert cluster is not None
    return cluster


def _some_job(scene: Scene) -> str | None:
    running = [job.id for job in _cluster(scene).jobs(states="running")]
    return scene.rng.choice(running) if running else None


def _some_worker(scene: Scene) -> int | None:
    workers = scene.runner.workers() if scene.runner else []
    return scene.rng.choice(workers) if workers else None


def short_walltime(scene: Scene) -> Launch:
    """The walltime is over several times before the trials have ended."""
    if record.read(scene.store) is not None:
        return Launch(when="too late")
    grace = 60 - scene.rng.randint(*_USED)
    options = ("--slurm", "time=1", "--slurm", f"grace={grace}s")
    return Launch(options=options, when=f"of {60 - grace} s")


def has_preempted_a_trial(scene: Scene) -> bool:
    now = record.read(scene.store)
    return now is not None and any(trial["preemptions"] for trial in now.trials.values())


def preempt(scene: Scene) -> bool:
    if _some_job(scene) is None:
        return False
    _cluster(scene).preempt(scene.rng.uniform(0, 2))
    return True


def cancel_job(scene: Scene) -> bool:
    job = _some_job(scene)
    if job is None:
        return False
    _cluster(scene).call("scancel", job)
    return True


def kill_job(scene: Scene) -> bool:
    """Ends a job without warning, as the loss of its node does."""
    job = _some_job(scene)
    if job is None:
        return False
    _cluster(scene).call("scancel", "--signal=KILL", "--full", job)
    return True


def restart_controller(scene: Scene) -> bool:
    """Slurm's commands fail for a while, in which the experiment may end."""
    _cluster(scene).stop_controller()
    scene.nap(10)
    _cluster(scene).start_controller()
    return True


def kill_worker(scene: Scene) -> bool:
    worker = _some_worker(scene)
    return worker is not None and processes.signal(worker, signal.SIGKILL)


def stop_worker(scene: Scene) -> bool:
    return stop_for_a_while(scene, _some_worker(scene), longest=2)


def hang_worker(scene: Scene) -> bool:
    """Stops a worker for good, as on a node that does not answer. Its trials continue, until the
    runner has lost the worker and starts them elsewhere."""
    worker = _some_worker(scene)
    return worker is not None and processes.signal(worker, signal.SIGSTOP)


def kill_runner_and_resume(scene: Scene) -> bool:
    """Resumes at once, while the workers of the killed runner save checkpoints."""
    pid = scene.runner.pid() if scene.runner else None
    if pid is None or record.read(scene.store) is None:
        return False
    if not processes.signal(pid, signal.SIGKILL):
        return False
    assert scene.runner is not None
    scene.runner.wait()
    scene.runner = scene.store.start("resume", "1")
    return True


def strangers(scene: Scene) -> bool:
    """Connects to the port of the runner without its key: silent ones and loud ones."""
    script = scene.store.root / "experiments/1/slurm/worker.sh"
    if not script.exists():
        return False
    words = script.read_text(encoding="utf-8").split()
    host, _, port = words[words.index("--connect") + 1].strip("'").rpartition(":")
    peers = []
    for number in range(40):
        try:
            peer = socket.create_connection((host, int(port)), timeout=5)
        except OSError:
            return bool(peers)  # the runner has ended
        peers.append(peer)
        if number % 2:
            peer.sendall(scene.rng.randbytes(200))
    scene.undo += [peer.close for peer in peers]
    return True


def _on_slurm(configuration: Configuration) -> bool:
    return configuration.on_slurm


_OWN = [
    Fault(
        "walltime",
        launch=short_walltime,
        was_made=has_preempted_a_trial,
        is_gentle=True,
        is_announced=True,
    ),
    Fault("preemption", strike=preempt, is_gentle=True, is_announced=True),
    Fault("scancel", strike=cancel_job, is_gentle=True),
    Fault("scancel, kill", strike=kill_job),
    Fault("controller restarted", strike=restart_controller, is_gentle=True),
    Fault("kill worker", strike=kill_worker),
    Fault("stop worker", strike=stop_worker, is_gentle=True),
    Fault("worker hangs", strike=hang_worker),
    Fault("kill runner, resume", frozenset({KILLED}), kill_runner_and_resume),
    Fault("strangers", strike=strangers, is_gentle=True),
]

# With --slurm; the deck deals no others then.
SLURM_FAULTS = [replace(fault, suits=_on_slurm) for fault in _OWN] + [
    fault for fault in PROCESS_FAULTS + BESIDE_FAULTS if fault.name in _COMMON
]
# With --each.
SLURM_SAMPLE = ({fault.name for fault in _OWN} | {"kill runner", "kill trial", "SIGTERM"}) - {
    "worker hangs",  # takes a minute
}
