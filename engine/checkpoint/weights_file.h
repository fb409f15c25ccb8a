#pragma once

#include <cstddef>
#include <filesystem>
#include <optional>
#include <set>
#include <span>
#include <string>
#include <utility>
#include <vector>

#include "engine/checkpoint/safetensors.h"
#include "engine/checkpoint/state_dict_file.h"

namespace dtrain {

/// A file of weights, open: safetensors, or what torch.save wrote. It is mapped
/// and not copied, so it must not be changed while this lives.
class WeightsFile {
 public:
  WeightsFile(WeightsFile&& other) noexcept;
  WeightsFile& operator=(WeightsFile&& other) noexcept;
  ~WeightsFile();

  /// In the order of the file; bytes are row-major and little-endian, at any
  /// address.
  const std::vector<TensorBytes>& tensors() const;

 private:
  friend WeightsFile OpenWeights(const std::filesystem::path& path);
  explicit WeightsFile(std::span<const std::byte> mapped) : mapped_(mapped) {}

  std::span<const std::byte> mapped_;
  std::vector<TensorBytes> safetensors_;
  std::optional<StateDictFile> state_dict_;
};

/// Opens the file at `path`; what it is, its content says, not its name. Throws
/// Error(kFailed) that names the file, what is wrong with it and what to do.
WeightsFile OpenWeights(const std::filesystem::path& path);

/// Removes the prefixes that wrappers put in front of every name: "module."
/// (DataParallel), "_orig_mod." (torch.compile) and "model." (Lightning), in
/// any order. With the names of the model in `expected`, removes as many as
/// match the most of them, so a model whose own names begin with "model." fits
/// too. Returns what was removed from each name.
std::string TakeOffPrefixes(std::vector<TensorBytes>& tensors,
                            const std::set<std::string>& expected = {});

}  // namespace dtrain
