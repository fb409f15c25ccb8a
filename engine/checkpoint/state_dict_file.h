#pragma once

#include <cstddef>
#include <span>
#include <string>
#include <vector>

#include "engine/checkpoint/safetensors.h"

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

}  // namespace dtrain
