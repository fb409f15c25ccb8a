"""A Slurm of three nodes on this machine, from the program slurm-cluster of the tests."""

import os
import subprocess
from dataclasses import dataclass
from pathlib import Path

# Between two questions of a runner to Slurm: short, so that a round is short.
INTERVAL = "300ms"
# Partition of the rounds' jobs, and one whose jobs preempt them.
PARTITION, URGENT = "scav", "urgent"


@dataclass(frozen=True)
class Job:
    id: str
    state: str
    comment: str


class Cluster:
    def __init__(self, program: Path) -> None:
        """Starts it. Throws RuntimeError with the reason if this machine cannot have one."""
        self._process = subprocess.Popen(
            [program], stdin=subprocess.PIPE, stdout=subprocess.PIPE, stderr=subprocess.PIPE,
            text=True,
        )
        line = self._read()
        self.environment = dict([line.split("=", 1)])

    def _read(self) -> str:
        assert self._process.stdout is not None
        line = self._process.stdout.readline().strip()
        if not line:
            self._process.wait()
            assert self._process.stderr is not None
            raise RuntimeError(self._process.stderr.read().strip())
        return line

    def _order(self, word: str) -> None:
        assert self._process.stdin is not None
        print(word, file=self._process.stdin, flush=True)
        self._read()

    def stop_controller(self) -> None:
        self._order("stop")

    def start_controller(self) -> None:
        self._order("start")

    def call(self, *line: str) -> str:
        done = subprocess.run(
            line, env=os.environ | self.environment, stdin=subprocess.DEVNULL,
            capture_output=True, text=True, timeout=120, check=True,
        )
        return done.stdout

    def jobs(self, states: str = "pending,running,completing,suspended") -> list[Job]:
        """Returns the jobs of rounds, without those that preempt them."""
        rows = self.call("squeue", "--noheader", f"--states={states}", f"--partition={PARTITION}",
                         "--format=%A|%T|%k")
        return [Job(*row.split("|", 2)) for row in rows.splitlines()]

    def preempt(self, seconds: float) -> None:
        """Submits a job that needs all nodes and has a higher priority."""
        self.call("sbatch", f"--partition={URGENT}", "--nodes=3", "--ntasks-per-node=1",
                  "--cpus-per-task=2", "--output=/dev/null", f"--wrap=sleep {seconds:.2f}")

    def end(self) -> None:
        assert self._process.stdin is not None
        self._process.stdin.close()
        self._process.wait()


def creation(at_once: int) -> tuple[str, ...]:
    """Options of `create` for an experiment whose trials run in jobs of one slot."""
    return (
        "--executor", "slurm", "--listen", "127.0.0.1:0", "--set", "resources.slots=cpu:1",
        "--slurm", f"partition={PARTITION}", "--slurm", f"max_jobs={at_once}",
    )
