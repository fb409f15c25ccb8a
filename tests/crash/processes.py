"""Which processes of an experiment are alive, as /proc shows them."""

import os
import signal as signals
import sys
import time
from dataclasses import dataclass

# Every process of a store is started with this variable; what it starts inherits it.
MARK = "DTRAIN_CRASH_MARK"
EXPERIMENT = b"DTRAIN_EXPERIMENT_ID="
# The programs of which a runner's trials are processes.
HOSTS = ("trial-host", "command-host")


@dataclass(frozen=True)
class Process:
    pid: int
    parent: int
    started: int  # in clock ticks since the boot
    program: str
    of_experiment: bool  # the trial host, a trial, or what a trial has started

    @property
    def is_daemon(self) -> bool:
        """Something that a trial has started and left behind."""
        return self.program not in ("dtrain", *HOSTS)

    def __str__(self) -> str:
        return f"{self.program} {self.pid} (parent {self.parent})"


def _read(pid: int, mark: str) -> Process | None:
    try:
        with open(f"/proc/{pid}/environ", "rb") as file:
            variables = file.read().split(b"\0")
        if f"{MARK}={mark}".encode() not in variables:
            return None
        with open(f"/proc/{pid}/stat", encoding="utf-8", errors="replace") as file:
            fields = file.read().rpartition(")")[2].split()
        program = os.path.basename(os.readlink(f"/proc/{pid}/exe"))
    except OSError:
        return None  # it has just ended
    if fields[0] in "ZX":
        return None
    return Process(
        pid=pid,
        parent=int(fields[1]),
        started=int(fields[19]),
        program=program,
        of_experiment=any(text.startswith(EXPERIMENT) for text in variables),
    )


def living(mark: str) -> list[Process]:
    """All that carry the mark, oldest first. A zombie is dead: only its parent is late."""
    pids = [int(name) for name in os.listdir("/proc") if name.isdigit()]
    found = [process for pid in pids if (process := _read(pid, mark))]
    return sorted(found, key=lambda process: (process.started, process.pid))


def signal(pid: int, number: int) -> bool:
    """False if there is no such process any more."""
    try:
        os.kill(pid, number)
        return True
    except ProcessLookupError:
        return False


def end_tidily() -> None:
    """Lets SIGTERM end this program as an exception does, so that nothing is left behind."""

    def leave(number: int, _: object) -> None:
        sys.exit(128 + number)

    signals.signal(signals.SIGTERM, leave)
    signals.signal(signals.SIGINT, leave)


def wait_until_gone(
    mark: str, limit: float, spares_daemons: bool
) -> tuple[float, list[Process]]:
    """How long it took until nothing of an experiment lived, and what still does."""
    start = time.monotonic()
    while True:
        left = [
            process
            for process in living(mark)
            if process.of_experiment and not (spares_daemons and process.is_daemon)
        ]
        passed = time.monotonic() - start
        if not left or passed > limit:
            return passed, left
        time.sleep(0.01)


def kill_all(mark: str) -> None:
    """The last resort, so that no round leaves anything behind."""
    for _ in range(200):
        left = living(mark)
        if not left:
            return
        for process in left:
            signal(process.pid, 9)
        time.sleep(0.02)
