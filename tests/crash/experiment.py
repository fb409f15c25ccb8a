"""One store and the commands that are run on it, as a user would run them."""

import json
import os
import subprocess
import time
import uuid
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import processes

# Nothing that dtrain does here takes seconds; on a machine that builds at the same time it may.
PATIENCE = 120.0

Event = dict[str, Any]


@dataclass(frozen=True)
class Result:
    """How a command ended. `code` is negative for a signal, None if it did not end in time."""

    words: tuple[str, ...]
    code: int | None
    out: str
    err: str
    seconds: float

    def __str__(self) -> str:
        return f"'dtrain {' '.join(self.words)}' ended with {self.code}: {self.err.strip()[-600:]}"


@dataclass
class Runner:
    """A `create` or `resume` in the foreground, whose output goes to files."""

    process: subprocess.Popen[bytes]
    words: tuple[str, ...]
    out: Path
    err: Path
    mark: str
    is_traced: bool
    is_quiet: bool
    started: float = field(default_factory=time.monotonic)
    started_at: float = field(default_factory=time.time)
    code: int | None = None
    peak_kib: int = 0
    _events: list[Event] = field(default_factory=list)
    _read: int = 0

    def events(self) -> list[Event]:
        """The lines that are whole: what was acknowledged to whoever reads along."""
        if self.is_quiet:
            return []
        with open(self.out, "rb") as file:
            file.seek(self._read)
            text = file.read()
        end = text.rfind(b"\n") + 1
        self._read += end
        self._events += [json.loads(line) for line in text[:end].splitlines()]
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
        return self.code

    def wait(self, limit: float = PATIENCE) -> int | None:
        """The exit code, or None if it did not end in time."""
        deadline = time.monotonic() + limit
        while self.poll() is None:
            if time.monotonic() > deadline:
                return None
            time.sleep(0.002)
        return self.code

    def result(self) -> Result:
        out = self.out.read_text(encoding="utf-8", errors="replace")
        err = self.err.read_text(encoding="utf-8", errors="replace")
        return Result(self.words, self.code, out, err, time.monotonic() - self.started)

    def pid(self) -> int | None:
        """Of dtrain itself, which is a child of strace where it is traced."""
        if self.poll() is not None:
            return None
        if not self.is_traced:
            return self.process.pid
        for process in processes.living(self.mark):
            if process.program == "dtrain" and process.parent == self.process.pid:
                return process.pid
        return None

    def trials(self) -> list[int]:
        """The processes of the trials that have started and live."""
        started = {line["pid"] for line in self.events() if line["event"] == "trial_started"}
        return [process.pid for process in self._children() if process.pid in started]

    def host(self) -> int | None:
        """The trial host is there before the trials, and is none of them."""
        started = {line["pid"] for line in self.events() if line["event"] == "trial_started"}
        others = [process.pid for process in self._children() if process.pid not in started]
        return others[0] if others else None

    def _children(self) -> Iterator[processes.Process]:
        pid = self.pid()
        for process in processes.living(self.mark):
            if process.parent == pid and process.program == "trial-host":
                yield process


class Store:
    """A store in a directory of its own, with slots that nobody else uses."""

    def __init__(self, dtrain: Path, home: Path, cache: Path) -> None:
        self.dtrain = dtrain
        self.home = home
        self.root = home / "disk" / "store"
        self.mark = uuid.uuid4().hex
        self._runs = 0
        (home / "disk").mkdir(parents=True)
        kept = {key: text for key, text in os.environ.items() if not key.startswith("DTRAIN_")}
        self.environment = kept | {
            processes.MARK: self.mark,
            "DTRAIN_RUNTIME_DIR": str(home / "slots"),
            "XDG_CACHE_HOME": str(cache),
        }

    @property
    def database(self) -> Path:
        return self.root / "dtrain.db"

    def trial_directories(self) -> list[Path]:
        return sorted(self.root.glob("experiments/1/trials/*"))

    def write_yaml(self, text: str) -> Path:
        path = self.home / "experiment.yaml"
        path.write_text(text, encoding="utf-8")
        return path

    def command(self, *words: str, limit: float = PATIENCE) -> Result:
        start = time.monotonic()
        line = [str(self.dtrain), "--store", str(self.root), *words]
        try:
            done = subprocess.run(
                line,
                env=self.environment,
                stdin=subprocess.DEVNULL,
                capture_output=True,
                timeout=limit,
                check=False,
            )
        except subprocess.TimeoutExpired as late:
            text = (late.stderr or b"").decode(errors="replace")
            return Result(words, None, "", text, limit)
        out, err = done.stdout.decode(errors="replace"), done.stderr.decode(errors="replace")
        return Result(words, done.returncode, out, err, time.monotonic() - start)

    def facts(self, *words: str) -> Any:
        """What a command with --json says; None where it fails."""
        result = self.command(*words, "--json")
        return json.loads(result.out) if result.code == 0 else None

    def start(
        self,
        *words: str,
        wrapper: Sequence[str] = (),
        variables: dict[str, str] | None = None,
        quiet: bool = False,
    ) -> Runner:
        self._runs += 1
        out = self.home / f"run{self._runs}.out"
        err = self.home / f"run{self._runs}.err"
        words = ("-q", *words) if quiet else (*words, "--jsonl")
        line = [*wrapper, str(self.dtrain), "--store", str(self.root), *words]
        with open(out, "wb") as to_out, open(err, "wb") as to_err:
            process = subprocess.Popen(
                line,
                env=self.environment | (variables or {}),
                stdin=subprocess.DEVNULL,
                stdout=to_out,
                stderr=to_err,
                start_new_session=True,
            )
        return Runner(process, words, out, err, self.mark, bool(wrapper), quiet)
