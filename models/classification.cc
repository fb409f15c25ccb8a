#include "models/classification.h"

#include <algorithm>
#include <tuple>

namespace dtrain {

torch::Tensor TopKAccuracy(const torch::Tensor& logits,
                           const torch::Tensor& target, std::int64_t k) {
  const torch::Tensor best =
      std::get<1>(logits.topk(std::min(k, logits.size(1)), /*dim=*/1));
  return best.eq(target.unsqueeze(1)).any(/*dim=*/1).to(torch::kFloat).mean();
}

torch::Tensor Accuracy(const torch::Tensor& logits,
                       const torch::Tensor& target) {
  return logits.argmax(/*dim=*/1).eq(target).to(torch::kFloat).mean();
}

}  // namespace dtrain
