#pragma once

#include <cstdint>
#include <functional>
#include <map>
#include <set>
#include <string>
#include <vector>

#include "tests/support/fake_launcher.h"

namespace dtrain {

/// Makes a FakeLauncher's trials answer as real ones do: a started trial says
/// Ready, trains to its operation's length, validates `loss`, saves a
/// checkpoint and completes the operation; it ends when told to close or stop.
/// A test changes what it needs otherwise.
class ScriptedTrials {
 public:
  explicit ScriptedTrials(FakeLauncher& launcher);

  /// A number in [0, 1) that differs from trial to trial and length to length,
  /// for `loss`.
  static double Hash(std::int64_t trial, std::int64_t batches);

  /// The validation metrics that operations end with.
  MetricValues metrics = {{"loss", 0.5}, {"acc", 0.9}};
  /// `loss` by trial and batches, in place of `metrics`.
  std::function<double(std::int64_t trial, std::int64_t batches)> loss;
  /// This many training reports an operation.
  int reports = 1;
  /// This many processes crash before they have done anything.
  int crashes = 0;
  /// Processes start and then say nothing.
  bool silent = false;
  /// Trials, by number, that crash at every start, that find their
  /// hyperparameters invalid, and that end early at their first operation.
  std::set<std::int64_t> failing;
  std::set<std::int64_t> invalid;
  std::set<std::int64_t> early;
  /// Hyperparameters that no trial reads.
  std::vector<std::string> unread;

  // What trials do of themselves, for a test that decides when.
  void Begin(const TrialSpec& spec);
  void Work(TrialId trial, Length until);
  void End(TrialId trial, EndReason reason);

 private:
  MetricValues Measured(TrialId trial, std::int64_t batches) const;
  void Hear(TrialId trial, const RunnerMessage& message);

  FakeLauncher& launcher_;
  std::map<TrialId, std::int64_t> seq_;
};

}  // namespace dtrain
