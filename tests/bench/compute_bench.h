#pragma once

#include <cstdint>
#include <filesystem>
#include <vector>

#include <nlohmann/json.hpp>

namespace dtrain {

/// Returns the upper median. REQUIRES: `values` is not empty.
double Median(std::vector<double> values);

/// Measures the sum of `bytes` bytes of float32 over the shared memory of
/// `ranks` processes: medians of rank 0's wall time and CPU time.
nlohmann::json AllReduceTime(int ranks, std::int64_t bytes);

/// Measures the convolutions of the LeNet and CIFAR-10 models on one thread,
/// forward and backward, for every variant of the kernels that this CPU runs.
nlohmann::json ConvTimes();

/// Measures how long one thread needs to turn an image file of the folder into
/// training data: JPEG or PNG, a random crop resized to 224x224, half of them
/// mirrored, normalized. Returns the median of several passes over all images.
/// Throws Error if the folder has no classes or an image cannot be read.
nlohmann::json ImageTimes(const std::filesystem::path& folder);

/// Measures the same for images of a cache with a shorter side of 256. Throws
/// Error also if the cache cannot be created.
nlohmann::json CachedImageTimes(const std::filesystem::path& folder);

}  // namespace dtrain
