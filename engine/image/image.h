#pragma once

#include <cstddef>
#include <cstdint>
#include <string>
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

/// PIL's bound against decompression bombs: above it, it warns of an attack.
inline constexpr std::uint64_t kMostPixels = 178'956'970;

/// Throws Error(kFailed): the image `what` cannot be used, `fault` is wrong
/// with it, and it has to be replaced or deleted.
[[noreturn]] void FailImage(const std::string& what, const std::string& fault);

/// Refuses, before anything is allocated, an image that is empty, too large, or
/// has more pixels than a file of `size` bytes can hold at `pixels_per_byte`.
void CheckImageSize(const std::string& what, std::uint64_t height,
                    std::uint64_t width, std::size_t size,
                    std::uint64_t pixels_per_byte);

}  // namespace dtrain
