#pragma once

#include <cstddef>
#include <cstdint>
#include <string>

namespace dtrain {

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
