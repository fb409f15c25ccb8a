// An epoch's order is copied to the device once. A batch is a slice of it, by
// which the rows are gathered there, so no batch waits for the host. Gather
// takes the position from the device instead of an argument: a captured step
// (CUDA graph) reads it there in each replay, which would repeat an argument.

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

torch::Tensor DeviceOrder::Rows(
    const BatchSampler::Indices& indices,
    const std::function<std::span<const std::int64_t>()>& order) {
  if (indices.pass != pass_) {
    const std::span<const std::int64_t> rows = order();
    const torch::Tensor host = torch::tensor(
        at::ArrayRef<std::int64_t>(rows.data(), rows.size()), torch::kLong);
    if (!order_.defined()) order_ = torch::empty_like(host, device_);
    order_.copy_(host);
    pass_ = indices.pass;
  }
  return order_.narrow(0, indices.first,
                       static_cast<std::int64_t>(indices.samples.size()));
}

torch::Tensor DeviceOrder::RowsAt(const torch::Tensor& position,
                                  std::int64_t samples) const {
  return order_.index_select(
      0, torch::arange(samples, order_.options()) + position);
}

TensorSource::TensorSource(const Batch& set, SamplerOptions samples,
                           torch::Device device)
    : set_(set.To(device)), sampler_(Sampled(set, samples)), order_(device) {}

std::int64_t TensorSource::BatchesPerEpoch() const {
  return sampler_.BatchesPerEpoch();
}

std::int64_t TensorSource::SamplesPerEpoch() const {
  return sampler_.SamplesPerEpoch();
}

torch::Tensor TensorSource::GatherRows(const BatchSampler::Indices& indices) {
  return order_.Rows(indices, [&] { return sampler_.order(); });
}

Batch TensorSource::Read() { return Select(GatherRows(sampler_.Next())); }

std::int64_t TensorSource::Skip(std::int64_t batches) {
  const BatchSampler::Indices first = sampler_.Skip(batches);
  GatherRows(first);
  return first.first;
}

Batch TensorSource::Gather(const torch::Tensor& position) {
  return Select(order_.RowsAt(position, sampler_.batch_size()));
}

Batch TensorSource::Select(const torch::Tensor& rows) const {
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
