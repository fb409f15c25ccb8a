#pragma once

#include <cstdint>
#include <span>
#include <vector>

#include "engine/base/api.h"
#include "engine/image/channel_scale.h"
#include "engine/image/image.h"

namespace dtrain {

class Rng;

/// Normalisation of pixels: (x/255 − mean)/std, by channel.
struct Normalization {
  std::vector<float> mean;
  std::vector<float> std;
};

/// Normalisation as one factor and one summand for each channel.
DTRAIN_API std::vector<ChannelScale> ChannelScales(
    const Normalization& normalization);

/// Preprocessing of an image.
struct ImageSteps {
  std::int64_t crop = 224;    // side of the network's input, in pixels
  std::int64_t resize = 256;  // shorter side before a central crop
  std::int64_t channels = 3;  // 1: grayscale
  bool augment = false;       // random crop and flip instead
  // Mean and standard deviation of each channel; empty: pixels from 0 to 1.
  Normalization normalization;
};

/// Ranges of RandomResizedCrop: a crop's share of the area, and its ratio
/// width/height.
struct CropRange {
  double least_scale = 0.08;
  double most_scale = 1;
  double least_ratio = 3.0 / 4;
  double most_ratio = 4.0 / 3;
};

/// Returns a crop of an image of `height` × `width` as torchvision's
/// RandomResizedCrop draws it, but with dtrain's random numbers. REQUIRES:
/// height and width ≥ 1.
Box RandomResizedCropBox(std::int64_t height, std::int64_t width, Rng& rng,
                         const CropRange& range = {});

/// Returns the image with its shorter side resized to `side` as by
/// torchvision's Resize(side); unchanged if that side is not longer.
/// CenterCropped(…, side, …) of the result has the same bits as of the image
/// itself. REQUIRES: the image is not empty; side ≥ 1.
[[nodiscard]] Image ShrunkTo(Image image, std::int64_t side);

/// Returns torchvision's CenterCrop(crop_size) of Resize(resize_size) of the
/// image: the middle of the resized image, with black borders if it is smaller.
/// REQUIRES: the image is not empty; both sizes ≥ 1.
[[nodiscard]] Image CenterCropped(const ImageView& image,
                                  std::int64_t resize_size,
                                  std::int64_t crop_size);

/// Returns the image in grey, as by Pillow's convert("L") (ITU-R 601-2), with
/// three equal channels.
[[nodiscard]] Image Grayed(Image image);

/// Writes the image, mirrored if `flip`, as floats [3, height, width] to `chw`.
/// REQUIRES: three scales; `chw` has space for them.
void NormalizeInto(const Image& image, bool flip,
                   std::span<const ChannelScale> scales, float* chw);

}  // namespace dtrain
