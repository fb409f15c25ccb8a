#!/usr/bin/env python3
"""Records state_dicts/: files written by torch.save, and in expected.json the tensors that PyTorch
reads from them. Needs torch."""

import argparse
import datetime
import inspect
import io
import json
import os
import struct
import zipfile
from collections import OrderedDict, defaultdict, deque
from pathlib import Path
from types import SimpleNamespace

import numpy
import torch
from torch import nn

HERE = Path(__file__).parent / "state_dicts"
DTYPES = {
    torch.float64: "F64",
    torch.float32: "F32",
    torch.float16: "F16",
    torch.bfloat16: "BF16",
    torch.int64: "I64",
    torch.int32: "I32",
    torch.int16: "I16",
    torch.int8: "I8",
    torch.uint8: "U8",
    torch.bool: "BOOL",
}


class Malice:
    def __reduce__(self):
        return os.system, ("echo ran > /dev/null",)


def network() -> nn.Module:
    net = nn.Sequential(nn.Conv2d(1, 2, 3), nn.BatchNorm2d(2), nn.Linear(2, 3))
    net[1](net[0](torch.arange(32.0).reshape(2, 1, 4, 4)))  # gives its buffers values
    return net


def every_type() -> OrderedDict:
    numbers = torch.tensor([[0.0, 1.0, -2.5], [3.25, 100.0, -0.125]])
    tensors = OrderedDict()
    for dtype, name in DTYPES.items():
        unsigned = dtype in (torch.uint8, torch.bool)
        tensors[name.lower()] = (numbers.abs() if unsigned else numbers).to(dtype)
    return tensors


def views() -> OrderedDict:
    base = torch.arange(24, dtype=torch.float32).reshape(4, 6)
    channels_last = torch.arange(48.0).reshape(2, 3, 2, 4).to(memory_format=torch.channels_last)
    return OrderedDict(
        whole=base,
        shared=base,
        transposed=base.t(),
        rows=base[1:3],
        columns=base[:, 2:5:2],
        expanded=base[0, 1:3].expand(3, 2),
        scalar=base[2, 3],
        empty=torch.zeros(0, 5),
        channels_last=channels_last,
        parameter=nn.Parameter(base[:2].clone()),
        short=torch.arange(9, dtype=torch.int16)[1:8:3],
    )


def checkpoint() -> dict:
    net = nn.DataParallel(network())
    optimizer = torch.optim.SGD(net.parameters(), lr=0.1, momentum=0.9)
    schedule = torch.optim.lr_scheduler.MultiStepLR(optimizer, [2, 4])
    sum(p.sum() for p in net.parameters()).backward()
    optimizer.step()
    return {
        "epoch": 7,
        "arch": "net",
        "best_acc1": torch.tensor(0.75),
        "state_dict": net.state_dict(),
        "optimizer": optimizer.state_dict(),
        "scheduler": schedule.state_dict(),
        "rng": torch.get_rng_state()[:16].clone(),
        "seed": 2**70,
        "note": None,
    }


class Attributes(dict):
    """A dict with a class of its own, as configuration libraries have."""


def with_objects() -> dict:
    """What the training scripts of torchvision, DeiT and MAE save beside the weights."""
    args = argparse.Namespace(lr=0.1, output=Path("a/b"), resume=None, betas=(0.9, 0.99))
    return {
        "args": args,
        "model": Attributes(network().state_dict(), version=2),
        "optimizer": {"momentum": torch.ones(3)},
        "hyper_parameters": Attributes(args=args, net=SimpleNamespace(depth=2)),
        "best": numpy.float64(0.5),
        "history": deque([numpy.arange(3)], maxlen=5),
        "counts": defaultdict(list, a=[1]),
        "started": datetime.datetime(2026, 1, 2),
        "layout": inspect_kind(),
        "state_dict_ema": OrderedDict(w=torch.ones(2), config=args),
    }


def inspect_kind() -> object:
    """A member of an Enum."""
    return inspect.Parameter("x", inspect.Parameter.KEYWORD_ONLY).kind


def save_script(name: str) -> None:
    """A TorchScript archive without the paths of its sources."""
    buffer = io.BytesIO()
    torch.jit.save(torch.jit.script(nn.Linear(1, 1)), buffer)
    with zipfile.ZipFile(buffer) as full, zipfile.ZipFile(HERE / name, "w") as kept:
        for entry in full.infolist():
            if not entry.filename.endswith(".debug_pkl"):
                kept.writestr(entry, full.read(entry), entry.compress_type)


def hex_of(tensor: torch.Tensor) -> str:
    flat = tensor.detach().contiguous().reshape(-1)
    return bytes(flat.view(torch.uint8).tolist()).hex() if flat.numel() else ""


def described(state_dict: dict) -> list:
    return [
        {"name": name, "dtype": DTYPES[t.dtype], "shape": list(t.shape), "hex": hex_of(t)}
        for name, t in state_dict.items()
        if isinstance(t, torch.Tensor)
    ]


def main() -> None:
    torch.manual_seed(1)
    HERE.mkdir(exist_ok=True)
    net = network()
    wrapped = checkpoint()
    beside = OrderedDict(every_type(), version=3, name="x", none=None, rate=0.5, flag=True)
    plain = {key[7:]: value for key, value in wrapped["state_dict"].items()}
    expected = {}

    def save(name: str, value: object, state_dict: dict, **options: object) -> None:
        torch.save(value, HERE / name, **options)
        if state_dict is not None:
            expected[name] = described(state_dict)

    old = {"_use_new_zipfile_serialization": False}
    save("network.weights", net.state_dict(), net.state_dict())
    save("network_old.weights", net.state_dict(), net.state_dict(), **old)
    save("types.weights", beside, beside)
    save("types_old.weights", beside, beside, **old)
    save("views.weights", views(), views())
    save("views_old.weights", views(), views(), **old)
    save("protocol4.weights", net.state_dict(), net.state_dict(), pickle_protocol=4)
    save("protocol5_old.weights", net.state_dict(), net.state_dict(), pickle_protocol=5, **old)
    save("wrapped.weights", wrapped, plain)
    save("wrapped_old.weights", wrapped, plain, **old)
    save("module.weights", nn.Sequential(nn.Linear(1, 1)), None)
    save("malice.weights", {"a": torch.ones(1), "b": Malice()}, None)
    save("malice_old.weights", {"a": torch.ones(1), "b": Malice()}, None, **old)
    save("complex.weights", {"c": torch.ones(1, dtype=torch.complex64)}, None)
    save("numbers.weights", {"epoch": 3, "rate": 0.5}, None)
    objects = with_objects()
    save("objects.weights", objects, objects["model"])
    save("objects_old.weights", objects, objects["model"], **old)
    save("module_beside.weights", {"model": nn.Linear(1, 1), "epoch": 3}, None)
    nested = {"net": network().state_dict(), "ema": {"module.net": network().state_dict()}}
    save("nested.weights", nested, None)
    save_script("script.weights")
    header = json.dumps(
        {"w": {"dtype": "F32", "shape": [2], "data_offsets": [0, 8]}}, separators=(",", ":")
    )
    (HERE / "safetensors.weights").write_bytes(
        struct.pack("<Q", len(header)) + header.encode() + struct.pack("<2f", 1.5, -2)
    )
    expected["safetensors.weights"] = [
        {"name": "w", "dtype": "F32", "shape": [2], "hex": struct.pack("<2f", 1.5, -2).hex()}
    ]
    lines = [f"{json.dumps(name)}: {json.dumps(e)}" for name, e in expected.items()]
    (HERE / "expected.json").write_text("{\n" + ",\n".join(lines) + "\n}\n")


if __name__ == "__main__":
    main()
