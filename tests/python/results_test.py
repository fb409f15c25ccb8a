#!/usr/bin/env python3
"""Tests of reading results in Python (engine/python/dtrain/_results.py).

    tests/python/results_test.py DTRAIN

What stores cannot easily be made to hold is answered by a program in dtrain's place."""

import contextlib
import io
import json
import os
import pathlib
import pickle
import subprocess
import sys
import tempfile
import types
import unittest
from unittest import mock

MODULE = pathlib.Path(__file__).resolve().parents[2] / "engine" / "python"
sys.dont_write_bytecode = True
sys.path.insert(0, str(MODULE))

import dtrain
from dtrain import _results as results

DTRAIN = ""
# Saves the files of FILES and validates after each of two batches; first as NaN.
PROGRAM = """#!/bin/sh
for batches in 1 2; do
  mkdir -p "$DTRAIN_DIRECTORY/$batches/sub"
  for file in $FILES; do
    echo "{\\"w\\": $batches}" > "$DTRAIN_DIRECTORY/$batches/$file"
  done
  value=$(( DTRAIN_HPARAM_width * batches ))
  [ "$batches" = 2 ] || value='"NaN"'
  cat >&3 <<END
{"type":"training","batches":$batches,"metrics":{"step":0.5}}
{"type":"checkpoint","batches":$batches,"path":"$DTRAIN_DIRECTORY/$batches"}
{"type":"validation","batches":$batches,"metrics":{"loss":$value}}
END
done
echo weights > net.pt
echo done > log.txt
"""
CONFIG = """
name: NAME
entrypoint: ["sh", "train.sh"]
hyperparameters:
  width: {type: categorical, vals: [3, 5]}
searcher: {name: grid, metric: loss, max_length: 2}
min_validation_period: 1
max_restarts: 0
resources: {slots: cpu}
"""


def torch_module():
    """Returns a PyTorch that reads JSON, as far as load_state_dict() needs it."""

    def load(file, map_location, weights_only):
        text = pathlib.Path(file).read_text()
        if text.startswith("code"):
            raise pickle.UnpicklingError("Unsupported global")
        return json.loads(text), map_location, weights_only

    return types.SimpleNamespace(load=load)


class Frame:
    """A pandas.DataFrame, as far as to_pandas() needs it."""

    def __init__(self, rows, columns):
        self.columns = {name: [row.get(name) for row in rows] for name in columns}

    def __contains__(self, name):
        return name in self.columns

    def __getitem__(self, name):
        return self.columns[name]

    def __setitem__(self, name, values):
        self.columns[name] = values


def to_datetime(values, utc):
    assert utc
    return [("time", value) for value in values]


PANDAS = types.SimpleNamespace(DataFrame=Frame, to_datetime=to_datetime)


class WithoutStoreTest(unittest.TestCase):
    """dtrain is a program that prints `answer` and records its arguments."""

    def setUp(self):
        directory = tempfile.TemporaryDirectory(prefix="dtrain-results-")
        self.addCleanup(directory.cleanup)
        self.directory = pathlib.Path(directory.name)
        self.program = self.directory / "dtrain"
        self.program.write_text(
            "#!/bin/sh\nprintf '%s\\n' \"$@\" > \"$0.arguments\"\ncat \"$0.stderr\" >&2\n"
            "cat \"$0.stdout\"\nexit $(cat \"$0.code\")\n")
        self.program.chmod(0o755)
        self.answer({"trials": []})
        environment = mock.patch.dict(os.environ, {"DTRAIN_PROGRAM": str(self.program)})
        environment.start()
        self.addCleanup(environment.stop)

    def answer(self, document, stderr="", code=0):
        text = document if isinstance(document, str) else json.dumps(document)
        for end, content in (("stdout", text), ("stderr", stderr), ("code", str(code))):
            (self.directory / f"dtrain.{end}").write_text(content)

    def arguments(self):
        return (self.directory / "dtrain.arguments").read_text().splitlines()

    def best_row(self, **changed):
        return {"experiment": 3, "metric": "loss", "best": [{
            "trial": "3.7", "metric": "loss", "value": "-Infinity", "batches": 20,
            "length": 20, "unit": "batches",
            "hparams": {}, "state": "RUNNING", "path": None, "checkpoint": None,
            "best_saved": None, **changed}]}

    def test_passes_choices_and_the_store_as_options(self):
        self.answer({"metrics": []})
        results.experiment("-x", store=self.directory).metrics(kind="training", name="a b")
        self.assertEqual(self.arguments(),
                         [f"--store={self.directory}", "metrics", "--json", "--kind=training",
                          "--name=a b", "--", "-x"])

    def test_rejects_what_cannot_name_an_experiment(self):
        for name in (None, 3.7, True, "", [], [3.7], [3, ""], [[3]], {3: 5}):
            with self.assertRaisesRegex(TypeError, "ID, such as 3, or by its name, several .*; got"):
                results.experiment(name)

    def test_several_experiments_are_read_together(self):
        for names, words in (([3, 5], ["3", "5"]), (("a", 5), ["a", "5"]), ([3], ["3"])):
            self.answer({"trials": []})
            results.experiment(names).trials()
            self.assertEqual(self.arguments(), ["trials", "--json", "--", *words])
            self.answer({"metrics": []})
            results.experiment(names).metrics(name="loss")
            self.assertEqual(self.arguments(),
                             ["metrics", "--json", "--name=loss", "--", *words])
            row = self.best_row()
            self.answer({"experiments": [3, 5], "metric": "loss", "best": row["best"]})
            self.assertEqual(results.best(names).trial, "3.7")
            self.assertEqual(self.arguments(), ["best", "--json", "--", *words])
        self.answer({"experiments": [3, 5], "metric": "loss", "best": []})
        with self.assertRaisesRegex(LookupError, "^experiments 3, 5 have no finite .* 'loss'$"):
            results.best([3, 5])

    def test_strings_for_numbers_become_numbers_only_in_fields_of_numbers(self):
        self.answer({"trials": [{"hparams": {"kind": "NaN"}, "reason": "Infinity",
                                 "duration": "Infinity", "latest": None,
                                 "best": {"metric": "NaN", "value": "-Infinity"}}]})
        self.assertEqual(results.experiment(3).trials(),
                         [{"hparams": {"kind": "NaN"}, "reason": "Infinity",
                           "duration": float("inf"), "latest": None,
                           "best": {"metric": "NaN", "value": -float("inf")}}])

    def test_an_error_has_the_text_of_dtrain(self):
        self.answer("", "dtrain: error: the store is damaged\n", code=5)
        with self.assertRaisesRegex(RuntimeError, "^the store is damaged$"):
            results.experiment(3).trials()

    def test_an_error_without_a_text_names_the_command(self):
        self.answer("", code=139)
        with self.assertRaisesRegex(RuntimeError, "trials --json -- 3: ended with code 139"):
            results.experiment(3).trials()

    def test_output_that_is_no_json_is_an_error(self):
        self.answer("usage: dtrain")
        with self.assertRaisesRegex(RuntimeError, "printed no JSON .*; is it dtrain"):
            results.experiment(3).trials()

    def test_notices_of_dtrain_are_shown(self):
        self.answer({"trials": []}, "dtrain: note\n")
        with contextlib.redirect_stderr(io.StringIO()) as shown:
            self.assertEqual(results.experiment(3).trials(), [])
        self.assertEqual(shown.getvalue(), "dtrain: note\n")

    def test_a_program_variable_that_names_no_executable_is_an_error(self):
        self.program.chmod(0o644)
        with self.assertRaisesRegex(FileNotFoundError, "DTRAIN_PROGRAM names '.*/dtrain', which"):
            results.experiment(3).trials()

    def test_the_installation_comes_before_the_path(self):
        module = self.directory / "lib" / "dtrain" / "python" / "dtrain" / "_results.py"
        installed = self.directory / "bin" / "dtrain"
        installed.parent.mkdir()
        with mock.patch.object(results, "__file__", str(module)), \
                mock.patch.dict(os.environ, {"PATH": str(self.directory)}):
            del os.environ["DTRAIN_PROGRAM"]
            self.assertEqual(results._program(), str(self.program))
            installed.write_text("#!/bin/sh\n")
            installed.chmod(0o755)
            self.assertEqual(results._program(), str(installed))
            os.environ["PATH"] = ""
            installed.unlink()
            with self.assertRaisesRegex(FileNotFoundError, "not on PATH; .* or set DTRAIN_PROGRAM"):
                results._program()

    def test_an_experiment_without_validations_has_no_best_trial(self):
        self.answer({"experiment": 3, "metric": "loss", "best": []})
        with self.assertRaisesRegex(LookupError, "experiment 3 has no finite validation value of "
                                                 "'loss'"):
            results.best("name")

    def test_a_best_validation_without_checkpoint_names_the_best_one_with_it(self):
        self.answer(self.best_row())
        with self.assertRaisesRegex(LookupError, r"3\.7 \(loss -inf\) has no "
                                                 "checkpoint$"):
            results.best(3).checkpoint
        saved = {"checkpoint": "u", "batches": 10, "value": 0.5, "path": "/nowhere/u"}
        self.answer(self.best_row(best_saved=saved))
        with self.assertRaisesRegex(LookupError, "checkpoint has 0.5: /nowhere/u$"):
            results.best(3).load_state_dict()

    def test_a_checkpoint_that_is_not_there_is_an_error(self):
        self.answer(self.best_row(checkpoint="u", path=str(self.directory / "gone")))
        with self.assertRaisesRegex(LookupError, "is not at .*/gone; it was deleted, or its"):
            results.best(3).checkpoint

    def test_weights_of_a_model_are_exported(self):
        self.answer(self.best_row(checkpoint="u-1", path=str(self.directory)))
        best = results.best(3, store="s")
        with mock.patch.dict(sys.modules, torch=torch_module()), \
                self.assertRaises(FileNotFoundError):  # this program writes no file
            best.load_state_dict(model="net")
        arguments = self.arguments()
        self.assertRegex(arguments.pop(5), "^--out=.*/weights.pth$")
        self.assertEqual(arguments, ["--store=s", "checkpoint", "export", "--json",
                                     "--to=state_dict", "--model=net", "u-1"])
        with self.assertRaisesRegex(ValueError, "file='a.pt': trial 3.7 is not a program"):
            best.load_state_dict(file="a.pt")


class PackageTest(unittest.TestCase):
    def test_has_the_functions_that_read_results(self):
        self.assertIs(dtrain.experiment, results.experiment)
        self.assertIs(dtrain.best, results.best)
        for name in dtrain.__all__:
            self.assertTrue(hasattr(dtrain, name), name)


class TableTest(unittest.TestCase):
    def test_nested_fields_are_columns_and_times_are_timestamps(self):
        rows = results.Rows([{"end": 1, "time": "t", "best": None, "hparams": {"a": {"b": 2}}},
                             {"end": 3, "time": None, "best": {"value": 4}, "hparams": {"c": [5]}}],
                            ("hparams", "time"))
        with mock.patch.dict(sys.modules, pandas=PANDAS):
            table = rows.to_pandas()
        self.assertEqual(list(table.columns.items()), [
            ("hparams.a.b", [2, None]), ("hparams.c", [None, [5]]),
            ("time", [("time", "t"), ("time", None)]), ("end", [1, 3]), ("best.value", [None, 4])])

    def test_an_empty_table_has_columns(self):
        with mock.patch.dict(sys.modules, pandas=PANDAS):
            self.assertEqual(results.Rows([], ("trial", "time")).to_pandas().columns,
                             {"trial": [], "time": []})

    def test_without_pandas_the_error_names_the_package(self):
        with mock.patch.dict(sys.modules, pandas=None), \
                self.assertRaisesRegex(ModuleNotFoundError, "needs the package 'pandas', which"):
            results.Rows([], ()).to_pandas()


class StoreTest(unittest.TestCase):
    """Results of an experiment that the program under test has run."""

    @classmethod
    def setUpClass(cls):
        directory = tempfile.TemporaryDirectory(prefix="dtrain-results-")
        cls.addClassCleanup(directory.cleanup)
        cls.directory = pathlib.Path(directory.name)
        environment = mock.patch.dict(os.environ, {
            "DTRAIN_PROGRAM": DTRAIN, "DTRAIN_STORE": str(cls.directory / "store"),
            "DTRAIN_RUNTIME_DIR": str(cls.directory / "run")})
        environment.start()
        cls.addClassCleanup(environment.stop)
        cls.create("widths", "net.pt log.txt")

    @classmethod
    def create(cls, name, files):
        """Runs an experiment of this name, whose checkpoints have these files."""
        context = cls.directory / "context"
        context.mkdir(exist_ok=True)
        (context / "train.sh").write_text(PROGRAM)
        (context / "const.yaml").write_text(CONFIG.replace("NAME", name))
        subprocess.run([DTRAIN, "--quiet", "create", "const.yaml"], cwd=context, check=True, timeout=120,
                       stdout=subprocess.DEVNULL, env={**os.environ, "FILES": files})

    def test_trials_have_what_json_has(self):
        trials = results.experiment(1).trials()
        self.assertEqual([(row["trial"], row["state"]) for row in trials],
                         [("1.1", "COMPLETED"), ("1.2", "COMPLETED")])
        self.assertEqual(sorted((row["hparams"]["width"], row["best"]["value"]) for row in trials),
                         [(3, 6), (5, 10)])

    def test_metrics_are_all_or_chosen(self):
        rows = results.experiment("widths").metrics()
        self.assertEqual(len(rows), 8)
        chosen = results.experiment(1).metrics(kind="validation", name="loss")
        self.assertEqual([(row["trial"], row["batches"]) for row in chosen],
                         [("1.1", 1), ("1.1", 2), ("1.2", 1), ("1.2", 2)])
        self.assertEqual(sorted(str(row["value"]) for row in chosen), ["10.0", "6.0", "nan", "nan"])
        with self.assertRaisesRegex(LookupError, "has no metric 'none'; it has loss"):
            results.experiment(1).metrics(name="none")

    def test_an_unknown_experiment_or_kind_is_an_error(self):
        with self.assertRaisesRegex(LookupError, "^no experiment 99 in "):
            results.experiment(99).metrics()
        with self.assertRaisesRegex(RuntimeError, "--kind: expected training or validation"):
            results.experiment(1).metrics(kind="test")

    def test_the_best_trial_has_the_files_of_its_program(self):
        best = results.best(1)
        self.assertEqual((best.metric, best.value, best.batches, best.hparams, best.state),
                         ("loss", 6, 2, {"width": 3}, "COMPLETED"))
        self.assertEqual((best.length, best.unit), (2, "batches"))
        self.assertEqual(sorted(os.listdir(best.checkpoint)), ["log.txt", "net.pt"])

    def test_trials_have_the_files_that_their_programs_wrote(self):
        best = results.best(1)
        [row] = [row for row in results.experiment(1).trials() if row["trial"] == best.trial]
        for trial in (best, row):
            files = trial.files()
            self.assertEqual([file["file"] for file in files], ["log.txt", "net.pt"])
            with trial.open("net.pt") as file:
                self.assertEqual(len(file.read()), files[1]["bytes"])
            self.assertIsInstance(trial.open("log.txt", "r").read(), str)
            with self.assertRaisesRegex(LookupError, "wrote no file 'nett.pt'; did you mean 'net.pt'"):
                trial.open("nett.pt")
            with self.assertRaisesRegex(LookupError, "'.' of trial .* is a directory; .* net.pt"):
                trial.open(".")
            with self.assertRaisesRegex(ValueError, "mode='w': files of a trial are only read"):
                trial.open("net.pt", "w")

    def test_weights_are_the_one_file_that_has_them(self):
        with mock.patch.dict(sys.modules, torch=torch_module()):
            self.assertEqual(results.best(1).load_state_dict(), ({"w": 2}, "cpu", True))
            with self.assertRaisesRegex(ValueError, "model='net': trial 1\\.. is a program"):
                results.best(1).load_state_dict(model="net")
            with self.assertRaisesRegex(LookupError, "no file 'x.pt' .* it has: log.txt, net.pt"):
                results.best(1).load_state_dict(file="x.pt")
        with mock.patch.dict(sys.modules, torch=None), \
                self.assertRaisesRegex(ModuleNotFoundError, "needs PyTorch, which .* install"):
            results.best(1).load_state_dict()

    def test_several_files_with_weights_need_a_choice(self):
        self.create("several", "b.pth sub/a.safetensors log.txt")
        best = results.best("several")
        with mock.patch.dict(sys.modules, torch=torch_module()):
            with self.assertRaisesRegex(ValueError, "b.pth, sub/a.safetensors; name one by file="):
                best.load_state_dict()
            self.assertEqual(best.load_state_dict(file="b.pth")[0], {"w": 2})
            with mock.patch.dict(sys.modules, {"safetensors": None, "safetensors.torch": None}), \
                    self.assertRaisesRegex(ModuleNotFoundError, "needs the package 'safetensors'"):
                best.load_state_dict(file="sub/a.safetensors")

    def test_no_file_with_weights_names_the_files(self):
        self.create("none", "log.txt")
        best = results.best("none")
        with self.assertRaisesRegex(LookupError, r"no file \*.pt, .* it has: log.txt$"):
            best.load_state_dict()

    def test_a_damaged_checkpoint_is_not_loaded(self):
        self.create("damaged", "net.pt")
        best = results.best("damaged")
        (best.checkpoint / "net.pt").write_text('{"w": 3}\n')
        with mock.patch.dict(sys.modules, torch=torch_module()), \
                self.assertRaisesRegex(RuntimeError, "'files/net.pt' .*the checkpoint is damaged"):
            best.load_state_dict()

    def test_objects_other_than_tensors_are_refused(self):
        file = self.directory / "code.pt"
        file.write_text("code")
        with mock.patch.dict(sys.modules, torch=torch_module()), \
                self.assertRaisesRegex(ValueError, "code.pt holds objects that are"):
            results._load(file)


if __name__ == "__main__":
    if len(sys.argv) < 2:
        sys.exit(__doc__)
    DTRAIN = os.path.abspath(sys.argv[1])
    unittest.main(argv=[sys.argv[0], *sys.argv[2:]])
