"""The minor page faults of a command while it runs."""
from __future__ import annotations

import contextlib
import glob
import os
import subprocess
import time

from bench_figures import Failed, OUT_OF_TIME


def family(pid: int) -> list[int]:
    """A process and all that come from it."""
    found = [pid]
    for parent in found:  # which grows
        for path in glob.glob(f"/proc/{parent}/task/*/children"):
            with contextlib.suppress(OSError), open(path) as file:
                found += [int(child) for child in file.read().split()]
    return found


def faults_of(pids: list[int]) -> int:
    """Their minor page faults so far."""
    total = 0
    for pid in pids:
        with contextlib.suppress(OSError), open(f"/proc/{pid}/stat") as file:
            total += int(file.read().rpartition(")")[2].split()[7])
    return total


def watched(words: list[str], directory: str, limit: float,
            environment: dict[str, str]) -> list[tuple[float, int]]:
    """Runs a command; how many faults it and its family had had at which times."""
    if limit <= 0:
        raise Failed(OUT_OF_TIME)
    seen = []
    deadline = time.monotonic() + limit
    errors = os.path.join(directory, "errors")
    with open(errors, "w") as file:
        process = subprocess.Popen(words, env=environment, stdin=subprocess.DEVNULL,
                                   stdout=subprocess.DEVNULL, stderr=file)
    while process.poll() is None:
        if time.monotonic() > deadline:
            process.terminate()
            process.wait()
            raise Failed(f"no end after {limit:.0f} s")
        seen.append((time.time(), faults_of(family(process.pid))))
        time.sleep(0.1)
    if process.returncode != 0:
        with open(errors) as file:
            last = ([""] + [line.strip() for line in file if line.strip()])[-1]
        raise Failed(f"failed: status {process.returncode}: {last}")
    return seen


def faults_a_second(seen: list[tuple[float, int]], start: float, end: float) -> float | None:
    """Between two times; None if fewer than two looks were in between."""
    inside = [(time, faults) for time, faults in seen if start <= time <= end]
    if len(inside) < 2:
        return None
    return (inside[-1][1] - inside[0][1]) / (inside[-1][0] - inside[0][0])
