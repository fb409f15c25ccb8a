#include "engine/data/data_source.h"

#include <vector>

#include "engine/base/error.h"
#include "engine/base/text.h"

namespace dtrain {

namespace {

// Applies `map` to each tensor of the batch.
template <typename Map>
Batch Mapped(const Batch& batch, Map map) {
  const auto one = [&](const torch::Tensor& tensor) {
    return tensor.defined() ? map(tensor) : tensor;
  };
  Batch mapped{.data = one(batch.data),
               .target = one(batch.target),
               .scales = one(batch.scales)};
  for (const auto& [name, tensor] : batch.extra) {
    mapped.extra[name] = one(tensor);
  }
  return mapped;
}

}  // namespace

const torch::Tensor& Batch::operator[](const std::string& name) const {
  if (name == "data" && data.defined()) return data;
  if (name == "target" && target.defined()) return target;
  if (const auto found = extra.find(name); found != extra.end()) {
    return found->second;
  }
  std::vector<std::string> names;
  if (data.defined()) names.emplace_back("data");
  if (target.defined()) names.emplace_back("target");
  for (const auto& [other, tensor] : extra) names.push_back(other);
  throw Error(ErrorKind::kFailed,
              "the batch has no tensor '" + name +
                  "'; it has: " + (names.empty() ? "none" : Join(names, ", ")));
}

Batch Batch::To(torch::Device device) const {
  return Mapped(*this, [&](const torch::Tensor& tensor) {
    return tensor.to(device, /*non_blocking=*/true);
  });
}

Batch Batch::Copy() const {
  return Mapped(*this,
                [](const torch::Tensor& tensor) { return tensor.clone(); });
}

Batch Batch::Pinned() const {
  return Mapped(*this, [](const torch::Tensor& tensor) {
    return tensor.is_pinned() ? tensor : tensor.pin_memory();
  });
}

// Product and sum are operations of their own: rounded separately, they have
// the bits of NormalizePixel, on the CPU and on a GPU.
Batch Batch::Normalized() const {
  if (!scales.defined()) return *this;
  const torch::NoGradGuard no_grad;
  const torch::Tensor scale = scales.view({1, -1, 1, 1, 2});
  Batch normalized = *this;
  normalized.scales.reset();
  normalized.data =
      torch::empty(data.sizes(), data.options().dtype(torch::kFloat));
  torch::mul_out(normalized.data, data, scale.select(-1, 0))
      .add_(scale.select(-1, 1));
  return normalized;
}

std::vector<torch::Tensor> Batch::tensors() const {
  std::vector<torch::Tensor> all = {data, target};
  for (const auto& [name, tensor] : extra) all.push_back(tensor);
  return all;
}

}  // namespace dtrain
