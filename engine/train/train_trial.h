#pragma once

#include <functional>
#include <memory>

#include "engine/base/clock.h"
#include "engine/train/rank_group.h"
#include "engine/train/trial.h"
#include "engine/train/trial_channel.h"
#include "engine/wire/trial_spec.h"

namespace dtrain {

/// Makes a trial; ModelEntry::make is one.
using MakeTrial = std::function<std::unique_ptr<Trial>(TrialContext& context)>;

/// A whole trial in this process, or its part in `ranks` of it (null: it is the
/// only one): seeds, constructor, restore, training.
/// Everything that goes wrong comes back as Finished, with one line that says
/// what. Finished itself is not sent.
[[nodiscard]] Finished TrainTrial(const TrialSpec& spec, const MakeTrial& make,
                                  const TrialLink& link, torch::Device device,
                                  const Clock& clock,
                                  RankGroup* ranks = nullptr);

/// What `work` gives, or what it throws as one line of Finished, which is in
/// the log as well.
[[nodiscard]] Finished FinishedWithin(const TrialSpec& spec,
                                      const std::function<Finished()>& work);

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
