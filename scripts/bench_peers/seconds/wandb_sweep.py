# Sweeps of W&B need its server, so that an offline search has a loop of its own.
import random
import subprocess
import sys
from concurrent.futures import ThreadPoolExecutor


def run(_):
    lr, layers = 10 ** random.uniform(-4, -1), random.randint(1, 8)
    command = [sys.executable, "wandb_trial.py", f"--lr={lr}", f"--layers={layers}"]
    done = subprocess.run(command, stdout=subprocess.PIPE, check=True)
    return float(done.stdout.split()[-1]), lr, layers


with ThreadPoolExecutor(2) as pool:
    print(min(pool.map(run, range(50))))
