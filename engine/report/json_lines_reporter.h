#pragma once

#include <ostream>

#include <nlohmann/json.hpp>

#include "engine/base/clock.h"
#include "engine/report/plain_reporter.h"
#include "engine/run/reporter.h"

namespace dtrain {

/// Writes every event of a run as one JSON object on a line of its own, as soon
/// as it was recorded. `event` says what it is: begin, trial_started, training,
/// validation, checkpoint, trial_ended, notice, progress, end.
class JsonLinesReporter : public Reporter {
 public:
  /// `terminal`: `out` is one, see DumpJson.
  JsonLinesReporter(std::ostream& out, Clock clock, bool terminal = false)
      : out_(out), clock_(std::move(clock)), terminal_(terminal) {}

  void Begin(const RunInfo& info) override;
  void OnCounted(Unit unit) override { counted_ = unit; }
  void OnTrialStarted(const TrialRow& trial, const ReportedAt& from) override;
  void OnTraining(TrialId trial, const TrainingReport& report) override;
  void OnValidation(TrialId trial, const ValidationReport& report,
                    bool best) override;
  void OnCheckpoint(TrialId trial, const CheckpointSaved& saved) override;
  void OnTrialEnded(const TrialRow& trial,
                    const std::vector<std::string>& last_lines) override;
  void OnCheckpointFailed(TrialId trial,
                          const CheckpointFailed& failed) override;
  void OnNotice(LogLevel level, const std::string& text) override;
  /// At most one line a second, and only where the progress changed.
  void OnStatus(const RunStatus& status) override;

  /// Writes one line: `event` and the fields of `object`.
  void Write(const char* event, nlohmann::json object);

 private:
  std::ostream& out_;
  Clock clock_;
  bool terminal_;
  std::int64_t experiment_ = 0;
  std::string metric_;
  Unit counted_ = Unit::kBatches;  // what `batches` count
  Duration last_status_{-1};
  double last_progress_ = -1;
  PausedTrials paused_;
  SlotWaitNotice slot_wait_;
};

}  // namespace dtrain
