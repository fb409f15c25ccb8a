"""Runs a shell command on a pseudo-terminal and plays a user.

usage: terminal.py COLSxROWS COMMAND STEP...

Steps: "expect TEXT" waits for the text in what was shown since the last step
that was no expect; "send KEYS" types, with Python's escapes; "resize COLSxROWS";
"signal NAME" sends a signal to the terminal's foreground processes; "run COMMAND"
executes a command elsewhere. Prints all that was shown and exits with the code
of the command, or with 99 if a text never came.
"""

import fcntl
import os
import pty
import select
import signal
import struct
import subprocess
import sys
import termios
import time

LIMIT = 300


def set_size(descriptor, size):
    columns, rows = map(int, size.split("x"))
    fcntl.ioctl(descriptor, termios.TIOCSWINSZ,
                struct.pack("HHHH", rows, columns, 0, 0))


class Terminal:
    def __init__(self, size, command):
        self.shown = b""
        self.mark = 0
        self.process, self.descriptor = pty.fork()
        if self.process == 0:
            set_size(0, size)
            os.execvp("sh", ["sh", "-c", command])

    def read(self, limit):
        """Returns False at the end of the output."""
        if not select.select([self.descriptor], [], [], limit)[0]:
            return True
        try:
            data = os.read(self.descriptor, 65536)
        except OSError:  # EIO: no process has the terminal open
            return False
        self.shown += data
        return bool(data)

    def expect(self, text):
        deadline = time.monotonic() + LIMIT
        alive = True
        while text.encode() not in self.shown[self.mark:]:
            if not alive or time.monotonic() > deadline:
                return False
            alive = self.read(0.1)
        return True

    def step(self, step):
        verb, _, text = step.partition(" ")
        if verb == "expect":
            return self.expect(text)
        self.mark = len(self.shown)
        if verb == "send":
            os.write(self.descriptor,
                     text.encode().decode("unicode_escape").encode())
        elif verb == "resize":
            set_size(self.descriptor, text)
        elif verb == "signal":
            group = os.tcgetpgrp(self.descriptor)
            os.killpg(group, getattr(signal, text))
        elif verb == "run":
            subprocess.run(text, shell=True, check=True,
                           stdout=subprocess.DEVNULL)
        else:
            raise ValueError(step)
        return True


def main():
    terminal = Terminal(sys.argv[1], sys.argv[2])
    for step in sys.argv[3:]:
        if not terminal.step(step):
            os.write(1, terminal.shown)
            print(f"never shown: {step}", file=sys.stderr)
            os.kill(terminal.process, signal.SIGKILL)
            return 99
    deadline = time.monotonic() + LIMIT
    while terminal.read(0.1) and time.monotonic() < deadline:
        pass
    os.write(1, terminal.shown)
    if time.monotonic() >= deadline:
        print("the command did not end", file=sys.stderr)
        os.kill(terminal.process, signal.SIGKILL)
        return 99
    code = os.waitstatus_to_exitcode(os.waitpid(terminal.process, 0)[1])
    return code if code >= 0 else 128 - code


if __name__ == "__main__":
    sys.exit(main())
