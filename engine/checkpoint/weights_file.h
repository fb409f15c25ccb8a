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

/// An open file of weights: safetensors or a state dict of torch.save. It is
/// mapped and not copied, so it must not be changed while this lives.
class WeightsFile {
 public:
  WeightsFile(WeightsFile&& other) noexcept;
  WeightsFile& operator=(WeightsFile&& other) noexcept;
  ~WeightsFile();

  /// The tensors in the order of the file. Bytes are row-major, little-endian
  /// and not aligned.
  const std::vector<TensorBytes>& tensors() const;

 private:
  friend WeightsFile OpenWeights(const std::filesystem::path& path);
  explicit WeightsFile(std::span<const std::byte> mapped) : mapped_(mapped) {}

  std::span<const std::byte> mapped_;
  std::vector<TensorBytes> safetensors_;
  std::optional<StateDictFile> state_dict_;
};

/// Opens the file at `path`. Its contents decide the format, not its name.
/// Throws Error(kFailed) that names the file, the fault and what to do.
WeightsFile OpenWeights(const std::filesystem::path& path);

/// Removes the prefixes that wrappers add to every name: "module."
/// (DataParallel), "_orig_mod." (torch.compile) and "model." (Lightning), in
/// any order. With the names of the model in `expected`, removes as many
/// prefixes as make most names match, so that a model whose own names begin
/// with "model." is read, too. Returns the removed prefix.
std::string TakeOffPrefixes(std::vector<TensorBytes>& tensors,
                            const std::set<std::string>& expected = {});

}  // namespace dtrain
