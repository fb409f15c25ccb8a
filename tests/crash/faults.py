"""The faults. A new one is a function and its row in FAULTS (or in the table of its file)."""

import shutil
import signal
import time
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path

import processes
import tools
from configurations import Configuration
from record import FINAL, directory_of, files_in, read
from scene import Launch, Moment, Scene

KILLED = -9


@dataclass(frozen=True)
class Fault:
    name: str
    # How the runner may end because of it, beside how it ends undisturbed.
    exits: frozenset[int] = frozenset()
    # Acts at the drawn moment; False if there was nothing to act on.
    strike: Callable[[Scene], bool] | None = None
    # Starts the runner differently.
    launch: Callable[[Scene], Launch] | None = None
    # Looks, when the runner has ended, whether it was made by `launch`.
    was_made: Callable[[Scene], bool] | None = None
    # Acts while nobody runs what is unfinished, before the next resume.
    between: Callable[[Scene], bool] | None = None
    # Acts on an experiment that has come to its end, and was compared.
    after: Callable[[Scene], bool] | None = None
    # When to strike; without one it is drawn.
    moment: Moment | None = None
    # Which experiments it can be made in.
    suits: Callable[[Configuration], bool] = lambda _: True
    # A tool of tools.py.
    needs: str = ""
    # Runner and host die at one moment: nobody is left who knows what trials have set loose. The
    # trials end by themselves, and the daemons stay, which docs/reliability.md accepts.
    spares_daemons: bool = False
    # The directory of a trial cannot be made: it is started again later than its turn was, and
    # others come first meanwhile.
    restarts_trials: bool = False
    # A checkpoint may not be written, which is a warning in the trial's log and no error, or not be
    # deleted.
    spoils_checkpoints: bool = False
    # Takes the runner's words away, since writing them is what fails: they cannot be judged. Only
    # tests/crash/sweep makes such a fault.
    is_mute: bool = False
    # The experiment ends with it: nothing is resumed.
    is_final: bool = False


def _runner_pid(scene: Scene) -> int | None:
    return scene.runner.pid() if scene.runner else None


def _signal_runner(scene: Scene, number: int) -> bool:
    pid = _runner_pid(scene)
    return pid is not None and processes.signal(pid, number)


def _some_trial(scene: Scene) -> int | None:
    trials = scene.runner.trials() if scene.runner else []
    return scene.rng.choice(trials) if trials else None


def kill_runner(scene: Scene) -> bool:
    return _signal_runner(scene, signal.SIGKILL)


def kill_trial(scene: Scene) -> bool:
    trial = _some_trial(scene)
    return trial is not None and processes.signal(trial, signal.SIGKILL)


def kill_trials(scene: Scene) -> bool:
    """Two, or one twice, once in a round: a trial is to have restarts left."""
    was_made = kill_trial(scene)
    if scene.killed_twice:
        return was_made
    scene.killed_twice = True
    scene.nap(scene.seconds / 2)
    return kill_trial(scene) or was_made


def kill_follower(scene: Scene) -> bool:
    """Another of the processes that train together; its command is started again."""
    runner = scene.runner
    if runner is None or runner.follow is None or not scene.alive:
        return False
    rank, follower = scene.rng.choice(sorted(runner.followers.items()))
    if not processes.signal(follower.process.pid, signal.SIGKILL):
        return False
    follower.wait()
    scene.nap(0.5)
    runner.followers[rank] = runner.follow(rank)
    return True


def kill_host(scene: Scene) -> bool:
    host = scene.runner.host() if scene.runner else None
    return host is not None and processes.signal(host, signal.SIGKILL)


def kill_runner_and_host(scene: Scene) -> bool:
    host = scene.runner.host() if scene.runner else None
    if host is None:
        return False
    victims = [host, _runner_pid(scene) or host]
    scene.rng.shuffle(victims)
    return all([processes.signal(pid, signal.SIGKILL) for pid in victims])


def power_cut(scene: Scene) -> bool:
    """Everything at once, in any order; what is stopped first cannot react to the others."""
    victims: list[processes.Process] = []
    while len(found := processes.living(scene.store.mark)) > len(victims):
        victims = found
        for process in victims:
            processes.signal(process.pid, signal.SIGSTOP)
    scene.rng.shuffle(victims)
    return any([processes.signal(process.pid, signal.SIGKILL) for process in victims])


def _once(number: int) -> Callable[[Scene], bool]:
    return lambda scene: _signal_runner(scene, number)


def interrupt_twice(scene: Scene) -> bool:
    if not _signal_runner(scene, signal.SIGINT):
        return False
    scene.nap(0.3)
    return _signal_runner(scene, signal.SIGINT)


def stop_runner(scene: Scene) -> bool:
    if not _signal_runner(scene, signal.SIGSTOP):
        return False
    time.sleep(scene.rng.uniform(0.1, 2))
    return _signal_runner(scene, signal.SIGCONT)


def stop_runner_then_kill(scene: Scene) -> bool:
    """Trials run on, unheard, until their runner dies."""
    if not _signal_runner(scene, signal.SIGSTOP):
        return False
    time.sleep(scene.rng.uniform(0.1, 1))
    return _signal_runner(scene, signal.SIGKILL)


def stop_trial(scene: Scene) -> bool:
    trial = _some_trial(scene)
    if trial is None or not processes.signal(trial, signal.SIGSTOP):
        return False
    time.sleep(scene.rng.uniform(0.1, 1))
    return processes.signal(trial, signal.SIGCONT)


def stop_trial_then_kill_runner(scene: Scene) -> bool:
    """Who cannot move is not to outlive its runner either."""
    trial = _some_trial(scene)
    if trial is None or not processes.signal(trial, signal.SIGSTOP):
        return False
    return _signal_runner(scene, signal.SIGKILL)


def starts_under_another_clock(scene: Scene) -> Launch:
    """The clock on the wall jumps by a day, a year or past 2038, from one runner to the next."""
    shift = scene.rng.choice(["-1d", "+1d", "-3600s", "+365d", "+13y"])
    variables = {
        "LD_PRELOAD": tools.faketime_library(),
        "FAKETIME": shift,
        "FAKETIME_DONT_FAKE_MONOTONIC": "1",
    }
    return Launch(variables=variables, when=shift)


def damage(change: Callable[[Scene, Path], None]) -> Callable[[Scene], bool]:
    """Damages the latest checkpoint of an unfinished trial."""

    def act(scene: Scene) -> bool:
        now = read(scene.store)
        if now is None:
            return False
        latest = {
            checkpoint["number"]: checkpoint
            for checkpoint in now.checkpoints
            if checkpoint["state"] == "COMPLETED"
            and now.trials[checkpoint["number"]]["state"] not in FINAL
        }
        if not latest:
            return False
        checkpoint = latest[scene.rng.choice(sorted(latest))]
        if checkpoint["uuid"] in scene.damaged:
            return False
        change(scene, directory_of(scene.store, checkpoint))
        scene.damaged.add(checkpoint["uuid"])
        return True

    return act


def _some_file(scene: Scene, directory: Path) -> Path:
    """One that has something to lose."""
    paths = [path for path in files_in(directory).values() if path.stat().st_size > 0]
    return scene.rng.choice(paths)


def _flip_bit(scene: Scene, directory: Path) -> None:
    path = _some_file(scene, directory)
    content = bytearray(path.read_bytes())
    content[scene.rng.randrange(len(content))] ^= 1 << scene.rng.randrange(8)
    path.write_bytes(content)


def _truncate(scene: Scene, directory: Path) -> None:
    path = _some_file(scene, directory)
    path.write_bytes(path.read_bytes()[: scene.rng.randrange(path.stat().st_size)])


def _zero_block(scene: Scene, directory: Path) -> None:
    path = _some_file(scene, directory)
    content = bytearray(path.read_bytes())
    start = scene.rng.randrange(len(content))
    end = min(start + 4096, len(content))
    while not any(content[start:end]):  # there must be something to lose
        start //= 2
    content[start:end] = bytes(end - start)
    path.write_bytes(content)


def _remove_file(scene: Scene, directory: Path) -> None:
    _some_file(scene, directory).unlink()


def _remove_directory(scene: Scene, directory: Path) -> None:
    shutil.rmtree(directory)


PROCESS_FAULTS = [
    Fault("kill runner", frozenset({KILLED}), kill_runner),
    Fault("kill trial", strike=kill_trial),
    Fault("kill trials", strike=kill_trials),
    Fault("kill follower", strike=kill_follower, suits=lambda it: it.processes > 1),
    Fault("kill host", strike=kill_host),
    Fault(
        "kill runner and host", frozenset({KILLED}), kill_runner_and_host, spares_daemons=True
    ),
    Fault("power cut", frozenset({KILLED}), power_cut),
    # In its first and last moments there is nothing to stop: a signal just ends the program.
    Fault("SIGINT", frozenset({130, -2}), _once(signal.SIGINT)),
    Fault("SIGTERM", frozenset({143, -15}), _once(signal.SIGTERM)),
    Fault("SIGHUP", frozenset({129, -1}), _once(signal.SIGHUP)),
    Fault("SIGINT twice", frozenset({130, -2}), interrupt_twice),
    Fault("stop runner", strike=stop_runner),
    Fault("stop runner, kill", frozenset({KILLED}), stop_runner_then_kill),
    Fault("stop trial", strike=stop_trial),
    Fault("stop trial, kill runner", frozenset({KILLED}), stop_trial_then_kill_runner),
    Fault(
        "clock jump",
        frozenset({KILLED}),
        kill_runner,
        launch=starts_under_another_clock,
        needs="faketime",
    ),
]

DAMAGE_FAULTS = [
    Fault("checkpoint: bit flipped", between=damage(_flip_bit)),
    Fault("checkpoint: cut", between=damage(_truncate)),
    Fault("checkpoint: block zeroed", between=damage(_zero_block)),
    Fault("checkpoint: file missing", between=damage(_remove_file)),
    Fault("checkpoint: missing", between=damage(_remove_directory)),
]
