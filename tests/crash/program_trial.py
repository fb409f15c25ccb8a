"""FaultTrial as a program that speaks docs/protocol.md, with the same metrics at the same batches.
For the crash test; runs in an experiment's copy of its context."""

import errno
import json
import os
import select
import subprocess
import sys
import time
from pathlib import Path
from typing import Any

TRIAL = json.loads(Path(os.environ["DTRAIN_TRIAL"]).read_text(encoding="utf-8"))
HPARAMS = TRIAL["hyperparameters"]
REPORTS = open(3, "w", encoding="utf-8", buffering=1)
OPERATIONS = open(4, "rb", buffering=0)


def report(**fields: Any) -> None:
    print(json.dumps(fields), file=REPORTS)


def loss_at(step: int) -> float:
    x = HPARAMS["x"]
    return (x - 0.3) * (x - 0.3) + 1 / (1 + step / 100)


def mean(numbers: list[float]) -> float:
    total = 0.0
    for number in numbers:  # not `sum`, which rounds differently since Python 3.12
        total += number
    return total / len(numbers)


def fault_at(step: int, name: str) -> bool:
    is_active = TRIAL["run"] == 0 or not HPARAMS.get("once", True)
    return is_active and HPARAMS.get(name, -1) == step


def pause(milliseconds: float) -> None:
    try:
        time.sleep(milliseconds / 1000)
    except OSError as error:
        # faketime now and then makes an invalid time of the end of a sleep.
        if error.errno != errno.EINVAL:
            raise


class Trainer:
    """Reports and saves at the same boundaries as dtrain's own trainer."""

    def __init__(self) -> None:
        self.batches = 0
        self.losses: list[float] = []  # since the last report
        self.best = float("inf")
        self.weight = float(TRIAL["seed"])
        self.saved_at = self.validated_at = -1
        if TRIAL["checkpoint"]:
            path = Path(TRIAL["checkpoint"]["path"], "state.json")
            state = json.loads(path.read_text(encoding="utf-8"))
            self.batches, self.losses, self.best, self.weight = state
            self.saved_at = self.batches

    def train(self, until: int) -> None:
        while True:
            is_end = self.batches >= until
            self._at_boundary(is_end)
            if is_end:
                return
            self._train_batch()

    def save(self) -> None:
        if self.saved_at == self.batches:
            return
        directory = Path(TRIAL["directory"], str(self.batches))
        directory.mkdir()
        state = [self.batches, self.losses, self.best, self.weight]
        (directory / "state.json").write_text(json.dumps(state), encoding="utf-8")
        (directory / "ballast").write_bytes(b"\x5a" * (HPARAMS.get("ckpt_mb", 0) << 20))
        report(type="checkpoint", batches=self.batches, path=str(directory))
        self.saved_at = self.batches

    def _at_boundary(self, is_end: bool) -> None:
        if self.losses and (is_end or self.batches % TRIAL["scheduling_unit"] == 0):
            metrics = {
                "loss": mean(self.losses),
                "acc": mean([1 - it for it in self.losses]),
            }
            report(type="training", batches=self.batches, metrics=metrics)
            self.losses = []
        validates = self.validated_at != self.batches and (
            is_end
            or self._is_due("min_validation_period")
            or (self.batches == 0 and TRIAL["perform_initial_validation"])
        )
        loss = loss_at(self.batches)
        policy = TRIAL["checkpoint_policy"]
        keeps = validates and (policy == "all" or (policy == "best" and loss < self.best))
        if validates:
            self.best = min(self.best, loss)
        if keeps or (self.batches > 0 and (is_end or self._is_due("min_checkpoint_period"))):
            self.save()
            pause(HPARAMS.get("pause_ms", 0))  # the duration of a validation
        if validates:
            metrics = {"loss": loss, "acc": 1 - loss}
            report(type="validation", batches=self.batches, metrics=metrics)
            self.validated_at = self.batches

    def _is_due(self, name: str) -> bool:
        period = TRIAL[name]["batches"]
        return period > 0 and self.batches > 0 and self.batches % period == 0

    def _train_batch(self) -> None:
        if select.select([OPERATIONS], [], [], 0)[0]:
            if OPERATIONS.readline():  # a stop is the only message that can arrive here
                self.save()
            sys.exit(0)
        step = self.batches + 1
        if fault_at(step, "crash_at"):
            os._exit(1)
        if fault_at(step, "invalid_hp_at"):
            report(type="end", reason="invalid_hp", message="the step has come")
            sys.exit(0)
        pause(HPARAMS["step_ms"])
        self.losses.append(loss_at(step))
        self.weight = (self.weight * 1103515245 + step) % 2147483648
        self.batches = step


def main() -> None:
    if HPARAMS.get("spawn_daemon"):
        subprocess.Popen(["sleep", "1000"], start_new_session=True)
    trainer = Trainer()
    order = {"type": "train", "until": TRIAL["until"]}
    while order["type"] == "train":
        trainer.train(order["until"]["batches"])
        order = json.loads(OPERATIONS.readline() or '{"type": "close"}')


if __name__ == "__main__":
    main()
