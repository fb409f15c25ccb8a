"""Logistic regression by SGD: a script that also runs by itself, as a trial of dtrain."""
import argparse
import json
import math
import random

import dtrain

parser = argparse.ArgumentParser()
parser.add_argument("--lr", type=float, default=0.1)
parser.add_argument("--decay", type=float, default=0.0)
trial = dtrain.init()
args = trial.parse_args(parser)

draw = random.Random(1)  # 500 points, the same in all trials: 400 for training, 100 for validation
points = [(draw.gauss(0, 1), draw.gauss(0, 1)) for _ in range(500)]
points = [((1, *x), 2 * x[0] - x[1] + draw.gauss(0, 0.5) > 0.3) for x in points]


def predict(weights, x):
    total = sum(w * value for w, value in zip(weights, x))
    return 1 / (1 + math.exp(-max(-30, min(30, total))))


weights = [0.0, 0.0, 0.0]
if trial.restore():
    weights = json.loads((trial.restore() / "weights.json").read_text())
for epoch in trial.epochs(9):
    order = list(range(400))
    random.Random(trial.seed + epoch).shuffle(order)
    for i in order:
        x, label = points[i]
        error = predict(weights, x) - label
        weights = [w * (1 - args.lr * args.decay) - args.lr * error * value
                   for w, value in zip(weights, x)]
        trial.report(error=abs(error))
    right = sum((predict(weights, x) > 0.5) == label for x, label in points[400:])
    print(f"epoch {epoch + 1}: accuracy {right / 100}")
    trial.validate(accuracy=right / 100)
    if trial.should_checkpoint:
        with trial.checkpoint() as path:
            (path / "weights.json").write_text(json.dumps(weights))
