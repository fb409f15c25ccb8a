"""Logistic regression by SGD: a script that knows nothing of dtrain and prints its metrics."""
import argparse
import math
import random

parser = argparse.ArgumentParser()
parser.add_argument("--lr", type=float, default=0.1)
parser.add_argument("--decay", type=float, default=0.0)
parser.add_argument("--epochs", type=int, default=9)
parser.add_argument("--seed", type=int, default=0)
args = parser.parse_args()

draw = random.Random(1)  # 500 points: 400 for training, 100 for validation
points = [(draw.gauss(0, 1), draw.gauss(0, 1)) for _ in range(500)]
points = [((1, *x), 2 * x[0] - x[1] + draw.gauss(0, 0.5) > 0.3) for x in points]


def predict(weights, x):
    total = sum(w * value for w, value in zip(weights, x))
    return 1 / (1 + math.exp(-max(-30, min(30, total))))


weights = [0.0, 0.0, 0.0]
for epoch in range(1, args.epochs + 1):
    order = list(range(400))
    random.Random(args.seed + epoch).shuffle(order)
    loss = 0
    for i in order:
        x, label = points[i]
        error = predict(weights, x) - label
        loss += error * error / 400
        weights = [w * (1 - args.lr * args.decay) - args.lr * error * value
                   for w, value in zip(weights, x)]
    right = sum((predict(weights, x) > 0.5) == label for x, label in points[400:])
    print(f"epoch {epoch}/{args.epochs}: train loss {loss:.4f}, val_acc {right / 100}")
