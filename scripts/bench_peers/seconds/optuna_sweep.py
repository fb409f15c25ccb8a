import subprocess
import sys

import optuna


def objective(trial):
    lr = trial.suggest_float("lr", 1e-4, 1e-1, log=True)
    layers = trial.suggest_int("layers", 1, 8)
    command = [sys.executable, "optuna_trial.py", f"--lr={lr}", f"--layers={layers}"]
    done = subprocess.run(command, stdout=subprocess.PIPE, check=True)
    return float(done.stdout)


study = optuna.create_study(storage="sqlite:///sweep.db",
                            sampler=optuna.samplers.RandomSampler())
study.optimize(objective, n_trials=50, n_jobs=2)
print(study.best_value, study.best_params)
