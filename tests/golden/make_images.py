#!/usr/bin/env python3
"""Records images/ and images.json: small image files of many kinds, and the results of PIL and
torchvision for them. Needs Pillow, numpy, torch and torchvision."""

import io
import json
import struct
import warnings
import zlib
from pathlib import Path

import numpy as np
from PIL import Image, ImageOps
from torchvision import transforms
from torchvision.transforms import functional

HERE = Path(__file__).parent
FILES = HERE / "images"
BILINEAR = transforms.InterpolationMode.BILINEAR
MEAN, STD = [0.485, 0.456, 0.406], [0.229, 0.224, 0.225]


def scene(height: int, width: int) -> Image.Image:
    """Ramps, an edge and some texture."""
    y, x = np.mgrid[0:height, 0:width]
    red = x * 255 // (width - 1)
    green = np.where(x + 2 * y < width, y * 255 // (height - 1), 255 - red)
    blue = (x * x * 7 + y * y * 5 + x * y * 3) % 128 + 64
    return Image.fromarray(np.stack([red, green, blue], axis=-1).astype(np.uint8))


def chunk(kind: bytes, data: bytes) -> bytes:
    return struct.pack(">I", len(data)) + kind + data + struct.pack(">I", zlib.crc32(kind + data))


def png(size: tuple, depth: int, color: int, rows: list, extra: bytes = b"") -> bytes:
    header = struct.pack(">IIBBBBB", size[0], size[1], depth, color, 0, 0, 0)
    data = zlib.compress(b"".join(b"\0" + row for row in rows), 9)
    return (b"\x89PNG\r\n\x1a\n" + chunk(b"IHDR", header) + extra + chunk(b"IDAT", data)
            + chunk(b"IEND", b""))


def interlaced_png(pixels: np.ndarray) -> bytes:
    """RGB interlaced by Adam7, which Pillow cannot write."""
    data = b""
    for x, y, dx, dy in [(0, 0, 8, 8), (4, 0, 8, 8), (0, 4, 4, 8), (2, 0, 4, 4), (0, 2, 2, 4),
                         (1, 0, 2, 2), (0, 1, 1, 2)]:
        data += b"".join(b"\0" + row.tobytes() for row in pixels[y::dy, x::dx])
    header = struct.pack(">IIBBBBB", pixels.shape[1], pixels.shape[0], 8, 2, 0, 0, 1)
    return (b"\x89PNG\r\n\x1a\n" + chunk(b"IHDR", header) + chunk(b"IDAT", zlib.compress(data, 9))
            + chunk(b"IEND", b""))


def packed(bits: int, height: int, width: int) -> list:
    """Rows of grey or palette values of `bits` bits."""
    y, x = np.mgrid[0:height, 0:width]
    values = ((x + 3 * y) % (1 << bits)).astype(np.uint8)
    unpacked = np.unpackbits(values[..., None], axis=-1)[..., 8 - bits:].reshape(height, -1)
    return [row.tobytes() for row in np.packbits(unpacked, axis=-1)]


def wide(channels: int, height: int, width: int) -> list:
    """Rows of 16-bit values."""
    values = (np.arange(height * width * channels, dtype=np.uint64) * 2459 % 65536)
    return [row.tobytes() for row in values.astype(">u2").reshape(height, -1)]


def saved(image: Image.Image, kind: str, **options) -> bytes:
    out = io.BytesIO()
    image.save(out, kind, **options)
    return out.getvalue()


def exif(orientation: int, order: str) -> bytes:
    mark = {"<": b"II", ">": b"MM"}[order]
    entry = struct.pack(order + "HHIHH", 0x0112, 3, 1, orientation, 0)
    return b"Exif\0\0" + mark + struct.pack(order + "HIH", 42, 8, 1) + entry + b"\0\0\0\0"


def jpegs() -> dict:
    picture = scene(22, 30)
    files = {
        "420.jpg": saved(picture, "jpeg", quality=85, subsampling="4:2:0"),
        "422.jpg": saved(picture, "jpeg", quality=85, subsampling="4:2:2"),
        "444.jpg": saved(picture, "jpeg", quality=92, subsampling="4:4:4"),
        "odd.jpg": saved(scene(27, 35), "jpeg", quality=75, subsampling="4:2:0"),
        "gray.jpg": saved(picture.convert("L"), "jpeg", quality=85),
        "progressive.jpg": saved(picture, "jpeg", quality=85, progressive=True),
        "restarts.jpg": saved(picture, "jpeg", quality=85, restart_marker_blocks=2),
        "cmyk.jpg": saved(picture.convert("CMYK"), "jpeg", quality=90),
    }
    for orientation in range(1, 9):
        order = "<>"[orientation % 2]
        files[f"exif{orientation}.jpg"] = saved(
            scene(8, 12), "jpeg", quality=90, exif=exif(orientation, order))
    junk = files["420.jpg"]
    files["junk.jpg"] = junk[:-2] + b"\0\1\2\3" + junk[-2:] + b"more"
    return files


def pngs() -> dict:
    picture = scene(13, 11)
    alpha = picture.copy()
    alpha.putalpha(Image.fromarray(np.arange(143, dtype=np.uint8).reshape(13, 11)))
    palette = chunk(b"PLTE", bytes(range(30, 30 + 3 * 9)))
    size = (11, 7)
    files = {
        "rgb.png": saved(picture, "png"),
        "rgba.png": saved(alpha, "png"),
        "la.png": saved(alpha.convert("LA"), "png"),
        "interlaced.png": interlaced_png(np.array(picture)),
        "palette8.png": saved(picture.quantize(20), "png"),
        "palette4.png": png(size, 4, 3, packed(4, 7, 11), palette),
        "palette4_alpha.png": png(size, 4, 3, packed(4, 7, 11),
                                  palette + chunk(b"tRNS", b"\0\x80")),
        "gray2_alpha.png": png(size, 2, 0, packed(2, 7, 11), chunk(b"tRNS", b"\0\1")),
    }
    for bits in [1, 2, 4, 8]:
        files[f"gray{bits}.png"] = png(size, bits, 0, packed(bits, 7, 11))
    for name, color, channels in [("gray16", 0, 1), ("rgb16", 2, 3), ("la16", 4, 2),
                                  ("rgba16", 6, 4)]:
        files[f"{name}.png"] = png(size, 16, color, wide(channels, 7, 11))
    # The first pixels in the dark, where PIL clips instead of scaling.
    files["gray16_dark.png"] = png((4, 1), 16, 0, [struct.pack(">4H", 5, 255, 256, 65535)])
    return files


def recorded(pixels) -> dict:
    array = np.array(pixels)
    return {"height": array.shape[0], "width": array.shape[1], "pixels": array.tobytes().hex()}


def decoded(name: str) -> dict:
    image = Image.open(FILES / name)
    record = {"name": name, **recorded(image.convert("RGB"))}
    if name.startswith("exif"):
        record["upright"] = recorded(ImageOps.exif_transpose(image.convert("RGB")))
    return record


def resized() -> list:
    """PIL's crop [top, left, height, width] and resize of a scene. Resizes horizontally, then
    vertically in a second call, since Pillow 13 and later may swap the order."""
    records = []
    for source, crop, to in [
            ((41, 31), (0, 0, 41, 31), (13, 13)), ((41, 31), (5, 3, 27, 20), (11, 21)),
            ((41, 31), (20, 13, 21, 18), (5, 40)), ((41, 31), (10, 10, 1, 1), (4, 3)),
            ((41, 31), (0, 0, 41, 31), (1, 1)), ((41, 31), (7, 9, 15, 15), (15, 15)),
            ((41, 31), (7, 9, 15, 15), (15, 22)), ((41, 31), (7, 9, 15, 15), (22, 15)),
            ((41, 31), (40, 30, 1, 1), (2, 9)), ((2, 300), (0, 0, 2, 300), (3, 7))]:
        cropped = functional.crop(scene(*source), *crop)
        across = cropped.resize((to[1], crop[2]), Image.Resampling.BILINEAR)
        result = across.resize((to[1], to[0]), Image.Resampling.BILINEAR)
        records.append({"source": source, "crop": crop, **recorded(result)})
    return records


def centered() -> list:
    records = []
    for source, resize, crop in [((41, 31), 16, 14), ((31, 41), 16, 13), ((22, 30), 30, 21),
                                 ((41, 31), 7, 11), ((31, 41), 10, 12), ((20, 20), 20, 20),
                                 ((23, 40), 11, 15)]:
        transform = transforms.Compose(
            [transforms.Resize(resize, BILINEAR), transforms.CenterCrop(crop)])
        records.append({"source": source, "resize": resize, "crop": crop,
                        **recorded(transform(scene(*source)))})
    return records


def normalized() -> dict:
    tensor = functional.normalize(functional.to_tensor(scene(6, 7)), MEAN, STD)
    return {"source": (6, 7), "mean": MEAN, "std": STD, "values": tensor.flatten().tolist(),
            "flipped": functional.hflip(tensor).flatten().tolist()}


def main() -> None:
    warnings.filterwarnings("ignore", message="Palette images with Transparency")
    FILES.mkdir(exist_ok=True)
    files = {**jpegs(), **pngs()}
    huge = png((20000, 20000), 8, 0, [])
    for name, data in [*files.items(), ("huge.png", huge)]:
        (FILES / name).write_bytes(data)
    # By row, in hex: the scenes of which the transforms below are made.
    sizes = [(41, 31), (31, 41), (2, 300), (22, 30), (20, 20), (23, 40), (6, 7)]
    scenes = [recorded(scene(*size)) for size in sizes]
    records = {"decoded": [decoded(name) for name in files], "scenes": scenes,
               "resized": resized(), "centered": centered(), "normalized": normalized()}
    (HERE / "images.json").write_text(json.dumps(records, indent=0, separators=(",", ":")) + "\n")


if __name__ == "__main__":
    main()
