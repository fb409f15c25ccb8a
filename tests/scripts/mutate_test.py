#!/usr/bin/env python3
"""Tests scripts/mutate in a temporary tree, with builds and tests that end as asked."""

import contextlib
import importlib.util
import io
import json
import sys
import tempfile
import unittest
from importlib.machinery import SourceFileLoader
from pathlib import Path
from unittest import mock

sys.dont_write_bytecode = True
_SCRIPT = Path(__file__).resolve().parents[2] / "scripts" / "mutate"
_LOADER = SourceFileLoader("mutate", str(_SCRIPT))
mutate = importlib.util.module_from_spec(importlib.util.spec_from_loader("mutate", _LOADER))
sys.modules["mutate"] = mutate  # for its dataclasses
_LOADER.exec_module(mutate)

LIST = """[{name}]
file: code.cc
old: {old}
new: 0
tests: a_test A.*
tests: b_test B.*
"""


class MutateTest(unittest.TestCase):
    def setUp(self) -> None:
        directory = tempfile.TemporaryDirectory(prefix="dtrain-mutate-")
        self.addCleanup(directory.cleanup)
        root = Path(directory.name)
        place = root / "build" / "mutate"
        self.code = root / "code.cc"
        self.code.write_text("int a = 1;\nint b = 2;\n")
        (place / "tree").mkdir(parents=True)
        (place / "tree" / "code.cc").write_text(self.code.read_text())
        self.results = root / "tests" / "mutants_results.json"
        self.results.parent.mkdir()
        self.lists = root / "scripts" / "mutants"
        self.lists.mkdir(parents=True)
        self.list_mutants("1", "2")
        for name, value in {
                "ROOT": root, "LISTS": self.lists, "PLACE": place, "TREE": place / "tree",
                "BASELINES": place / "baselines.json", "RESULTS": self.results,
                "LOGS": place / "logs", "run_limited": self.run_limited,
                "state_of_tree": lambda: ("abc", "def")}.items():
            self.patch(mutate, name, value)
        self.patch(mutate.Bench, "prepare", lambda bench, mutated: None)
        self.patch(mutate.Bench, "check_filter", lambda bench, test: None)
        self.commands: list[str] = []
        self.codes: dict[str, list] = {}  # of an executable, for runs of mutants, in order

    def patch(self, where, name, value) -> None:
        patcher = mock.patch.object(where, name, value)
        patcher.start()
        self.addCleanup(patcher.stop)

    def list_mutants(self, *olds: str) -> None:
        text = "\n".join(LIST.format(name=f"mutant-{old}", old=old) for old in olds)
        (self.lists / "run.txt").write_text(text)

    def run_limited(self, command, log, seconds):
        log.write_text("")
        what = next(Path(word).name for word in command if word.endswith("_test"))
        is_mutated = (mutate.TREE / "code.cc").read_text() != self.code.read_text()
        if not is_mutated:
            return 0, 1.0
        builds = "ninja" in command
        self.commands.append(("build " if builds else "run ") + what)
        return (self.codes.get(what, [0]).pop(0) if not builds and self.codes.get(what) else 0), 1.0

    def call(self, *words: str) -> tuple[int, str]:
        self.commands.clear()
        output = io.StringIO()
        with mock.patch.object(sys, "argv", ["mutate", *words]), \
                contextlib.redirect_stdout(output), contextlib.redirect_stderr(io.StringIO()):
            return mutate.main(), output.getvalue()

    def test_a_kill_is_confirmed_and_ends_the_mutant(self):
        self.codes = {"a_test": [1, 1]}
        code, output = self.call("mutant-1")
        self.assertEqual(code, 0)
        self.assertEqual(self.commands, ["build a_test", "run a_test", "run a_test"])
        self.assertIn("1 killed, 0 survived", output)

    def test_a_test_that_fails_once_does_not_kill(self):
        self.codes = {"a_test": [1, 0], "b_test": [0]}
        code, output = self.call("mutant-1")
        self.assertEqual(code, 1)
        self.assertEqual(self.commands, ["build a_test", "run a_test", "run a_test",
                                         "build b_test", "run b_test"])
        self.assertIn("survived: mutant-1 (code.cc; scripts/mutants/run.txt:1)", output)

    def test_only_changed_lines_are_tried_again(self):
        self.codes = {"a_test": [1, 1, 1, 1]}
        self.assertEqual(self.call()[0], 0)
        self.assertEqual(set(json.loads(self.results.read_text())), {"mutant-1", "mutant-2"})
        self.assertEqual(self.call(), (0, "2 mutants: 2 killed, 0 survived, 0 equivalent, 0 not "
                                          "built: 100.0 % killed, 0.0 minutes; 0 to be tried\n"))
        self.assertEqual(self.commands, [])

        for path in (self.code, mutate.TREE / "code.cc"):
            path.write_text("int a = 1;\nlong b = 2;\n")
        self.assertIn("1 to be tried", self.call("--report")[1])
        code, output = self.call()
        self.assertEqual(code, 1)
        self.assertIn("survived: mutant-2", output)
        self.assertNotIn("survived: mutant-1", output)

    def test_open_ones_are_tried_again(self):
        self.codes = {"a_test": [1, 1]}
        self.call()
        self.codes = {"a_test": [1, 1]}
        self.assertEqual(self.call("--open")[0], 0)
        self.assertEqual(self.commands, ["build a_test", "run a_test", "run a_test"])


if __name__ == "__main__":
    unittest.main()
