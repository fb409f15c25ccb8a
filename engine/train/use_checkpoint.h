#pragma once

#include "engine/train/train_trial.h"

namespace dtrain {

/// Measures the model of a checkpoint, `spec.warm_start`, on the set that
/// `spec.split` names: seeds, constructor, weights, one pass. Sends Progress
/// and one ValidationReport; Finished itself is not sent. Everything that goes
/// wrong comes back as Finished, with one line that says what.
[[nodiscard]] Finished EvaluateTrial(const TrialSpec& spec,
                                     const MakeTrial& make,
                                     const TrialLink& link,
                                     torch::Device device, const Clock& clock);

}  // namespace dtrain
