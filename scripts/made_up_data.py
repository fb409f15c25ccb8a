#!/usr/bin/env python3
"""Writes data sets of random bytes with the shape of MNIST and CIFAR-10.

  scripts/made_up_data.py DIR

They take as long to read and to train on as the real ones, but teach a model nothing. The bytes
are the same in every run. Existing sets are kept.
"""
import os
import random
import struct
import sys

MARK = "made-up.txt"  # in the directory of each set
CLASSES = 10
MNIST = {"train": 60_000, "t10k": 10_000}
MNIST_SIDE = 28
CIFAR10 = (*(f"data_batch_{number}.bin" for number in range(1, 6)), "test_batch.bin")
CIFAR10_IMAGES = 10_000  # in each file
CIFAR10_BYTES = 3 * 32 * 32


def labels(source: random.Random, count: int) -> bytes:
    return bytes(source.choices(range(CLASSES), k=count))


def mnist(source: random.Random, directory: str) -> None:
    """Writes idx files: a magic number, the sizes in big-endian order, then bytes."""
    for part, count in MNIST.items():
        with open(os.path.join(directory, f"{part}-images-idx3-ubyte"), "wb") as file:
            file.write(struct.pack(">4I", 0x803, count, MNIST_SIDE, MNIST_SIDE))
            file.write(source.randbytes(count * MNIST_SIDE**2))
        with open(os.path.join(directory, f"{part}-labels-idx1-ubyte"), "wb") as file:
            file.write(struct.pack(">2I", 0x801, count) + labels(source, count))


def cifar10(source: random.Random, directory: str) -> None:
    """Writes records of a label and an image."""
    for name in CIFAR10:
        records = bytearray(source.randbytes(CIFAR10_IMAGES * (1 + CIFAR10_BYTES)))
        records[::1 + CIFAR10_BYTES] = labels(source, CIFAR10_IMAGES)
        with open(os.path.join(directory, name), "wb") as file:
            file.write(records)


def main() -> int:
    if len(sys.argv) != 2 or sys.argv[1].startswith("-"):
        sys.exit(__doc__)
    for name, write in (("mnist", mnist), ("cifar-10-batches-bin", cifar10)):
        directory = os.path.join(sys.argv[1], name)
        if os.path.isdir(directory):
            continue
        partial = directory + ".partial"
        os.makedirs(partial, exist_ok=True)
        write(random.Random(name), partial)
        with open(os.path.join(partial, MARK), "w") as file:
            file.write("random bytes, written by scripts/made_up_data.py\n")
        os.replace(partial, directory)
    return 0


if __name__ == "__main__":
    sys.exit(main())
