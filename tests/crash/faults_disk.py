"""Faults by disks that are full or fail."""

import errno
import os
import re
from collections.abc import Callable
from pathlib import Path

import tools
from faults import KILLED, Fault
from scene import Launch, Scene

# Exit code of a runner that cannot write; the experiment can be resumed.
STOPPED = frozenset({5})


def _fill(path: Path) -> None:
    """Fills the disk to the last byte."""
    file = os.open(path, os.O_WRONLY | os.O_CREAT | os.O_APPEND)
    try:
        for size in (1 << 20, 1 << 12, 1):
            try:
                while True:
                    os.write(file, bytes(size))
            except OSError as error:
                if error.errno != errno.ENOSPC:
                    raise
    finally:
        os.close(file)


def _fill_nearly(path: Path, left: int) -> None:
    """Fills the disk except for `left` bytes: enough for the record, but not for checkpoints."""
    _fill(path)
    os.truncate(path, max(path.stat().st_size - left, 0))


def no_room_for_checkpoints(scene: Scene) -> bool:
    """Fills the disk for a while, or for longer than the runner waits."""
    ballast = scene.store.home / "disk" / "ballast"
    _fill_nearly(ballast, scene.rng.choice([200, 600, 900, 1500]) << 10)
    if scene.rng.random() < 0.5:
        scene.nap(4)
        _remove(ballast)
    else:
        scene.undo.append(lambda: _remove(ballast))
    return True


def waits_for_a_second(_: Scene) -> Launch:
    return Launch(options=("--disk-wait", "1s"))


def _take_inodes(directory: Path) -> None:
    directory.mkdir()
    try:
        for number in range(1_000_000):
            (directory / str(number)).touch()
    except OSError as error:
        if error.errno != errno.ENOSPC:
            raise


def _remove(path: Path) -> None:
    if path.is_dir():
        for file in path.iterdir():
            file.unlink()
        path.rmdir()
    else:
        path.unlink(missing_ok=True)


def make_trials_read_only(scene: Scene) -> bool:
    """Nothing new can be made in the directories of trials for a while, though the database can be
    written, as after the end of a Kerberos ticket."""
    trials = scene.store.root / "experiments/1/trials"
    if not trials.exists():
        return False
    tools.make_read_only(trials)
    scene.nap(4)
    tools.unmount(trials)
    return True


def _full(take: Callable[[Path], None]) -> Callable[[Scene], bool]:
    def strike(scene: Scene) -> bool:
        ballast = scene.store.home / "disk" / "ballast"
        take(ballast)
        scene.nap(4)
        if scene.alive:  # it had nothing to write
            _remove(ballast)
            return True
        if scene.store.database.exists():
            scene.call("list", codes={0})
        _remove(ballast)
        return True

    return strike


def _log(scene: Scene) -> Path:
    return scene.store.home / "strace.out"


def traced(scene: Scene, calls: str, action: str, when: str, *options: str) -> Launch:
    _log(scene).unlink(missing_ok=True)
    return Launch(
        wrapper=(
            *("strace", "-qq", *options, "-o", str(_log(scene)), "-e", f"trace={calls}"),
            *("-e", f"inject={calls}:{action}:when={when}"),
        ),
        when=f"at {calls} {when}",
    )


def inject(calls: str, action: str, most: int) -> Callable[[Scene], Launch]:
    """Makes the runner's n-th call of one of these fail, or also all later ones."""

    def launch(scene: Scene) -> Launch:
        at = round(most ** scene.rng.random())
        when = f"{at}+" if action.startswith("error") and scene.rng.random() < 0.3 else f"{at}"
        return traced(scene, scene.rng.choice(calls.split(",")), action, when)

    return launch


def was_injected(scene: Scene) -> bool:
    """Strace marks a failed call; a call that killed its process has no result."""
    log = _log(scene)
    if not log.exists():
        return False
    text = log.read_text(encoding="utf-8", errors="replace")
    return "(INJECTED)" in text or re.search(r" = \?$", text, re.MULTILINE) is not None


def exits_of(action: str) -> frozenset[int]:
    return frozenset({KILLED}) if action == "signal=KILL" else STOPPED


def _injected(name: str, calls: str, action: str, most: int) -> Fault:
    exits = exits_of(action)
    if "mkdir" in calls:
        exits |= {6}  # without the directory of slots none can be taken
    return Fault(
        name,
        exits,
        launch=inject(calls, action, most),
        was_made=was_injected,
        needs="strace",
        restarts_trials="mkdir" in calls,
        spoils_checkpoints=action != "signal=KILL",
    )


# System calls that a runner makes.
CALLS = "pwrite64,pwrite64,pwrite64,write,write,fdatasync,ftruncate,unlink,unlinkat,mkdir,sendto"

DISK_FAULTS = [
    Fault(
        "no room for checkpoints",
        STOPPED,
        no_room_for_checkpoints,
        launch=waits_for_a_second,
        needs="tmpfs",
        spoils_checkpoints=True,
    ),
    Fault(
        "disk full",
        STOPPED,
        _full(_fill),
        needs="tmpfs",
        spoils_checkpoints=True,
    ),
    Fault(
        "inodes gone",
        STOPPED,
        _full(_take_inodes),
        launch=waits_for_a_second,  # the store can be written, so only trials see it
        needs="tmpfs",
        spoils_checkpoints=True,
    ),
    Fault(
        "trials read-only",
        STOPPED,
        make_trials_read_only,
        launch=waits_for_a_second,
        needs="tmpfs",
        spoils_checkpoints=True,
        restarts_trials=True,
    ),
    _injected("ENOSPC on pwrite64", "pwrite64", "error=ENOSPC", 300),
    _injected("EIO on pwrite64", "pwrite64", "error=EIO", 300),
    _injected("EIO on fdatasync", "fdatasync", "error=EIO", 25),
    _injected("ENOSPC on ftruncate", "ftruncate", "error=ENOSPC", 10),
    _injected("ENOSPC on mkdir", "mkdir", "error=ENOSPC", 12),
    _injected("EIO on unlink", "unlink,unlinkat,rmdir", "error=EIO", 30),
    _injected("kill at a system call", CALLS, "signal=KILL", 300),
]
