#pragma once

#include <chrono>
#include <cstdint>
#include <filesystem>
#include <set>
#include <string>
#include <vector>

#include <nlohmann/json.hpp>

#include "engine/base/text.h"
#include "engine/config/experiment_config.h"
#include "engine/run/reporter.h"

namespace dtrain {

/// Findings of a rehearsal, collected while it runs.
class RehearsalFindings : public Reporter {
 public:
  void OnTraining(TrialId, const TrainingReport&) override { ++trainings_; }
  void OnValidation(TrialId, const ValidationReport&, bool) override {
    ++validations_;
  }
  void OnCheckpoint(TrialId, const CheckpointSaved& saved) override {
    checkpoint_bytes_ = saved.bytes;
  }
  void OnTrialStarted(const TrialRow&, const ReportedAt& from) override {
    if (from.batches > 0) restored_ = true;
  }
  void OnTrialEnded(const TrialRow& trial,
                    const std::vector<std::string>& last_lines) override {
    const bool failed =
        trial.state == State::kError || trial.state == State::kInvalid;
    if (!failed || !failure_.empty()) return;
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
                : "wrote no checkpoint");
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

/// A finished rehearsal.
struct Rehearsal {
  RunResult result;
  RehearsalFindings findings;

  bool Passed() const { return findings.Passed(result); }
};

/// Runs everything that happens to a trial of `config` once, with a few
/// batches, as `create --test` does: constructor, training, validation,
/// checkpoint, making room for another trial, restoring. Uses a temporary store
/// that is deleted. `library` is that of the user's own model, or empty;
/// `context` is the directory that a command runs in. Throws Error(kFailed) if
/// there is no temporary directory.
Rehearsal Rehearse(const ExperimentConfig& config, const std::string& library,
                   const std::filesystem::path& context);

}  // namespace dtrain
