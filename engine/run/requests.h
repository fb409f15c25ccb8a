#pragma once

#include <cstdint>
#include <set>
#include <vector>

#include "engine/run/search_driver.h"
#include "engine/run/trial_starter.h"
#include "engine/store/rows.h"

namespace dtrain {

/// Carries out what users ask of a running experiment from other processes, by
/// rows of the store: pause it, cancel it, kill it or one of its trials.
class Requests {
 public:
  Requests(ExperimentState& state, SearchDriver& driver, TrialStarter& starter)
      : state_(state), driver_(driver), starter_(starter) {}

  /// What was asked of a runner that died meanwhile: an end is still wanted, a
  /// pause is not where somebody resumes.
  void Recover();
  /// Looks for new requests, if the store was changed. Cheap.
  void Look();
  /// Those that are done when the experiment has ended are recorded as done.
  void RecordDone();

 private:
  void Take(const RequestRow& request);
  void KillTrial(const RequestRow& request);
  void CancelAll(bool now);
  void Finish(std::int64_t request);

  ExperimentState& state_;
  SearchDriver& driver_;
  TrialStarter& starter_;
  std::set<std::int64_t> taken_;
  std::vector<std::int64_t> until_end_;  // done when the experiment has ended
};

}  // namespace dtrain
