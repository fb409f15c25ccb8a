import argparse
import math
import time

import wandb

parser = argparse.ArgumentParser()
parser.add_argument("--lr", type=float)
parser.add_argument("--layers", type=int)
args = parser.parse_args()
with wandb.init(project="sweep", mode="offline", config=vars(args)) as run:
    time.sleep(1)
    loss = (math.log10(args.lr) + 2) ** 2 + (args.layers - 4) ** 2
    run.log({"loss": loss})
print(loss)
