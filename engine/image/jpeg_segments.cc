#include "engine/image/jpeg_segments.h"

namespace dtrain {
namespace {

// Markers without a length behind them, besides restarts: TEM, SOI, EOI.
bool StandsAlone(std::uint8_t marker) {
  return marker == 0x01 || marker == 0xD8 || marker == kJpegEnd;
}

// In entropy-coded data, restarts and stuffed zeros are not markers.
bool IsData(std::uint8_t marker) {
  return marker == 0x00 || (marker >= 0xD0 && marker <= 0xD7);
}

}  // namespace

std::optional<JpegSegment> JpegSegments::Next() {
  // Whatever is no marker is skipped, as libjpeg does.
  while (at_ + 1 < file_.size()) {
    const std::uint8_t marker = file_[at_ + 1];
    if (file_[at_] != 0xFF || marker == 0xFF || IsData(marker)) {
      ++at_;
      continue;
    }
    at_ += 2;
    if (StandsAlone(marker)) return JpegSegment{.marker = marker};
    if (file_.size() - at_ < 2) break;
    const std::size_t length = file_[at_] * 256u + file_[at_ + 1];
    if (length < 2 || length > file_.size() - at_) break;
    const auto payload = file_.subspan(at_ + 2, length - 2);
    at_ += length;
    return JpegSegment{marker, payload};
  }
  at_ = file_.size();
  return std::nullopt;
}

bool JpegIsWhole(std::span<const std::uint8_t> file) {
  JpegSegments segments(file);
  while (const auto segment = segments.Next()) {
    if (segment->marker == kJpegEnd) return true;
  }
  return false;
}

}  // namespace dtrain
