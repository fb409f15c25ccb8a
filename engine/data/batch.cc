#include "engine/data/batch.h"

#include <vector>

#include "engine/base/error.h"
#include "engine/base/text.h"

namespace dtrain {

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
  const auto move = [&](const torch::Tensor& tensor) {
    return tensor.defined() ? tensor.to(device, /*non_blocking=*/true) : tensor;
  };
  Batch moved{.data = move(data), .target = move(target)};
  for (const auto& [name, tensor] : extra) moved.extra[name] = move(tensor);
  return moved;
}

}  // namespace dtrain
