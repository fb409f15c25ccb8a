"""How long things may take, and the longest that a run has seen of each.

Each limit is three times the longest that was seen in runs of more than ten minutes, beside builds
that kept the machine's two cores busy several times over; and not less than three seconds, for
which a process may wait for its turn there."""

from dataclasses import dataclass


@dataclass
class Bound:
    name: str
    limit: float  # seconds
    largest: float = 0.0  # that was seen by this run
    count: int = 0  # how often it was seen

    def see(self, seconds: float) -> bool:
        """Records how long it took; False if that was too long."""
        self.largest = max(self.largest, seconds)
        self.count += 1
        return seconds <= self.limit


# From the end of a runner until no process of its experiments lives. Seen: 1.3 s.
SURVIVORS = Bound("survivors", 4)
# From the end of a runner until another process of its group has ended. Seen: 0.06 s.
FOLLOWERS = Bound("follower's end", 3)
# From SIGTERM to the end of a process that has not found its runner yet. Seen: 0.02 s.
LONE_FOLLOWERS = Bound("follower's end by SIGTERM", 3)
# From what ends a runner, a request or a signal other than SIGKILL, to its end. Seen: 0.22 s.
ENDS = Bound("end by request", 3)
# What a run, or a resume, takes longer than the undisturbed run. Seen: 1.8 s.
RUNS = Bound("run, beyond undisturbed", 6)
# So for one that strace slows down. Seen: 4.9 s.
TRACED_RUNS = Bound("run under strace, beyond it", 15)
# So for one whose disk was full. Seen: 3.8 s; and once 58 s, of space that went unnoticed.
FULL_RUNS = Bound("run on a full disk, beyond it", 12)
# So for an experiment that waited for the slots of the one beside, from that one's end. Seen:
# 0.32 s.
NEIGHBOURS = Bound("neighbour, beyond it", 3)
# A run that nothing happens to. Seen: 6.0 s.
UNDISTURBED = Bound("undisturbed run", 18)
# Any other command, from its start to its end. Seen: 3.0 s.
COMMANDS = Bound("command", 9)
# The compiling of a model. Seen: 223 s beside a build, 43 s without.
COMPILES = Bound("compiling a model", 670)
# Reading the whole record of an experiment; what SQLite may wait for a lock. Seen: 0.36 s.
READS = Bound("reading the record", 3)

ALL = [
    SURVIVORS, FOLLOWERS, LONE_FOLLOWERS, ENDS, RUNS, TRACED_RUNS, FULL_RUNS, NEIGHBOURS,
    UNDISTURBED, COMMANDS, COMPILES, READS,
]


def table() -> str:
    rows = [f"{'TIME':<32}{'SEEN':>6}{'LONGEST':>10}{'BOUND':>10}"]
    rows += [
        f"{it.name:<32}{it.count:>6}{it.largest:>8.2f} s{it.limit:>8.1f} s"
        for it in ALL if it.count
    ]
    return "\n".join(rows)
