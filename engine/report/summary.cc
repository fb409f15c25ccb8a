#include "engine/report/summary.h"

#include "engine/base/text.h"
#include "engine/report/format.h"

namespace dtrain {
namespace {

std::string HeadLine(const RunResult& result) {
  std::string line = "experiment " + std::to_string(result.experiment);
  switch (result.state) {
    case State::kCompleted:
    case State::kStopped:
      line += " completed";
      break;
    case State::kError:
      line += " failed";
      break;
    case State::kCanceled:
      line += " was canceled";
      break;
    case State::kPending:
    case State::kRunning:
    case State::kInterrupted:
    case State::kPaused:
      line += result.timed_out ? " paused at its time limit" : " paused";
      break;
  }
  line += " after " + FormatSeconds(result.seconds);
  if (!result.error.empty()) line += ": " + result.error;
  return line;
}

std::string BestLines(const RunResult& result, const SummaryContext& context) {
  if (!result.best) return "";
  const TrialId trial{result.experiment, result.best_trial};
  std::string text =
      EscapeForTerminal("best trial " + ToString(trial) + ": " +
                        context.metric + " " + FormatBest(result.best)) +
      "\n";
  const std::string hparams = FormatHparams(
      SearchedHparams(context.hyperparameters, result.best_hparams));
  if (!hparams.empty()) {
    text += "  hyperparameters  " + EscapeForTerminal(hparams) + "\n";
  }
  if (!result.best->checkpoint.empty()) {
    text += "  checkpoint       " + EscapeForTerminal(result.best->checkpoint) +
            "\n";
  }
  return text;
}

}  // namespace

std::string SummaryText(const RunResult& result,
                        const SummaryContext& context) {
  const std::string id = std::to_string(result.experiment);
  const std::string command = EscapeForTerminal(context.command);
  std::string text =
      EscapeForTerminal(HeadLine(result)) + "\n" + BestLines(result, context);
  return text + "look at it with: " + command + " trials " + id + "; " +
         command + " metrics " + id + "; " + command + " logs " + id + "\n";
}

}  // namespace dtrain
