#pragma once

#include <ostream>

#include "engine/report/event_text.h"
#include "engine/report/terminal.h"
#include "engine/run/reporter.h"

namespace dtrain {

/// How much is said of a run.
enum class Verbosity { kQuiet, kNormal, kVerbose };

/// Says a line for each event of a run, for logs and for terminals that cannot
/// redraw. Training reports only where it is verbose; failures always. Of a
/// search, whose trials are many, only validations that are the best so far:
/// how a trial did stands in the line that says how it ended.
class PlainReporter : public Reporter {
 public:
  PlainReporter(std::ostream& out, TerminalMode mode, Verbosity verbosity)
      : out_(out), mode_(mode), verbosity_(verbosity) {}

  void Begin(const RunInfo& info) override;
  void OnCounted(Unit unit) override { info_.counted = unit; }
  void OnTrialStarted(const TrialRow& trial,
                      std::int64_t from_batches) override;
  void OnTraining(TrialId trial, const TrainingReport& report) override;
  void OnValidation(TrialId trial, const ValidationReport& report,
                    bool best) override;
  void OnCheckpoint(TrialId trial, const CheckpointSaved& saved) override;
  void OnTrialEnded(const TrialRow& trial,
                    const std::vector<std::string>& last_lines) override;
  void OnOutput(TrialId trial, const LogRecord& record) override;
  void OnCheckpointFailed(TrialId trial,
                          const CheckpointFailed& failed) override;
  void OnNotice(LogLevel level, const std::string& text) override;
  /// Says once that trials wait for slots, until one gets them.
  void OnStatus(const RunStatus& status) override;
  /// Says of the paused trials of a search at once that they were stopped.
  void End(const RunResult& result) override;

 private:
  void Say(Verbosity least, Tone tone, const std::string& line);

  std::ostream& out_;
  TerminalMode mode_;
  Verbosity verbosity_;
  RunInfo info_;
  PausedTrials paused_;
  SlotWaitNotice slot_wait_;
  std::int64_t stopped_ = 0;  // of those
};

/// How a notice of `level` is shown: "warning: …", escaped.
std::string NoticeLine(LogLevel level, const std::string& text);
Tone ToneOf(LogLevel level);
/// Whether a notice of `level` is said at all.
bool IsSaid(LogLevel level, Verbosity verbosity);

}  // namespace dtrain
