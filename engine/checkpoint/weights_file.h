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
#include "engine/checkpoint/zip_file.h"

namespace dtrain {

/// The tensors of a file that `torch.save(model.state_dict(), path)` wrote, in
/// either of PyTorch's formats. Runs nothing that the file contains.
///
/// The state dict may be in a checkpoint under "state_dict", "model" or
/// "model_state_dict", or under a key that the caller names. Values beside the
/// tensors that contain none are ignored. Names are not changed:
/// StripPrefixes is for wrapped models.
class StateDictFile {
 public:
  /// Reads the bytes of a complete file. `key` names the state dict in a
  /// checkpoint, with dots between the keys of nested dicts; empty: the usual
  /// one. REQUIRES: `file` outlives this. Throws Error(kFailed) that names
  /// `what`, the fault and what to do.
  StateDictFile(std::span<const std::byte> file, const std::string& what,
                const std::string& key = "");
  StateDictFile(StateDictFile&&) = default;
  StateDictFile& operator=(StateDictFile&&) = default;

  /// The tensors in the order of the dict. Bytes are row-major, little-endian
  /// and not aligned; they refer to the file unless they had to be gathered.
  const std::vector<TensorBytes>& tensors() const { return tensors_; }
  /// Keys of the checkpoint's other state dicts, such as "state_dict_ema", in
  /// its order.
  const std::vector<std::string>& other_keys() const { return other_keys_; }

 private:
  std::vector<TensorBytes> tensors_;
  std::vector<std::string> other_keys_;
  std::vector<std::vector<std::byte>> copies_;  // of tensors that are strided
};

/// Writes to `sink` a file that `torch.load(path, weights_only=True)` reads as
/// an OrderedDict of `tensors`, in their order: PyTorch's ZIP format, the
/// counterpart of StateDictFile. Tensors that refer to the same bytes share
/// them there, as tied parameters do. Copies no tensor.
///
/// REQUIRES: names differ and are UTF-8, and the size of every tensor matches
/// its shape and type. Throws Error(kUsage) that names the tensor and what to
/// do if PyTorch has no storage of its type, and what `sink` throws.
void WriteStateDict(std::span<const TensorBytes> tensors, const ByteSink& sink);

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
  /// See StateDictFile::other_keys.
  std::vector<std::string> other_keys() const;

 private:
  friend WeightsFile OpenWeights(const std::filesystem::path& path,
                                 const std::string& key);
  explicit WeightsFile(std::span<const std::byte> mapped) : mapped_(mapped) {}

  std::span<const std::byte> mapped_;
  std::vector<TensorBytes> safetensors_;
  std::optional<StateDictFile> state_dict_;
};

/// Opens the file at `path`. Its contents decide the format, not its name.
/// `key`: see StateDictFile. Throws Error(kFailed) that names the file, the
/// fault and what to do.
WeightsFile OpenWeights(const std::filesystem::path& path,
                        const std::string& key = "");

/// Removes the prefixes that wrappers add to every name: "module."
/// (DataParallel), "_orig_mod." (torch.compile) and "model." (Lightning), in
/// any order. With the names of the model in `expected`, removes as many
/// prefixes as make most names match, so that a model whose own names begin
/// with "model." is read, too. Returns the removed prefix.
std::string StripPrefixes(std::vector<TensorBytes>& tensors,
                          const std::set<std::string>& expected = {});

}  // namespace dtrain
