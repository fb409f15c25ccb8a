#!/usr/bin/env python3
"""Tests configs/command/ddp_train.py: PyTorch's DistributedDataParallel with two processes
under torchrun.

    tests/python/frameworks/run torchrun"""

import json

import framework
import module_test

EXAMPLE = (module_test.EXAMPLES / "command" / "ddp_train.py").read_text(encoding="utf-8")
TORCHRUN = "torchrun --standalone --nproc-per-node 2 train.py"
HOLDING = EXAMPLE.replace("    sampler.set_epoch(epoch)\n",
                          "    sampler.set_epoch(epoch)\n    __import__('hold').hold(epoch)\n")


class TorchrunTest(framework.FrameworkTest):
    def test_the_example_learns(self):
        result = json.loads(self.run_dtrain(
            "create", str(module_test.EXAMPLES / "command_ddp.yaml"), "--json"))
        self.assertGreater(result["best"]["value"], 0.9)

    def test_a_paused_trial_continues_as_if_it_ran_through(self):
        self.assertNotEqual(HOLDING, EXAMPLE)
        self.check_pauses(HOLDING, {"epochs": 6}, (0, 3), hparams={"lr": 0.01},
                          entrypoint=TORCHRUN)

    def test_promoted_trials_continue(self):
        self.check_promotion(EXAMPLE, {"epochs": 4},
                             {"lr": {"type": "log", "minval": -3, "maxval": -1}},
                             entrypoint=TORCHRUN)

    def test_only_rank_0_reports(self):
        script = EXAMPLE.replace("    trial.validate(accuracy=right.item() / 400)\n",
                                 "    trial.validate(accuracy=1 - trial.rank)\n")
        self.assertNotEqual(script, EXAMPLE)
        self.create(script, {"name": "single", "max_length": {"epochs": 2}},
                    hparams={"lr": 0.01}, entrypoint=TORCHRUN)
        values = [value for report, value in self.reports("1").items()
                  if report[0] == "validation"]
        self.assertEqual(values, [1, 1])


if __name__ == "__main__":
    framework.main()
