#include "cli/rehearsal.h"

#include <algorithm>
#include <cmath>
#include <iostream>
#include <set>
#include <vector>

#include "cli/exit_code.h"
#include "cli/output.h"
#include "engine/base/error.h"
#include "engine/base/text.h"
#include "engine/os/files.h"
#include "engine/run/reporter.h"
#include "engine/run/runner.h"
#include "engine/store/store.h"
#include "searchers/rehearsal_searcher.h"

namespace dtrain {
namespace {

// Of each trial, before and after it made room: enough for a schedule, an
// accumulation over two batches, and a report to have happened.
constexpr std::int64_t kBatches = 2;

ExperimentConfig Shortened(const ExperimentConfig& config) {
  ExperimentConfig test = config;
  if (test.searcher.max_length == 0) {
    // A program that decides its length is asked to end at its first
    // validation.
    test.searcher.name = "single";
  } else {
    test.searcher.name = kRehearsal;
    test.searcher.max_trials = 2;
    test.searcher.max_concurrent_trials = 1;
    test.searcher.max_length = 2 * kBatches;
    // A program reports in the unit that it is given.
    if (!IsCommand(config)) test.length_unit = Unit::kBatches;
  }
  test.max_restarts = 0;
  // One trial at a time, on however many slots.
  if (!test.resources.all_slots) {
    test.resources.max_slots =
        std::max<std::int64_t>(1, std::llround(test.resources.slots_per_trial));
  }
  test.training.scheduling_unit = 1;
  test.training.validation_batches = kBatches;
  test.training.min_validation_period = {};
  test.training.min_checkpoint_period = {};
  test.training.early_stopping.reset();
  test.checkpoints.path.clear();
  test.source_checkpoint_uuid.clear();  // of another store
  return test;
}

// What came to light.
class Findings : public Reporter {
 public:
  void OnTraining(TrialId, const TrainingReport&) override { ++trainings_; }
  void OnValidation(TrialId, const ValidationReport&, bool) override {
    ++validations_;
  }
  void OnCheckpoint(TrialId, const CheckpointSaved& saved) override {
    checkpoint_bytes_ = saved.bytes;
  }
  void OnTrialStarted(const TrialRow&, std::int64_t from) override {
    if (from > 0) restored_ = true;
  }
  void OnTrialEnded(const TrialRow& trial,
                    const std::vector<std::string>& last_lines) override {
    if (trial.state != State::kError || !failure_.empty()) return;
    failure_ = trial.reason;
    last_lines_ = last_lines;
  }
  void OnUnread(TrialId, const std::vector<std::string>& names) override {
    unread_.insert(names.begin(), names.end());
  }

  nlohmann::json Json(const RunResult& result) const {
    return {{"passed", Passed(result)},
            {"error", failure_.empty() ? nlohmann::json(nullptr)
                                       : nlohmann::json(failure_)},
            {"restored", restored_},
            {"validations", validations_},
            {"checkpoint_bytes", checkpoint_bytes_},
            {"unread_hyperparameters", unread_},
            {"seconds", result.seconds}};
  }
  bool Passed(const RunResult& result) const {
    return result.state == State::kCompleted && failure_.empty();
  }
  std::string Text(const RunResult& result) const {
    return "test passed in " +
           FormatDuration(std::chrono::duration_cast<Duration>(
               std::chrono::duration<double>(result.seconds))) +
           ": trained, " + (validations_ > 0 ? "validated, " : "") +
           (checkpoint_bytes_ > 0
                ? "checkpointed (" + FormatBytes(checkpoint_bytes_) + "), " +
                      (restored_ ? "restored" : "not restored")
                : "made no checkpoint");
  }

  const std::string& failure() const { return failure_; }
  const std::vector<std::string>& last_lines() const { return last_lines_; }
  std::vector<std::string> unread() const {
    return {unread_.begin(), unread_.end()};
  }

 private:
  std::int64_t trainings_ = 0;
  std::int64_t validations_ = 0;
  std::int64_t checkpoint_bytes_ = 0;
  bool restored_ = false;
  std::string failure_;
  std::vector<std::string> last_lines_;
  std::set<std::string> unread_;
};

void Explain(const Findings& findings, const RunResult& result,
             const GlobalOptions& globals) {
  for (const std::string& line : findings.last_lines()) {
    if (line != findings.failure()) Say(globals, line);
  }
  if (!findings.Passed(result)) {
    SayError(globals, "the test failed: " + (findings.failure().empty()
                                                 ? result.error
                                                 : findings.failure()));
  }
  const std::vector<std::string> unread = findings.unread();
  if (unread.empty()) return;
  Say(globals, "warning: the trial never read the hyperparameter" +
                   std::string(unread.size() == 1 ? " " : "s ") +
                   Join(unread, ", "));
}

}  // namespace

int Rehearse(const ExperimentConfig& config, const std::string& library,
             const std::filesystem::path& context, bool json,
             const GlobalOptions& globals) {
  const ScratchDirectory scratch;
  if (scratch.path().empty()) {
    throw Error(ErrorKind::kFailed,
                "cannot make a temporary directory; free some space or set "
                "TMPDIR");
  }
  const ExperimentConfig test = Shortened(config);
  Store store = Store::OpenForWriting(StoreLayout(scratch.path()));
  const std::int64_t id = CreateExperiment(
      store, test, "",
      {{"context", std::filesystem::absolute(context).string()}},
      Clock::System());
  Findings findings;
  const RunResult result = RunExperiment(store, id, test, {.library = library},
                                         findings, Clock::System());
  if (json) {
    PrintJson(findings.Json(result));
  } else if (findings.Passed(result)) {
    std::cout << findings.Text(result) << '\n';
  }
  Explain(findings, result, globals);
  if (result.signal != 0) return ExitCodeOf(result);
  return findings.Passed(result) ? kExitDone : kExitFailed;
}

}  // namespace dtrain
