#include "engine/image/resize.h"

#include <algorithm>
#include <cassert>
#include <vector>

#include "engine/image/resample_rows.h"
#include "engine/image/resample_taps.h"

namespace dtrain {
namespace {

[[maybe_unused]] bool Contains(std::int64_t height, std::int64_t width,
                               const Box& box) {
  return box.top >= 0 && box.left >= 0 && box.height >= 1 && box.width >= 1 &&
         box.top <= height - box.height && box.left <= width - box.width;
}

// Rows [taps.first(), taps.end()) of the crop, resampled across.
std::vector<std::uint8_t> AcrossRows(const ImageView& from, const Box& crop,
                                     const ResampleTaps& across,
                                     const ResampleTaps& down) {
  const std::int64_t rows = down.end() - down.first();
  std::vector<std::uint8_t> result(static_cast<std::size_t>(rows) *
                                   across.size() * 3);
  const std::uint8_t* pixels =
      from.row(crop.top + down.first()) + 3 * crop.left;
  ResampleAcross({pixels, from.stride()}, rows, across, result.data());
  return result;
}

}  // namespace

Image ResizeBilinear(const ImageView& from, const Box& crop,
                     std::int64_t height, std::int64_t width) {
  return ResizeBilinear(from, crop, height, width,
                        {.height = height, .width = width});
}

Image ResizeBilinear(const ImageView& from, const Box& crop,
                     std::int64_t height, std::int64_t width,
                     const Box& window) {
  assert(Contains(from.height, from.width, crop));
  assert(Contains(height, width, window));
  const ResampleTaps across(crop.width, width, window.left, window.width);
  const ResampleTaps down(crop.height, height, window.top, window.height);
  Image result = BlackImage(window.height, window.width);
  std::vector<std::uint8_t> rows;
  PixelRows narrowed{from.row(crop.top) + 3 * (crop.left + window.left),
                     from.stride()};
  // A side that keeps its length keeps its pixels.
  if (crop.width != width) {
    rows = AcrossRows(from, crop, across, down);
    narrowed = {rows.data(), result.stride(), down.first()};
  }
  ResampleDown(narrowed, result.stride(), down, result.pixels.data());
  return result;
}

}  // namespace dtrain
