"""How a process of a trial reaches dtrain, and the other ranks on its machine.

Lines of JSON go over the socket that DTRAIN_SOCKET names (docs/protocol.md), so that
launchers such as torchrun and mpirun may be between the script and dtrain.

All ranks must agree on the step at which training ends, or collective operations would
wait for ranks that have left. So rank 0 alone decides, and publishes its decisions in a
file that all ranks map into memory: how many steps of the loop have begun, and how often
`should_stop` or `should_checkpoint` was asked. Rank r begins a step, and answers its n-th
question, only after rank 0 has. A second file has a byte for each answer to save a
checkpoint; it is sparse, since there are few of them. Objects that ranks gather are files too.
"""

import functools
import json
import math
import mmap
import os
import select
import socket
import threading
import time
from pathlib import Path
from typing import Any, Callable, Dict, List, Optional, Tuple

_FLUSH_SECONDS = 0.05
_FLUSH_BYTES = 1 << 16
_JOIN_SECONDS = 600.0  # for rank 0 to call init()


class Connection:
    """Connection of one process to dtrain. Lines are sent together: at `flush()`, after 50 ms, or in
    64 KiB. A thread sends what a burst of reports left."""

    def __init__(self, path: str, rank: int) -> None:
        self.pid = os.getpid()
        self.gone = False  # dtrain has ended
        self._lines: List[str] = []
        self._bytes = 0
        self._flushed = 0.0
        self._lock = threading.Lock()
        self._waiting = threading.Event()
        self._thread: Optional[threading.Thread] = None
        self._received = b""
        self._early: List[Dict[str, Any]] = []  # operations before the answer
        self._socket = socket.socket(socket.AF_UNIX)
        try:
            self._socket.settimeout(60)
            self._socket.connect(path)
            hello = {"type": "hello", "rank": rank, "pid": self.pid}
            self._socket.sendall((json.dumps(hello) + "\n").encode())
            answer = self._await_answer()
        except OSError as error:
            raise RuntimeError(f"dtrain cannot be reached at DTRAIN_SOCKET '{path}' ({error}); "
                               "has the trial ended?") from None
        if answer.get("type") != "welcome":
            raise RuntimeError(str(answer.get("message", "dtrain has closed the connection")))
        self._socket.settimeout(None)

    def _await_answer(self) -> Dict[str, Any]:
        while True:
            lines = self._read()
            for at, line in enumerate(lines):
                if line.get("type") in ("welcome", "refused"):
                    self._early += lines[at + 1:]
                    return line
                self._early.append(line)
            if self.gone:
                return {}

    def send(self, line: str) -> None:
        """Sends a line, at the latest in 50 ms. Raises ConnectionError if dtrain has ended."""
        with self._lock:
            self._lines.append(line)
            self._bytes += len(line)
            if self._bytes > _FLUSH_BYTES or time.monotonic() - self._flushed > _FLUSH_SECONDS:
                self._flush_locked()
            elif self._thread is None:
                self._thread = threading.Thread(target=self._flush_later, daemon=True,
                                                name="dtrain")
                self._thread.start()
        self._waiting.set()

    def flush(self) -> None:
        """Sends all lines now."""
        with self._lock:
            self._flush_locked()

    def _flush_locked(self) -> None:
        self._flushed = time.monotonic()
        if not self._lines:
            return
        data = "".join(self._lines).encode()
        self._lines.clear()
        self._bytes = 0
        if self.pid != os.getpid():
            return  # a fork: its parent sends them
        try:
            self._socket.sendall(data)
        except OSError as error:
            self.gone = True
            raise ConnectionError(f"dtrain has ended: the report is lost ({error})") from None

    def _flush_later(self) -> None:
        while not self.gone:
            self._waiting.wait()
            self._waiting.clear()
            time.sleep(_FLUSH_SECONDS)
            try:
                self.flush()
            except ConnectionError:
                return  # the next report raises it

    def receive(self) -> List[Dict[str, Any]]:
        """Returns the operations that have arrived. One thread at a time."""
        operations, self._early = self._early, []
        while not self.gone and select.select([self._socket], [], [], 0)[0]:
            operations += self._read()
        return operations

    def wait(self, seconds: float) -> None:
        """Waits until operations have arrived, at most this long."""
        if not self.gone and not self._early:
            select.select([self._socket], [], [], seconds)

    def _read(self) -> List[Dict[str, Any]]:
        try:
            data = self._socket.recv(1 << 16)
        except ConnectionError:
            data = b""
        self.gone = not data
        *lines, self._received = (self._received + data).split(b"\n")
        return [json.loads(line) for line in lines if line.strip()]


class Agreement:
    """Decisions of rank 0 that all ranks of a trial on one machine follow, in a mapped
    file of integers. One thread a rank."""

    _BEGUN, _ENDED, _LIMIT, _ANSWERS, _STOPS, _SIZE = range(6)

    def __init__(self, path: Path, rank: int) -> None:
        self._asked = 0
        self._gathered = 0
        self._path = path
        self._rank = rank
        if rank == 0:
            path.with_suffix(".saves").write_bytes(b"")
            new = path.with_suffix(".new")
            new.write_bytes(bytes(8 * self._SIZE))
            new.rename(path)

    # Opened at the first question: rank 0 may join only after all ranks have called init().
    @functools.cached_property
    def _cells(self) -> "memoryview[int]":
        end = time.monotonic() + _JOIN_SECONDS
        while not self._path.exists():
            if time.monotonic() > end:
                raise RuntimeError("rank 0 has not called dtrain.init() for 10 minutes")
            time.sleep(0.01)
        with open(self._path, "r+b") as file:
            return memoryview(mmap.mmap(file.fileno(), 0)).cast("q")

    @functools.cached_property
    def _saves(self) -> int:
        return os.open(self._path.with_suffix(".saves"), os.O_RDWR)

    def begin(self, step: int, limit: float) -> None:
        """Rank 0 begins a step of a loop to `limit`."""
        self._cells[self._LIMIT] = -1 if limit == math.inf else int(limit)
        self._cells[self._ENDED] = 0
        self._cells[self._BEGUN] = step + 1

    def end(self) -> None:
        """Rank 0 has ended its loop."""
        self._cells[self._ENDED] = 1

    def answer(self, stops: bool, saves: bool) -> None:
        """Rank 0 publishes its next answer: must training stop, and is it time for a
        checkpoint?"""
        number = self._cells[self._ANSWERS] + 1
        if stops and self._cells[self._STOPS] == 0:
            self._cells[self._STOPS] = number
        if saves:
            os.pwrite(self._saves, b"1", number)
        self._cells[self._ANSWERS] = number

    @property
    def limit(self) -> float:
        """Length that rank 0 trains to."""
        limit = self._cells[self._LIMIT]
        return math.inf if limit < 0 else limit

    def await_step(self, step: int, is_lost: Callable[[], bool]) -> bool:
        """Waits until rank 0 has begun the step, or ended its loop before it: False."""
        self._await(lambda: self._cells[self._BEGUN] > step or self._cells[self._ENDED], is_lost)
        return self._cells[self._BEGUN] > step

    def await_answer(self, is_lost: Callable[[], bool]) -> Tuple[bool, bool]:
        """Returns rank 0's answers to the same question, as in `answer`."""
        self._asked += 1
        self._await(lambda: self._cells[self._ANSWERS] >= self._asked, is_lost)
        if self._cells[self._ANSWERS] < self._asked:
            return True, False
        return (0 < self._cells[self._STOPS] <= self._asked,
                os.pread(self._saves, 1, self._asked) == b"1")

    def gather(self, data: bytes, size: int, is_lost: Callable[[], bool]) -> List[bytes]:
        """Returns the data of all ranks, by rank. They must call it equally often. Raises
        ConnectionError if dtrain has ended."""
        self._gathered += 1
        files = [self._path.with_name(f"gather-{self._gathered}-{rank}") for rank in range(size)]
        new = self._path.with_name(f"gather-{self._rank}.new")
        new.write_bytes(data)
        new.rename(files[self._rank])
        self._await(lambda: all(file.exists() for file in files), is_lost)
        try:
            found = [file.read_bytes() for file in files]
        except FileNotFoundError:
            raise ConnectionError("dtrain has ended: no objects are gathered") from None
        # All ranks have read the objects of the call before, since they have begun this one.
        if self._gathered > 1:
            self._path.with_name(f"gather-{self._gathered - 1}-{self._rank}").unlink()
        return found

    @staticmethod
    def _await(condition: Callable[[], Any], is_lost: Callable[[], bool]) -> None:
        tries = 0
        while not condition():
            tries += 1
            if tries < 100:
                continue
            time.sleep(min(1e-6 * tries, 0.002))
            if tries % 100 == 0 and is_lost():
                return
