#pragma once

#include <functional>
#include <memory>

#include "engine/base/clock.h"
#include "engine/train/trial.h"
#include "engine/train/trial_channel.h"
#include "engine/wire/trial_spec.h"

namespace dtrain {

class RankGroup;

/// Creates a trial; ModelEntry::make is one.
using MakeTrial = std::function<std::unique_ptr<Trial>(TrialContext& context)>;

/// Runs a whole trial in this process, or its part as one of `ranks` (null: the
/// only rank): seeds, constructor, restore, training. Errors are returned as
/// Finished with a one-line message. Finished itself is not sent.
[[nodiscard]] Finished TrainTrial(const TrialSpec& spec, const MakeTrial& make,
                                  const TrialLink& link, torch::Device device,
                                  const Clock& clock,
                                  RankGroup* ranks = nullptr);

/// Returns the result of `work`, or its exception as Finished with a one-line
/// message, which is also logged.
[[nodiscard]] Finished FinishedWithin(const TrialSpec& spec,
                                      const std::function<Finished()>& work);

/// Ends a trial in this process: sends `finished` by `report`, and only then
/// leaves the group of `ranks` (null: the only rank), which may wait for a GPU.
/// Returns the exit code.
[[nodiscard]] int EndTrial(const Finished& finished,
                           const std::function<void(const Finished&)>& report,
                           RankGroup* ranks);

/// Applies the model of a checkpoint, `spec.warm_start`, to the set
/// `spec.split`: seeds, constructor, weights, one pass. Task::kEvaluate sends
/// one ValidationReport; kPredict and kFeatures write the outputs for the first
/// `spec.limit` samples (0: all). For Task::kLoad, `spec.warm_start` is a file
/// of weights (see ImportWeights). The work is divided among `ranks` (null: the
/// only rank); rank 0 reports and writes the results. Sends Progress in
/// between; Finished itself is not sent. Errors are returned as Finished with a
/// one-line message.
[[nodiscard]] Finished UseCheckpoint(const TrialSpec& spec,
                                     const MakeTrial& make,
                                     const TrialLink& link,
                                     torch::Device device, const Clock& clock,
                                     RankGroup* ranks = nullptr);

}  // namespace dtrain
