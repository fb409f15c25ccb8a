"""The reference workloads in plain PyTorch, according to their documents.

  twins.py NAME --how HOW --batches N --warm N --threads N [--data DIR] [--device D]

Prints as JSON the seconds of the steps after the first `warm` ones and the minor
page faults per step. Run by scripts/bench with an interpreter that has torch.
"""
import argparse
import contextlib
import gzip
import json
import os
import resource
import sys
import time

import numpy
import torch
from torch import nn
from torch.utils.data import DataLoader, Dataset, TensorDataset

sys.dont_write_bytecode = True
ROOT = os.path.dirname(os.path.dirname(os.path.dirname(os.path.realpath(__file__))))
sys.path.insert(0, os.path.join(ROOT, "tests/golden"))
from make_networks import CifarCnn, Xception

# Modes of training. All but eager use the channels_last layout.
HOWS = ("eager", "channels-last", "compile", "fused", "max-autotune")


def endless(dataset: Dataset, batch: int, workers: int = 0, whole: bool = True,
            pin: bool = False):
    loader = DataLoader(dataset, batch_size=batch, shuffle=True, drop_last=whole,
                        num_workers=workers, pin_memory=pin, persistent_workers=pin)
    while True:
        yield from loader


def gathered(images: torch.Tensor, labels: torch.Tensor, batch: int):
    """Yields batches by index, the fastest way for data in memory."""
    while True:
        order = torch.randperm(len(labels), device=labels.device)
        for samples in order[:len(order) // batch * batch].split(batch):
            yield images[samples], labels[samples]


def imagenet_tiny(args):
    from torchvision import datasets, models, transforms

    steps = transforms.Compose([
        transforms.RandomResizedCrop(64), transforms.RandomHorizontalFlip(), transforms.ToTensor(),
        transforms.Normalize([0.485, 0.456, 0.406], [0.229, 0.224, 0.225])])
    dataset = datasets.ImageFolder(os.path.join(args.data, "tiny-imagenet-20/train"), steps)
    return models.resnet18(num_classes=20), endless(dataset, 64, workers=2)


class RandomImages(Dataset):
    def __len__(self) -> int:
        return 1024

    def __getitem__(self, index: int):
        return torch.randn(3, 224, 224), index % 1000


def resnet18(args):
    """ResNet-18 on random images, which are created on demand as in dtrain."""
    from torchvision import models

    if args.device != "cpu":
        return models.resnet18(), endless(RandomImages(), args.batch, workers=14, pin=True)

    def source():
        while True:
            images = [torch.randn(3, 224, 224) for _ in range(args.batch)]
            yield torch.stack(images), torch.randint(0, 1000, (args.batch,))

    return models.resnet18(), source()


def fixed(args, side: int):
    """Repeats one batch forever."""
    batch = (torch.randn(args.batch, 3, side, side, device=args.device),
             torch.randint(0, 1000, (args.batch,), device=args.device))
    return iter(lambda: batch, None)


def xception(args):
    return Xception(), fixed(args, 299)


def cifar10_records(data: str) -> tuple[numpy.ndarray, numpy.ndarray]:
    folder = os.path.join(data, "cifar-10-batches-bin")
    files = [numpy.fromfile(os.path.join(folder, f"data_batch_{i}.bin"), numpy.uint8)
             for i in range(1, 6)]
    records = numpy.concatenate(files).reshape(-1, 3073)
    return records[:, 1:].reshape(-1, 3, 32, 32), records[:, 0]


def cifar10_set(data: str) -> TensorDataset:
    images, labels = cifar10_records(data)
    return TensorDataset(torch.from_numpy(images).float() / 255, torch.from_numpy(labels).long())


class Cifar10Images(Dataset):
    """Like torchvision.datasets.CIFAR10 with ToTensor: creates a PIL image per sample."""

    def __init__(self, data: str) -> None:
        from torchvision import transforms

        images, self.labels = cifar10_records(data)
        self.images = numpy.ascontiguousarray(images[:40000].transpose(0, 2, 3, 1))
        self.transform = transforms.ToTensor()

    def __len__(self) -> int:
        return len(self.images)

    def __getitem__(self, index: int):
        from PIL import Image

        return self.transform(Image.fromarray(self.images[index])), int(self.labels[index])


def cifar10(args):
    if args.device != "cpu":
        images, labels = cifar10_set(args.data)[:40000]
        source = gathered(images.to(args.device), labels.to(args.device), 256)
    elif args.loader == "tensors":
        source = endless(TensorDataset(*cifar10_set(args.data)[:40000]), 256, whole=False)
    else:
        source = endless(Cifar10Images(args.data), 256, workers=4, whole=False)
    return CifarCnn(), source


def idx(path: str, header: int) -> numpy.ndarray:
    opened = open(path, "rb") if os.path.exists(path) else gzip.open(path + ".gz")
    with opened as file:
        return numpy.frombuffer(file.read(), numpy.uint8)[header:].copy()


def mnist(data: str, which: str) -> tuple[torch.Tensor, torch.Tensor]:
    """Reads MNIST; `which` is train or t10k. Resized and normalized as in the guide."""
    folder = os.path.join(data, "mnist")
    pixels = idx(os.path.join(folder, f"{which}-images-idx3-ubyte"), 16)
    labels = idx(os.path.join(folder, f"{which}-labels-idx1-ubyte"), 8)
    images = torch.from_numpy(pixels.reshape(-1, 1, 28, 28)).float() / 255
    images = nn.functional.interpolate(images, size=32, mode="bilinear")
    return (images - 0.1307) / 0.3081, torch.from_numpy(labels).long()


def lenet5() -> nn.Sequential:
    net = nn.Sequential(
        nn.Conv2d(1, 6, 5, bias=False), nn.ReLU(), nn.MaxPool2d(2),
        nn.Conv2d(6, 16, 5, bias=False), nn.ReLU(), nn.MaxPool2d(2), nn.Flatten(),
        nn.Linear(400, 120), nn.ReLU(), nn.Linear(120, 84), nn.ReLU(), nn.Linear(84, 10))
    for parameter in net.parameters():
        nn.init.trunc_normal_(parameter, std=0.02, a=-0.04, b=0.04)
    return net


def lenet(args):
    images, labels = mnist(args.data, "train")
    return lenet5(), gathered(images.to(args.device), labels.to(args.device), args.batch)


def optimizer_of(name: str, net: nn.Module, fused: bool) -> torch.optim.Optimizer:
    fused = {"fused": True} if fused else {}
    if name == "cifar10":
        return torch.optim.Adam(net.parameters(), **fused)
    lr, decay = {"lenet": (0.01, 0), "xception": (0.1, 1e-5)}.get(name, (0.1, 1e-4))
    return torch.optim.SGD(net.parameters(), lr, momentum=0.9, weight_decay=decay, **fused)


NETWORKS = {"cifar10": cifar10, "imagenet-tiny": imagenet_tiny, "lenet": lenet,
            "resnet18": resnet18, "xception": xception}


def arguments() -> argparse.Namespace:
    parser = argparse.ArgumentParser()
    parser.add_argument("name", choices=NETWORKS)
    parser.add_argument("--how", choices=HOWS, default="eager")
    parser.add_argument("--loader", choices=("pictures", "tensors"), default="pictures")
    parser.add_argument("--batch", type=int, default=16)
    parser.add_argument("--batches", type=int, required=True)
    parser.add_argument("--warm", type=int, required=True)
    parser.add_argument("--threads", type=int, required=True)
    parser.add_argument("--data", default="")
    parser.add_argument("--device", default="cpu")
    parser.add_argument("--fixed", action="store_true", help="repeat the first batch")
    parser.add_argument("--precision", choices=("fp32", "tf32", "bf16"), default="fp32")
    return parser.parse_args()


def main() -> None:
    args = arguments()
    torch.set_num_threads(args.threads)
    torch.manual_seed(1)
    on_gpu = args.device != "cpu"
    # Convolutions may use TF32 by default, in dtrain too.
    torch.backends.cuda.matmul.allow_tf32 = args.precision == "tf32"
    layout = torch.contiguous_format if args.how == "eager" else torch.channels_last
    net, source = NETWORKS[args.name](args)
    if args.fixed:
        images, target = next(source)
        batch = images.to(args.device, memory_format=layout), target.to(args.device)
        source = iter(lambda: batch, None)
    net = net.to(args.device, memory_format=layout)
    optimizer = optimizer_of(args.name, net, fused=args.how in ("fused", "max-autotune"))
    if args.how == "compile":
        net = torch.compile(net)
    elif args.how == "max-autotune":
        net = torch.compile(net, mode="max-autotune")
    type_of = torch.autocast("cuda" if on_gpu else "cpu", torch.bfloat16) \
        if args.precision == "bf16" else contextlib.nullcontext()

    def now() -> float:
        if on_gpu:
            torch.cuda.synchronize()
        return time.perf_counter()

    start, faults = 0.0, 0
    for step in range(args.batches):
        if step == args.warm:
            start, faults = now(), resource.getrusage(resource.RUSAGE_SELF).ru_minflt
        images, target = next(source)
        images = images.to(args.device, memory_format=layout, non_blocking=True)
        target = target.to(args.device, non_blocking=True)
        optimizer.zero_grad()
        with type_of:
            loss = nn.functional.cross_entropy(net(images), target)
        loss.backward()
        optimizer.step()
    seconds = now() - start
    faults = resource.getrusage(resource.RUSAGE_SELF).ru_minflt - faults
    json.dump({"seconds": seconds, "faults_per_step": faults / (args.batches - args.warm)},
              sys.stdout)


if __name__ == "__main__":
    main()
