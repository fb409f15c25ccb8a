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
/// A checkpoint that holds the state dict under "state_dict", "model" or
/// "model_state_dict" will do, too; numbers, text and None beside tensors are
/// left out. Names stay as they are: TakeOffPrefixes is for wrapped models.
class StateDictFile {
 public:
  /// Reads the bytes of a whole file. REQUIRES: `file` outlives this. Throws
  /// Error(kFailed) that names `what`, the fault and what to do.
  StateDictFile(std::span<const std::byte> file, const std::string& what);
  StateDictFile(StateDictFile&&) = default;
  StateDictFile& operator=(StateDictFile&&) = default;

  /// In the order of the dict. Bytes are row-major and little-endian, at any
  /// address; those of tensors that lie so in the file refer to it.
  const std::vector<TensorBytes>& tensors() const { return tensors_; }

 private:
  std::vector<TensorBytes> tensors_;
  std::vector<std::vector<std::byte>> copies_;  // of those that do not lie so
};

/// Writes to `sink` a file that `torch.load(path, weights_only=True)` reads as
/// an OrderedDict of `tensors`, in their order: PyTorch's ZIP format, the
/// counterpart of StateDictFile. Tensors that refer to the same bytes share
/// them there, as tied parameters do. Copies no tensor.
///
/// REQUIRES: names differ and are UTF-8, and every tensor has as many bytes as
/// its shape and type ask for. Throws Error(kUsage) that names the tensor and
/// what to do if PyTorch has no storage of its type, and what `sink` throws.
void WriteStateDict(std::span<const TensorBytes> tensors, const ByteSink& sink);

}  // namespace dtrain
