#pragma once

#include <cstddef>
#include <filesystem>
#include <functional>
#include <map>
#include <span>
#include <string>
#include <vector>

#include <torch/types.h>

#include "engine/checkpoint/checkpoint_files.h"
#include "engine/checkpoint/safetensors.h"
#include "engine/train/trained_objects.h"

namespace dtrain {

/// Names that share one storage: alias → name under which it is written.
using Ties = std::map<std::string, std::string>;

/// Removes tensors from `tensors` that share the memory of an earlier one.
Ties ExtractTies(NamedTensors& tensors);

/// Encodes `tensors` as a safetensors file. Throws Error(kFailed) for a type
/// that the format lacks.
std::string TensorFile(const NamedTensors& tensors);

/// Writes that file as `name`. Throws likewise.
void WriteTensors(CheckpointWriter& writer, const std::string& name,
                  const NamedTensors& tensors);

/// Copy of one tensor of a file, on the CPU. Throws Error(kFailed) that names
/// `what` for a type that LibTorch lacks.
torch::Tensor ToTensor(const TensorBytes& bytes, const std::string& what);

/// Tensors of a safetensors file, on the CPU. Throws Error(kFailed) that names
/// `what`.
std::map<std::string, torch::Tensor> ReadTensors(
    std::span<const std::byte> file, const std::string& what);

/// Copies `value` into `target`, across devices. Throws Error(kFailed) that
/// names `what` if shape or type differ.
void CopyInto(torch::Tensor target, const torch::Tensor& value,
              const std::string& what);

/// Lists the tensors that differ between a file and a model: the first of each
/// kind and the number of others. Empty if `extra` (in the file only) and
/// `missing` (in the model only) are empty.
std::string DescribeDifference(const std::vector<std::string>& extra,
                               const std::vector<std::string>& missing);

/// Treatment of files that do not fit by LoadWeights.
struct WeightsRules {
  std::string advice;  // ends messages about another network
  // Returns true if `target` keeps its values although `value`, the tensor of
  // that name, has another shape. May throw.
  std::function<bool(const std::string& name, const torch::Tensor& value,
                     const torch::Tensor& target)>
      keeps_own;
};

/// Copies the weights in `file` (safetensors, or a state dict of torch.save)
/// into the tensors of `state`. Names and shapes must match exactly after
/// StripPrefixes has removed the prefixes of wrappers; floating-point values
/// are cast. Counters of batch normalisation may be missing, as in files of
/// PyTorch before 0.4.1. Throws Error(kFailed) that names the file and the
/// first difference.
void LoadWeights(const NamedTensors& state, const std::filesystem::path& file,
                 const WeightsRules& rules);

}  // namespace dtrain
