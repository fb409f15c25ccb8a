"""Logistic regression by SGD, with nothing but Python's standard library."""
import json, math, os, random, select

trial = json.load(open(os.environ["DTRAIN_TRIAL"]))
reports, operations = open(3, "w", buffering=1), open(4, "rb", buffering=0)
lr, seed = trial["hyperparameters"]["lr"], trial["seed"]
say = lambda **report: print(json.dumps(report), file=reports)
predict = lambda w, x: 1 / (1 + math.exp(-max(-30, min(30, sum(a * b for a, b in zip(w, (1, *x)))))))
draw = random.Random(1)  # 500 points, the same for all trials: 400 to train, 100 to validate
points = [(draw.gauss(0, 1), draw.gauss(0, 1)) for _ in range(500)]
points = [(x, 2 * x[0] - x[1] + draw.gauss(0, 0.5) > 0.3) for x in points]
state = {"batches": 0, "weights": [0, 0, 0]}
if trial["checkpoint"]:
    state = json.load(open(trial["checkpoint"]["path"] + "/state.json"))
order = {"type": "train", "until": trial["until"]}
while order["type"] == "train":
    until = order["until"]["batches"]
    while state["batches"] < until:
        x, label = points[random.Random(seed + state["batches"]).randrange(400)]
        error = predict(state["weights"], x) - label
        state["weights"] = [w - lr * error * f for w, f in zip(state["weights"], (1, *x))]
        state["batches"] += 1
        if state["batches"] % trial["scheduling_unit"] == 0:
            say(type="training", batches=state["batches"], metrics={"error": abs(error)})
            if select.select([operations], [], [], 0)[0]:
                break  # the only thing to come before the end is a stop
    path = f"{trial['directory']}/{state['batches']}"  # one for each checkpoint
    os.mkdir(path)
    with open(path + "/state.json", "w") as file:
        json.dump(state, file)
    say(type="checkpoint", batches=state["batches"], path=path)
    if state["batches"] < until:
        break
    right = sum((predict(state["weights"], x) > 0.5) == label for x, label in points[400:])
    say(type="validation", batches=until, metrics={"accuracy": right / 100})
    order = json.loads(operations.readline() or '{"type": "stop"}')
