#!/usr/bin/env python3
"""Tests scripts/fuzz_corpus with a corpus of its own, and that every corpus of the repository is
stored in the form that the script writes."""

import contextlib
import importlib.util
import io
import sys
import tempfile
import unittest
from importlib.machinery import SourceFileLoader
from pathlib import Path
from unittest import mock

sys.dont_write_bytecode = True
_SCRIPT = Path(__file__).resolve().parents[2] / "scripts" / "fuzz_corpus"
_LOADER = SourceFileLoader("fuzz_corpus", str(_SCRIPT))
fuzz_corpus = importlib.util.module_from_spec(
    importlib.util.spec_from_loader("fuzz_corpus", _LOADER))
_LOADER.exec_module(fuzz_corpus)

INPUTS = {
    "empty": b"",
    "newline": b"\n",
    "newlines": b"\n\n",
    "line": b"a: 1\n",
    "no_newline": b"a: 1",
    "crlf": b"a\r\n\tb \n",
    "mark": b"=== not_a_name\n====\n",
    "every_byte": bytes(range(256)),
    "backslashes": b"\\\\\n\\" + b"\\" * 300,
    "long": b"x" * 5000 + b"[" * 23 + b"\0" * 24,
    "wide": b"=- " * 200,
    "digits": b"7{3}" * 20 + b"1" * 30 + b"2",
}


class FuzzCorpusTest(unittest.TestCase):
    def setUp(self) -> None:
        directory = tempfile.TemporaryDirectory(prefix="dtrain-fuzz-corpus-")
        self.addCleanup(directory.cleanup)
        self.root = Path(directory.name)
        self.fuzz = self.root / "fuzz"
        self.fuzz.mkdir()
        (self.fuzz / "reader_fuzzer.cc").touch()
        self.corpus = self.fuzz / "reader.corpus"
        self.corpus.write_text("About the reader.\n\n=== first\nabc\n=== second\n\\x00\\{3}a\n")
        self.finding = self.root / "crash-123"
        self.finding.write_bytes(b"bad\n")

    def run_script(self, *arguments: str) -> int:
        self.out, self.err = io.StringIO(), io.StringIO()
        with mock.patch.object(fuzz_corpus, "FUZZ", self.fuzz), \
                mock.patch.object(sys, "argv", ["fuzz_corpus", *map(str, arguments)]), \
                contextlib.redirect_stdout(self.out), contextlib.redirect_stderr(self.err):
            return fuzz_corpus.main()

    def test_any_bytes_read_as_they_were_written(self) -> None:
        text = fuzz_corpus.encode(INPUTS, "About.\n")
        self.assertEqual(fuzz_corpus.decode(text), (INPUTS, "About.\n"))

    def test_lines_are_printable_and_short(self) -> None:
        for line in fuzz_corpus.encode(INPUTS, "").split("\n"):
            self.assertLessEqual(len(line), fuzz_corpus.WIDTH)
            self.assertTrue(line.isprintable() and line.isascii())
            self.assertEqual(line, line.rstrip())

    def test_unpacks_each_input_under_its_name(self) -> None:
        self.assertEqual(self.run_script("unpack", "reader", self.root / "new" / "out"), 0)
        self.assertEqual({it.name: it.read_bytes() for it in (self.root / "new/out").iterdir()},
                         {"first": b"abc", "second": b"\0aaa"})

    def test_adds_a_finding(self) -> None:
        self.assertEqual(self.run_script("add", "reader", self.finding, "found"), 0)
        self.assertEqual(self.run_script("add", "reader", self.finding, "again"), 2)
        self.assertIn("named 'found'", self.err.getvalue())
        self.assertEqual(self.corpus.read_text(),
                         "About the reader.\n\n=== first\nabc\n=== found\nbad\n\n"
                         "=== second\n\\x00aaa\n")

    def test_names_an_input_after_its_file(self) -> None:
        self.assertEqual(self.run_script("add", "reader", self.finding), 0)
        self.assertEqual(self.run_script("list", "reader"), 0)
        self.assertIn("crash-123", self.out.getvalue())

    def test_refuses_a_name_that_is_taken_or_leads_elsewhere(self) -> None:
        for name in ("first", "../up"):
            self.assertEqual(self.run_script("add", "reader", self.finding, name), 2)
            self.assertIn(name, self.err.getvalue())

    def test_refuses_an_unknown_target(self) -> None:
        self.assertEqual(self.run_script("unpack", "raeder", self.root), 2)
        self.assertIn("the targets are: reader", self.err.getvalue())

    def test_refuses_a_corpus_that_is_not_whole(self) -> None:
        for text in ("=== a\n\\q\n", "=== a\n\\{3}\n", "=== a\n1\n=== a\n2\n", "=== a/b\n"):
            with self.subTest(text=text):
                self.corpus.write_text(text)
                self.assertEqual(self.run_script("list", "reader"), 2)
                self.assertIn("reader.corpus", self.err.getvalue())

    def test_replays_all_inputs_and_passes_a_failure_on(self) -> None:
        program = self.root / "program"
        program.write_text(f'#!/bin/sh\nls "$1" >{self.root}/listed\n[ ! -e "$1/bad" ]\n')
        program.chmod(0o755)
        self.assertEqual(self.run_script("replay", "reader", program), 0)
        self.assertEqual((self.root / "listed").read_text(), "first\nsecond\n")
        self.run_script("add", "reader", self.finding, "bad")
        self.assertEqual(self.run_script("replay", "reader", program), 1)


class RepositoryTest(unittest.TestCase):
    def test_each_target_has_a_corpus_as_the_script_writes_it(self) -> None:
        fuzz = fuzz_corpus.FUZZ
        targets = {it.name.removesuffix("_fuzzer.cc") for it in fuzz.glob("*_fuzzer.cc")}
        self.assertEqual({it.stem for it in fuzz.glob("*.corpus")}, targets)
        for target in targets:
            text = (fuzz / f"{target}.corpus").read_text()
            self.assertEqual(fuzz_corpus.encode(*fuzz_corpus.decode(text)), text, target)


if __name__ == "__main__":
    unittest.main()
