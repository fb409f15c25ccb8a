#pragma once

#include <functional>
#include <memory>

#include "engine/base/clock.h"
#include "engine/train/rank_group.h"
#include "engine/train/trial.h"
#include "engine/train/trial_context.h"
#include "engine/train/trial_link.h"
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

}  // namespace dtrain
