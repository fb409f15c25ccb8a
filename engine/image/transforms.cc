// Augmentation and evaluation of images by the arithmetic of torchvision and
// PIL, with their rounding: a crop that is one pixel off, or another way to
// round gray values, would make accuracies differ from those of PyTorch. Random
// numbers are dtrain's own: the distributions are torchvision's, the draws are
// not.

#include "engine/image/transforms.h"

#include <algorithm>
#include <array>
#include <cassert>
#include <cmath>

#include "engine/base/rng.h"
#include "engine/image/resize.h"

namespace dtrain {
namespace {

constexpr int kCropAttempts = 10;

// Python's round: halves go to the even neighbour, the default rounding mode.
std::int64_t RoundHalfEven(double value) {
  return static_cast<std::int64_t>(std::nearbyint(value));
}

struct Sides {
  std::int64_t height;
  std::int64_t width;
};

// Returns the sides after torchvision's Resize(shorter).
Sides ResizedSides(const ImageView& image, std::int64_t shorter) {
  const std::int64_t now = std::min(image.height, image.width);
  const auto resized = [&](std::int64_t side) {
    return side == now
               ? shorter
               : static_cast<std::int64_t>(static_cast<double>(shorter * side) /
                                           static_cast<double>(now));
  };
  return {resized(image.height), resized(image.width)};
}

// One side of torchvision's CenterCrop: the middle `crop` pixels.
struct CenterSide {
  CenterSide(std::int64_t side, std::int64_t crop)
      : from(side > crop ? RoundHalfEven(static_cast<double>(side - crop) / 2)
                         : 0),
        padding(side > crop ? 0 : (crop - side) / 2),
        count(std::min(side, crop)) {}

  std::int64_t from;     // the first pixel taken
  std::int64_t padding;  // black pixels before it
  std::int64_t count;
};

// Returns the largest box in the middle whose ratio is in the range.
Box FallbackCrop(std::int64_t height, std::int64_t width,
                 const CropRange& range) {
  const auto high = static_cast<double>(height);
  const auto wide = static_cast<double>(width);
  Box box{.height = height, .width = width};
  if (wide / high < range.least_ratio) {
    box.height = RoundHalfEven(wide / range.least_ratio);
  } else if (wide / high > range.most_ratio) {
    box.width = RoundHalfEven(high * range.most_ratio);
  }
  // For an image one pixel high or wide, rounding can give one pixel too many.
  box.height = std::clamp<std::int64_t>(box.height, 1, height);
  box.width = std::clamp<std::int64_t>(box.width, 1, width);
  box.top = (height - box.height) / 2;
  box.left = (width - box.width) / 2;
  return box;
}

}  // namespace

// torchvision's RandomResizedCrop: an area and the logarithm of a ratio are
// drawn uniformly, and the box is tried up to ten times until it fits.
Box RandomResizedCropBox(std::int64_t height, std::int64_t width, Rng& rng,
                         const CropRange& range) {
  const double area = static_cast<double>(height) * static_cast<double>(width);
  const double least_log = std::log(range.least_ratio);
  const double most_log = std::log(range.most_ratio);
  for (int attempt = 0; attempt < kCropAttempts; ++attempt) {
    const double target =
        area * rng.Uniform(range.least_scale, range.most_scale);
    const double ratio = std::exp(rng.Uniform(least_log, most_log));
    Box box{.height = RoundHalfEven(std::sqrt(target / ratio)),
            .width = RoundHalfEven(std::sqrt(target * ratio))};
    if (box.width < 1 || box.width > width || box.height < 1 ||
        box.height > height) {
      continue;
    }
    box.top = static_cast<std::int64_t>(
        rng.Below(static_cast<std::uint64_t>(height - box.height + 1)));
    box.left = static_cast<std::int64_t>(
        rng.Below(static_cast<std::uint64_t>(width - box.width + 1)));
    return box;
  }
  return FallbackCrop(height, width, range);
}

Image ShrunkTo(Image image, std::int64_t side) {
  if (std::min(image.height, image.width) <= side) return image;
  const auto [height, width] = ResizedSides(image, side);
  return ResizeBilinear(image, {.height = image.height, .width = image.width},
                        height, width);
}

Image CenterCropped(const ImageView& image, std::int64_t resize_size,
                    std::int64_t crop_size) {
  const auto [height, width] = ResizedSides(image, resize_size);
  const CenterSide down(height, crop_size);
  const CenterSide across(width, crop_size);
  Image middle = ResizeBilinear(
      image, {.height = image.height, .width = image.width}, height, width,
      {down.from, across.from, down.count, across.count});
  if (middle.height == crop_size && middle.width == crop_size) return middle;
  Image padded = BlackImage(crop_size, crop_size);
  for (std::int64_t y = 0; y < middle.height; ++y) {
    std::copy_n(middle.row(y), middle.stride(),
                padded.row(y + down.padding) + 3 * across.padding);
  }
  return padded;
}

// ITU-R 601: 0.299 R + 0.587 G + 0.114 B in units of 2^-16, rounded, as in
// Pillow.
Image Grayed(Image image) {
  for (std::size_t i = 0; i + 2 < image.pixels.size(); i += 3) {
    std::uint8_t* rgb = image.pixels.data() + i;
    const std::uint32_t luma =
        rgb[0] * 19595U + rgb[1] * 38470U + rgb[2] * 7471U + 0x8000U;
    rgb[0] = rgb[1] = rgb[2] = static_cast<std::uint8_t>(luma >> 16);
  }
  return image;
}

void NormalizeInto(const Image& image, bool flip,
                   std::span<const ChannelScale> scales, float* chw) {
  assert(scales.size() == 3);
  // A channel has only 256 values: a table is faster and gives the same bits.
  std::array<std::array<float, 256>, 3> values;
  for (std::size_t c = 0; c < 3; ++c) {
    for (std::size_t pixel = 0; pixel < 256; ++pixel) {
      values[c][pixel] =
          NormalizePixel(static_cast<std::uint8_t>(pixel), scales[c]);
    }
  }
  const std::int64_t plane = image.height * image.width;
  const std::int64_t step = flip ? -3 : 3;
  for (std::int64_t y = 0; y < image.height; ++y) {
    const std::uint8_t* pixel =
        image.row(y) + (flip ? 3 * (image.width - 1) : 0);
    for (std::int64_t x = 0; x < image.width; ++x, pixel += step, ++chw) {
      chw[0] = values[0][pixel[0]];
      chw[plane] = values[1][pixel[1]];
      chw[2 * plane] = values[2][pixel[2]];
    }
  }
}

std::vector<ChannelScale> ChannelScales(const Normalization& normalization) {
  std::vector<ChannelScale> scales;
  for (std::size_t c = 0; c < normalization.mean.size(); ++c) {
    const double mean = normalization.mean[c];
    const double std = normalization.std[c];
    scales.push_back({.scale = static_cast<float>(1 / (255 * std)),
                      .bias = static_cast<float>(-mean / std)});
  }
  return scales;
}

}  // namespace dtrain
