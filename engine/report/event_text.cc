#include "engine/report/event_text.h"

#include "engine/base/text.h"
#include "engine/report/format.h"

namespace dtrain {
namespace {

std::string At(std::int64_t batches, double epoch) {
  return "batch " + std::to_string(batches) + " (epoch " + FormatMetric(epoch) +
         ")";
}

}  // namespace

std::string BeginLine(const RunInfo& info) {
  const std::string what = info.resumed ? " goes on: " : ": ";
  const std::string direction = info.smaller_is_better ? "least " : "greatest ";
  return EscapeForTerminal(
      "experiment " + std::to_string(info.experiment) + " '" + info.name + "'" +
      what + info.searcher + " search for the " + direction + info.metric +
      " on " + info.slots + ", seed " + std::to_string(info.seed));
}

std::string StartedLine(const TrialRow& trial, std::int64_t from_batches) {
  const std::string hparams = FormatHparams(trial.hparams);
  const std::string how =
      from_batches > 0 ? " goes on from batch " + std::to_string(from_batches)
                       : " started";
  return EscapeForTerminal(ToString(trial.id) + how +
                           (hparams.empty() ? "" : ": " + hparams));
}

std::string TrainingLine(TrialId trial, const TrainingReport& report) {
  return EscapeForTerminal(ToString(trial) + " training at " +
                           At(report.batches, report.epoch) + ": " +
                           FormatMetrics(report.metrics));
}

std::string ValidationLine(TrialId trial, const ValidationReport& report,
                           bool best) {
  return EscapeForTerminal(
      ToString(trial) + " validation at " + At(report.batches, report.epoch) +
      ": " + FormatMetrics(report.metrics) + (best ? " (best so far)" : ""));
}

std::string CheckpointLine(TrialId trial, const CheckpointSaved& saved) {
  return EscapeForTerminal(ToString(trial) + " checkpoint " + saved.uuid +
                           " at " + At(saved.batches, saved.epoch) + ", " +
                           FormatBytes(saved.bytes));
}

bool IsFailure(const TrialRow& trial) {
  return trial.state == State::kError || trial.state == State::kRunning;
}

std::vector<std::string> EndedLines(
    const TrialRow& trial, const std::vector<std::string>& last_lines) {
  const std::string id = ToString(trial.id);
  std::string line = id;
  if (trial.state == State::kError) {
    line += " failed";
  } else if (trial.state == State::kRunning) {
    line += " failed and starts again (restart " +
            std::to_string(trial.restarts) + ")";
  } else {
    std::string state(StateName(trial.state));
    for (char& c : state) c = static_cast<char>(c | 0x20);
    line += " " + state + " at batch " + std::to_string(trial.batches);
  }
  if (!trial.reason.empty()) line += ": " + trial.reason;
  std::vector<std::string> lines = {EscapeForTerminal(line)};
  if (!IsFailure(trial)) return lines;
  for (const std::string& log : last_lines) {
    lines.push_back(id + " | " + EscapeForTerminal(log));
  }
  return lines;
}

}  // namespace dtrain
