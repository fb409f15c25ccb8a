#pragma once

#include <span>

#include "engine/checkpoint/safetensors.h"
#include "engine/checkpoint/zip_writer.h"

namespace dtrain {

/// Hands `sink` a file that `torch.load(path, weights_only=True)` reads as an
/// OrderedDict of `tensors`, in their order: PyTorch's ZIP format, the
/// counterpart of StateDictFile. Tensors that refer to the same bytes share
/// them there, as tied parameters do. Copies no tensor.
///
/// REQUIRES: names differ and are UTF-8, and every tensor has as many bytes as
/// its shape and type ask for. Throws Error(kUsage) that names the tensor and
/// what to do if PyTorch has no storage of its type, and what `sink` throws.
void WriteStateDict(std::span<const TensorBytes> tensors, const ByteSink& sink);

}  // namespace dtrain
