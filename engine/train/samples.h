#pragma once

#include <cstdint>
#include <memory>

#include "engine/base/api.h"
#include "engine/data/batch_sampler.h"
#include "engine/data/data_source.h"
#include "engine/train/trial.h"

namespace dtrain {

/// How a trial usually trains on `samples` samples: all of them every epoch, in
/// an order that the trial's seed gives, dealt out to its ranks in full batches
/// of batch_size(). Throws Error(kFailed) as batch_size() does.
DTRAIN_API SamplerOptions TrainingSamples(const TrialContext& context,
                                          std::int64_t samples);

/// How it validates on them: each once in its place, in batches of at most
/// `batch_size`.
DTRAIN_API SamplerOptions ValidationSamples(const TrialContext& context,
                                            std::int64_t samples,
                                            std::int64_t batch_size);

/// A TensorSource of `set`, a set in memory, to train on in that way, on the
/// trial's device.
DTRAIN_API std::unique_ptr<DataSource> TrainingSource(
    const TrialContext& context, const Batch& set);

/// The same to validate on, in batches of at most `batch_size`.
DTRAIN_API std::unique_ptr<DataSource> ValidationSource(
    const TrialContext& context, const Batch& set,
    std::int64_t batch_size = 1000);

}  // namespace dtrain
