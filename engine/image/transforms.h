#pragma once

#include <cstdint>
#include <span>

#include "engine/image/channel_scale.h"
#include "engine/image/image.h"

namespace dtrain {

class Rng;

/// The bounds that RandomResizedCrop draws a crop's share of the area and its
/// width/height between.
struct CropRange {
  double least_scale = 0.08;
  double most_scale = 1;
  double least_ratio = 3.0 / 4;
  double most_ratio = 4.0 / 3;
};

/// The crop that torchvision's RandomResizedCrop takes of an image of `height`
/// × `width`, but with our random numbers. REQUIRES: height and width ≥ 1.
Box RandomResizedCropBox(std::int64_t height, std::int64_t width, Rng& rng,
                         const CropRange& range = {});

/// The image with its shorter side resized to `side`, as torchvision's
/// Resize(side) does it; as it is if that side is no longer.
/// CenterCropped(…, side, …) of it has the same bits as of the image itself.
/// REQUIRES: the image is not empty; side ≥ 1.
[[nodiscard]] Image ShrunkTo(Image image, std::int64_t side);

/// What torchvision's Resize(resize_size) and then CenterCrop(crop_size) make
/// of the image: its shorter side resized, the middle taken, black where it is
/// too small. REQUIRES: the image is not empty; both sizes ≥ 1.
[[nodiscard]] Image CenterCropped(const ImageView& image,
                                  std::int64_t resize_size,
                                  std::int64_t crop_size);

/// The image in shades of gray, as Pillow's convert("L") has them (ITU-R
/// 601-2), each thrice.
[[nodiscard]] Image Grayed(Image image);

/// Writes the image, mirrored if `flip`, as numbers: planes [3, height, width]
/// at `chw`. REQUIRES: three scales; room for as many numbers.
void NormalizeInto(const Image& image, bool flip,
                   std::span<const ChannelScale> scales, float* chw);

}  // namespace dtrain
