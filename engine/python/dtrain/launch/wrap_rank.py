"""Runs a program, and begins each line of its output with its rank:

    python3 -m dtrain.launch.wrap_rank 1 -- python3 train.py

In place of the rank, the names of environment variables may be given, such as
RANK,OMPI_COMM_WORLD_RANK: the first that is set has it.
"""

import os
import signal
import subprocess
import sys
import threading
from typing import BinaryIO, List


def _rank(text: str) -> int:
    for name in text.split(","):
        number = name if name.isdigit() else os.environ.get(name, "")
        if number.isdigit():
            return int(number)
    raise SystemExit(f"dtrain.launch.wrap_rank: '{text}' is neither a rank nor a variable with one")


def _label(source: BinaryIO, target: BinaryIO, label: bytes) -> None:
    for line in source:
        target.write(label + line)
        target.flush()


def main(arguments: List[str]) -> int:
    """Returns the exit status of the program."""
    command = arguments[2:] if arguments[1:2] == ["--"] else arguments[1:]
    if not command:
        raise SystemExit("usage: python3 -m dtrain.launch.wrap_rank RANK -- PROGRAM ARGUMENT...")
    label = f"[rank={_rank(arguments[0])}] ".encode()
    process = subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.PIPE)
    for number in (signal.SIGHUP, signal.SIGINT, signal.SIGTERM):
        signal.signal(number, lambda received, _frame: process.send_signal(received))
    assert process.stdout and process.stderr
    threads = [threading.Thread(target=_label, args=(source, target, label), daemon=True)
               for source, target in ((process.stdout, sys.stdout.buffer),
                                      (process.stderr, sys.stderr.buffer))]
    for thread in threads:
        thread.start()
    status = process.wait()
    for thread in threads:
        thread.join()
    return status if status >= 0 else 128 - status


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
