#!/usr/bin/env python3
"""Tests that an installation works after it was moved: it trains a built-in model, runs a program,
and compiles and trains a user model. Also tests which shared libraries the programs need.

    tests/install/install_test.py BUILD_DIR"""

import json
import os
import re
import subprocess
import sys
import tempfile
import unittest
from pathlib import Path

BUILD = Path(sys.argv.pop(1)).resolve()

PROGRAM = """\
name: program
entrypoint: ./report.sh
searcher: {name: single, metric: loss, max_length: {batches: 1}}
resources: {slots: cpu}
"""
SCRIPT = """\
import dtrain
dtrain.init().validate(loss=1.5)
"""
REPORT = """\
#!/bin/sh
echo '{"type": "validation", "batches": 1, "metrics": {"loss": 1.5}}' >&3
"""


# Archives that the build links if they are installed; see scripts/cmake/DtrainStatic.cmake.
ARCHIVES = {"libre2.a": "libre2.so", "libsqlite3.a": "libsqlite3.so",
            "libyaml-cpp.a": "libyaml-cpp.so", "libz.a": "libz.so"}
C_LIBRARY = re.compile(r"lib(m|c|dl|pthread)\.so|ld-linux")


def needed_libraries(program):
    """Returns the shared libraries that the dynamic linker loads for the program itself."""
    dynamic = subprocess.run(["readelf", "-d", program], check=True, text=True,
                             stdout=subprocess.PIPE).stdout
    return re.findall(r"\(NEEDED\).*\[(.*)\]", dynamic)


def cache_variables():
    """Returns the variables of the build's CMake cache."""
    text = (BUILD / "CMakeCache.txt").read_text()
    return dict(re.findall(r"^([^#/\s:]+):\w+=(.*)$", text, re.MULTILINE))


class Install(unittest.TestCase):
    @classmethod
    def setUpClass(cls):
        cls.scratch = tempfile.TemporaryDirectory(prefix="dtrain-install-")
        home = Path(cls.scratch.name)
        # Installs without building, so a missing file is an error.
        subprocess.run(["cmake", "--install", BUILD, "--prefix", home / "first"], check=True,
                       stdout=subprocess.DEVNULL)
        cls.prefix = home / "moved" / "elsewhere"
        cls.prefix.parent.mkdir()
        (home / "first").rename(cls.prefix)
        cls.work = home / "work"
        cls.work.mkdir()
        # Without variables that could lead to the build tree.
        cls.environment = {key: value for key, value in os.environ.items()
                           if not key.startswith("DTRAIN_") and key != "LD_LIBRARY_PATH"}
        cls.environment["XDG_CACHE_HOME"] = str(home / "cache")
        # Own slots, since others may train on this machine.
        cls.environment["DTRAIN_RUNTIME_DIR"] = str(home / "run")

    @classmethod
    def tearDownClass(cls):
        cls.scratch.cleanup()

    def dtrain(self, *arguments):
        done = subprocess.run([self.prefix / "bin" / "dtrain", *arguments], cwd=self.work,
                              env=self.environment, text=True, check=False, timeout=250,
                              stdout=subprocess.PIPE, stderr=subprocess.PIPE)
        self.assertEqual(done.returncode, 0, done.stdout + done.stderr)
        return done.stdout

    def assert_completes(self, config, *settings):
        ended = json.loads(self.dtrain("create", str(config), "--json", *settings))
        self.assertEqual(ended["state"], "COMPLETED")
        self.assertIsNotNone(ended["best"])

    def test_has_no_paths_of_the_build_tree(self):
        for file in ("bin/dtrain", "libexec/dtrain/trial-host", "libexec/dtrain/command-host",
                     "libexec/dtrain/data-fetch"):
            dynamic = subprocess.run(["readelf", "-d", self.prefix / file], check=True, text=True,
                                     stdout=subprocess.PIPE).stdout
            paths = [line for line in dynamic.splitlines() if "PATH" in line]
            self.assertNotIn(str(BUILD), "".join(paths), file)

    def test_short_commands_need_only_the_c_library(self):
        variables = cache_variables()
        missing = [name for name in ARCHIVES if not os.path.isfile(variables["DTRAIN_" + name])]
        if missing:
            self.skipTest(f"{', '.join(missing)} not installed")
        for file in ("bin/dtrain", "libexec/dtrain/command-host"):
            for library in needed_libraries(self.prefix / file):
                self.assertRegex(library, C_LIBRARY, file)

    def test_links_shared_libraries_if_archives_are_missing(self):
        other = Path(self.scratch.name) / "shared"
        variables = cache_variables()
        options = [f"-D{name}={value}" for name, value in variables.items() if re.fullmatch(
            r"CMAKE_(BUILD_TYPE|CXX_COMPILER|PREFIX_PATH|UNITY_BUILD\w*)|DTRAIN_[A-Z]+", name)]
        options += [f"-DDTRAIN_{archive}=OFF" for archive in ARCHIVES]
        subprocess.run(["cmake", "-G", "Ninja", "-S", variables["CMAKE_HOME_DIRECTORY"],
                        "-B", other, *options], check=True, stdout=subprocess.DEVNULL)
        commands = subprocess.run(["ninja", "-C", other, "-t", "commands", "bin/dtrain"],
                                  check=True, text=True, stdout=subprocess.PIPE).stdout
        # The objects are those of the build: archives matter only to the linker.
        program = Path(self.scratch.name) / "dtrain-shared"
        link = commands.splitlines()[-1].replace(" -o bin/dtrain ", f" -o {program} ")
        subprocess.run(["sh", "-c", link], cwd=BUILD, check=True)
        needed = " ".join(needed_libraries(program))
        for library in ARCHIVES.values():
            self.assertIn(library, needed)
        subprocess.run([program, "--version"], check=True, stdout=subprocess.DEVNULL)

    def test_trains_a_built_in_model(self):
        config = self.prefix / "share/dtrain/configs/digits.yaml"
        self.assertTrue(config.exists())
        self.assert_completes(config, "--set", "searcher.max_length={batches: 5}")

    def test_names_a_missing_libtorch_before_anything_is_recorded(self):
        places = self.prefix / "lib/dtrain/libtorch"
        places.write_text("lib/nowhere/torch\n")
        self.addCleanup(places.unlink)
        store = self.work / "refused"
        done = subprocess.run([self.prefix / "bin" / "dtrain", "--store", store, "create",
                               self.prefix / "share/dtrain/configs/digits.yaml"], cwd=self.work,
                              env=self.environment, text=True, check=False, timeout=300,
                              stdout=subprocess.PIPE, stderr=subprocess.PIPE)
        self.assertEqual(done.returncode, 6, done.stderr)
        self.assertIn("LibTorch is not installed", done.stderr)
        self.assertFalse(store.exists())

    def test_has_manual_pages_and_completions(self):
        page = (self.prefix / "share/man/man1/dtrain-checkpoint-show.1").read_text()
        self.assertIn(".TH DTRAIN-CHECKPOINT-SHOW 1", page)
        for file in ("bash-completion/completions/dtrain", "zsh/site-functions/_dtrain",
                     "fish/vendor_completions.d/dtrain.fish"):
            self.assertIn("dtrain __complete", (self.prefix / "share" / file).read_text())

    def test_runs_a_program(self):
        directory = self.work / "program"
        directory.mkdir()
        (directory / "const.yaml").write_text(PROGRAM)
        (directory / "report.sh").write_text(REPORT)
        (directory / "report.sh").chmod(0o755)
        self.assert_completes("program/const.yaml")

    def test_runs_a_script_that_imports_dtrain(self):
        directory = self.work / "script"
        directory.mkdir()
        (directory / "const.yaml").write_text(PROGRAM.replace("./report.sh", "python3 train.py"))
        (directory / "train.py").write_text(SCRIPT)
        self.assert_completes("script/const.yaml")

    def test_compiles_a_user_model(self):
        self.dtrain("init", "own")
        self.dtrain("create", "own/const.yaml", "--test")


if __name__ == "__main__":
    unittest.main(verbosity=2)
