#!/usr/bin/env python3
"""Checks the types of the module as a user's strict mypy sees them, and that it needs nothing
newer than Python 3.8, by vermin.

    tests/python/frameworks/run typing"""

import subprocess
import sys
import tempfile
import unittest
from pathlib import Path

MODULE = Path(__file__).resolve().parents[3] / "engine" / "python"

# Lines that end with a comment must be refused with that kind of error.
SCRIPT = """\
from pathlib import Path
from typing import Any, Dict, List, Optional

import dtrain

trial = dtrain.init()
for epoch in trial.epochs(9):
    number: int = epoch
    trial.report(loss=0.5)
    trial.report({"a/b": 1}, epochs=1)
    trial.validate(accuracy=1)
    if trial.should_checkpoint:
        with trial.checkpoint() as path:
            (path / "x").write_text("y")
directory: Optional[Path] = trial.restore()
name: str = trial.id
lr: float = trial.hparams.lr
rows: List[Dict[str, Any]] = dtrain.experiment(3).trials()
best: Path = dtrain.best("name").checkpoint
trial.epochs("9")  # arg-type
trial.report(0.5)  # arg-type
trial.validate(accuracy=1, epochs="3")  # arg-type
trial.restore() / "x"  # operator
trial.ended  # attr-defined
dtrain.experiment(3).trial()  # attr-defined
"""


class TypingTest(unittest.TestCase):
    def mypy(self, *arguments):
        # As where only mypy is installed, whatever else this environment has.
        done = subprocess.run([sys.executable, "-m", "mypy", "--strict", "--ignore-missing-imports",
                               "--no-error-summary", "--no-site-packages", *arguments],
                              text=True, check=False, stdout=subprocess.PIPE, stderr=subprocess.STDOUT,
                              cwd=self.directory, env={"MYPYPATH": str(MODULE)})
        return done.returncode, done.stdout.splitlines()

    def setUp(self):
        scratch = tempfile.TemporaryDirectory(prefix="dtrain-typing-")
        self.addCleanup(scratch.cleanup)
        self.directory = scratch.name

    def test_the_module_is_strict(self):
        self.assertEqual(self.mypy(MODULE / "dtrain"), (0, []))

    def test_a_users_script_is_checked(self):
        Path(self.directory, "train.py").write_text(SCRIPT, encoding="utf-8")
        code, lines = self.mypy("train.py")
        errors = {(line.split(":")[1], line.rpartition("[")[2].rstrip("]"))
                  for line in lines if ": error:" in line}
        wanted = {(str(number), line.rpartition("  # ")[2])
                  for number, line in enumerate(SCRIPT.splitlines(), start=1) if "  # " in line}
        self.assertEqual(len(wanted), 6)
        self.assertEqual(errors, wanted, lines)
        self.assertEqual(code, 1)

    def test_it_needs_python_3_8(self):
        done = subprocess.run([Path(sys.executable).parent / "vermin", "-t=3.8-", "--violations",
                               "--eval-annotations", MODULE / "dtrain"], text=True, check=False,
                              stdout=subprocess.PIPE, stderr=subprocess.STDOUT)
        self.assertEqual(done.returncode, 0, done.stdout)


if __name__ == "__main__":
    unittest.main(argv=[sys.argv[0], *sys.argv[2:]])
