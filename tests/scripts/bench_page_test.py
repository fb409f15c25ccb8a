#!/usr/bin/env python3
"""Tests that docs/benchmarks.md matches scripts/bench and that pages show only what was measured.
Takes no measurements."""
import dataclasses
import importlib.machinery
import importlib.util
import os
import re
import subprocess
import sys
import tempfile
import unittest

sys.dont_write_bytecode = True
ROOT = os.path.dirname(os.path.dirname(os.path.dirname(os.path.realpath(__file__))))
SCRIPT = os.path.join(ROOT, "scripts/bench")
sys.path.insert(0, os.path.join(ROOT, "scripts"))
loader = importlib.machinery.SourceFileLoader("bench", SCRIPT)
bench = importlib.util.module_from_spec(importlib.util.spec_from_loader("bench", loader))
loader.exec_module(bench)

import bench_page
import bench_python
import bench_training
from bench_figures import (Bench, Failed, Figure, Measurement, NOT_INSTALLED, Row,
                           by_turns)

STEP = Row("a step", "ms", 2.0, "PyTorch", "eager")
MACHINE = {"cpu": "a CPU", "cores": 2, "memory_gib": 4, "kernel": "6.1", "gpu": None,
           "versions": {"torch": None}}


def page_of(figures: dict) -> str:
    measurement = Measurement("step", 1, lambda _: {}, (STEP,))
    taken = {"commit": "abc", "load": 0.1}
    return bench_page.page((measurement,), MACHINE, {"step": {"taken": taken, "figures": figures}})


class PageTest(unittest.TestCase):
    def test_names_are_those_of_the_script(self):
        with open(os.path.join(ROOT, "docs/benchmarks.md")) as file:
            text = file.read().partition(bench_page.BEGIN)[2].partition(bench_page.END)[0]
        told = set(re.findall(r"^\| `([^`]+)` \|", text, re.MULTILINE))
        self.assertEqual(told, {one.name for one in bench.MEASUREMENTS})

    def test_rows_are_those_of_the_script(self):
        with open(os.path.join(ROOT, "docs/benchmarks.md")) as file:
            told = file.read()
        missing = [row.what for one in bench.MEASUREMENTS for row in one.rows
                   if f"| {row.what} |" not in told or bench_page.goal_of(row) not in told]
        self.assertEqual(missing, [])

    def test_names_are_unique_and_groups_have_members(self):
        names = [one.name for one in bench.MEASUREMENTS]
        self.assertEqual(len(names), len(set(names)))
        self.assertLessEqual({name for group in bench.GROUPS.values() for name in group},
                             set(names))

    def test_a_missing_tool_has_no_number(self):
        text = page_of({"dtrain": Figure.of([1.0]), "eager": Figure.none(NOT_INSTALLED)})
        self.assertIn("| ≥ 2× | not installed | 1.00 ms | not installed |", text)
        self.assertNotIn("××", text)

    def test_a_missing_measurement_is_marked(self):
        text = bench_page.page(bench.MEASUREMENTS, MACHINE, {})
        self.assertIn("No GPU figure has been taken yet.", text)
        rows = sum(len(one.rows) for one in bench.MEASUREMENTS)
        self.assertEqual(text.count("| not taken |"), rows)

    def test_a_missed_goal_is_marked(self):
        own, other = Figure.of([10.0]), Figure.of([19.0])
        self.assertEqual(bench_page.measured(STEP, {"dtrain": own, "eager": other}),
                         "1.90× (missed)")
        bound = Row("rows", "rows/s", 100.0)
        self.assertEqual(bench_page.measured(bound, {"dtrain": Figure.of([99.0])}),
                         "99.0 rows/s (missed)")
        self.assertEqual(bench_page.measured(Row("a step", "ms", 100.0),
                                             {"dtrain": Figure.of([99.0])}), "99.0 ms")

    def test_more_samples_a_second_are_better(self):
        row = Row("training", "samples/s", 1.8, "1 rank", "one")
        figures = {"dtrain": Figure.of([20.0]), "one": Figure.of([10.0])}
        self.assertEqual(bench_page.measured(row, figures), "2.00×")

    def test_figures_are_replaced_between_the_marks_only(self):
        with tempfile.TemporaryDirectory() as directory:
            path = os.path.join(directory, "page.md")
            with open(path, "w") as file:
                file.write(f"before\n{bench_page.BEGIN}\nold\n{bench_page.END}\nbehind\n")
            bench_page.write(path, "new")
            with open(path) as file:
                self.assertEqual(file.read(), f"before\n{bench_page.BEGIN}\n\nnew\n\n"
                                              f"{bench_page.END}\nbehind\n")
            with open(path, "w") as file:
                file.write("somebody's page\n")
            with self.assertRaisesRegex(ValueError, "no place for figures"):
                bench_page.write(path, "new")


class FiguresTest(unittest.TestCase):
    def test_sides_alternate_and_one_that_fails_is_left_out(self):
        calls = []

        def side(name: str, fails: bool = False):
            def run():
                calls.append(name)
                if fails:
                    raise Failed("failed: status 1: oh")
                return len(calls), None
            return run

        figures = by_turns(Bench("", "", ""), "test", {
            "a": side("a"), "b": side("b", fails=True), "c": side("c"),
            "d": Figure.none(NOT_INSTALLED)}, runs=2)
        self.assertEqual(calls, ["a", "b", "c", "a", "c"])
        self.assertEqual(figures["b"].missing, "failed: status 1: oh")
        self.assertEqual((figures["c"].least, figures["c"].most), (3, 5))
        self.assertEqual(figures["d"].missing, NOT_INSTALLED)

    def test_results_are_what_was_saved(self):
        name = bench.MEASUREMENTS[0].name
        found = {name: {"taken": {"load": 0.1}, "figures": {
            "dtrain": Figure.of([0.0, 2.0], [0.0]), "eager": Figure.none(NOT_INSTALLED)}}}
        with tempfile.TemporaryDirectory() as directory:
            path = os.path.join(directory, "results.json")
            self.assertEqual(bench.earlier(path), (None, {}))
            bench.save(path, MACHINE, found)
            self.assertEqual(bench.earlier(path), (MACHINE, found))


class CodeLinesTest(unittest.TestCase):
    def test_blank_lines_comments_and_docstrings_do_not_count(self):
        text = '"""Text\n\nmore."""\nimport a  # b\n\n# c\ndef f():\n    """Text."""\n' \
               '    return g(1,\n             "x")\n'
        self.assertEqual(bench_python.code_lines("a.py", text), 4)
        self.assertEqual(bench_python.code_lines("a.yaml", "# a\nb: 1\n\nc: {}  # d\n"), 2)

    def test_every_tool_has_files(self):
        written = os.listdir(bench_python.SWEEP)
        self.assertEqual(sorted(written),
                         sorted(name for names in bench_python.FILES.values() for name in names))
        for tool in bench_python.FILES:
            self.assertGreater(bench_python.lines_of(tool), 10)


class PrecisionTest(unittest.TestCase):
    def test_dtrain_and_its_twins_use_the_same(self):
        for _, work in bench.bench_gpu.WORKLOADS.values():
            for precision, setting in (("fp32", "none"), ("tf32", "tf32"), ("bf16", "bf16")):
                used = dataclasses.replace(work, gpu=True, precision=precision)
                settings = bench_training.train_words(Bench("", "", ""), used)
                self.assertEqual([word for word in settings if "mixed_precision" in word],
                                 [f"optimizations.mixed_precision={setting}"])
                for how in bench.bench_gpu.HOWS:
                    twin = bench_training.twin_words(Bench("", "", ""), used, how)
                    self.assertEqual(twin[twin.index("--precision") + 1], precision)
                    self.assertEqual(twin[twin.index("--device") + 1], "cuda")

    def test_both_measure_compute_alone(self):
        for name, (_, work) in bench.bench_gpu.WORKLOADS.items():
            fixed = dataclasses.replace(work, gpu=True, fixed=True)
            for how in bench.bench_gpu.HOWS:
                self.assertIn("--fixed", bench_training.twin_words(Bench("", "", ""), fixed, how))
                self.assertNotIn("--fixed", bench_training.twin_words(Bench("", "", ""), work, how))
            rows = next(one.rows for one in bench.MEASUREMENTS if one.name == name)
            self.assertEqual([row.own for row in rows],
                             4 * ["dtrain"] + 4 * ["dtrain, compute only"])
            self.assertTrue(all(row.figure.endswith(", compute only") for row in rows[4:]))

    def test_each_result_names_its_precision(self):
        own, other = (Figure.of([10.0]), Figure.of([20.0]))
        own.precision = other.precision = "tf32"
        self.assertEqual(bench_page.measured(STEP, {"dtrain": own, "eager": other}),
                         "2.00×, tf32")
        self.assertIn("| 10.0 ms, tf32 | 20.0 ms, tf32 |",
                      page_of({"dtrain": own, "eager": other}))

    def test_twins_accept_the_same_precisions_and_modes(self):
        with open(bench_training.TWINS) as file:
            text = file.read()
        choices = ", ".join(f'"{name}"' for name in bench_training.PRECISIONS)
        self.assertIn(f'"--precision", choices=({choices})', text)
        modes = re.search(r"^HOWS = \((.*)\)$", text, re.MULTILINE).group(1)
        for how in bench.bench_gpu.HOWS:
            self.assertIn(f'"{how}"', modes)


class CommandTest(unittest.TestCase):
    def run_bench(self, *words: str) -> subprocess.CompletedProcess:
        return subprocess.run([sys.executable, SCRIPT, *words], text=True, timeout=60,
                              stdout=subprocess.PIPE, stderr=subprocess.PIPE)

    def test_an_unknown_name_is_refused(self):
        done = self.run_bench("--only", "lenet-stop")
        self.assertEqual(done.returncode, 2)
        self.assertIn("unknown measurement 'lenet-stop'; choose from lenet-step,", done.stderr)

    def test_the_list_has_every_name(self):
        done = self.run_bench("--list")
        self.assertEqual(done.returncode, 0)
        told = {line.split()[0] for line in done.stdout.splitlines()}
        self.assertEqual(told, {one.name for one in bench.MEASUREMENTS} | set(bench.GROUPS))

    @unittest.skipIf(bench.bench_gpu.there_is_one(), "there is a GPU, which would be measured")
    def test_without_a_gpu_nothing_is_measured(self):
        done = self.run_bench("--gpu")
        self.assertEqual(done.returncode, bench.NO_RESOURCES)
        self.assertEqual(done.stdout, "")
        self.assertEqual(done.stderr, "bench: --gpu: this machine has no GPU\n")


if __name__ == "__main__":
    unittest.main()
