#pragma once

#include <cstdint>
#include <filesystem>
#include <vector>

#include "engine/base/api.h"

namespace dtrain {

/// An array of unsigned bytes, last dimension fastest.
struct IdxArray {
  std::vector<std::int64_t> shape;
  std::vector<std::uint8_t> values;
};

/// Reads an IDX file, the format of MNIST (http://yann.lecun.com/exdb/mnist),
/// plain or gzipped. Throws Error(kFailed) that names the file if it cannot be
/// read, is no array of `dimensions` dimensions of unsigned bytes, or does not
/// hold exactly what its header says. Takes no more memory than the file's
/// contents, whatever the header says.
DTRAIN_API IdxArray ReadIdx(const std::filesystem::path& path,
                            std::size_t dimensions);

}  // namespace dtrain
