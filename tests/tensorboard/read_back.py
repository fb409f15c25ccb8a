#!/usr/bin/env python3
"""Reads what `dtrain tensorboard` writes with the real package, and compares it with --json.

    read_back.py DTRAIN

Needs TensorBoard, which scripts/setup --tests puts into the cache; exits with 77 without it."""

import json
import math
import os
import pathlib
import sqlite3
import struct
import subprocess
import sys
import tempfile
import time
import unittest

CACHE = pathlib.Path(os.environ.get("XDG_CACHE_HOME") or pathlib.Path.home() / ".cache")
sys.path.append(str(CACHE / "dtrain" / "test-python"))
try:
    from tensorboard import context
    from tensorboard.backend.event_processing import data_provider, plugin_event_multiplexer
    from tensorboard.plugins import base_plugin
    from tensorboard.plugins.hparams import api_pb2, backend_context, list_session_groups
except ImportError:
    sys.exit(77)

DTRAIN = ""
# Reports and then waits for the file `go`, if there is a variable WAIT.
PROGRAM = """#!/bin/sh
cat >&3 <<'END'
{"type":"training","batches":1,"metrics":{"loss":0.1,"odd \\u0000 name":"NaN"}}
{"type":"training","batches":2,"metrics":{"loss":"Infinity","odd \\u0000 name":1e-300}}
{"type":"validation","batches":2,"metrics":{"loss":0.30000000000000004,"</script>":-2.5}}
END
[ -z "${WAIT:-}" ] || until [ -e "$WAIT" ]; do sleep 0.05; done
cat >&3 <<'END'
{"type":"training","batches":3,"metrics":{"loss":3e38,"odd \\u0000 name":0}}
{"type":"validation","batches":4,"metrics":{"loss":0.2,"</script>":"-Infinity"}}
END
"""
CONFIG = """
name: "board \\u202e"
entrypoint: ["sh", "train.sh"]
hyperparameters:
  rate: {type: log, base: 10, minval: -5, maxval: -1}
  layers: {type: int, minval: 1, maxval: 4}
  kind: {type: categorical, vals: [plain, "</td>"]}
  flag: {type: categorical, vals: [true, false]}
  mixed: {type: categorical, vals: [1, one]}
  nested: {width: 7}
searcher: {name: random, metric: loss, max_length: 4, max_trials: 5}
min_validation_period: 2
max_restarts: 0
profiling: {system: false}
resources: {slots: cpu}
"""


def as_float32(value):
    """Returns the bits that a double has in single precision."""
    number = float(value)
    try:
        return struct.pack("<f", number)
    except OverflowError:
        return struct.pack("<f", math.copysign(math.inf, number))


class Board:
    """The event files of a directory, as TensorBoard reads them."""

    def __init__(self, directory):
        self.multiplexer = plugin_event_multiplexer.EventMultiplexer(
            tensor_size_guidance={"scalars": 0})
        self.multiplexer.AddRunsFromDirectory(str(directory))
        self.multiplexer.Reload()
        self.provider = data_provider.MultiplexerDataProvider(self.multiplexer, str(directory))

    def runs(self):
        return set(self.multiplexer.Runs()) - {"."}

    def scalars(self, run):
        """Returns {tag: [(step, microseconds, bits of the value)]}."""
        accumulator = self.multiplexer.GetAccumulator(run)
        return {tag: [(event.step, round(event.wall_time * 1e6),
                       struct.pack("<f", float(event.tensor_proto.float_val[0])))
                      for event in accumulator.Tensors(tag)]
                for tag in accumulator.Tags()["tensors"] if not tag.startswith("_hparams_")}

    def table(self):
        """Returns the columns and the rows of the tab HPARAMS."""
        request = context.RequestContext()
        backend = backend_context.Context(base_plugin.TBContext(data_provider=self.provider))
        experiment = backend.experiment_from_metadata(
            request, "", True, backend.hparams_metadata(request, ""),
            backend.hparams_from_data_provider(request, "", 100))
        ask = api_pb2.ListSessionGroupsRequest(
            start_index=0, slice_size=100, allowed_statuses=[0, 1, 2, 3],
            aggregation_type=api_pb2.AGGREGATION_AVG)
        for info in experiment.hparam_infos:
            ask.col_params.add().hparam = info.name
        for info in experiment.metric_infos:
            column = ask.col_params.add()
            column.metric.tag = info.name.tag
        rows = list_session_groups.Handler(request, backend, "", ask).run().session_groups
        return experiment, {row.name: row for row in rows}


class TensorboardTest(unittest.TestCase):
    def setUp(self):
        self.maxDiff = None
        directory = tempfile.TemporaryDirectory()
        self.addCleanup(directory.cleanup)
        self.place = pathlib.Path(directory.name)
        (self.place / "train.sh").write_text(PROGRAM)
        (self.place / "board.yaml").write_text(CONFIG)
        self.out = self.place / "out"
        self.environment = {**os.environ, "DTRAIN_STORE": str(self.place / "store"),
                            "DTRAIN_RUNTIME_DIR": str(self.place / "slots")}

    def run_dtrain(self, *words, code=0, **variables):
        done = subprocess.run(
            [DTRAIN, *words], cwd=self.place, capture_output=True, text=True,
            env={**self.environment, **variables})
        self.assertEqual(done.returncode, code, done.stderr)
        return done

    def export(self, *words, code=0):
        return self.run_dtrain("tensorboard", *words, "--out", str(self.out), code=code).stderr

    def expected(self, trial):
        """Returns the scalars of a trial by `dtrain metrics`."""
        rows = json.loads(self.run_dtrain("metrics", trial, "--json").stdout)["metrics"]
        scalars = {}
        for row in rows:
            seconds = self.times[(trial, row["kind"], row["batches"], row["name"])]
            scalars.setdefault(f"{row['kind']}/{row['name']}", []).append(
                (row["batches"], seconds, as_float32(row["value"])))
        return scalars

    def read_times(self):
        """Microseconds of all values, from the store itself."""
        base = sqlite3.connect(f"file:{self.place}/store/dtrain.db?mode=ro", uri=True)
        self.times = {
            (f"{experiment}.{number}", "validation" if kind else "training", batches, name): time
            for experiment, number, kind, batches, name, time in base.execute(
                "SELECT t.experiment, t.number, m.kind, m.batches, n.name, m.time FROM metrics m "
                "JOIN trials t ON t.id = m.trial JOIN metric_names n ON n.id = m.name")}
        base.close()

    def assert_equal_to_store(self, trials):
        self.read_times()
        board = Board(self.out)
        self.assertEqual(board.runs(), set(trials))
        for trial in trials:
            self.assertEqual(board.scalars(trial), self.expected(trial), trial)
        return board

    def test_all_values_come_back_to_the_bit(self):
        self.run_dtrain("create", "board.yaml")
        self.assertIn("wrote 50 values of 5 trials", self.export("1"))
        board = self.assert_equal_to_store([f"1.{number}" for number in range(1, 6)])

        experiment, rows = board.table()
        types = {info.name: info.type for info in experiment.hparam_infos}
        self.assertEqual(types, {"rate": 3, "layers": 3, "kind": 1, "flag": 2, "mixed": 0})
        domains = {info.name: info for info in experiment.hparam_infos}
        self.assertAlmostEqual(domains["rate"].domain_interval.min_value, 1e-5)
        self.assertEqual([value.string_value for value in domains["kind"].domain_discrete.values],
                         ["plain", "</td>"])
        self.assertEqual([info.name.tag for info in experiment.metric_infos],
                         ["validation/</script>", "validation/loss"])
        trials = json.loads(self.run_dtrain("trials", "1", "--json").stdout)["trials"]
        self.assertEqual(len(rows), 5)
        for trial in trials:
            row = rows[trial["id"]]
            self.assertEqual(row.hparams["rate"].number_value, trial["hparams"]["rate"])
            self.assertEqual(row.hparams["flag"].bool_value, trial["hparams"]["flag"])
            self.assertEqual(row.sessions[0].status, api_pb2.STATUS_SUCCESS)
            values = {value.name.tag: value.value for value in row.metric_values}
            self.assertAlmostEqual(values["validation/loss"], 0.2, places=6)

    def test_repeated_export_adds_nothing(self):
        self.run_dtrain("create", "board.yaml")
        self.export("1")
        before = {path: path.read_bytes() for path in self.out.rglob("events*")}
        self.assertIn("wrote 0 values of 0 trials", self.export("1"))
        self.assertEqual({path: path.read_bytes() for path in self.out.rglob("events*")}, before)

    def test_follow_adds_values_until_the_end(self):
        go = self.place / "go"
        self.run_dtrain("create", "board.yaml", "-d", "--set", "searcher.max_trials=1",
                        "--set", f"environment.environment_variables.WAIT={go}")
        follower = subprocess.Popen(
            [DTRAIN, "tensorboard", "1", "--follow", "--out", str(self.out)], cwd=self.place,
            env=self.environment,
            stderr=subprocess.PIPE, text=True)
        first = follower.stderr.readline()
        self.assertIn("values of 1 trial to", first)
        self.assertIn("another export is writing to", self.export("1", code=5))
        go.touch()
        self.assertEqual(follower.wait(60), 0, follower.stderr.read())
        follower.stderr.close()
        self.assert_equal_to_store(["1.1"])

    def test_cut_and_lengthened_files_are_mended(self):
        self.run_dtrain("create", "board.yaml")
        self.export("1")
        files = sorted(self.out.glob("1.*/events*"))
        files[0].write_bytes(files[0].read_bytes()[:-9])
        state = json.loads((self.out / "dtrain-export.json").read_text())
        state["trials"]["1.2"]["ended"] = False
        (self.out / "dtrain-export.json").write_text(json.dumps(state))
        files[1].write_bytes(files[1].read_bytes() + b"half a record")
        state["trials"]["1.1"]["ended"] = False
        (self.out / "dtrain-export.json").write_text(json.dumps(state))
        self.export("1")
        self.assert_equal_to_store([f"1.{number}" for number in range(1, 6)])

    def test_filter_and_several_experiments(self):
        self.run_dtrain("create", "board.yaml", "--set", "searcher.max_trials=2")
        self.run_dtrain("create", "board.yaml", "--set", "searcher.max_trials=1",
                        "--set", "hyperparameters.layers={type: int, minval: 3, maxval: 9}")
        self.export("1", "2")
        board = self.assert_equal_to_store(["1.1", "1.2", "2.1"])
        layers = [info for info in board.table()[0].hparam_infos if info.name == "layers"]
        self.assertEqual((layers[0].domain_interval.min_value,
                          layers[0].domain_interval.max_value), (1, 9))
        self.out = self.place / "filtered"
        self.export("1", "--filter", "number == 2")
        self.assert_equal_to_store(["1.2"])

    def test_other_directories_are_refused(self):
        self.run_dtrain("create", "board.yaml", "--set", "searcher.max_trials=1")
        self.out.mkdir()
        (self.out / "mine.txt").write_text("mine")
        self.assertIn("has files that no export wrote", self.export("1", code=2))
        self.assertEqual([path.name for path in self.out.iterdir() if path.suffix == ".txt"],
                         ["mine.txt"])
        self.out = self.place / "of another store"
        self.export("1")
        record = self.out / "dtrain-export.json"
        state = json.loads(record.read_text())
        state["experiments"]["1"]["created"] -= 1
        record.write_text(json.dumps(state))
        self.assertIn("has an experiment 1 of another store", self.export("1", code=2))
        record.write_text("{}")
        self.assertIn("is not a record of this version's exports", self.export("1", code=2))
        self.out = self.place / "train.sh"
        self.assertIn("train.sh", self.export("1", code=5))

    def test_resumed_trial_is_written_again(self):
        go = self.place / "go"
        self.run_dtrain("create", "board.yaml", "-d", "--set", "searcher.max_trials=1",
                        "--set", f"environment.environment_variables.WAIT={go}",
                        DTRAIN_STOP_GRACE="500ms")
        end = time.monotonic() + 300
        shown = ""
        while shown.count('"value"') < 6:
            self.assertLess(time.monotonic(), end, shown)
            time.sleep(0.05)
            shown = self.run_dtrain("metrics", "1", "--json").stdout
        self.assertIn("wrote 6 values of 1 trial to", self.export("1"))
        self.run_dtrain("pause", "1")
        self.run_dtrain("wait", "1", code=75)
        go.touch()
        self.run_dtrain("resume", "1")
        self.assertIn("wrote 10 values of 1 trial to", self.export("1"))
        self.assertEqual([path.name[-6:] for path in self.out.glob("1.1/*")], ["000002"])
        self.assert_equal_to_store(["1.1"])


if __name__ == "__main__":
    DTRAIN = os.path.abspath(sys.argv.pop(1))
    unittest.main()
