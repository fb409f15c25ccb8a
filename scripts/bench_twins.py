"""The reference workloads in plain PyTorch, as their documents have them: eager, data in memory.

  bench_twins.py NAME BATCHES WARM THREADS DATA    seconds of the steps behind the first WARM
  bench_twins.py learn EPOCHS SEED THREADS DATA    val_accuracy of CIFAR-10's network

Run by scripts/bench with the interpreter that has torch.
"""
import gzip
import json
import os
import sys
import time

import numpy
import torch
from torch import nn
from torch.utils.data import DataLoader, Dataset, TensorDataset

GOLDEN = os.path.join(os.path.dirname(os.path.dirname(os.path.realpath(__file__))), "tests/golden")
sys.path.insert(0, GOLDEN)
sys.dont_write_bytecode = True
from make_networks import CifarCnn, Xception  # noqa: E402


def endless(dataset: Dataset, batch: int, workers: int = 0):
    loader = DataLoader(dataset, batch_size=batch, shuffle=True, drop_last=True,
                        num_workers=workers)
    while True:
        yield from loader


def imagenet(data: str):
    from torchvision import datasets, models, transforms

    steps = transforms.Compose([
        transforms.RandomResizedCrop(64), transforms.RandomHorizontalFlip(), transforms.ToTensor(),
        transforms.Normalize([0.485, 0.456, 0.406], [0.229, 0.224, 0.225])])
    dataset = datasets.ImageFolder(os.path.join(data, "tiny-imagenet-20/train"), steps)
    net = models.resnet18(num_classes=20)
    optimizer = torch.optim.SGD(net.parameters(), 0.1, momentum=0.9, weight_decay=1e-4)
    return net, optimizer, endless(dataset, 64, workers=2)


def cifar10_set(data: str) -> TensorDataset:
    folder = os.path.join(data, "cifar-10-batches-bin")
    records = [numpy.fromfile(os.path.join(folder, f"data_batch_{i}.bin"), numpy.uint8)
               for i in range(1, 6)]
    records = torch.from_numpy(numpy.concatenate(records).reshape(-1, 3073))
    images = records[:, 1:].reshape(-1, 3, 32, 32).float() / 255
    return TensorDataset(images, records[:, 0].long())


def cifar10(data: str):
    dataset = TensorDataset(*cifar10_set(data)[:40000])
    net = CifarCnn()
    return net, torch.optim.Adam(net.parameters()), endless(dataset, 256)


def idx(path: str, header: int) -> numpy.ndarray:
    opened = open(path, "rb") if os.path.exists(path) else gzip.open(path + ".gz")
    with opened as file:
        return numpy.frombuffer(file.read(), numpy.uint8)[header:]


def lenet(data: str):
    folder = os.path.join(data, "mnist")
    pixels = idx(os.path.join(folder, "train-images-idx3-ubyte"), 16).copy()
    labels = idx(os.path.join(folder, "train-labels-idx1-ubyte"), 8).copy()
    images = torch.from_numpy(pixels.reshape(-1, 1, 28, 28)).float() / 255
    images = nn.functional.interpolate(images, size=32, mode="bilinear")
    images = (images - 0.1307) / 0.3081
    net = nn.Sequential(
        nn.Conv2d(1, 6, 5, bias=False), nn.ReLU(), nn.MaxPool2d(2),
        nn.Conv2d(6, 16, 5, bias=False), nn.ReLU(), nn.MaxPool2d(2), nn.Flatten(),
        nn.Linear(400, 120), nn.ReLU(), nn.Linear(120, 84), nn.ReLU(), nn.Linear(84, 10))
    dataset = TensorDataset(images, torch.from_numpy(labels).long())
    return net, torch.optim.SGD(net.parameters(), 0.01, momentum=0.9), endless(dataset, 32)


def xception(_: str):
    net = Xception()
    batch = (torch.randn(16, 3, 299, 299), torch.randint(0, 1000, (16,)))
    optimizer = torch.optim.SGD(net.parameters(), 0.1, momentum=0.9, weight_decay=1e-5)
    return net, optimizer, iter(lambda: batch, None)


def learn(epochs: int, seed: int, data: str) -> None:
    """As configs/cifar10.yaml, without early stopping."""
    torch.manual_seed(seed)
    training, validation = torch.utils.data.random_split(cifar10_set(data), [40000, 10000])
    net = CifarCnn()
    optimizer = torch.optim.Adam(net.parameters())
    for _ in range(epochs):
        for images, target in DataLoader(training, batch_size=256, shuffle=True):
            optimizer.zero_grad()
            nn.functional.cross_entropy(net(images), target).backward()
            optimizer.step()
    with torch.no_grad():
        hits = [(net(images).argmax(1) == target).sum().item()
                for images, target in DataLoader(validation, batch_size=2048)]
    json.dump({"val_accuracy": sum(hits) / len(validation)}, sys.stdout)


def main() -> None:
    name, batches, warm, threads, data = sys.argv[1:]
    torch.set_num_threads(int(threads))
    if name == "learn":
        learn(epochs=int(batches), seed=int(warm), data=data)
        return
    torch.manual_seed(1)
    net, optimizer, source = {"cifar10": cifar10, "imagenet": imagenet, "lenet": lenet,
                              "xception": xception}[name](data)
    start = 0.0
    for step in range(int(batches)):
        if step == int(warm):
            start = time.perf_counter()
        images, target = next(source)
        optimizer.zero_grad()
        nn.functional.cross_entropy(net(images), target).backward()
        optimizer.step()
    json.dump({"seconds": time.perf_counter() - start}, sys.stdout)


if __name__ == "__main__":
    main()
