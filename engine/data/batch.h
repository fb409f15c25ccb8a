#pragma once

#include <cstdint>
#include <map>
#include <string>
#include <vector>

#include <torch/types.h>

#include "engine/base/api.h"

namespace dtrain {

/// One batch of samples as named tensors; `data` and `target` are the usual
/// two. The first dimension of each is the sample.
struct DTRAIN_API Batch {
  torch::Tensor data;
  torch::Tensor target;
  std::map<std::string, torch::Tensor> extra;

  /// How many samples there are.
  std::int64_t size() const { return data.defined() ? data.size(0) : 0; }
  /// The tensor called `name`: "data", "target" or one of `extra`. Throws
  /// Error(kFailed) that lists the names.
  const torch::Tensor& operator[](const std::string& name) const;
  /// The same batch on `device`.
  Batch To(torch::Device device) const;
  /// The same in memory of its own.
  Batch Copy() const;
  /// The same batch in pinned memory, from which a GPU copies while the host
  /// goes on. REQUIRES: a GPU is open.
  Batch Pinned() const;
  /// Its tensors: data, target, and the extra ones by name. Undefined ones are
  /// among them.
  std::vector<torch::Tensor> tensors() const;
};

}  // namespace dtrain
