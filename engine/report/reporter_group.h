#pragma once

#include <memory>
#include <utility>
#include <vector>

#include "engine/run/reporter.h"

namespace dtrain {

/// Passes every event on to several reporters, in the order they were added.
class ReporterGroup : public Reporter {
 public:
  void Add(std::unique_ptr<Reporter> reporter) {
    reporters_.push_back(std::move(reporter));
  }

  void Begin(const RunInfo& info) override {
    for (const auto& r : reporters_) r->Begin(info);
  }
  void OnCounted(Unit unit) override {
    for (const auto& r : reporters_) r->OnCounted(unit);
  }
  void OnTrialStarted(const TrialRow& trial, std::int64_t from) override {
    for (const auto& r : reporters_) r->OnTrialStarted(trial, from);
  }
  void OnTraining(TrialId trial, const TrainingReport& report) override {
    for (const auto& r : reporters_) r->OnTraining(trial, report);
  }
  void OnValidation(TrialId trial, const ValidationReport& report,
                    bool best) override {
    for (const auto& r : reporters_) r->OnValidation(trial, report, best);
  }
  void OnCheckpoint(TrialId trial, const CheckpointSaved& saved) override {
    for (const auto& r : reporters_) r->OnCheckpoint(trial, saved);
  }
  void OnCheckpointFailed(TrialId trial,
                          const CheckpointFailed& failed) override {
    for (const auto& r : reporters_) r->OnCheckpointFailed(trial, failed);
  }
  void OnTrialEnded(const TrialRow& trial,
                    const std::vector<std::string>& lines) override {
    for (const auto& r : reporters_) r->OnTrialEnded(trial, lines);
  }
  void OnUnread(TrialId trial, const std::vector<std::string>& names) override {
    for (const auto& r : reporters_) r->OnUnread(trial, names);
  }
  void OnOutput(TrialId trial, const LogRecord& record) override {
    for (const auto& r : reporters_) r->OnOutput(trial, record);
  }
  void OnNotice(LogLevel level, const std::string& text) override {
    for (const auto& r : reporters_) r->OnNotice(level, text);
  }
  void OnStatus(const RunStatus& status) override {
    for (const auto& r : reporters_) r->OnStatus(status);
  }
  void End(const RunResult& result) override {
    for (const auto& r : reporters_) r->End(result);
  }

 private:
  std::vector<std::unique_ptr<Reporter>> reporters_;
};

}  // namespace dtrain
