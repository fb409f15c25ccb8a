import math
import time

import ray
from ray import tune


def train(config):
    time.sleep(1)
    loss = (math.log10(config["lr"]) + 2) ** 2 + (config["layers"] - 4) ** 2
    tune.report({"loss": loss})


ray.init(num_cpus=2)
tuner = tune.Tuner(
    tune.with_resources(train, {"cpu": 1}),
    param_space={"lr": tune.loguniform(1e-4, 1e-1), "layers": tune.randint(1, 9)},
    tune_config=tune.TuneConfig(metric="loss", mode="min", num_samples=50))
best = tuner.fit().get_best_result()
print(best.metrics["loss"], best.config)
