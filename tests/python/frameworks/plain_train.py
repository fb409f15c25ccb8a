"""Tells two spirals apart with a small network: a script that knows nothing of dtrain."""

import argparse
import math

import torch
from torch import nn


def spirals(points, seed):
    draw = torch.Generator().manual_seed(seed)
    t = torch.rand(points, generator=draw) * 3 * math.pi
    label = torch.arange(points) % 2
    angle = t + math.pi * label
    data = torch.stack([t * angle.cos(), t * angle.sin()], 1) / 10
    return data + 0.02 * torch.randn(points, 2, generator=draw), label


def train(net, optimizer, data, label, epoch):
    order = torch.randperm(len(data), generator=torch.Generator().manual_seed(epoch))
    for some in order.split(64):
        loss = nn.functional.cross_entropy(net(data[some]), label[some])
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()


def evaluate(net, data, label):
    with torch.no_grad():
        return (net(data).argmax(1) == label).float().mean().item()


def save(path, net, optimizer):
    torch.save([net.state_dict(), optimizer.state_dict()], path)


def load(path, net, optimizer):
    for part, state in zip((net, optimizer), torch.load(path)):
        part.load_state_dict(state)


parser = argparse.ArgumentParser(description=__doc__)
parser.add_argument("--epochs", type=int, default=20)
parser.add_argument("--lr", type=float, default=0.01)
parser.add_argument("--width", type=int, default=64)
parser.add_argument("--resume", help="file to continue from")
parser.add_argument("--out", default="model.pt")
args = parser.parse_args()
torch.manual_seed(0)
data, label = spirals(1600, seed=1)
test_data, test_label = spirals(400, seed=2)
net = nn.Sequential(nn.Linear(2, args.width), nn.ReLU(), nn.Linear(args.width, 2))
optimizer = torch.optim.Adam(net.parameters(), lr=args.lr)
if args.resume:
    load(args.resume, net, optimizer)
for epoch in range(args.epochs):
    train(net, optimizer, data, label, epoch)
    accuracy = evaluate(net, test_data, test_label)
    print(f"epoch {epoch + 1}: accuracy {accuracy:.3f}")
save(args.out, net, optimizer)
