#pragma once

#include <cstdint>
#include <filesystem>
#include <vector>

#include "engine/base/api.h"

namespace dtrain {

/// Array of unsigned bytes in row-major order.
struct IdxArray {
  std::vector<std::int64_t> shape;
  std::vector<std::uint8_t> values;
};

/// Reads an IDX file, the format of MNIST (http://yann.lecun.com/exdb/mnist),
/// plain or gzipped. Throws Error(kFailed) that names the file if it cannot be
/// read, is not an array of unsigned bytes with `dimensions` dimensions, or its
/// size differs from its header. Never allocates more than the file contains,
/// whatever the header claims.
DTRAIN_API IdxArray ReadIdx(const std::filesystem::path& path,
                            std::size_t dimensions);

/// Side of a CIFAR-10 image in pixels, and its number of values: 3 planes (red,
/// green, blue) of 32×32.
inline constexpr std::int64_t kCifar10Side = 32;
inline constexpr std::int64_t kCifar10Values = 3 * kCifar10Side * kCifar10Side;
inline constexpr int kCifar10Classes = 10;

/// Images of CIFAR-10 and their classes, 0 to 9.
struct Cifar10Batch {
  std::vector<std::uint8_t> labels;  // [images]
  std::vector<std::uint8_t> images;  // [images, 3, 32, 32]
};

/// Reads one file of the binary version of CIFAR-10, plain or gzipped: records
/// of a class and an image (https://www.cs.toronto.edu/~kriz/cifar.html).
/// Throws Error(kFailed) that names the file if it cannot be read, is empty,
/// has an incomplete record, or a class above 9.
DTRAIN_API Cifar10Batch ReadCifar10(const std::filesystem::path& path);

}  // namespace dtrain
