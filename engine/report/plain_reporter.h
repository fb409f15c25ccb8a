#pragma once

#include <ostream>

#include "engine/report/terminal.h"
#include "engine/run/reporter.h"

namespace dtrain {

/// How much is said of a run.
enum class Verbosity { kQuiet, kNormal, kVerbose };

/// Says a line for each event of a run, for logs and for terminals that cannot
/// redraw. Training reports only where it is verbose; failures always.
class PlainReporter : public Reporter {
 public:
  PlainReporter(std::ostream& out, TerminalMode mode, Verbosity verbosity)
      : out_(out), mode_(mode), verbosity_(verbosity) {}

  void Begin(const RunInfo& info) override;
  void OnTrialStarted(const TrialRow& trial,
                      std::int64_t from_batches) override;
  void OnTraining(TrialId trial, const TrainingReport& report) override;
  void OnValidation(TrialId trial, const ValidationReport& report,
                    bool best) override;
  void OnCheckpoint(TrialId trial, const CheckpointSaved& saved) override;
  void OnTrialEnded(const TrialRow& trial,
                    const std::vector<std::string>& last_lines) override;
  void OnNotice(LogLevel level, const std::string& text) override;

 private:
  void Say(Verbosity least, Tone tone, const std::string& line);

  std::ostream& out_;
  TerminalMode mode_;
  Verbosity verbosity_;
};

/// How a notice of `level` is shown: "warning: …", escaped.
std::string NoticeLine(LogLevel level, const std::string& text);
Tone ToneOf(LogLevel level);
/// Whether a notice of `level` is said at all.
bool IsSaid(LogLevel level, Verbosity verbosity);

}  // namespace dtrain
