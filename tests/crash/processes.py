"""Live processes of an experiment according to /proc."""

import os
import signal as signals
import sys
import time
from dataclasses import dataclass

# Environment variable of every process of a store, inherited by its children.
MARK = "DTRAIN_CRASH_MARK"
EXPERIMENT = b"DTRAIN_EXPERIMENT_ID="
# Programs that a runner starts its trials with.
HOSTS = ("trial-host", "command-host")


@dataclass(frozen=True)
class Process:
    pid: int
    parent: int
    started: int  # in clock ticks since the boot
    program: str
    of_experiment: bool  # the trial host, a trial, or a descendant of a trial
    of_job: bool  # in a job of Slurm

    @property
    def is_daemon(self) -> bool:
        """True for a process that a trial has started."""
        return self.program not in ("dtrain", *HOSTS)

    def __str__(self) -> str:
        return f"{self.program} {self.pid} (parent {self.parent})"


def _read(pid: int, mark: str) -> Process | None:
    try:
        with open(f"/proc/{pid}/environ", "rb") as file:
            variables = file.read()
        if mark.encode() not in variables:
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
        of_experiment=EXPERIMENT in variables,
        of_job=b"SLURM_JOB_ID=" in variables,
    )


def living(mark: str) -> list[Process]:
    """Returns the processes with the mark, oldest first, without zombies."""
    pids = [int(name) for name in os.listdir("/proc") if name.isdigit()]
    found = [process for pid in pids if (process := _read(pid, mark))]
    return sorted(found, key=lambda process: (process.started, process.pid))


def signal(pid: int, number: int) -> bool:
    """Sends a signal; returns False if the process has ended."""
    try:
        os.kill(pid, number)
        return True
    except ProcessLookupError:
        return False


def end_tidily() -> None:
    """Makes SIGTERM and SIGINT raise SystemExit, so that `finally` blocks clean up."""

    def leave(number: int, _: object) -> None:
        sys.exit(128 + number)

    signals.signal(signals.SIGTERM, leave)
    signals.signal(signals.SIGINT, leave)


def wait_until_gone(
    mark: str, limit: float, spares_daemons: bool
) -> tuple[float, list[Process]]:
    """Waits for the end of an experiment's processes; returns the seconds and the survivors."""
    start = time.monotonic()
    while True:
        left = [
            process
            for process in living(mark)
            if (process.of_experiment or process.of_job)
            and not (spares_daemons and process.is_daemon)
        ]
        passed = time.monotonic() - start
        if not left or passed > limit:
            return passed, left
        time.sleep(0.01)


def kill_all(mark: str) -> None:
    """Kills all processes with the mark, so that a round leaves none behind."""
    for _ in range(200):
        left = living(mark)
        if not left:
            return
        for process in left:
            signal(process.pid, 9)
        time.sleep(0.02)
