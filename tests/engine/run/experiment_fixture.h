#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "engine/run/experiment.h"
#include "tests/support/fake_launcher.h"

namespace dtrain {

class RecordingReporter : public Reporter {
 public:
  void OnTrialEnded(const TrialRow& row,
                    const std::vector<std::string>& lines) override {
    ended.push_back(row);
    last_lines = lines;
  }
  void OnValidation(TrialId, const ValidationReport& report, bool) override {
    validated.push_back(report.batches);
  }
  void OnNotice(LogLevel, const std::string& text) override {
    notices.push_back(text);
  }
  void OnStatus(const RunStatus& now) override { status = now; }
  void OnCounted(Unit unit) override { counted.push_back(unit); }

  std::vector<TrialRow> ended;
  std::vector<std::string> last_lines;
  std::vector<std::int64_t> validated;  // batches of the reports
  std::vector<std::string> notices;
  RunStatus status;           // the last
  std::vector<Unit> counted;  // units that were detected
};

/// An Experiment with a store in memory and trials that are scripted.
class ExperimentTest : public testing::Test {
 protected:
  ExperimentTest() : store_(Store::OpenForWriting(StoreLayout(":memory:"))) {
    config_.name = "test";
    config_.entrypoint = std::string("builtin:FaultTrial");
    config_.searcher = {.name = "single", .metric = "loss", .max_length = 100};
    config_.max_restarts = 0;
    Record();
  }

  void Record() {
    store_.Write([this](StoreWriter& writer) {
      id_ = writer.AddExperiment({.name = "test",
                                  .searcher = "single",
                                  .metric = "loss",
                                  .seed = 7,
                                  .config = nlohmann::json::object(),
                                  .provenance = nlohmann::json::object()});
    });
  }

  Experiment Make() {
    ExperimentSetup setup{.id = id_,
                          .config = config_,
                          .seed = 7,
                          .ranks = ranks_,
                          .slots_per_trial = slots_per_trial_,
                          .advice = advice_};
    setup.options.timeout = timeout_;
    setup.options.disk_wait = disk_wait_;
    setup.options.library = library_;
    setup.refuse_unread = refuse_unread_;
    return {std::move(setup),
            {.store = store_,
             .launcher = launcher_,
             .reporter = reporter_,
             .clock = clock_}};
  }
  RunResult Run() { return Make().Run(); }

  TrialRow Trial(std::size_t number = 1) {
    return store_.Trials(id_).at(number - 1);
  }

  // Time passes by itself, by a tick each time somebody looks.
  Duration time_{0};
  Duration tick_ = std::chrono::milliseconds(100);
  Clock clock_{.now = [] { return Timestamp(1'000'000); },
               .monotonic = [this] { return time_ += tick_; }};
  Store store_;
  std::int64_t id_ = 0;
  ExperimentConfig config_;
  int ranks_ = 1;
  std::int64_t slots_per_trial_ = 1;
  std::string advice_;
  std::optional<Duration> timeout_;
  std::optional<Duration> disk_wait_;
  std::string library_;  // of the user's model
  bool refuse_unread_ = false;
  FakeLauncher launcher_;
  ScriptedTrials trials_{launcher_};
  RecordingReporter reporter_;
};

}  // namespace dtrain
