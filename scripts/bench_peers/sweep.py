"""Runs a search of LeNet on MNIST with Optuna or Ray Tune.

  sweep.py optuna|ray TRIALS JOBS THREADS DATA DIRECTORY    prints the result as JSON

JOBS trials run at once, with THREADS threads each. Rungs, points and network are
those of bench_sweep.py; all trials share the images in memory.
"""
import json
import os
import sys
import threading

RUNGS = (200, 600, 1800)  # batches
DIVISOR = 3
BATCH = 32


def points(count: int) -> list[dict[str, float]]:
    """Returns the hyperparameters of the trials in order, equal for all tools."""
    found = []
    for index in range(count):
        share = (index * 0.6180339887498949) % 1  # spread evenly, however many there are
        found.append({"lr": round(10 ** (-2.5 + 1.5 * share), 6),
                      "momentum": round(0.5 + 0.45 * ((index * 0.7548776662466927) % 1), 6)})
    return found


class Trainer:
    """A LeNet trained from rung to rung."""

    def __init__(self, point, training, validation) -> None:
        import torch
        from twins import gathered, lenet5

        self.net = lenet5()
        self.optimizer = torch.optim.SGD(self.net.parameters(), point["lr"],
                                         momentum=point["momentum"])
        self.batches = 0
        self._source = gathered(*training, BATCH)
        self._validation = validation

    def accuracy_at(self, batches: int) -> float:
        """Trains to a number of batches and validates."""
        import torch
        from torch.nn.functional import cross_entropy

        while self.batches < batches:
            images, target = next(self._source)
            self.optimizer.zero_grad()
            cross_entropy(self.net(images), target).backward()
            self.optimizer.step()
            self.batches += 1
        hits = 0
        with torch.no_grad():
            for images, target in zip(*(part.split(1000) for part in self._validation)):
                hits += (self.net(images).argmax(1) == target).sum().item()
        return hits / len(self._validation[1])


def play_optuna(trials: int, jobs: int, threads: int, data: str, _: str) -> dict[str, float]:
    """Runs in one process; concurrent trials are threads."""
    import optuna
    import torch
    from twins import mnist

    torch.set_num_threads(threads)
    optuna.logging.set_verbosity(optuna.logging.WARNING)
    training, validation = mnist(data, "train"), mnist(data, "t10k")
    done, lock = [], threading.Lock()

    def objective(trial: optuna.Trial) -> float:
        torch.set_num_threads(threads)
        point = {"lr": trial.suggest_float("lr", 1e-4, 1), "momentum":
                 trial.suggest_float("momentum", 0, 1)}
        trainer = Trainer(point, training, validation)
        for rung in RUNGS:
            accuracy = trainer.accuracy_at(rung)
            trial.report(accuracy, rung)
            if rung != RUNGS[-1] and trial.should_prune():
                break
        with lock:
            done.append((trainer.batches, accuracy))
        if trainer.batches < RUNGS[-1]:
            raise optuna.TrialPruned()
        return accuracy

    study = optuna.create_study(direction="maximize", pruner=optuna.pruners.SuccessiveHalvingPruner(
        min_resource=RUNGS[0], reduction_factor=DIVISOR))
    for point in points(trials):
        study.enqueue_trial(point)
    study.optimize(objective, n_trials=trials, n_jobs=jobs)
    return {"batches": sum(batches for batches, _ in done),
            "best": max(accuracy for _, accuracy in done)}


def play_ray(trials: int, jobs: int, threads: int, data: str, directory: str) -> dict[str, float]:
    """Runs one process per trial; the images are in Ray's shared object store."""
    os.environ.setdefault("RAY_USAGE_STATS_ENABLED", "0")
    here = os.path.dirname(os.path.realpath(__file__))
    os.environ["PYTHONPATH"] = os.pathsep.join([here, os.environ.get("PYTHONPATH", "")])
    import ray
    from ray import tune
    from ray.tune.schedulers import ASHAScheduler
    from twins import mnist

    def trial(config, training, validation) -> None:
        import torch

        torch.set_num_threads(threads)
        in_memory = [tuple(torch.from_numpy(part) for part in half)
                     for half in (training, validation)]
        trainer = Trainer(config["point"], *in_memory)
        for rung in RUNGS:
            tune.report({"accuracy": trainer.accuracy_at(rung), "batches": rung})

    ray.init(num_cpus=jobs, include_dashboard=False, log_to_driver=False, _temp_dir=directory)
    halves = {name: tuple(part.numpy() for part in mnist(data, which))
              for name, which in (("training", "train"), ("validation", "t10k"))}
    tuner = tune.Tuner(
        tune.with_resources(tune.with_parameters(trial, **halves), {"cpu": 1}),
        param_space={"point": tune.grid_search(points(trials))},
        tune_config=tune.TuneConfig(metric="accuracy", mode="max", scheduler=ASHAScheduler(
            time_attr="batches", max_t=RUNGS[-1], grace_period=RUNGS[0],
            reduction_factor=DIVISOR)),
        run_config=tune.RunConfig(storage_path=directory, name="sweep", verbose=0))
    results = tuner.fit()
    if results.errors:
        sys.exit(f"{len(results.errors)} trials failed: {results.errors[0]}")
    told = {"batches": sum(result.metrics["batches"] for result in results),
            "best": max(result.metrics["accuracy"] for result in results)}
    ray.shutdown()
    return told


def main() -> None:
    sys.dont_write_bytecode = True
    tool, trials, jobs, threads, data, directory = sys.argv[1:]
    play = {"optuna": play_optuna, "ray": play_ray}[tool]
    json.dump(play(int(trials), int(jobs), int(threads), data, directory), sys.stdout)


if __name__ == "__main__":
    main()
