#pragma once

#include <cstdint>
#include <filesystem>
#include <functional>
#include <span>
#include <string>
#include <vector>

#include "engine/data/data_directory.h"
#include "engine/data/memory_source.h"

namespace dtrain {

/// Images of one size and their classes, as bytes.
struct LabeledBytes {
  std::vector<std::uint8_t> labels;  // [images]
  std::vector<std::uint8_t> images;  // [images, values of one]
};

/// Two image sets that belong together; the second may be empty.
struct SetPair {
  ImageSet first;
  ImageSet second;
};

/// How a pair of sets is made once and then only mapped, by all trials.
struct PreparedSets {
  std::string name;  // of the file in the cache: another for other contents
  std::int64_t channels = 1;
  std::int64_t side = 0;  // images are square
  std::function<std::pair<LabeledBytes, LabeledBytes>()> read;
};

/// The pair that `sets` tells of, from the cache or else read and put there.
/// Throws what `read` throws.
SetPair OpenSetPair(const PreparedSets& sets, const ReadVariable& variable);

/// A text that changes with the files: their paths, sizes and times.
std::string FilesKey(std::span<const std::filesystem::path> files);

}  // namespace dtrain
