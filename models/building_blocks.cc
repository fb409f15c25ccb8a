#include "models/building_blocks.h"

#include <algorithm>
#include <tuple>

#include "engine/data/tensor_source.h"

namespace dtrain {

torch::Tensor TopKAccuracy(const torch::Tensor& logits,
                           const torch::Tensor& target, std::int64_t k) {
  const torch::Tensor best =
      std::get<1>(logits.topk(std::min(k, logits.size(1)), /*dim=*/1));
  return best.eq(target.unsqueeze(1)).any(/*dim=*/1).to(torch::kDouble).mean();
}

torch::Tensor Accuracy(const torch::Tensor& logits,
                       const torch::Tensor& target) {
  return logits.argmax(/*dim=*/1).eq(target).to(torch::kDouble).mean();
}

SamplerOptions TrainingSamples(const TrialContext& context,
                               std::int64_t samples) {
  return {.samples = samples,
          .batch_size = context.batch_size(),
          .shuffle = true,
          .seed = context.seed(),
          .drop_last = true,
          .rank = context.rank(),
          .ranks = context.world_size()};
}

SamplerOptions ValidationSamples(const TrialContext& context,
                                 std::int64_t samples,
                                 std::int64_t batch_size) {
  return {.samples = samples,
          .batch_size = batch_size,
          .wrap = false,
          .rank = context.rank(),
          .ranks = context.world_size()};
}

std::unique_ptr<DataSource> TrainingSource(const TrialContext& context,
                                           const Batch& set) {
  return std::make_unique<TensorSource>(
      set, TrainingSamples(context, set.size()), context.device());
}

std::unique_ptr<DataSource> ValidationSource(const TrialContext& context,
                                             const Batch& set,
                                             std::int64_t batch_size) {
  return std::make_unique<TensorSource>(
      set, ValidationSamples(context, set.size(), batch_size),
      context.device());
}

}  // namespace dtrain
