#pragma once

#include <cstddef>
#include <map>
#include <span>
#include <string>

#include <torch/types.h>

#include "engine/checkpoint/checkpoint_writer.h"
#include "engine/checkpoint/safetensors.h"
#include "engine/train/trained_objects.h"

namespace dtrain {

/// Names that share one storage: alias → the name it is written under.
using Ties = std::map<std::string, std::string>;

/// Takes tensors out of `tensors` that are the same memory as an earlier one.
Ties TakeOutTies(NamedTensors& tensors);

/// `tensors` as a safetensors file. Throws Error(kFailed) for a type that the
/// format does not have.
std::string TensorFile(const NamedTensors& tensors);

/// Writes that file as `name`. Throws likewise.
void WriteTensors(CheckpointWriter& writer, const std::string& name,
                  const NamedTensors& tensors);

/// A copy of one tensor of a file, on the CPU. Throws Error(kFailed) that names
/// `what` for a type that Torch does not have.
torch::Tensor TensorOf(const TensorBytes& bytes, const std::string& what);

/// The tensors of a safetensors file, on the CPU. Throws Error(kFailed) that
/// names `what`.
std::map<std::string, torch::Tensor> ReadTensors(
    std::span<const std::byte> file, const std::string& what);

/// Copies `value` into `target`, whatever devices they are on. Throws
/// Error(kFailed) that names `what` if shape or type differ.
void CopyInto(torch::Tensor target, const torch::Tensor& value,
              const std::string& what);

}  // namespace dtrain
