"""A store, and commands that run on it as a user runs them."""

import os
import socket
import subprocess
import time
import uuid
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import bounds
import processes
import schemas
from bounds import Bound
from configurations import Configuration
from slurm import INTERVAL, Cluster, creation

Event = dict[str, Any]


@dataclass(frozen=True)
class Result:
    """Result of a command. `code` is negative for a signal, None if it did not end in time."""

    words: tuple[str, ...]
    code: int | None
    out: str
    err: str
    seconds: float

    def __str__(self) -> str:
        return f"'dtrain {' '.join(self.words)}' ended with {self.code}: {self.err.strip()[-600:]}"


@dataclass
class Runner:
    """A `create` or `resume` in the foreground with its output in files."""

    process: subprocess.Popen[bytes]
    words: tuple[str, ...]
    out: Path
    err: Path
    mark: str
    is_traced: bool
    is_quiet: bool
    on_slurm: bool = False
    started: float = field(default_factory=time.monotonic)
    ended: float = 0.0  # as `started`, by the monotonic clock
    code: int | None = None
    peak_kib: int = 0
    # In distributed training: the other processes by RANK, and a function that restarts one.
    members: dict[int, "Runner"] = field(default_factory=dict)
    follow: Callable[[int], "Runner"] | None = None
    # Lines of --jsonl that violate their schemas.
    undocumented: list[str] = field(default_factory=list)
    _events: list[Event] = field(default_factory=list)
    _read: int = 0

    def events(self) -> list[Event]:
        """Returns the complete lines, which a reader may rely on."""
        if self.is_quiet:
            return []
        with open(self.out, "rb") as file:
            file.seek(self._read)
            text = file.read()
        end = text.rfind(b"\n") + 1
        self._read += end
        lines = [schemas.parse(line) for line in text[:end].splitlines()]
        for line in lines:
            self.undocumented += schemas.find_in_event(line)
        self._events += lines
        return self._events

    def count(self, event: str) -> int:
        return sum(1 for line in self.events() if line["event"] == event)

    def poll(self) -> int | None:
        if self.code is not None:
            return self.code
        pid, status, usage = os.wait4(self.process.pid, os.WNOHANG)
        if pid != 0:
            self.code = self.process.returncode = os.waitstatus_to_exitcode(status)
            self.peak_kib = usage.ru_maxrss
            self.ended = time.monotonic()
        return self.code

    @property
    def age(self) -> float:
        """Seconds from its start to its end or to now."""
        return (self.ended or time.monotonic()) - self.started

    def wait(self, limit: float | None = None) -> int | None:
        """Returns the exit code, or None if it did not end in time."""
        deadline = time.monotonic() + (bounds.COMMANDS.limit if limit is None else limit)
        while self.poll() is None:
            if time.monotonic() > deadline:
                return None
            time.sleep(0.002)
        return self.code

    def result(self) -> Result:
        out = self.out.read_text(encoding="utf-8", errors="replace")
        err = self.err.read_text(encoding="utf-8", errors="replace")
        return Result(self.words, self.code, out, err, self.age)

    def pid(self) -> int | None:
        """Returns the process ID of dtrain, which is a child of strace if it is traced."""
        if self.poll() is not None:
            return None
        if not self.is_traced:
            return self.process.pid
        for process in processes.living(self.mark):
            if process.program == "dtrain" and process.parent == self.process.pid:
                return process.pid
        return None

    def workers(self) -> list[int]:
        """Returns the live processes of dtrain in jobs of Slurm."""
        living = processes.living(self.mark)
        return [it.pid for it in living if it.of_job and it.program == "dtrain"]

    def trials(self) -> list[int]:
        """Returns the live processes of trials: those of all ranks, and programs."""
        host = self._host()
        own = [it for it in self._children() if it != host]
        hosts = {it.pid for it in own}
        programs = [it for it in processes.living(self.mark) if it.parent in hosts]
        found = [it.pid for it in own + programs]
        return found + [pid for it in self.members.values() for pid in it.trials()]

    def host(self) -> int | None:
        host = self._host()
        return host.pid if host else None

    def _host(self) -> processes.Process | None:
        """Returns the trial host, the oldest child that is not a trial."""
        started = {line["pid"] for line in self.events() if line["event"] == "trial_started"}
        others = [process for process in self._children() if process.pid not in started]
        return others[0] if others else None

    def _children(self) -> list[processes.Process]:
        """Returns the hosts and trials among the runner's children, oldest first; on Slurm those of
        the oldest worker."""
        parents = self.workers()[:1] if self.on_slurm else [self.pid()]
        return [
            process
            for process in processes.living(self.mark)
            if process.parent in parents and process.program in processes.HOSTS
        ]


class Place:
    """A store, and commands that run on it. The environment of its processes contains `mark`."""

    def __init__(self, dtrain: Path, root: Path, mark: str, environment: dict[str, str]) -> None:
        self.dtrain = dtrain
        self.root = root
        self.mark = mark
        self.environment = environment
        # Printed JSON that violates docs/schemas.
        self.undocumented: list[str] = []
        self.cluster: Cluster | None = None  # that runs the trials

    @property
    def database(self) -> Path:
        return self.root / "dtrain.db"

    def command(self, *words: str, bound: Bound = bounds.COMMANDS) -> Result:
        start = time.monotonic()
        line = [str(self.dtrain), "--store", str(self.root), *words]
        try:
            done = subprocess.run(
                line,
                env=self.environment,
                stdin=subprocess.DEVNULL,
                capture_output=True,
                timeout=bound.limit,
                check=False,
            )
        except subprocess.TimeoutExpired as late:
            text = (late.stderr or b"").decode(errors="replace")
            bound.see(time.monotonic() - start)
            return Result(words, None, "", text, bound.limit)
        seconds = time.monotonic() - start
        bound.see(seconds)
        out, err = done.stdout.decode(errors="replace"), done.stderr.decode(errors="replace")
        if "--json" in words and out:
            self.undocumented += schemas.find_in_document(words, out)
        return Result(words, done.returncode, out, err, seconds)

    def facts(self, *words: str) -> Any:
        """Returns the document that a command prints with --json, or None if it fails."""
        result = self.command(*words, "--json")
        return schemas.parse(result.out) if result.code == 0 else None


class Store(Place):
    """A store with its own directory and its own slots."""

    def __init__(self, dtrain: Path, home: Path, cache: Path) -> None:
        super().__init__(dtrain, home / "disk" / "store", uuid.uuid4().hex, {})
        self.home = home
        self._runs = 0
        # Command that creates the experiment, and the number of processes that run it.
        self.creation: tuple[str, ...] = ("create", str(home / "experiment.yaml"))
        self.processes = 1
        (home / "disk").mkdir(parents=True)
        kept = {key: text for key, text in os.environ.items()
                if not key.startswith(("DTRAIN_", "SLURM_"))}
        (home / "tmp").mkdir()
        self.environment = kept | {
            "TMPDIR": str(home / "tmp"),  # two clusters have jobs with the same numbers
            processes.MARK: self.mark,
            "DTRAIN_RUNTIME_DIR": str(home / "slots"),
            "XDG_CACHE_HOME": str(cache),
        }

    def trial_directories(self) -> list[Path]:
        return sorted(self.root.glob("experiments/1/trials/*"))

    def prepare(self, configuration: Configuration) -> None:
        """Writes the files that `creation` reads."""
        path = self.home / "experiment.yaml"
        path.write_text(configuration.yaml, encoding="utf-8")
        self.processes = configuration.processes
        context = self.home / "context"
        if configuration.is_own_model:
            result = self.command("init", str(context))
            if result.code != 0:
                raise RuntimeError(str(result))
        for name, text in configuration.context.items():
            (context / name).parent.mkdir(parents=True, exist_ok=True)
            (context / name).write_text(text, encoding="utf-8")
        self.creation = ("create", str(path), *([str(context)] if context.exists() else []))
        if self.cluster is not None:
            self.creation += creation(configuration.at_once)
            self.environment |= self.cluster.environment | {"DTRAIN_SLURM_INTERVAL": INTERVAL}

    def start(
        self,
        *words: str,
        wrapper: Sequence[str] = (),
        variables: dict[str, str] | None = None,
        quiet: bool = False,
    ) -> Runner:
        """Starts a `create` or `resume` with all its processes."""
        if self.processes == 1:
            return self._start(*words, wrapper=wrapper, variables=variables or {}, quiet=quiet)
        place = {
            "WORLD_SIZE": str(self.processes),
            "MASTER_ADDR": "127.0.0.1",
            "MASTER_PORT": str(_free_port()),
        }

        def follow(rank: int) -> Runner:
            # Only the output for people reports whether it has found its runner.
            variables = place | {"RANK": str(rank)}
            return self._start(*self.creation, variables=variables, quiet=True, flags=())

        members = {rank: follow(rank) for rank in range(1, self.processes)}
        changes = place | {"RANK": "0"} | (variables or {})
        runner = self._start(*words, wrapper=wrapper, variables=changes, quiet=quiet)
        runner.members, runner.follow = members, follow
        return runner

    def start_alone(self, *words: str) -> Runner:
        """Starts a command that a fault may kill."""
        return self._start(*words, variables={}, quiet=True)

    def _start(
        self,
        *words: str,
        variables: dict[str, str],
        quiet: bool,
        wrapper: Sequence[str] = (),
        flags: tuple[str, ...] | None = None,
    ) -> Runner:
        self._runs += 1
        out = self.home / f"run{self._runs}.out"
        err = self.home / f"run{self._runs}.err"
        if flags is not None:
            words = (*flags, *words)
        else:
            words = ("-q", *words) if quiet else (*words, "--jsonl")
        line = [*wrapper, str(self.dtrain), "--store", str(self.root), *words]
        with open(out, "wb") as to_out, open(err, "wb") as to_err:
            process = subprocess.Popen(
                line,
                env=self.environment | variables,
                stdin=subprocess.DEVNULL,
                stdout=to_out,
                stderr=to_err,
                start_new_session=True,
            )
        on_slurm = self.cluster is not None
        runner = Runner(process, words, out, err, self.mark, bool(wrapper), quiet, on_slurm)
        runner.undocumented = self.undocumented
        return runner


def _free_port() -> int:
    """Returns a port that is free now and most likely stays so for a moment."""
    with socket.create_server(("127.0.0.1", 0)) as server:
        return int(server.getsockname()[1])
