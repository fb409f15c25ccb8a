"""Time limits of the crash test and the longest durations that a run has seen.

Each limit is three times the longest duration seen in runs of more than ten minutes beside builds
that overloaded the machine's two cores, and at least three seconds, the time that a process may
have to wait for a CPU there. To these come the seconds of STALL. A machine with more runnable
processes than CPUs has as many times as long."""

import os
from dataclasses import dataclass

STALL = 5.0  # seconds for which the disk or the machine may stall
_factor = 1.0  # see extend()


@dataclass
class Bound:
    name: str
    seconds: float  # on a machine with a CPU for each process
    is_promised: bool = False  # by the documents, for every machine
    largest: float = 0.0  # longest of this run
    count: int = 0  # measurements of this run

    @property
    def limit(self) -> float:
        if self.is_promised:
            return self.seconds
        return self.seconds * _factor * max(1.0, os.getloadavg()[0] / (os.cpu_count() or 1))

    def see(self, seconds: float) -> bool:
        """Records a duration; returns False if it exceeds the limit."""
        self.largest = max(self.largest, seconds)
        self.count += 1
        return seconds <= self.limit


# From the end of a runner until no process of its experiments lives. Seen: 1.3 s.
SURVIVORS = Bound("survivors", 4 + STALL)
# From the end of a runner until another process of its group has ended. Seen: 0.06 s.
MEMBERS = Bound("member's end", 3 + STALL)
# From SIGTERM to the end of a process that has not found its runner yet. Seen: 0.02 s.
LONE_MEMBERS = Bound("member's end by SIGTERM", 3 + STALL)
# From a request or a signal other than SIGKILL to the end of the runner. Seen: 0.22 s.
ENDS = Bound("end by request", 3 + STALL)
# From the end of a runner until its jobs of Slurm and their processes have ended. Killed runners
# leave them running, and docs/slurm.md promises a minute.
JOBS = Bound("jobs, after their runner", 60, is_promised=True)
# From a request or a signal to the end of a runner on Slurm, whose commands can fail meanwhile.
JOB_ENDS = Bound("end by request, on Slurm", 60)
# Duration of a run on Slurm beyond that of the undisturbed run on this machine.
JOB_RUNS = Bound("run on Slurm, beyond undisturbed", 120)
# Duration of a run or a resume beyond that of the undisturbed run. Seen: 1.8 s.
RUNS = Bound("run, beyond undisturbed", 6 + STALL)
# The same under strace. Seen: 4.9 s.
TRACED_RUNS = Bound("run under strace, beyond it", 15 + STALL)
# The same on a full disk. Seen: 3.8 s, and once 58 s, when free space went unnoticed.
FULL_RUNS = Bound("run on a full disk, beyond it", 12 + STALL)
# The same for an experiment that waited for another's slots, from the other's end. Seen: 0.32 s.
NEIGHBOURS = Bound("neighbour, beyond it", 3 + STALL)
# A run without faults. Seen: 6.0 s.
UNDISTURBED = Bound("undisturbed run", 18 + STALL)
# Any other command, from its start to its end. Seen: 3.0 s.
COMMANDS = Bound("command", 9 + STALL)
# Compiling a model. Seen: 223 s beside a build, 43 s without.
COMPILES = Bound("compiling a model", 670)
# Reading the whole record of an experiment, and SQLite's wait for a lock. Seen: 0.36 s.
READS = Bound("reading the record", 3 + STALL)

ALL = [
    SURVIVORS, JOBS, JOB_ENDS, JOB_RUNS, MEMBERS, LONE_MEMBERS, ENDS, RUNS, TRACED_RUNS, FULL_RUNS, NEIGHBOURS,
    UNDISTURBED, COMMANDS, COMPILES, READS,
]


def extend(factor: float) -> None:
    """Extends the limits for a run beside other tests, but not those that the documents promise."""
    global _factor
    _factor = factor


def table() -> str:
    rows = [f"{'TIME':<32}{'SEEN':>6}{'LONGEST':>10}{'BOUND':>10}"]
    rows += [
        f"{it.name:<32}{it.count:>6}{it.largest:>8.2f} s{it.limit:>8.1f} s"
        for it in ALL if it.count
    ]
    return "\n".join(rows)
