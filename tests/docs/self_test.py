#!/usr/bin/env python3
"""Tests that scripts/run_docs finds errors in documents: runs test documents with a fake dtrain.

    tests/docs/self_test.py"""

import importlib.util
import subprocess
import sys
import tempfile
import unittest
from importlib.machinery import SourceFileLoader
from pathlib import Path

import documents

sys.dont_write_bytecode = True
_LOADER = SourceFileLoader("run_docs", str(documents.REPOSITORY / "scripts/run_docs"))
run_docs = importlib.util.module_from_spec(importlib.util.spec_from_loader("run_docs", _LOADER))
_LOADER.exec_module(run_docs)

# Prints its arguments, and exits with the code of `exit CODE`.
_DTRAIN = """#!/bin/sh
echo "experiment 17 completed after 1m08s: $*"
[ "$1" = exit ] && exit "$2"
exit 0
"""


def run(text: str, *arguments: str) -> tuple[int, str]:
    """Runs scripts/run_docs on a document with this text; returns its exit code and output."""
    with tempfile.TemporaryDirectory() as directory:
        dtrain = Path(directory) / "fake"
        dtrain.write_text(_DTRAIN)
        dtrain.chmod(0o755)
        document = Path(directory) / "page.md"
        document.write_text(text)
        done = subprocess.run(
            [documents.REPOSITORY / "scripts/run_docs", "--dtrain", dtrain, *arguments, document],
            text=True, check=False, stdout=subprocess.PIPE, stderr=subprocess.STDOUT)
    return done.returncode, done.stdout


def console(*lines: str) -> str:
    return "```console\n" + "\n".join(lines) + "\n```\n"


class RunDocsTest(unittest.TestCase):
    def check(self, text: str, good: bool, *arguments: str) -> None:
        code, output = run(text, *arguments)
        self.assertEqual(code, 0 if good else 1, output)

    def test_command_that_fails_is_noticed(self):
        self.check("```sh\ndtrain list\ndtrain exit 3\n```\n", good=False)
        self.check(console("$ dtrain exit 3", "$ dtrain list"), good=False)
        self.check("```sh\nfalse | cat\n```\n", good=False)

    def test_expected_exit_code_is_that_of_the_last_command(self):
        self.check("<!-- run: exit 4 -->\n```sh\ndtrain exit 4\n```\n", good=True)
        self.check("<!-- run: exit 4 -->\n```sh\ndtrain list\n```\n", good=False)
        self.check("<!-- run: exit 4 -->\n" + console("$ dtrain exit 4", "$ dtrain list"), good=False)

    def test_shown_line_has_to_be_printed_whatever_its_numbers_are(self):
        self.check(console("$ dtrain list", "experiment 2 completed after 2.4s: list"), good=True)
        self.check(console("$ dtrain list", "experiment 2 failed after 2.4s: list"), good=False)
        self.check(console("$ dtrain list", "experiment 2 completed after ..."), good=True)
        self.check(console("$ dtrain list", "...", "experiment 2 completed: ..."), good=False)

    def test_slow_and_excluded_blocks_are_left_out(self):
        slow = "<!-- run: slow -->\n```sh\ndtrain exit 1\n```\n"
        self.check(slow, False)
        self.check(slow, True, "--quick")
        self.check("<!-- run: no, needs a GPU -->\n```sh\ndtrain exit 1\n```\n", good=True)
        self.check("```cpp\nexit 1\n```\n", good=True)

    def test_files_are_there_for_the_commands_below(self):
        text = "<!-- file: a/b.sh -->\n```sh\n#!/bin/sh\nexit $1\n```\n```sh\na/b.sh %d\n```\n"
        self.check(text % 0, good=True)
        self.check(text % 1, good=False)


class ShapeTest(unittest.TestCase):
    def test_numbers_of_every_kind_are_alike(self):
        for one, other in (("took 1m08s", "took 6.2s"), ("507.1 kB", "1.2 MB"), ("1e-05", "0.3"),
                           ("x  1", "x 20"), ("2026-11-23T20:19:06Z", "2027-01-01T00:00:00Z"),
                           ("c582be05-d680-4a10-89b2-9f402cdf6858",
                            "36a66d3f-39b1-4ccd-9eb0-ca073ccda879")):
            self.assertEqual(run_docs.shape(one), run_docs.shape(other))
        self.assertNotEqual(run_docs.shape("1 trial"), run_docs.shape("2 trials"))


if __name__ == "__main__":
    unittest.main()
