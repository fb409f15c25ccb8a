#include "engine/report/summary.h"

#include "engine/base/rounding.h"
#include "engine/base/text.h"
#include "engine/report/format.h"

namespace dtrain {
namespace {

std::string HeadLine(const RunResult& result) {
  std::string line = "experiment " + std::to_string(result.experiment);
  switch (result.state) {
    case State::kCompleted:
    case State::kStopped:
    case State::kInvalid:
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

// Returns " (killed later)" or the like for a trial that did not end as the
// search wanted.
std::string EndRemark(State state) {
  if (state == State::kError) return " (failed later)";
  if (state == State::kInvalid) return " (invalid later)";
  return state == State::kCanceled ? " (killed later)" : "";
}

std::string BestLines(const RunResult& result, const SummaryContext& context) {
  if (!result.best) {
    const bool done = result.state == State::kCompleted;
    return done ? EscapeForTerminal("no finite value of " + context.metric +
                                    " was reported; there is no best trial") +
                      "\n"
                : "";
  }
  const TrialId trial{result.experiment, result.best_trial};
  std::string text =
      EscapeForTerminal("best trial " + ToString(trial) +
                        EndRemark(context.best_state) + ": " + context.metric +
                        (context.best_point.empty()
                             ? " " + FormatBest(result.best, context.units)
                             : ", " + context.best_point)) +
      "\n";
  const std::string hparams = FormatHparams(
      SearchedHparams(context.hyperparameters, result.best_hparams));
  if (!hparams.empty()) {
    text += "  hyperparameters  " + EscapeForTerminal(hparams) + "\n";
  }
  const std::string& checkpoint = result.best->checkpoint;
  if (checkpoint.empty() && !context.best_files.empty()) {
    return text + "  files            " +
           EscapeForTerminal(context.best_files) + "\n";
  }
  return text + "  checkpoint       " +
         (checkpoint.empty() ? "none for this validation; see " +
                                   EscapeForTerminal(context.command) +
                                   " best " + std::to_string(result.experiment)
                             : EscapeForTerminal(checkpoint)) +
         "\n";
}

// Returns the word for a state: STOPPED is the usual end of a trial in a
// search.
std::string StateWord(State state) {
  if (state == State::kError) return "failed";
  std::string word(StateName(state));
  for (char& c : word) c = static_cast<char>(c | 0x20);
  return word;
}

// Returns "16 trials: 5 completed, 1 failed, 9 stopped, 1 killed"; nothing for
// a single trial.
std::string TrialsLine(const SummaryContext& context) {
  std::int64_t all = 0;
  std::vector<std::string> parts;
  for (const auto& [state, count] : context.trials) {
    all += count;
    const std::int64_t killed = state == State::kCanceled ? context.killed : 0;
    if (count > killed) {
      parts.push_back(std::to_string(count - killed) + " " + StateWord(state));
    }
  }
  if (context.killed > 0) {
    parts.push_back(std::to_string(context.killed) + " killed");
  }
  if (all <= 1) return "";
  return std::to_string(all) + " trials: " + Join(parts, ", ") + "\n";
}

// Returns a line if no trial of the search was trained to its maximum length.
std::string ShortfallLine(const RunResult& result,
                          const SummaryContext& context) {
  const bool reached = context.trials.contains(State::kCompleted);
  const bool stopped = context.trials.contains(State::kStopped);
  if (result.state != State::kCompleted || reached || !stopped) return "";
  std::string line = "no trial was trained to " + context.max_length;
  if (result.best) {
    line += "; continue the best one with: " + context.command + " continue " +
            ToString(TrialId{result.experiment, result.best_trial});
  }
  return EscapeForTerminal(line) + "\n";
}

std::string EarlyLine(const SummaryContext& context) {
  if (context.early == 0) return "";
  const std::int64_t others = context.early - 1;
  const std::string more =
      others == 0 ? "" : " (and " + CountText(others, "other trial") + ")";
  return EscapeForTerminal(context.why_early + more) + "\n";
}

}  // namespace

std::string SummaryText(const RunResult& result,
                        const SummaryContext& context) {
  const std::string id = std::to_string(result.experiment);
  const std::string command = EscapeForTerminal(context.command);
  std::string text = EscapeForTerminal(HeadLine(result)) + "\n";
  text += TrialsLine(context) + EarlyLine(context) +
          BestLines(result, context) + ShortfallLine(result, context);
  if (result.unread && !result.unread->empty()) {
    text += EscapeForTerminal("hyperparameters not read by any trial: " +
                              Join(*result.unread, ", ")) +
            "\n";
  }
  if (!context.use.empty()) text += "resources: " + context.use + "\n";
  return text + "next: " + command + " trials " + id + "; " + command +
         " metrics " + id + "; " + command + " logs " + id + "\n";
}

}  // namespace dtrain
