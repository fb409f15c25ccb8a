#!/usr/bin/env python3
"""Tests scripts/weekly in a temporary repository, with steps that end immediately."""

import contextlib
import datetime
import importlib.util
import io
import subprocess
import sys
import tempfile
import unittest
from importlib.machinery import SourceFileLoader
from pathlib import Path
from unittest import mock

sys.dont_write_bytecode = True
_SCRIPT = Path(__file__).resolve().parents[2] / "scripts" / "weekly"
_LOADER = SourceFileLoader("weekly", str(_SCRIPT))
weekly = importlib.util.module_from_spec(importlib.util.spec_from_loader("weekly", _LOADER))
_LOADER.exec_module(weekly)

TODAY = datetime.date(2026, 3, 3)
NEVER = "| {} | never | | | | `old`: old |"
PAGE = """# Checks

| Check | Date | Commit | Minutes | Its last line | Command |
|---|---|---|---|---|---|
"""


class FixedDate(datetime.date):
    @classmethod
    def today(cls) -> datetime.date:
        return TODAY


class WeeklyTest(unittest.TestCase):
    def setUp(self) -> None:
        directory = tempfile.TemporaryDirectory(prefix="dtrain-weekly-")
        self.addCleanup(directory.cleanup)
        self.root = Path(directory.name)
        self.page = self.root / "docs" / "weekly.md"
        self.page.parent.mkdir()
        (self.root / ".gitignore").write_text("ran-*\n")
        self.git("init", "-q")
        self.steps()
        self.rows(NEVER.format("first"), NEVER.format("second"), NEVER.format("third"))

    def git(self, *arguments: str) -> str:
        command = ["git", "-c", "user.name=t", "-c", "user.email=t@example.org", *arguments]
        return subprocess.run(command, cwd=self.root, check=True, capture_output=True,
                              text=True).stdout.strip()

    def steps(self, **commands: str) -> None:
        """Defines three steps. Each creates a file, then runs its command (default: echo done)."""
        self.all = [weekly.Step(name, f"what {name} does",
                                f"touch ran-{name}; {commands.get(name, 'echo done')}")
                    for name in ("first", "second", "third")]

    def rows(self, *rows: str) -> None:
        self.page.write_text(PAGE + "\n".join(rows) + "\n")
        self.git("add", "--all")
        self.git("commit", "-qm", "Rows")

    def weekly(self, *arguments: str) -> int:
        self.out, self.err = io.StringIO(), io.StringIO()
        with mock.patch.multiple(weekly, REPOSITORY=self.root, PAGE=self.page, STEPS=self.all), \
                mock.patch.object(sys, "argv", ["weekly", *arguments]), \
                mock.patch.object(weekly.datetime, "date", FixedDate), \
                contextlib.redirect_stdout(self.out), contextlib.redirect_stderr(self.err):
            return weekly.main()

    def ran(self) -> list[str]:
        return sorted(path.name.removeprefix("ran-") for path in self.root.glob("ran-*"))

    def row(self, name: str) -> list[str]:
        """Returns the cells of the step's only row."""
        [line] = [line for line in self.page.read_text().splitlines()
                  if line.startswith(f"| {name} |")]
        return [cell.strip() for cell in line.strip("|").split("|")]

    def test_refuses_a_working_tree_with_changes(self) -> None:
        (self.root / "new.txt").write_text("not in any commit")
        self.assertEqual(self.weekly(), 2)
        self.assertIn("new.txt", self.err.getvalue())
        self.assertEqual(self.ran(), [])

    def test_ignores_changes_of_its_own_page(self) -> None:
        self.assertEqual(self.weekly("first"), 0)
        self.assertEqual(self.weekly("second"), 0)
        self.assertEqual(self.ran(), ["first", "second"])

    def test_replaces_the_row_of_a_step(self) -> None:
        self.steps(second="echo one; echo; printf 'two \\174 three\\n'; echo")
        clock = mock.Mock(side_effect=[1000.0, 1000.0 + 7 * 60])
        with mock.patch.object(weekly.time, "monotonic", clock):
            self.assertEqual(self.weekly("second"), 0)
        self.assertEqual(self.row("second"),
                         ["second", str(TODAY), self.git("rev-parse", "--short", "HEAD"), "7",
                          "two / three", f"`{self.all[1].command}`: what second does"])
        lines = self.page.read_text().splitlines()
        self.assertEqual("\n".join(lines[:4]) + "\n", PAGE)
        self.assertEqual(lines[4], NEVER.format("first"))
        self.assertTrue(lines[5].startswith("| second |"))
        self.assertEqual(lines[6:], [NEVER.format("third")])

    def test_adds_the_row_of_a_new_step(self) -> None:
        self.rows(NEVER.format("first"))
        self.assertEqual(self.weekly("third"), 0)
        self.assertEqual(self.row("third")[4], "done")

    def test_runs_the_other_steps_if_one_fails(self) -> None:
        self.steps(second="echo it broke >&2; exit 3")
        self.assertEqual(self.weekly(), 1)
        self.assertEqual(self.ran(), ["first", "second", "third"])
        self.assertEqual(self.row("second")[4], "FAILED (3): it broke")
        self.assertEqual(self.row("third")[4], "done")
        self.assertIn("failed: second\n", self.err.getvalue())

    def test_steps_that_ran_long_ago_or_never_are_due(self) -> None:
        def dated(name: str, days: int) -> str:
            return NEVER.format(name).replace("never", str(TODAY - datetime.timedelta(days)))

        self.rows(dated("first", 8), dated("second", 7), NEVER.format("third"))
        self.assertEqual(self.weekly("--due"), 0)
        self.assertEqual(self.ran(), ["first", "third"])
        self.assertEqual(self.row("second")[1], str(TODAY - datetime.timedelta(7)))

    def test_a_step_without_a_row_is_due(self) -> None:
        self.rows(NEVER.format("first"))
        self.assertEqual(self.weekly("--due"), 0)
        self.assertEqual(self.ran(), ["first", "second", "third"])

    def test_lists_the_last_runs(self) -> None:
        self.weekly("first")
        self.assertEqual(self.weekly("--list"), 0)
        self.assertEqual([line.split()[:2] for line in self.out.getvalue().splitlines()],
                         [["first", str(TODAY)], ["second", "never"], ["third", "never"]])
        self.assertEqual(self.ran(), ["first"])


class PageTest(unittest.TestCase):
    def test_has_a_row_for_each_step(self) -> None:
        dates = weekly.written(weekly.PAGE.read_text().splitlines())
        self.assertEqual(list(dates), [step.name for step in weekly.STEPS])


if __name__ == "__main__":
    unittest.main()
