"""Trains CIFAR-10's network as configs/cifar10.yaml does, without early stopping.

  learn_cifar10.py EPOCHS SEED THREADS DATA    prints val_accuracy as JSON
"""
import json
import sys

import torch
from torch import nn
from torch.utils.data import DataLoader

sys.dont_write_bytecode = True
from twins import CifarCnn, cifar10_set


def main() -> None:
    epochs, seed, threads, data = sys.argv[1:]
    torch.set_num_threads(int(threads))
    torch.manual_seed(int(seed))
    training, validation = torch.utils.data.random_split(cifar10_set(data), [40000, 10000])
    net = CifarCnn()
    optimizer = torch.optim.Adam(net.parameters())
    for _ in range(int(epochs)):
        for images, target in DataLoader(training, batch_size=256, shuffle=True):
            optimizer.zero_grad()
            nn.functional.cross_entropy(net(images), target).backward()
            optimizer.step()
    with torch.no_grad():
        hits = [(net(images).argmax(1) == target).sum().item()
                for images, target in DataLoader(validation, batch_size=2048)]
    json.dump({"val_accuracy": sum(hits) / len(validation)}, sys.stdout)


if __name__ == "__main__":
    main()
