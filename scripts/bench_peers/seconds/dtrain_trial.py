import math
import time

import dtrain

trial = dtrain.init()
time.sleep(1)
loss = (math.log10(trial.hparams.lr) + 2) ** 2 + (trial.hparams.layers - 4) ** 2
trial.validate(loss=loss)
