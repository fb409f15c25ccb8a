"""FaultTrial as a Python script with `import dtrain`, in the manner of docs/python.md, with the same
metrics at the same batches. For the crash test; runs in an experiment's copy of its context."""

import errno
import json
import os
import subprocess
import time
from pathlib import Path

import dtrain

FACTS = json.loads(Path(os.environ["DTRAIN_TRIAL"]).read_text(encoding="utf-8"))


def mean(numbers: list[float]) -> float:
    total = 0.0
    for number in numbers:  # not `sum`, which rounds differently since Python 3.12
        total += number
    return total / len(numbers)


def is_due(batches: int, period: str) -> bool:
    length = FACTS[period]["batches"]
    return length > 0 and batches % length == 0


def pause(milliseconds: float) -> None:
    try:
        time.sleep(milliseconds / 1000)
    except OSError as error:
        # faketime now and then makes an invalid time of the end of a sleep.
        if error.errno != errno.EINVAL:
            raise


def main() -> None:
    trial = dtrain.init()
    hparams = trial.hparams.to_dict()

    def loss_at(step: int) -> float:
        x = hparams["x"]
        return (x - 0.3) * (x - 0.3) + 1 / (1 + step / 100)

    def crashes_at(step: int) -> bool:
        is_active = FACTS["run"] == 0 or not hparams.get("once", True)
        return is_active and hparams.get("crash_at", -1) == step

    if hparams.get("spawn_daemon"):
        subprocess.Popen(["sleep", "1000"], start_new_session=True)
    losses: list[float] = []  # since the last report
    weight = float(trial.seed)
    saved = trial.restore("state.json")
    if saved:
        losses, weight = json.loads(saved.read_text(encoding="utf-8"))
    elif FACTS["perform_initial_validation"]:
        trial.validate(loss=loss_at(0), acc=1 - loss_at(0), batches=0)
    for batch in trial.batches():
        step = batch + 1
        if crashes_at(step):
            os._exit(1)
        pause(hparams["step_ms"])
        losses.append(loss_at(step))
        weight = (weight * 1103515245 + step) % 2147483648
        if trial.at_end or step % FACTS["scheduling_unit"] == 0:
            trial.report(loss=mean(losses), acc=mean([1 - it for it in losses]))
            losses = []
        if trial.at_end or is_due(step, "min_validation_period"):
            trial.validate(loss=loss_at(step), acc=1 - loss_at(step))
        if trial.should_checkpoint or is_due(step, "min_checkpoint_period"):
            with trial.checkpoint() as path:
                (path / "state.json").write_text(json.dumps([losses, weight]), encoding="utf-8")
                (path / "ballast").write_bytes(b"\x5a" * (hparams.get("ckpt_mb", 0) << 20))


if __name__ == "__main__":
    main()
