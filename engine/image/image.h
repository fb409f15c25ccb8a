#pragma once

#include <cstddef>
#include <cstdint>
#include <vector>

namespace dtrain {

/// Pixels that are kept elsewhere, eight bits a channel: [height, width, 3],
/// RGB, without gaps.
struct ImageView {
  std::int64_t height = 0;
  std::int64_t width = 0;
  const std::uint8_t* pixels = nullptr;

  /// The bytes of one row, and where row `y` begins.
  std::size_t stride() const { return static_cast<std::size_t>(width) * 3; }
  const std::uint8_t* row(std::int64_t y) const {
    return pixels + static_cast<std::size_t>(y) * stride();
  }
};

/// A picture in memory, laid out in the same way.
struct Image {
  std::int64_t height = 0;
  std::int64_t width = 0;
  std::vector<std::uint8_t> pixels;

  /// The bytes of one row, and where row `y` begins.
  std::size_t stride() const { return static_cast<std::size_t>(width) * 3; }
  const std::uint8_t* row(std::int64_t y) const {
    return pixels.data() + static_cast<std::size_t>(y) * stride();
  }
  std::uint8_t* row(std::int64_t y) {
    return pixels.data() + static_cast<std::size_t>(y) * stride();
  }

  /// Whoever only looks at pixels takes a view. It lasts as long as they do.
  operator ImageView() const { return {height, width, pixels.data()}; }
};

/// A part of an image.
struct Box {
  std::int64_t top = 0;
  std::int64_t left = 0;
  std::int64_t height = 0;
  std::int64_t width = 0;

  bool operator==(const Box&) const = default;
};

/// An image of zeros.
inline Image BlackImage(std::int64_t height, std::int64_t width) {
  return {height, width,
          std::vector<std::uint8_t>(static_cast<std::size_t>(height) *
                                    static_cast<std::size_t>(width) * 3)};
}

}  // namespace dtrain
