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
  const std::string& checkpoint = result.best->checkpoint;
  return text + "  checkpoint       " +
         (checkpoint.empty()
              ? "none of this validation; " +
                    EscapeForTerminal(context.command) + " best " +
                    std::to_string(result.experiment) + " names what there is"
              : EscapeForTerminal(checkpoint)) +
         "\n";
}

// As a summary says it: STOPPED is how most trials of a search end.
std::string StateWord(State state) {
  if (state == State::kError) return "failed";
  std::string word(StateName(state));
  for (char& c : word) c = static_cast<char>(c | 0x20);
  return word;
}

// "16 trials: 5 completed, 1 failed, 10 stopped"; nothing of a single one.
std::string TrialsLine(const std::map<State, std::int64_t>& trials) {
  std::int64_t all = 0;
  std::vector<std::string> parts;
  for (const auto& [state, count] : trials) {
    all += count;
    parts.push_back(std::to_string(count) + " " + StateWord(state));
  }
  if (all <= 1) return "";
  return std::to_string(all) + " trials: " + Join(parts, ", ") + "\n";
}

}  // namespace

std::string SummaryText(const RunResult& result,
                        const SummaryContext& context) {
  const std::string id = std::to_string(result.experiment);
  const std::string command = EscapeForTerminal(context.command);
  std::string text = EscapeForTerminal(HeadLine(result)) + "\n";
  text += TrialsLine(context.trials) + BestLines(result, context);
  return text + "look at it with: " + command + " trials " + id + "; " +
         command + " metrics " + id + "; " + command + " logs " + id + "\n";
}

}  // namespace dtrain
