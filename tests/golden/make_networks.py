#!/usr/bin/env python3
"""Records networks.json: PyTorch's results for networks whose weights and images are computed from
names and indices, as in tests/support/recorded_network.h. Needs torch and torchvision."""

import json
import math
import zlib
from pathlib import Path

import numpy as np
import torch
from torch import nn

MASK = np.uint64(0xFFFFFFFF)


def mix(x: np.ndarray) -> np.ndarray:
    x = ((x ^ (x >> np.uint64(16))) * np.uint64(0x7FEB352D)) & MASK
    x = ((x ^ (x >> np.uint64(15))) * np.uint64(0x846CA68B)) & MASK
    return x ^ (x >> np.uint64(16))


def named_noise(name: str, shape: tuple) -> torch.Tensor:
    seed = 2166136261
    for byte in name.encode():
        seed = ((seed ^ byte) * 16777619) & 0xFFFFFFFF
    start = mix(np.array([seed], dtype=np.uint64))
    indices = (start + np.arange(math.prod(shape), dtype=np.uint64)) & MASK
    values = mix(indices).astype(np.float64) / 2147483648.0 - 1
    return torch.from_numpy(values.astype(np.float32)).reshape(shape)


@torch.no_grad()
def fill_by_name(net: nn.Module) -> None:
    for name, tensor in net.state_dict().items():
        if not tensor.is_floating_point():
            tensor.zero_()
            continue
        noise = named_noise(name, tuple(tensor.shape)).double()
        if tensor.dim() >= 2:
            tensor.copy_(noise * math.sqrt(6 / (tensor.numel() / tensor.shape[0])))
        else:
            factor = name.endswith(("running_var", "weight"))
            tensor.copy_(noise * 0.1 + (1 if factor else 0))


def record(net: nn.Module, shape: list, double: bool = False) -> dict:
    """Records a network. `double` if the losses depend on rounding: after fifty layers the gradient
    of a float32 network differs between processors."""
    fill_by_name(net)
    images = named_noise("images", tuple(shape))
    if double:
        net, images = net.double(), images.double()
    numbers = lambda output: [float(v) for v in output.detach()[:, :10].flatten()]
    net.eval()
    with torch.no_grad():
        result = {"images": shape, "double": double, "eval": numbers(net(images))}
    net.train()
    torch.manual_seed(0)  # of dropout
    optimizer = torch.optim.SGD(net.parameters(), 1e-3, momentum=0.9, weight_decay=1e-4)
    target = torch.arange(shape[0])
    losses = []
    for step in range(3):
        optimizer.zero_grad()
        output = net(images)
        if step == 0:
            result["train"] = numbers(output)
        loss = nn.functional.cross_entropy(output, target)
        loss.backward()
        optimizer.step()
        losses.append(loss.item())
    return result | {"losses": losses}


def record_training(net: nn.Module, shape: list, steps: int) -> dict:
    """Returns the losses of `steps` Adam steps, each on its own batch. Uses a larger eps than 1e-8,
    with which Adam would turn rounding errors, which differ between processors, into full steps."""
    fill_by_name(net)
    optimizer = torch.optim.Adam(net.parameters(), eps=1e-3)
    target = (torch.arange(shape[0]) * 7) % 10
    losses = []
    for step in range(steps):
        images = (named_noise(f"batch {step}", tuple(shape)) + 1) / 2
        optimizer.zero_grad()
        loss = nn.functional.cross_entropy(net(images), target)
        loss.backward()
        optimizer.step()
        losses.append(loss.item())
    return {"images": shape, "losses": losses}


class Separable(nn.Module):
    def __init__(self, inputs: int, outputs: int):
        super().__init__()
        self.depthwise = nn.Conv2d(inputs, inputs, 3, padding=1, groups=inputs, bias=False)
        self.pointwise = nn.Conv2d(inputs, outputs, 1, bias=False)

    def forward(self, x):
        return self.pointwise(self.depthwise(x))


class Block(nn.Module):
    """Has the layers of SINGA's autograd example."""

    def __init__(self, inputs, outputs, reps, strides=1, start_with_relu=True, grow_first=True):
        super().__init__()
        self.skip = None
        if outputs != inputs or strides != 1:
            self.skip = nn.Conv2d(inputs, outputs, 1, stride=strides, bias=False)
            self.skipbn = nn.BatchNorm2d(outputs)
        layers = []
        filters = inputs
        if grow_first:
            layers += [nn.ReLU(), Separable(inputs, outputs), nn.BatchNorm2d(outputs)]
            filters = outputs
        for _ in range(reps - 1):
            layers += [nn.ReLU(), Separable(filters, filters), nn.BatchNorm2d(filters)]
        if not grow_first:
            layers += [nn.ReLU(), Separable(inputs, outputs), nn.BatchNorm2d(outputs)]
        if not start_with_relu:
            layers = layers[1:]
        if strides != 1:
            layers.append(nn.MaxPool2d(3, strides, 1))
        self.layers = nn.Sequential(*layers)

    def forward(self, x):
        return self.layers(x) + (x if self.skip is None else self.skipbn(self.skip(x)))


class Xception(nn.Module):
    def __init__(self, classes: int = 1000):
        super().__init__()
        self.conv1 = nn.Conv2d(3, 32, 3, 2, 0, bias=False)
        self.bn1 = nn.BatchNorm2d(32)
        self.conv2 = nn.Conv2d(32, 64, 3, 1, 1, bias=False)
        self.bn2 = nn.BatchNorm2d(64)
        self.block1 = Block(64, 128, 2, 2, start_with_relu=False)
        self.block2 = Block(128, 256, 2, 2)
        self.block3 = Block(256, 728, 2, 2)
        for i in range(4, 12):
            setattr(self, f"block{i}", Block(728, 728, 3))
        self.block12 = Block(728, 1024, 2, 2, grow_first=False)
        self.conv3 = Separable(1024, 1536)
        self.bn3 = nn.BatchNorm2d(1536)
        self.conv4 = Separable(1536, 2048)
        self.bn4 = nn.BatchNorm2d(2048)
        self.fc = nn.Linear(2048, classes)

    def forward(self, x):
        x = torch.relu(self.bn1(self.conv1(x)))
        x = torch.relu(self.bn2(self.conv2(x)))
        for i in range(1, 13):
            x = getattr(self, f"block{i}")(x)
        x = torch.relu(self.bn3(self.conv3(x)))
        x = torch.relu(self.bn4(self.conv4(x)))
        return self.fc(nn.functional.max_pool2d(x, 10, 1).flatten(1))


class CifarCnn(nn.Module):
    """Network of PyBlaze's training guide."""

    def __init__(self):
        super().__init__()
        self.conv1 = nn.Conv2d(3, 6, 5)
        self.pool = nn.MaxPool2d(2, 2)
        self.conv2 = nn.Conv2d(6, 16, 5)
        self.fc1 = nn.Linear(400, 120)
        self.fc2 = nn.Linear(120, 84)
        self.fc3 = nn.Linear(84, 10)

    def forward(self, x):
        x = self.pool(torch.relu(self.conv1(x)))
        x = self.pool(torch.relu(self.conv2(x)))
        x = torch.relu(self.fc1(x.view(-1, 400)))
        return self.fc3(torch.relu(self.fc2(x)))


def signature(arch: str) -> int:
    """Returns the CRC-32 of the names and shapes of a state dict in order."""
    import torchvision

    with torch.device("meta"):
        state = torchvision.models.__dict__[arch]().state_dict()
    lines = [f"{name} {list(tensor.shape)}\n" for name, tensor in state.items()]
    return zlib.crc32("".join(lines).encode())


# The networks of torchvision that ImageNetTrial has; those with a shape of images are recorded.
ARCHS = {
    "alexnet": [2, 3, 64, 64],
    "resnet18": [4, 3, 64, 64],
    "resnet34": None,
    "resnet50": [4, 3, 64, 64],
    "resnet101": None,
    "resnet152": None,
    "resnext50_32x4d": [4, 3, 64, 64],
    "resnext101_32x8d": None,
    "resnext101_64x4d": None,
    "vgg11": None,
    "vgg11_bn": [4, 3, 32, 32],
    "vgg13": None,
    "vgg13_bn": None,
    "vgg16": None,
    "vgg16_bn": None,
    "vgg19": None,
    "vgg19_bn": None,
    "wide_resnet50_2": [4, 3, 64, 64],
    "wide_resnet101_2": None,
}


def main() -> None:
    import torchvision  # not at the top: the benchmarks' twins do without it

    torch.set_num_threads(1)
    networks = {
        "xception": record(Xception(), [2, 3, 299, 299]),
        "cifar_cnn": record(CifarCnn(), [4, 3, 32, 32]),
        "cifar_cnn_training": record_training(CifarCnn(), [32, 3, 32, 32], 100),
    }
    for arch, shape in ARCHS.items():
        recorded = record(torchvision.models.__dict__[arch](), shape, "res" in arch) if shape else {}
        networks[arch] = {"signature": signature(arch)} | recorded
    text = json.dumps({"torch": torch.__version__.split("+")[0]} | networks, indent=1)
    Path(__file__).with_name("networks.json").write_text(text + "\n")


if __name__ == "__main__":
    main()
