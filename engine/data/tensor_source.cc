#include "engine/data/tensor_source.h"

#include <string>
#include <utility>

#include "engine/base/error.h"

namespace dtrain {

namespace {

void CheckLength(const torch::Tensor& tensor, std::int64_t samples,
                 const std::string& name) {
  if (!tensor.defined()) return;
  if (tensor.dim() > 0 && tensor.size(0) == samples) return;
  throw Error(
      ErrorKind::kFailed,
      "a set of " + std::to_string(samples) + " samples has a tensor '" + name +
          "' of " +
          (tensor.dim() == 0 ? "none" : std::to_string(tensor.size(0))) +
          "; the first dimension of each is the sample");
}

SamplerOptions Sampled(const Batch& set, SamplerOptions samples) {
  samples.samples = set.size();
  CheckLength(set.target, set.size(), "target");
  for (const auto& [name, tensor] : set.extra) {
    CheckLength(tensor, set.size(), name);
  }
  return samples;
}

}  // namespace

TensorSource::TensorSource(const Batch& set, SamplerOptions samples,
                           torch::Device device)
    : set_(set.To(device)), sampler_(Sampled(set, samples)) {}

std::int64_t TensorSource::BatchesPerEpoch() const {
  return sampler_.BatchesPerEpoch();
}

std::int64_t TensorSource::SamplesPerEpoch() const {
  return sampler_.SamplesPerEpoch();
}

Batch TensorSource::Read() {
  const std::span<const std::int64_t> samples = sampler_.Next().samples;
  const torch::Tensor rows =
      torch::tensor(at::ArrayRef<std::int64_t>(samples.data(), samples.size()),
                    torch::kLong)
          .to(set_.data.device());
  const auto of = [&](const torch::Tensor& tensor) {
    return tensor.defined() ? tensor.index_select(0, rows) : tensor;
  };
  Batch batch{.data = of(set_.data), .target = of(set_.target)};
  for (const auto& [name, tensor] : set_.extra) {
    batch.extra.emplace(name, of(tensor));
  }
  return batch;
}

}  // namespace dtrain
