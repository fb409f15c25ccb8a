"""A small network on two spirals, trained by the processes of torchrun."""
import argparse
import math
import os

import torch
import torch.distributed as dist
from torch import nn
from torch.nn.parallel import DistributedDataParallel
from torch.utils.data import DataLoader, DistributedSampler, TensorDataset

import dtrain

parser = argparse.ArgumentParser()
parser.add_argument("--lr", type=float, default=0.01)
trial = dtrain.init()
args = trial.parse_args(parser)
use_cuda = bool(trial.devices)
dist.init_process_group("nccl" if use_cuda else "gloo")
device = torch.device("cuda", int(os.environ["LOCAL_RANK"])) if use_cuda else torch.device("cpu")

t = torch.rand(2000, generator=torch.Generator().manual_seed(1)) * 3 * math.pi
label = torch.arange(2000) % 2
angle = t + math.pi * label
data = torch.stack([t * angle.cos(), t * angle.sin()], 1) / 10
train = TensorDataset(data[:1600], label[:1600])
sampler = DistributedSampler(train, seed=1)  # the part of this rank
loader = DataLoader(train, batch_size=16, sampler=sampler)
rank, size = dist.get_rank(), dist.get_world_size()
test_data, test_label = data[1600 + rank::size].to(device), label[1600 + rank::size].to(device)

torch.manual_seed(1)
net = nn.Sequential(nn.Linear(2, 64), nn.Tanh(), nn.Linear(64, 64), nn.Tanh(), nn.Linear(64, 2))
net = DistributedDataParallel(net.to(device))
optimizer = torch.optim.Adam(net.parameters(), lr=args.lr)
if trial.restore():  # on all ranks
    saved = torch.load(trial.restore() / "model.pt", map_location=device)
    net.module.load_state_dict(saved["net"])
    optimizer.load_state_dict(saved["optimizer"])

for epoch in trial.epochs(20):
    sampler.set_epoch(epoch)
    for some, labels in loader:
        loss = nn.functional.cross_entropy(net(some.to(device)), labels.to(device))
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()
        trial.report(loss=loss)  # that of rank 0
    with torch.no_grad():
        right = (net.module(test_data).argmax(1) == test_label).sum()
    dist.all_reduce(right)
    if rank == 0:
        print(f"epoch {epoch + 1}: accuracy {right.item() / 400}")
    trial.validate(accuracy=right.item() / 400)
    if trial.should_checkpoint:
        with trial.checkpoint() as path:
            if trial.rank == 0:
                torch.save({"net": net.module.state_dict(), "optimizer": optimizer.state_dict()},
                           path / "model.pt")
dist.destroy_process_group()
