#!/usr/bin/env python3
"""Tests the simulated searches of dtrain-bench: tasks, workers, and what is refused.

search_bench_test.py PATH_OF_DTRAIN_BENCH
"""
from __future__ import annotations

import json
import math
import os
import random
import struct
import subprocess
import sys
import tempfile
import unittest

sys.dont_write_bytecode = True
ROOT = os.path.dirname(os.path.dirname(os.path.dirname(os.path.realpath(__file__))))
sys.path.insert(0, os.path.join(ROOT, "scripts/bench_peers"))
import simulated_searches

PROGRAM = sys.argv.pop(1)
NAMES = ("batch_size", "learning_rate", "momentum", "weight_decay", "num_layers", "max_units",
         "max_dropout")
POINTS = ((16, 1e-4, .1, 1e-5, 1, 64, 0.), (512, 1e-1, .99, .1, 5, 1024, 1.),
          (64, 1e-2, .5, .05, 3, 256, .5))
EPOCHS = 50
HIDDEN, GATED, EMBEDDING = 128, 455, 24


def run(*words: str, text: str = "") -> subprocess.CompletedProcess:
    return subprocess.run([PROGRAM, *words], input=text, capture_output=True, text=True,
                          timeout=300)


def answers(task: str, *points: dict, reference: str = "") -> list[dict]:
    """Returns the description of a task and the curves of the points."""
    words = [reference] if reference else []
    done = run("serve-task", task, *words, text="".join(json.dumps(p) + "\n" for p in points))
    assert done.returncode == 0, done.stderr
    return [json.loads(line) for line in done.stdout.splitlines()]


def simulated(task: str, searcher: str, *options: str) -> dict:
    """Returns the result of one searcher."""
    done = run("simulate-search", task, searcher, *options)
    assert done.returncode == 0, done.stderr
    return json.loads(done.stdout)["searchers"][0]


def accuracy(row: int, epoch: int) -> float:
    return 90 - 10 * row - 20 / epoch


def write_table(path: str, end: str = "\n") -> None:
    """Writes a table of three trainings that all take 100 s."""
    lines = ["id," + ",".join(NAMES) + ",total_time_s," +
             ",".join(f"val_acc_e{epoch}" for epoch in range(1, EPOCHS + 1))]
    for row, point in enumerate(POINTS):
        curve = [accuracy(row, epoch) for epoch in range(1, EPOCHS + 1)]
        lines.append(",".join(map(repr, (row, *point, 100., *curve))))
    with open(path, "w", newline="") as file:
        file.write(end.join(lines) + end)


class Network:
    """A random network of the surrogate's shape, evaluated by plain Python."""

    def __init__(self) -> None:
        self.random = random.Random(3)
        self.tensors: dict[str, tuple[list[int], list[float]]] = {}
        self.add("task_embedding", 2, EMBEDDING)
        self.linear("first_layer", EMBEDDING + 8, HIDDEN)
        for layer in range(3):
            self.norm(f"layers.{layer}.norm")
            self.linear(f"layers.{layer}.linear0", HIDDEN, 2 * GATED)
            self.linear(f"layers.{layer}.linear1", GATED, HIDDEN)
        self.norm("last_normalization")
        self.linear("head", HIDDEN, 6)
        self.metadata = {
            "tasks": "7,8",
            "inputs": json.dumps([{"column": i, "log": i in (0, 2), "add": 1e-9,
                                   "sub": .5 * i, "div": 2. + i} for i in range(8)]),
            "outputs": json.dumps([
                {"unit": 3, "mul": 500., "add": 7., "exp": False, "sub": 0.},
                {"unit": 1, "mul": 3., "add": 1., "exp": True, "sub": .5}]),
        }

    def add(self, name: str, *shape: int, low: float = -.1, high: float = .1) -> None:
        values = [self.random.uniform(low, high) for _ in range(math.prod(shape))]
        self.tensors[name] = list(shape), list(
            struct.unpack(f"<{len(values)}f", struct.pack(f"<{len(values)}f", *values)))

    def linear(self, name: str, inputs: int, outputs: int) -> None:
        self.add(name + ".weight", outputs, inputs)
        self.add(name + ".bias", outputs)

    def norm(self, name: str) -> None:
        for part in ("weight", "running_var"):
            self.add(f"{name}.{part}", HIDDEN, low=.5, high=2)
        for part in ("bias", "running_mean"):
            self.add(f"{name}.{part}", HIDDEN)

    def write(self, path: str) -> None:
        header, data = {"__metadata__": self.metadata}, b""
        for name, (shape, values) in self.tensors.items():
            part = struct.pack(f"<{len(values)}f", *values)
            header[name] = {"dtype": "F32", "shape": shape,
                            "data_offsets": [len(data), len(data) + len(part)]}
            data += part
        text = json.dumps(header).encode()
        with open(path, "wb") as file:
            file.write(struct.pack("<Q", len(text)) + text + data)

    def apply(self, name: str, x: list[float]) -> list[float]:
        weight, bias = self.tensors[name + ".weight"][1], self.tensors[name + ".bias"][1]
        size = len(x)
        return [b + sum(w * v for w, v in zip(weight[o * size:(o + 1) * size], x))
                for o, b in enumerate(bias)]

    def normalized(self, name: str, x: list[float]) -> list[float]:
        weight, bias, mean, var = (self.tensors[f"{name}.{part}"][1] for part in
                                   ("weight", "bias", "running_mean", "running_var"))
        return [(v - m) / math.sqrt(s + 1e-5) * w + b
                for v, w, b, m, s in zip(x, weight, bias, mean, var)]

    def units(self, row: int, epoch: int, point: tuple) -> list[float]:
        """Returns the outputs of the network before their scaling."""
        h = self.tensors["task_embedding"][1][row * EMBEDDING:(row + 1) * EMBEDDING]
        for rule, value in zip(json.loads(self.metadata["inputs"]), (epoch, *point)):
            value = math.log(value + rule["add"]) if rule["log"] else value
            h = h + [(value - rule["sub"]) / rule["div"]]
        h = self.apply("first_layer", h)
        for layer in range(3):
            both = self.apply(f"layers.{layer}.linear0",
                              self.normalized(f"layers.{layer}.norm", h))
            gated = [a * max(b, 0) for a, b in zip(both[:GATED], both[GATED:])]
            h = [a + b for a, b in zip(h, self.apply(f"layers.{layer}.linear1", gated))]
        h = [max(v, 0) for v in self.normalized("last_normalization", h)]
        return [1 / (1 + math.exp(-v)) for v in self.apply("head", h)]


class SearchBenchTest(unittest.TestCase):
    """A temporary directory for the files of a test."""

    def setUp(self) -> None:
        folder = tempfile.TemporaryDirectory(prefix="dtrain-search-bench-")
        self.addCleanup(folder.cleanup)
        self.folder = folder.name

    def path(self, name: str) -> str:
        return os.path.join(self.folder, name)


class TaskTest(SearchBenchTest):
    def test_a_table_answers_with_the_nearest_row(self) -> None:
        for end in ("\n", "\r\n"):
            write_table(self.path("table.csv"), end)
            near = dict(zip(NAMES, (60.4, .012, .52, .05, 3, 250, .45)))
            about, curve = answers("table:" + self.path("table.csv"), near)
            self.assertEqual(curve["seconds_per_step"], 2)
            for epoch in range(1, EPOCHS + 1):
                self.assertAlmostEqual(curve["errors"][epoch - 1], 1 - accuracy(2, epoch) / 100)
            self.assertAlmostEqual(about["reference"]["best"], 1 - accuracy(0, EPOCHS) / 100)
            self.assertAlmostEqual(about["reference"]["median"], 1 - accuracy(1, EPOCHS) / 100)
            self.assertEqual(about["reference"]["unit_seconds"], 100)

    def test_the_network_is_evaluated_as_described(self) -> None:
        network = Network()
        network.write(self.path("net.safetensors"))
        with open(self.path("reference.json"), "w") as file:
            json.dump({"best": 0, "best_percent": 0, "median": 1, "unit_seconds": 1}, file)
        about, curve = answers(f"lcbench:{self.path('net.safetensors')}:8",
                               dict(zip(NAMES, POINTS[2])),
                               reference=self.path("reference.json"))
        self.assertEqual(about["reference"]["median"], 1)
        self.assertEqual(len(curve["errors"]), EPOCHS)
        seconds = 500 * network.units(1, EPOCHS, POINTS[2])[3] + 7
        self.assertAlmostEqual(curve["seconds_per_step"], seconds / EPOCHS, places=3)
        percent = math.exp(3 * network.units(1, 20, POINTS[2])[1] + 1) - .5
        self.assertTrue(0 < percent < 100, percent)
        self.assertAlmostEqual(curve["errors"][19], 1 - percent / 100, places=5)

    def test_the_closed_forms(self) -> None:
        point = {"optimizer": "adam", "lr": 1e-3, "momentum": .5, "beta2": .99, "augment": 1,
                 "layers": 5, "width": 128, "norm": True, "weight_decay": 1e-3}
        _, curve = answers("mixed", point)
        # The best learning rate of adam with norm is 10^-2.5.
        size = .5
        limit = .06 + .05 * .5 ** 2 + .06 * (size - .7) ** 2 + .01 * (-3 + 3.3 - .5 * size) ** 2
        time = (1 + 1.5 * size) * 1.3 * 10 ** (.4 * .5)
        self.assertAlmostEqual(curve["errors"][26],
                               limit + (.9 - limit) * (1 + 27 / time) ** -1.2)
        self.assertAlmostEqual(curve["seconds_per_step"], .3 + size ** 2 + .5)
        diverged = answers("mixed", {**point, "lr": 1.})[1]
        self.assertEqual(set(diverged["errors"]), {.9})
        # The minimum of Hartmann's function is -3.32237.
        best = (.20169, .150011, .476874, .275332, .311652, .6573)
        _, curve = answers("noisy", {f"x{i}": x for i, x in enumerate(best)})
        self.assertAlmostEqual(curve["errors"][26], 3.4 - 3.32237, places=4)
        self.assertAlmostEqual(curve["seconds_per_step"], 1.476874)

    def test_the_reference_is_kept(self) -> None:
        first = answers("mixed", reference=self.path("mixed.json"))
        with open(self.path("mixed.json")) as file:
            self.assertEqual(json.load(file), first[0]["reference"])
        os.utime(self.path("mixed.json"), (1, 1))
        self.assertEqual(answers("mixed", reference=self.path("mixed.json")), first)
        self.assertEqual(os.path.getmtime(self.path("mixed.json")), 1)


class SimulationTest(SearchBenchTest):
    def test_workers_are_busy_until_the_budget_ends(self) -> None:
        write_table(self.path("table.csv"))
        found = simulated("table:" + self.path("table.csv"), "{name: random}", "--seeds", "1",
                          "--workers", "3", "--budget", "5")
        # Every training takes one unit; the next ones were just begun.
        self.assertEqual(found["runs"][0]["full_trainings"], 3 * 5)
        self.assertEqual(found["runs"][0]["trials"], 3 * 6)

    def test_the_budget_can_be_more_than_a_search_needs(self) -> None:
        write_table(self.path("table.csv"))
        found = simulated("table:" + self.path("table.csv"), "{name: random, max_trials: 7}",
                          "--seeds", "1")
        self.assertEqual((found["runs"][0]["trials"], found["runs"][0]["full_trainings"]), (7, 7))

    def test_halving_trains_few_trials_to_the_end(self) -> None:
        for stop_once in ("false", "true"):
            found = simulated("mixed",
                              f"{{name: async_halving, num_rungs: 3, stop_once: {stop_once}}}",
                              "--seeds", "1")
            self.assertLess(found["runs"][0]["full_trainings"], found["runs"][0]["trials"] / 4)
            self.assertGreater(found["runs"][0]["full_trainings"], 0)

    def test_a_plan_that_ends_has_a_regret(self) -> None:
        for trials, ends in ((4, True), (400, False)):
            run = simulated("mixed", f"{{name: random, max_trials: {trials}}}",
                            "--seeds", "1")["runs"][0]
            self.assertEqual("plan_regret" in run, ends)
            if ends:
                self.assertEqual(run["plan_regret"], run["regret"][-1])
                self.assertEqual(run["steps"], 4 * 27)

    def test_a_space_replaces_that_of_the_task(self) -> None:
        write_table(self.path("table.csv"))
        space = "{%s}" % ", ".join(f"{name}: {value}" for name, value in zip(NAMES, POINTS[0]))
        run = simulated("table:" + self.path("table.csv"), "{name: random, max_trials: 1}",
                        "--seeds", "1", "--space", space)["runs"][0]
        self.assertAlmostEqual(run["plan_regret"], 0)

    def test_a_trajectory_ends_at_the_best(self) -> None:
        write_table(self.path("table.csv"))
        found = simulated("table:" + self.path("table.csv"), "{name: random}", "--seeds", "1",
                          "--trajectories")["runs"][0]
        self.assertEqual(found["trajectory"][0][0], 1 / EPOCHS)  # one epoch of 2 s
        self.assertAlmostEqual(found["trajectory"][-1][1], 0)
        self.assertAlmostEqual(found["regret"][-1], 0)
        regrets = [regret for _, regret in found["trajectory"]]
        self.assertEqual(regrets, sorted(regrets, reverse=True))

    def test_a_seed_gives_the_same_search(self) -> None:
        def regrets() -> list:
            return [(one["regret"], one["trials"]) for one in
                    simulated("noisy", "{name: async_halving}", "--seeds", "2")["runs"]]

        first = regrets()
        self.assertEqual(first, regrets())
        self.assertNotEqual(first[0], first[1])

    def test_halving_beats_random_search(self) -> None:
        asha = simulated("mixed", "{name: async_halving, divisor: 3}", "--seeds", "20")
        self.assertLess(asha["mean_regret"][-1],
                        simulated("mixed", "{name: random}", "--seeds", "20")["mean_regret"][-1])


class TwoPoints:
    """A search that trains a mediocre trial for a step, then good ones to the end."""

    def __init__(self) -> None:
        self.created = 0

    def create(self) -> tuple[int, dict]:
        self.created += 1
        return self.created, dict(zip(NAMES, POINTS[2 if self.created == 1 else 0]))

    def stops(self, trial: int, step: int, error: float) -> bool:
        return trial == 1 or step == EPOCHS


class OtherToolsTest(SearchBenchTest):
    def test_the_rules_are_those_of_dtrain_bench(self) -> None:
        write_table(self.path("table.csv"))
        task = simulated_searches.Task(PROGRAM, "table:" + self.path("table.csv"),
                                       self.path("reference.json"))
        search = TwoPoints()
        regrets = simulated_searches.simulate(task, search, seed=0, workers=1, budget=2)
        task.close()
        # The second trial trains in the epochs 2 to 51 of the worker, so 49 are done at time 1.
        best, median = accuracy(0, EPOCHS), accuracy(1, EPOCHS)
        self.assertEqual(len(regrets), 4)  # at 1/4, 1/2, 1 and 2
        self.assertAlmostEqual(regrets[0], (best - accuracy(0, 11)) / (best - median))
        self.assertAlmostEqual(regrets[2], (best - accuracy(0, 49)) / (best - median))
        self.assertAlmostEqual(regrets[3], 0)
        self.assertEqual(search.created, 3)


class RefusalTest(SearchBenchTest):
    def refused(self, part: str, *words: str, text: str = "") -> None:
        done = run(*words, text=text)
        self.assertEqual(done.returncode, 2, done.stderr)
        self.assertIn(part, done.stderr)

    def test_searchers(self) -> None:
        for part, searcher in (
                ("'random' is not a flow map", "random"),
                ("did you mean 'random'", "{name: randon}"),
                ("did you mean 'divisor'", "{name: async_halving, diviser: 3}")):
            self.refused(part, "simulate-search", "mixed", searcher)

    def test_options(self) -> None:
        for words in (("--seeds", "0"), ("--seeds", "2x"), ("--workers", "1.5"),
                      ("--budget", "-1"), ("--budget",), ("--sead", "1")):
            self.refused("usage: ", "simulate-search", "mixed", "{name: random}", *words)
        self.refused("usage: ", "simulate-search", "mixed")

    def test_tasks(self) -> None:
        with open(self.path("bad.csv"), "w") as file:
            file.write("id\n1,2\n")
        Network().write(self.path("net.safetensors"))
        for part, task in (
                ("unknown task 'mixd'; available: mixed, mixed_conditional, noisy", "mixd"),
                ("none.csv: cannot be read: No such file", "table:" + self.path("none.csv")),
                ("bad.csv:2: expected 59 numbers", "table:" + self.path("bad.csv")),
                ("has no task '9'; available: 7, 8", f"lcbench:{self.path('net.safetensors')}:9"),
                ("bad.csv", f"lcbench:{self.path('bad.csv')}:9")):
            self.assertIn(run("simulate-search", task, "{name: random}").returncode, (1, 2))
            self.assertIn(part, run("simulate-search", task, "{name: random}").stderr)

    def test_hyperparameters(self) -> None:
        self.refused("invalid hyperparameters", "serve-task", "mixed", text='{"lr": 1}\n')
        self.refused("invalid hyperparameters", "serve-task", "mixed", text="lr\n")

    def test_a_file_that_is_no_normalization(self) -> None:
        with open(self.path("mixed.json"), "w") as file:
            file.write("{}")
        self.refused("is not a normalization; remove it", "simulate-search", "mixed",
                     "{name: random}", "--reference", self.path("mixed.json"))


class ScaleTest(unittest.TestCase):
    def test_a_search_on_simulated_workers_ends(self) -> None:
        with tempfile.TemporaryDirectory() as directory:
            done = run("scale", os.path.join(directory, "store"), "--slots", "10", "--trials", "40",
                       "--seconds", "1", "--cpu-time")
        self.assertEqual(done.returncode, 0, done.stderr)
        result = json.loads(done.stdout)
        self.assertEqual(result["trials"], 40)
        self.assertGreater(result["reports"], 40)  # each trial reports, some at several rungs
        self.assertGreater(result["messages"], 3 * 40)
        # All starts but the first ten follow a free slot; those after the last trial do not count.
        waits = result["start_after_free_slot_ms"]
        self.assertGreaterEqual(waits["count"], 25)
        self.assertTrue(0 < waits["p50"] <= waits["p99"] <= waits["max"], waits)
        self.assertGreater(result["peak_mb"], 5)

    def test_options_are_checked(self) -> None:
        for words in (("scale",), ("scale", "d", "--slots"), ("scale", "d", "--slots", "0"),
                      ("scale", "d", "--slots", "many"), ("scale", "d", "--slow", "1")):
            with self.subTest(words):
                done = run(*words)
                self.assertEqual(done.returncode, 2)
                self.assertIn("usage:", done.stderr)


if __name__ == "__main__":
    unittest.main()
