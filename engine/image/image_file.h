#pragma once

#include <cstdint>
#include <filesystem>
#include <span>
#include <string>

#include "engine/image/image.h"

namespace dtrain {

struct DecodeOptions {
  /// Rotate a JPEG image as its EXIF data says; torchvision's loader does not.
  bool exif_orientation = false;
};

/// Decodes the bytes of a JPEG or PNG file to the pixels of
/// PIL.Image.open(…).convert("RGB"). Throws Error(kFailed) that begins with
/// `what` if they are neither, cut short, too damaged, or of more than
/// 178,956,970 pixels. Any thread.
[[nodiscard]] Image DecodeImage(std::span<const std::uint8_t> file,
                                const std::string& what,
                                const DecodeOptions& options = {});

/// Reads and decodes a file of up to 1 GiB, which the error names.
[[nodiscard]] Image ReadImage(const std::filesystem::path& path,
                              const DecodeOptions& options = {});

/// PIL's limit against decompression bombs, above which it warns.
inline constexpr std::uint64_t kMaxPixels = 178'956'970;

/// Throws Error(kFailed): the image `what` has the fault `fault` and has to be
/// replaced or deleted.
[[noreturn]] void FailImage(const std::string& what, const std::string& fault);

/// Refuses, before anything is allocated, an image that is empty, too large, or
/// has more pixels than a file of `size` bytes can hold at `pixels_per_byte`.
void CheckImageSize(const std::string& what, std::uint64_t height,
                    std::uint64_t width, std::size_t size,
                    std::uint64_t pixels_per_byte);

}  // namespace dtrain
