#include "engine/train/samples.h"

#include "engine/data/tensor_source.h"

namespace dtrain {

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
