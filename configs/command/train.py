"""Logistic regression by SGD, with Python's standard library only."""
import json, math, os, pathlib, random, select
trial = json.load(open(os.environ["DTRAIN_TRIAL"]))
reports, operations = open(3, "w", buffering=1), open(4, "rb", buffering=0)
say = lambda **report: print(json.dumps(report), file=reports)
predict = lambda w, x: 1 / (1 + math.exp(-max(-30, min(30, sum(a * b for a, b in zip(w, (1, *x)))))))
draw = random.Random(1)  # 500 points, the same in all trials: 400 for training, 100 for validation
points = [(draw.gauss(0, 1), draw.gauss(0, 1)) for _ in range(500)]
points = [(x, 2 * x[0] - x[1] + draw.gauss(0, 0.5) > 0.3) for x in points]
saved = trial["checkpoint"]
batches, weights = json.load(open(saved["path"] + "/state.json")) if saved else (0, [0, 0, 0])
order = {"type": "train", "until": trial["until"]}
while order["type"] == "train":
    while batches < order["until"]["batches"]:
        x, label = points[random.Random(trial["seed"] + batches).randrange(400)]
        step = trial["hyperparameters"]["lr"] * (predict(weights, x) - label)
        weights = [w - step * f for w, f in zip(weights, (1, *x))]
        batches += 1
        if batches % trial["scheduling_unit"] == 0:
            say(type="training", batches=batches, metrics={"step": abs(step)})
            if select.select([operations], [], [], 0)[0]:
                break  # only a stop can arrive before the end
    path = pathlib.Path(trial["directory"], str(batches))  # a new path for each checkpoint
    path.mkdir()
    (path / "state.json").write_text(json.dumps([batches, weights]))
    say(type="checkpoint", batches=batches, path=str(path))
    if batches == order["until"]["batches"]:
        right = sum((predict(weights, x) > 0.5) == label for x, label in points[400:])
        say(type="validation", batches=batches, metrics={"accuracy": right / 100})
    order = json.loads(operations.readline() or '{"type": "stop"}')
