"""Measures how long torchvision and PIL need to turn an image file into a normalized tensor.

  images.py DIRECTORY_OF_CLASSES    prints milliseconds per image as JSON

Same as `dtrain-bench images`: one thread, a random crop resized to 224x224 with
antialiasing, half of them mirrored; the median of five passes over all images.
"""
import json
import statistics
import sys
import time

import torch
from torchvision import datasets, transforms

PASSES = 5


def main() -> None:
    torch.set_num_threads(1)
    torch.manual_seed(1)
    # Of a picture of PIL's, RandomResizedCrop always antialiases.
    images = datasets.ImageFolder(sys.argv[1], transforms.Compose([
        transforms.RandomResizedCrop(224), transforms.RandomHorizontalFlip(),
        transforms.ToTensor(),
        transforms.Normalize([0.485, 0.456, 0.406], [0.229, 0.224, 0.225])]))
    taken = []
    for _ in range(PASSES + 1):  # the first warms the page cache
        start = time.perf_counter()
        for index in range(len(images)):
            images[index]
        taken.append(time.perf_counter() - start)
    json.dump({"images": len(images),
               "ms_per_image": 1000 * statistics.median(taken[1:]) / len(images)}, sys.stdout)


if __name__ == "__main__":
    main()
