#pragma once

#include <cstddef>
#include <cstdint>
#include <string>
#include <vector>

namespace dtrain {

/// Pixels owned by another object: [height, width, 3], RGB, eight bits per
/// channel, without gaps.
struct ImageView {
  std::int64_t height = 0;
  std::int64_t width = 0;
  const std::uint8_t* pixels = nullptr;

  /// Bytes of one row, and the start of row `y`.
  std::size_t stride() const { return static_cast<std::size_t>(width) * 3; }
  const std::uint8_t* row(std::int64_t y) const {
    return pixels + static_cast<std::size_t>(y) * stride();
  }
};

/// An image that owns its pixels, in the layout of ImageView.
struct Image {
  std::int64_t height = 0;
  std::int64_t width = 0;
  std::vector<std::uint8_t> pixels;
  /// True if it was decoded from grey of 16 bits with values above 255, which
  /// PIL's conversion clips.
  bool is_clipped = false;

  /// Bytes of one row, and the start of row `y`.
  std::size_t stride() const { return static_cast<std::size_t>(width) * 3; }
  const std::uint8_t* row(std::int64_t y) const {
    return pixels.data() + static_cast<std::size_t>(y) * stride();
  }
  std::uint8_t* row(std::int64_t y) {
    return pixels.data() + static_cast<std::size_t>(y) * stride();
  }

  /// A view, for code that only reads; valid as long as the pixels.
  operator ImageView() const { return {height, width, pixels.data()}; }
};

/// A rectangle of an image.
struct Box {
  std::int64_t top = 0;
  std::int64_t left = 0;
  std::int64_t height = 0;
  std::int64_t width = 0;

  bool operator==(const Box&) const = default;
};

/// Returns an image of zeros.
inline Image BlackImage(std::int64_t height, std::int64_t width) {
  return {
      .height = height,
      .width = width,
      .pixels = std::vector<std::uint8_t>(static_cast<std::size_t>(height) *
                                          static_cast<std::size_t>(width) * 3)};
}

}  // namespace dtrain
