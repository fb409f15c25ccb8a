#!/usr/bin/env python3
"""Runs tests/python/script_test.py with the real PyTorch.

    tests/python/frameworks/run script"""

import importlib.util
import pathlib

import framework

_PATH = pathlib.Path(__file__).resolve().parents[1] / "script_test.py"
_SPEC = importlib.util.spec_from_file_location("plain_script", _PATH)
plain_script = importlib.util.module_from_spec(_SPEC)
_SPEC.loader.exec_module(plain_script)


class ScriptTest(plain_script.ScriptTests, framework.FrameworkTest):
    def test_the_plain_script_runs_by_itself(self):
        self.create(plain_script.PLAIN, {"name": "single", "max_length": {"epochs": 1}}, code=1)
        self.assertIn("epoch 20: accuracy", self.run_dtrain("logs", "1"))


if __name__ == "__main__":
    framework.main()
