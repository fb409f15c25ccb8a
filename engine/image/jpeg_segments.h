#pragma once

#include <cstddef>
#include <cstdint>
#include <optional>
#include <span>

namespace dtrain {

/// A marker of a JPEG file and what stands between it and the next: the payload
/// without its length. Entropy-coded data is no part of it.
struct JpegSegment {
  std::uint8_t marker = 0;
  std::span<const std::uint8_t> payload;
};

inline constexpr std::uint8_t kJpegApp1 = 0xE1;
inline constexpr std::uint8_t kJpegEnd = 0xD9;

/// Walks the markers of a JPEG file (ITU-T T.81, annex B) from its beginning to
/// its end. Copes with any bytes.
class JpegSegments {
 public:
  /// REQUIRES: `file` outlives this.
  explicit JpegSegments(std::span<const std::uint8_t> file) : file_(file) {}

  /// The next one, or nothing behind the last or where the file is cut short.
  std::optional<JpegSegment> Next();

 private:
  std::span<const std::uint8_t> file_;
  std::size_t at_ = 0;
};

/// Whether the file goes on to its end marker.
bool JpegIsWhole(std::span<const std::uint8_t> file);

}  // namespace dtrain
