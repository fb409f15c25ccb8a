#pragma once

#include <cstdint>
#include <filesystem>
#include <span>
#include <string>

#include "engine/image/image.h"

namespace dtrain {

struct DecodeOptions {
  /// Turn a JPEG image as its EXIF data says; torchvision's loader does not.
  bool exif_orientation = false;
};

/// The pixels of a JPEG or PNG file's bytes, as
/// PIL.Image.open(…).convert("RGB") has them. Throws Error(kFailed) that begins
/// with `what` if they are neither, cut short, damaged beyond reading, or of
/// more than 178,956,970 pixels. May be called by many threads at once.
[[nodiscard]] Image DecodeImage(std::span<const std::uint8_t> file,
                                const std::string& what,
                                const DecodeOptions& options = {});

/// The same of a file of up to 1 GiB, which the error names.
[[nodiscard]] Image ReadImage(const std::filesystem::path& path,
                              const DecodeOptions& options = {});

}  // namespace dtrain
