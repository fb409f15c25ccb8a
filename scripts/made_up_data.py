#!/usr/bin/env python3
"""Writes data sets of random bytes with the shape of MNIST and CIFAR-10, and a small folder of
images for ImageNetTrial.

  scripts/made_up_data.py DIR

They take as long to read and to train on as the real ones, but teach a model nothing. The bytes
are the same in every run. Existing sets are kept.
"""
import os
import random
import struct
import sys
import zlib

MARK = "made-up.txt"  # in the directory of each set
CLASSES = 10
MNIST = {"train": 60_000, "t10k": 10_000}
MNIST_SIDE = 28
CIFAR10 = (*(f"data_batch_{number}.bin" for number in range(1, 6)), "test_batch.bin")
CIFAR10_IMAGES = 10_000  # in each file
CIFAR10_BYTES = 3 * 32 * 32
FOLDER = {"train": 16, "val": 4}  # images of each class
FOLDER_SIDE = 96


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


def png(source: random.Random, side: int) -> bytes:
    """Returns an RGB image of random bytes; a PNG, since Python has no JPEG encoder."""
    def chunk(kind: bytes, data: bytes) -> bytes:
        return (struct.pack(">I", len(data)) + kind + data
                + struct.pack(">I", zlib.crc32(kind + data)))

    header = struct.pack(">2I5B", side, side, 8, 2, 0, 0, 0)  # 8 bits, RGB
    rows = b"".join(b"\0" + source.randbytes(3 * side) for _ in range(side))
    return (b"\x89PNG\r\n\x1a\n" + chunk(b"IHDR", header)
            + chunk(b"IDAT", zlib.compress(rows)) + chunk(b"IEND", b""))


def folder(source: random.Random, directory: str) -> None:
    """Writes train/ and val/ with a directory for each class."""
    for part, count in FOLDER.items():
        for kind in range(CLASSES):
            path = os.path.join(directory, part, f"class{kind}")
            os.makedirs(path, exist_ok=True)
            for number in range(count):
                with open(os.path.join(path, f"{number}.png"), "wb") as file:
                    file.write(png(source, FOLDER_SIDE))


SETS = {"mnist": mnist, "cifar-10-batches-bin": cifar10, "imagenet": folder}


def main() -> int:
    if len(sys.argv) != 2 or sys.argv[1].startswith("-"):
        sys.exit(__doc__)
    for name, write in SETS.items():
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
