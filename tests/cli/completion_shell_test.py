#!/usr/bin/env python3
"""Tests the completions in a real shell: types command lines with tabs at a terminal and reads
the words that the shell then passes to dtrain. Skipped (77) if the shell is not installed.

    tests/cli/completion_shell_test.py DTRAIN bash|zsh|fish"""

import os
import pty
import select
import shutil
import subprocess
import sys
import tempfile
import time
import unittest
from pathlib import Path

SHELL = sys.argv.pop()
DTRAIN = Path(sys.argv.pop()).resolve()
PATIENCE = 300  # seconds
PROMPT = "ready> "

STARTS = {
    "bash": (["bash", "--norc", "--noprofile", "-i"],
             "PS1='ready''> '; source <(dtrain completion bash)"),
    "zsh": (["zsh", "-f", "-i"], "autoload -U compinit; compinit -u -D; unsetopt prompt_sp; "
            "eval \"$(dtrain completion zsh)\"; PS1='ready''> '"),
    "fish": (["fish", "--no-config", "-i"], "dtrain completion fish | source; "
             "function fish_prompt; echo -n 'ready''> '; end"),
}
HOSTILE = "hostile $(touch owned) `touch owned` \"'\\ !#~*?[]{}<>|&;() %s"

CONFIG = """\
name: my experiment
entrypoint: ./report.sh
hyperparameters: {lr: {type: categorical, vals: [3, 4]}}
searcher: {name: grid, metric: val_loss}
resources: {slots: cpu}
checkpoint_policy: all
"""
REPORT = """\
#!/bin/sh
mkdir -p $DTRAIN_DIRECTORY/a
echo x > $DTRAIN_DIRECTORY/a/x
printf '{"type":"checkpoint","batches":1,"path":"%s"}\\n' $DTRAIN_DIRECTORY/a >&3
echo '{"type":"validation","batches":1,"metrics":{"val_loss":1.5,"speed of light":3}}' >&3
"""
# Passes completions to the real program and records the words of all other calls.
RECORDER = """\
#!/bin/sh
case $1 in
  __complete|completion) exec {dtrain} "$@" ;;
esac
printf '%s\\0' "$@" > "$HOME/words.new"
mv "$HOME/words.new" "$HOME/words"
"""


def listing(directory):
    return sorted((str(file), file.stat().st_size, file.stat().st_mtime_ns)
                  for file in directory.rglob("*"))


class Terminal:
    """A shell at a terminal of 80 columns."""

    def __init__(self, home, environment):
        self.words = home / "words"
        arguments, start = STARTS[SHELL]
        self.pid, self.fd = pty.fork()
        if self.pid == 0:
            os.chdir(home)
            os.execvpe(arguments[0], arguments, environment)
        self.seen = ""
        self.send(start + "\n")
        self.wait(lambda: PROMPT in self.seen, "no prompt")

    def send(self, text):
        os.write(self.fd, text.encode())

    def wait(self, done, what):
        end = time.monotonic() + PATIENCE
        while not done():
            if time.monotonic() > end:
                raise AssertionError(f"{what}; the terminal shows: {self.seen!r}")
            if select.select([self.fd], [], [], 0.02)[0]:
                text = os.read(self.fd, 65536).decode(errors="replace")
                self.seen += text
                # fish asks for the terminal's attributes.
                if "\x1b[c" in text or "\x1b[0c" in text:
                    self.send("\x1b[?62c")

    def run(self, typed):
        """Returns the words that the shell makes of the typed text."""
        self.words.unlink(missing_ok=True)
        self.seen = ""
        self.send(typed + "\n")
        self.wait(self.words.exists, f"{typed!r} did not run dtrain")
        self.wait(lambda: PROMPT in self.seen, "no prompt")
        return self.words.read_bytes().decode().split("\0")[:-1]

    def close(self):
        os.close(self.fd)
        os.waitpid(self.pid, 0)


class Completion(unittest.TestCase):
    @classmethod
    def setUpClass(cls):
        cls.scratch = tempfile.TemporaryDirectory(prefix="dtrain-completion-")
        cls.home = Path(cls.scratch.name)
        (cls.home / "bin").mkdir()
        recorder = cls.home / "bin" / "dtrain"
        recorder.write_text(RECORDER.replace("{dtrain}", str(DTRAIN)))
        recorder.chmod(0o755)
        (cls.home / "my experiment.yaml").write_text(CONFIG)
        (cls.home / "report.sh").write_text(REPORT)
        (cls.home / "report.sh").chmod(0o755)
        (cls.home / "sub directory").mkdir()
        cls.environment = {
            "HOME": str(cls.home), "PATH": f"{cls.home}/bin:{os.environ['PATH']}",
            "TERM": "xterm", "LANG": "C.UTF-8", "DTRAIN_RUNTIME_DIR": str(cls.home / "run")}
        labels = ["day 1", "x:y=z @w", "quo'te", "über allen", "a\nnewline", HOSTILE]
        options = [word for label in labels for word in ("--label", label)]
        subprocess.run([DTRAIN, "create", "my experiment.yaml", "-q", *options], cwd=cls.home,
                       env=cls.environment, check=True, stdout=subprocess.DEVNULL)
        cls.terminal = Terminal(cls.home, cls.environment)

    @classmethod
    def tearDownClass(cls):
        cls.terminal.close()
        cls.scratch.cleanup()

    def assert_typed(self, typed, words):
        self.assertEqual(self.terminal.run(typed), words)

    def test_completes_commands_and_options(self):
        self.assert_typed("dtrain lis\t --sort be\t --rev\t",
                          ["list", "--sort", "best", "--reverse"])
        self.assert_typed("dtrain checkpoint sh\t x", ["checkpoint", "show", "x"])
        self.assert_typed("dtrain --color alw\t vers\t", ["--color", "always", "version"])
        self.assert_typed("dtrain metrics 1 --kind=val\t", ["metrics", "1", "--kind=validation"])

    def test_completes_experiments_and_trials(self):
        self.assert_typed("dtrain config \t", ["config", "1"])
        self.assert_typed("dtrain reproduce 1.2\t", ["reproduce", "1.2"])
        self.assert_typed("dtrain compare 1.2 1.\t", ["compare", "1.2", "1.1"])
        self.assert_typed("dtrain compare 1 --group hp.\t", ["compare", "1", "--group", "hp.lr"])

    def test_completes_checkpoints(self):
        listed = subprocess.run([DTRAIN, "checkpoints", "1", "--csv"], cwd=self.home, text=True,
                                env=self.environment, check=True, stdout=subprocess.PIPE).stdout
        checkpoint = listed.splitlines()[1].split(",")[0]
        self.assert_typed(f"dtrain checkpoint show {checkpoint[:6]}\t",
                          ["checkpoint", "show", checkpoint])

    def test_quotes_names_with_blanks(self):
        self.assert_typed("dtrain metrics 1 --name spe\t",
                          ["metrics", "1", "--name", "speed of light"])
        self.assert_typed("dtrain list --label day\t", ["list", "--label", "day 1"])
        self.assert_typed("dtrain list --label day\\ \t", ["list", "--label", "day 1"])
        self.assert_typed("dtrain list --label=da\t", ["list", "--label=day 1"])

    def test_continues_open_quotes(self):
        self.assert_typed("dtrain list --label 'day\t", ["list", "--label", "day 1"])
        self.assert_typed("dtrain list --label \"day\t", ["list", "--label", "day 1"])
        self.assert_typed("dtrain list --label \"quo\t", ["list", "--label", "quo'te"])

    def test_completes_names_with_colons_and_equal_signs(self):
        self.assert_typed("dtrain list --label x\t", ["list", "--label", "x:y=z @w"])
        self.assert_typed("dtrain list --label x:y\t", ["list", "--label", "x:y=z @w"])
        self.assert_typed("dtrain list --label x:y=z\t", ["list", "--label", "x:y=z @w"])
        self.assert_typed("dtrain list --label=x:y\t", ["list", "--label=x:y=z @w"])

    def test_types_no_blank_after_an_equal_sign(self):
        self.assert_typed("dtrain create --set time_l\t5", ["create", "--set", "time_limit=5"])

    def test_quotes_what_a_shell_would_run(self):
        self.assert_typed("dtrain list --label hos\t", ["list", "--label", HOSTILE])
        self.assert_typed("dtrain list --label quo\t", ["list", "--label", "quo'te"])
        self.assert_typed("dtrain list --label üb\t", ["list", "--label", "über allen"])
        self.assertFalse((self.home / "owned").exists())

    def test_leaves_out_names_with_control_characters(self):
        self.assert_typed("dtrain list --label a\t", ["list", "--label", "a"])

    def test_completes_files_and_directories(self):
        self.assert_typed("dtrain validate my\t", ["validate", "my experiment.yaml"])
        words = self.terminal.run("dtrain config 1 --export sub\t")
        self.assertEqual([word.rstrip("/") for word in words],
                         ["config", "1", "--export", "sub directory"])

    def test_is_silent_without_a_store(self):
        missing = self.home / "missing"
        self.assert_typed(f"dtrain --store {missing} config \t",
                          ["--store", str(missing), "config"])
        self.assertNotIn("dtrain:", self.terminal.seen)
        self.assertFalse(missing.exists())

    def test_writes_nothing(self):
        before = listing(self.home / ".dtrain")
        self.assert_typed("dtrain config \t", ["config", "1"])
        self.assert_typed("dtrain metrics 1 --name spe\t",
                          ["metrics", "1", "--name", "speed of light"])
        self.assertEqual(listing(self.home / ".dtrain"), before)


if __name__ == "__main__":
    if shutil.which(SHELL) is None:
        print(f"{SHELL} is not installed")
        sys.exit(77)
    unittest.main(verbosity=2)
