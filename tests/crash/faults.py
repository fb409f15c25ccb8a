"""Faults of processes and of stored files, and the deck that deals all faults.

A new fault is a function and its row in a table: PROCESS_FAULTS, DAMAGE_FAULTS, or the table of one
of the files faults_*.py."""

import shutil
import signal
import time
from collections import Counter
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from pathlib import Path
from random import Random

import processes
import tools
from configurations import Configuration
from record import FINAL, directory_of, files_in, read
from scene import Launch, Moment, Scene

KILLED = -9


@dataclass(frozen=True)
class Fault:
    name: str
    # Exit codes of the runner that it may cause, besides that of the undisturbed run.
    exits: frozenset[int] = frozenset()
    # Acts at the chosen moment; returns False if there was nothing to act on.
    strike: Callable[[Scene], bool] | None = None
    # Starts the runner differently.
    launch: Callable[[Scene], Launch] | None = None
    # Reports after the runner's end whether `launch` made the fault.
    was_made: Callable[[Scene], bool] | None = None
    # Acts on an unfinished experiment without a runner, before the next resume.
    between: Callable[[Scene], bool] | None = None
    # Acts on an experiment that has ended and was compared.
    after: Callable[[Scene], bool] | None = None
    # When to strike; random if None.
    moment: Moment | None = None
    # True for configurations that it applies to.
    suits: Callable[[Configuration], bool] = lambda _: True
    # Tool of tools.py that it needs.
    needs: str = ""
    # Runner and host die at the same moment, so no process is left that knows trials' daemons. The
    # trials end by themselves; the daemons stay, which docs/reliability.md accepts.
    spares_daemons: bool = False
    # The directory of a trial cannot be created: the trial is started again later, after others
    # that would have followed it.
    restarts_trials: bool = False
    # A checkpoint may be missing, which is only a warning in the trial's log, or not be deleted.
    spoils_checkpoints: bool = False
    # Makes the runner's output fail, which therefore cannot be checked. Only tests/crash/sweep
    # makes such a fault.
    is_mute: bool = False
    # Ends the experiment, so that nothing can be resumed.
    is_final: bool = False
    # No trial ends without having been asked to, so it costs no restart.
    is_gentle: bool = False
    # Its signal lets trials save a checkpoint first, so it costs no work either.
    is_announced: bool = False


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
    """Kills two trials, or one twice, once per round, so that trials have restarts left."""
    was_made = kill_trial(scene)
    if scene.killed_twice:
        return was_made
    scene.killed_twice = True
    scene.nap(scene.seconds / 2)
    return kill_trial(scene) or was_made


def kill_member(scene: Scene) -> bool:
    """Kills another process of distributed training and starts its command again."""
    runner = scene.runner
    if runner is None or runner.follow is None or not scene.alive:
        return False
    rank, member = scene.rng.choice(sorted(runner.members.items()))
    if not processes.signal(member.process.pid, signal.SIGKILL):
        return False
    member.wait()
    scene.nap(0.5)
    runner.members[rank] = runner.follow(rank)
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
    """Kills all processes in any order. They are stopped first, so that none can react."""
    victims: list[processes.Process] = []
    while len(found := processes.living(scene.store.mark)) > len(victims):
        victims = found
        for process in victims:
            processes.signal(process.pid, signal.SIGSTOP)
    scene.rng.shuffle(victims)
    return any([processes.signal(process.pid, signal.SIGKILL) for process in victims])


def terminate_all(scene: Scene) -> bool:
    """Asks all processes to end at once, as Slurm and systemd do."""
    victims = processes.living(scene.store.mark) if scene.alive else []
    scene.rng.shuffle(victims)
    return any([processes.signal(process.pid, signal.SIGTERM) for process in victims])


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
    """Kills a stopped runner, whose trials have continued without being read."""
    if not _signal_runner(scene, signal.SIGSTOP):
        return False
    time.sleep(scene.rng.uniform(0.1, 1))
    return _signal_runner(scene, signal.SIGKILL)


def stop_for_a_while(scene: Scene, process: int | None, longest: float) -> bool:
    """Stops a process, if there is one, and continues it after at most `longest` seconds."""
    if process is None or not processes.signal(process, signal.SIGSTOP):
        return False
    time.sleep(scene.rng.uniform(0.1, longest))
    return processes.signal(process, signal.SIGCONT)


def stop_trial(scene: Scene) -> bool:
    trial = _some_trial(scene)
    return stop_for_a_while(scene, trial, longest=1)


def stop_trial_then_kill_runner(scene: Scene) -> bool:
    """Kills the runner of a stopped trial, which must not outlive it."""
    trial = _some_trial(scene)
    if trial is None or not processes.signal(trial, signal.SIGSTOP):
        return False
    return _signal_runner(scene, signal.SIGKILL)


def starts_under_another_clock(scene: Scene) -> Launch:
    """Shifts the wall clock of one runner by up to 13 years, past 2038."""
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
    """Returns a file that is not empty."""
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
    while not any(content[start:end]):  # only blocks with content can lose it
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
    Fault("kill member", strike=kill_member, suits=lambda it: it.processes > 1),
    Fault("kill host", strike=kill_host),
    Fault(
        "kill runner and host", frozenset({KILLED}), kill_runner_and_host, spares_daemons=True
    ),
    Fault("power cut", frozenset({KILLED}), power_cut),
    # In its first and last moments no trial runs, and a signal just ends the program.
    Fault("SIGINT", frozenset({130, -2}), _once(signal.SIGINT)),
    Fault("SIGTERM", frozenset({143, -15}), _once(signal.SIGTERM)),
    Fault("SIGHUP", frozenset({129, -1}), _once(signal.SIGHUP)),
    Fault("SIGQUIT", frozenset({-3}), _once(signal.SIGQUIT)),
    Fault("SIGTERM to all", frozenset({143, -15}), terminate_all),
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

# Number of faults that are dealt before one that was dealt but missed.
_CARDS_BEFORE_A_MISSED_ONE = 3
# A run of this duration fails if a fault was never made.
MINUTES_FOR_ALL = 60


class Deck:
    """Deals faults like cards: each fault that suits is made once before any is made twice."""

    def __init__(self, faults: Sequence[Fault], rng: Random) -> None:
        self._faults = list(faults)
        self._rng = rng
        self._cards: list[Fault] = []

    def deal(self, configuration: Configuration, count: int) -> list[Fault]:
        """Takes the uppermost cards that suit; returns nothing if no fault does. The others keep
        their places, so that they come first in the next round that they suit."""
        if not any(fault.suits(configuration) for fault in self._faults):
            return []
        return [self._take_one(configuration) for _ in range(count)]

    def put_back(self, fault: Fault) -> None:
        """Returns a card to the deck that was dealt but not made."""
        self._cards.insert(_CARDS_BEFORE_A_MISSED_ONE, fault)

    def _take_one(self, configuration: Configuration) -> Fault:
        place = self._find(configuration)
        if place is None:
            again = list(self._faults)
            self._rng.shuffle(again)
            self._cards += again
            place = self._find(configuration)
        assert place is not None
        return self._cards.pop(place)

    def _find(self, configuration: Configuration) -> int | None:
        suiting = (i for i, fault in enumerate(self._cards) if fault.suits(configuration))
        return next(suiting, None)


def never_made(possible: set[str], made: Counter[str]) -> list[str]:
    return sorted(name for name in possible if not made[name])


def fail_if_never_made(never: list[str], minutes: float) -> list[str]:
    """Returns the failures of a run of this duration."""
    if not never or minutes < MINUTES_FOR_ALL:
        return []
    return [f"{len(never)} faults were not made in {minutes:.0f} min"]
