#pragma once

#include <cstddef>
#include <span>
#include <string>
#include <vector>

#include "engine/checkpoint/safetensors.h"
#include "engine/checkpoint/zip_file.h"

namespace dtrain {

/// The tensors of a file that `torch.save(model.state_dict(), path)` wrote, in
/// either of PyTorch's formats. Runs nothing that the file contains.
///
/// The state dict may be in a checkpoint under "state_dict", "model" or
/// "model_state_dict". Numbers, strings and None beside tensors are ignored.
/// Names are not changed: TakeOffPrefixes is for wrapped models.
class StateDictFile {
 public:
  /// Reads the bytes of a complete file. REQUIRES: `file` outlives this. Throws
  /// Error(kFailed) that names `what`, the fault and what to do.
  StateDictFile(std::span<const std::byte> file, const std::string& what);
  StateDictFile(StateDictFile&&) = default;
  StateDictFile& operator=(StateDictFile&&) = default;

  /// The tensors in the order of the dict. Bytes are row-major, little-endian
  /// and not aligned; they refer to the file unless they had to be gathered.
  const std::vector<TensorBytes>& tensors() const { return tensors_; }

 private:
  std::vector<TensorBytes> tensors_;
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

}  // namespace dtrain
