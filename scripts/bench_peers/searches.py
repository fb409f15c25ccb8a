"""Runs the search of bench_search.py with Optuna or Ray Tune, if installed.

  searches.py PEER TRIALS DIRECTORY    writes DIRECTORY/result.json

Run by scripts/bench with an interpreter that has the packages, one process per
search. The trial is that of FaultTrial: a hyperparameter x, and a loss that falls
with the batches. It takes no time, so that only the tool's own time is measured.
"""
import json
import os
import sys
import time

START = time.perf_counter()

# Lengths in batches of the rungs; one trial in DIVISOR goes on to the next.
RUNGS = (10, 40, 160)
DIVISOR = 4
# Ten reports before the first decision, then one at each rung. dtrain's trials
# report every batch, so the peers have the lighter load.
STEPS = (*range(1, RUNGS[0] + 1), *RUNGS[1:])
# Slots, CPUs: dtrain and Ray run so many trials at once. Optuna runs one: its
# threads share one interpreter lock.
AT_ONCE = 2
SEED = 1


def loss(x, batches):
    return (x - 0.3) ** 2 + 1 / (1 + batches / 100)


def optuna_storage(peer, directory):
    """Returns the storage of a peer; None is Optuna's default, in memory."""
    import optuna

    if peer == "optuna-rdb":
        return "sqlite:///" + os.path.join(directory, "optuna.db")
    if peer == "optuna-journal":
        from optuna.storages.journal import JournalFileBackend

        backend = JournalFileBackend(os.path.join(directory, "optuna.log"))
        return optuna.storages.JournalStorage(backend)
    return None


def play_optuna(peer, trials, directory):
    """Runs the trials one after another in this process."""
    import optuna

    optuna.logging.set_verbosity(optuna.logging.WARNING)
    reports = 0

    def objective(trial):
        nonlocal reports
        x = trial.suggest_float("x", 0, 1)
        for step in STEPS:
            trial.report(loss(x, step), step)
            reports += 1
            if trial.should_prune():
                raise optuna.TrialPruned()
        return loss(x, RUNGS[-1])

    study = optuna.create_study(
        storage=optuna_storage(peer, directory),
        sampler=optuna.samplers.RandomSampler(seed=SEED),
        pruner=optuna.pruners.SuccessiveHalvingPruner(
            min_resource=RUNGS[0], reduction_factor=DIVISOR
        ),
    )
    start = time.perf_counter()
    study.optimize(objective, n_trials=trials)
    end = time.perf_counter()
    return {"start": start, "end": end, "trials": len(study.trials), "reports": reports}


def ray_trial(config):
    from ray import tune

    for step in STEPS:
        tune.report({"loss": loss(config["x"], step), "batches": step})


def play_ray(_, trials, directory):
    """Runs a local cluster without dashboard and one process per trial."""
    os.environ.setdefault("RAY_USAGE_STATS_ENABLED", "0")
    import ray
    from ray import tune
    from ray.tune.schedulers import ASHAScheduler

    ray.init(
        num_cpus=AT_ONCE,
        include_dashboard=False,
        log_to_driver=False,
        _temp_dir=directory,
    )
    tuner = tune.Tuner(
        tune.with_resources(ray_trial, {"cpu": 1}),
        param_space={"x": tune.uniform(0, 1)},
        tune_config=tune.TuneConfig(
            num_samples=trials,
            metric="loss",
            mode="min",
            scheduler=ASHAScheduler(
                time_attr="batches",
                max_t=RUNGS[-1],
                grace_period=RUNGS[0],
                reduction_factor=DIVISOR,
            ),
        ),
        run_config=tune.RunConfig(storage_path=directory, name="asha", verbose=0),
    )
    start = time.perf_counter()
    results = tuner.fit()
    end = time.perf_counter()
    if results.errors:
        sys.exit(f"bench: ray-tune: {len(results.errors)} trials failed: {results.errors[0]}")
    reports = sum(result.metrics["training_iteration"] for result in results)
    ray.shutdown()
    return {"start": start, "end": end, "trials": len(results), "reports": reports}


PEERS = {
    "optuna-rdb": play_optuna,
    "optuna-journal": play_optuna,
    "optuna-memory": play_optuna,
    "ray-tune": play_ray,
}


def main():
    peer, trials, directory = sys.argv[1:]
    done = PEERS[peer](peer, int(trials), directory)
    with open(os.path.join(directory, "result.json"), "w") as f:
        json.dump(
            {
                "ms_per_trial": (done["end"] - done["start"]) * 1000 / done["trials"],
                "setup_ms": (done["start"] - START) * 1000,
                "trials": done["trials"],
                "reports_per_trial": done["reports"] / done["trials"],
            },
            f,
        )


if __name__ == "__main__":
    main()
