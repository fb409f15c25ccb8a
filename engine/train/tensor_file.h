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

/// Says which tensors differ between a file and a model: the first of each kind
/// and the number of the others. Empty if `extra` (the file's) and `missing`
/// (the model's) are both empty.
std::string DescribeDifference(const std::vector<std::string>& extra,
                               const std::vector<std::string>& missing);

/// How LoadWeights treats a file that does not fit.
struct WeightsRules {
  std::string advice;  // ends messages about another network
  // True if `target` keeps its own values although `value`, under its name, has
  // another shape. May throw.
  std::function<bool(const std::string& name, const torch::Tensor& value,
                     const torch::Tensor& target)>
      keeps_own;
};

/// Copies the weights in `file` (safetensors, or a state dict of torch.save)
/// into the tensors of `state`. Names and shapes must be the same, both ways,
/// once TakeOffPrefixes has removed the prefixes of wrappers; floating-point
/// values are cast. Counters of batch normalisation may be missing, as in files
/// of PyTorch before 0.4.1. Throws Error(kFailed) that names the file and the
/// first difference.
void LoadWeights(const NamedTensors& state, const std::filesystem::path& file,
                 const WeightsRules& rules);

}  // namespace dtrain
