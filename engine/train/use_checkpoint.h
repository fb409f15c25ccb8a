#pragma once

#include "engine/train/train_trial.h"

namespace dtrain {

/// Applies the model of a checkpoint, `spec.warm_start`, to the set that
/// `spec.split` names: seeds, constructor, weights, one pass. Under
/// Task::kEvaluate it sends one ValidationReport; under kPredict and kFeatures
/// it writes what the model says of the first `spec.limit` samples (0: all).
/// Under Task::kLoad `spec.warm_start` is a file of weights: see ImportWeights.
/// `ranks` (null: this is the only one) share the work, and rank 0 tells and
/// writes what came out. Sends Progress in between; Finished itself is not
/// sent. Everything that goes wrong comes back as Finished, with one line that
/// says what.
[[nodiscard]] Finished UseCheckpoint(const TrialSpec& spec,
                                     const MakeTrial& make,
                                     const TrialLink& link,
                                     torch::Device device, const Clock& clock,
                                     RankGroup* ranks = nullptr);

}  // namespace dtrain
