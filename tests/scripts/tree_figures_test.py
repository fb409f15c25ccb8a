#!/usr/bin/env python3
"""Tests scripts/tree_figures in a small repository whose figures can be counted by hand."""

import contextlib
import importlib.util
import io
import json
import subprocess
import sys
import tempfile
import unittest
from importlib.machinery import SourceFileLoader
from pathlib import Path
from unittest import mock

sys.dont_write_bytecode = True
_SCRIPT = Path(__file__).resolve().parents[2] / "scripts" / "tree_figures"
_LOADER = SourceFileLoader("tree_figures", str(_SCRIPT))
tree_figures = importlib.util.module_from_spec(
    importlib.util.spec_from_loader("tree_figures", _LOADER))
sys.modules["tree_figures"] = tree_figures
_LOADER.exec_module(tree_figures)

FILES = {
    "engine/a/low.h": "#pragma once\n// Lowest.\nint Low();\n",
    "engine/a/low.cc": '#include "engine/a/low.h"\n\nint Low() {\n  return 1;\n}\n',
    "engine/a/high.h": '#include "engine/a/low.h"\n#include <vector>\nint High();\n',
    "cli/main.cc": '// The program.\n#include "engine/a/high.h"\nint main() { return High(); }\n',
    "tests/low_test.cc": '#include "engine/a/low.h"\n#include "tests/fake.h"\n',
    "tests/fake.h": "#pragma once\n",
    "tests/cli/golden/help/list.txt": "List experiments\n",
    "engine/page/app.js": "// The page.\nstart();\n",
    "engine/python/core.py": "import os\n",
    "docs/page.md": "not C++\n",
}


class TreeFiguresTest(unittest.TestCase):
    def setUp(self) -> None:
        directory = tempfile.TemporaryDirectory(prefix="dtrain-tree-figures-")
        self.addCleanup(directory.cleanup)
        self.root = Path(directory.name)
        for name, text in FILES.items():
            (self.root / name).parent.mkdir(parents=True, exist_ok=True)
            (self.root / name).write_text(text)
        self.git("init", "-q")
        self.git("add", "--all")
        self.git("commit", "-qm", "Files")

    def git(self, *arguments: str) -> None:
        command = ["git", "-c", "user.name=t", "-c", "user.email=t@example.org", *arguments]
        subprocess.run(command, cwd=self.root, check=True, capture_output=True)

    def figures(self, *arguments: str) -> str:
        out = io.StringIO()
        with mock.patch.object(tree_figures, "REPOSITORY", self.root), \
                mock.patch.object(sys, "argv", ["tree_figures", *arguments]), \
                contextlib.redirect_stdout(out):
            self.assertEqual(tree_figures.main(), 0)
        return out.getvalue()

    def measured(self, *arguments: str) -> dict:
        return json.loads(self.figures("--json", *arguments))

    def test_counts_files_and_lines(self) -> None:
        product = self.measured()["product"]
        self.assertEqual((product["files"], product["lines"]), (4, 14))
        self.assertEqual((product["code_lines"], product["lines_per_file"]), (11, 4))
        self.assertEqual(product["scripts"], {"files": 2, "lines": 3})
        self.assertEqual(product["headers"],
                         {"files": 2, "median_lines": 3, "comment_share": 0.1667})
        self.assertEqual(product["sources"],
                         {"files": 2, "median_lines": 3, "comment_share": 0.125})

    def test_a_tests_files_are_apart(self) -> None:
        tests = self.measured()["tests"]
        self.assertEqual((tests["files"], tests["lines"], tests["help_pages"]), (2, 3, 1))

    def test_neither_own_source_nor_tests_count_as_users(self) -> None:
        measured = self.measured()
        self.assertEqual(measured["product"]["headers_with_one_user"],
                         {"share": 1.0, "files": ["engine/a/high.h", "engine/a/low.h"]})
        self.assertEqual(measured["tests"]["headers_with_one_user"]["files"], ["tests/fake.h"])

    def test_reach_follows_the_includes_of_headers(self) -> None:
        self.assertEqual(self.measured()["product"]["reach"],
                         {"p90": 2, "max": 2, "furthest": "cli/main.cc"})

    def test_reads_a_commit_whatever_the_working_tree_holds(self) -> None:
        (self.root / "cli/main.cc").write_text("int main() {}\n")
        (self.root / "cli/new.cc").write_text("int x;\n")
        self.assertEqual(self.measured("--rev", "HEAD")["product"]["files"], 4)
        self.assertEqual(self.measured()["product"]["files"], 5)

    def test_lists_the_worst_files(self) -> None:
        includes = "".join(f'#include "engine/b/{i}.h"\n' for i in range(24))
        (self.root / "engine/b").mkdir()
        for i in range(24):
            (self.root / f"engine/b/{i}.h").write_text("#pragma once\n")
        self.git("add", "--all")
        (self.root / "cli/main.cc").write_text(f'{includes}#include "engine/a/high.h"\n')
        self.assertEqual(self.figures("--worst").splitlines()[:3],
                         ["sources that reach more than 25 own headers: 1",
                          "    26  cli/main.cc",
                          "rings of units: 0"])
        self.assertEqual(self.figures("--worst", "--rev", "HEAD").splitlines(),
                         ["sources that reach more than 25 own headers: 0",
                          "rings of units: 0",
                          "headers with exactly one user, by lines: 2",
                          "     3  engine/a/high.h",
                          "     3  engine/a/low.h"])

    def test_finds_rings_of_units(self) -> None:
        (self.root / "engine/a/low.cc").write_text('#include "engine/a/high.h"\n')
        self.assertEqual(self.measured()["product"]["rings"], {"largest": 2, "above_two": 0})
        (self.root / "engine/a/low.cc").write_text('#include "engine/a/top.h"\n')
        (self.root / "engine/a/top.h").write_text('#include "engine/a/high.h"\n')
        self.assertEqual(self.measured()["product"]["rings"], {"largest": 3, "above_two": 1})
        self.assertIn("     3  engine/a/high engine/a/low engine/a/top", self.figures("--worst"))

    def test_counts_uses_and_names_of_functions(self) -> None:
        (self.root / "cli/main.cc").write_text(
            "int ValueOf() { return 1; }\nint WhyNot() { return ValueOf() + ValueOf(); }\n"
            "const Row kRows[] = {{WhyNot}};\n")
        self.assertEqual(self.measured()["product"]["functions"],
                         {"count": 3, "used_once": 0.3333, "of": 1, "why": 1})

    def test_compares_two_trees(self) -> None:
        (self.root / "engine/a/high.h").unlink()
        self.git("commit", "-qam", "One less")
        lines = self.figures("--rev", "HEAD~1", "--rev", "HEAD").splitlines()
        cells = {row[1]: row[2:4] for row in
                 ([cell.strip() for cell in line.split("|")] for line in lines)}
        self.assertEqual(cells[""], ["product, HEAD~1", "product, HEAD"])
        self.assertEqual(cells["files"], ["4", "3"])


class FunctionsTest(unittest.TestCase):
    def names(self, text: str) -> list[str]:
        return tree_figures.functions(text)[0]

    def test_looks_into_namespaces_and_classes(self) -> None:
        self.assertEqual(self.names("namespace dtrain {\nclass A : B {\n public:\n  A() {}\n"
                                    "  int Get(int a,\n  int b) const {\n  }\n};\n}\n"),
                         ["A", "Get"])

    def test_blocks_and_lambdas_within_are_of_the_function(self) -> None:
        self.assertEqual(self.names("void F() {\n  if (x) {\n  }\n  g([] {\n  });\n}\n"), ["F"])

    def test_braces_in_text_and_comments_mean_nothing(self) -> None:
        self.assertEqual(self.names("int F() {  // {\n  g(\"{\", '{', R\"({)\");\n"
                                    "  /* { */\n  return 1'000;\n}\nint G() {}\n"), ["F", "G"])

    def test_values_in_braces_belong_to_the_signature(self) -> None:
        self.assertEqual(self.names("void F(A a = {}) {\n  g(a);\n}\n"
                                    "B::B() : a_{1}, b_(2) {\n}\n"
                                    "const A kA = F({\n  1,\n});\n"), ["F", "B"])

    def test_tables_are_no_functions_and_use_some(self) -> None:
        names, used = tree_figures.functions("struct Row {\n  int a;\n};\nconst Row kRows[] = {\n"
                                             "    {F(1)},\n};\nint G();\n")
        self.assertEqual(names, [])
        self.assertIn("F(1)", used)
        self.assertNotIn("G", used)


if __name__ == "__main__":
    unittest.main()
