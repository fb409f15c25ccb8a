// An experiment whose runner dies at any moment ends as one that was left
// alone.

#include <array>
#include <cmath>
#include <random>
#include <string>
#include <utility>
#include <vector>

#include "tests/engine/run/experiment_fixture.h"
#include "tests/support/patience.h"

namespace dtrain {
namespace {

using nlohmann::json;

// State left behind by a killed runner: its records.
struct Killed {};

// A search in a store in memory, played by as many runners as it takes.
class KilledSearch {
 public:
  KilledSearch(const ExperimentConfig& config, std::size_t slots)
      : config_(config),
        slots_(slots),
        store_(Store::OpenForWriting(StoreLayout(":memory:"))) {
    store_.Write([this](StoreWriter& writer) {
      id_ = writer.AddExperiment({.name = "test",
                                  .searcher = config_.searcher.name,
                                  .metric = "loss",
                                  .config = json::object(),
                                  .provenance = json::object()});
    });
  }

  // A runner that is killed when it has waited so often; 0: never. Gives how
  // often it has.
  int Run(int kill_at = 0) {
    FakeLauncher launcher(slots_);
    ScriptedTrials trials(launcher);
    trials.loss = ScriptedTrials::Hash;
    if (bad_loss > 0)
      trials.loss = [this](auto trial, auto batches) {
        return trial == bad_loss ? NAN : ScriptedTrials::Hash(trial, batches);
      };
    trials.early = early;
    trials.invalid = invalid;
    trials.failing = failing;
    launcher.one_at_a_time = one_at_a_time;
    int waits = 0;
    launcher.on_wait = [&] {
      if (++waits == kill_at) throw Killed();
    };
    Reporter quiet;
    Experiment experiment({.id = id_, .config = config_, .seed = 7},
                          {.store = store_,
                           .launcher = launcher,
                           .reporter = quiet,
                           .clock = clock_});
    try {
      result_ = experiment.Run();
    } catch (const Killed&) {
    }
    return waits;
  }

  // All that the user gets to see of it.
  json Story() const {
    json trials = json::array();
    for (const TrialRow& row : store_.Trials(id_)) {
      trials.push_back({row.request_id, StateName(row.state), row.reason,
                        row.hparams, row.seed, row.batches, row.rung, row.pid,
                        ToJson(row.best), ToJson(row.latest)});
    }
    json checkpoints = json::array();
    for (const CheckpointRow& row : store_.Checkpoints(id_)) {
      checkpoints.push_back(row.uuid);
    }
    const ExperimentRow row = store_.Experiment(id_)->row;
    return {{"trials", trials},
            {"checkpoints", checkpoints},
            {"state", StateName(row.state)},
            {"error", row.error},
            {"progress", row.progress},
            {"best_trial", row.best_trial},
            {"best", ToJson(row.best)},
            {"told",
             {result_.best_trial, result_.error, result_.best_hparams,
              ToJson(result_.best)}}};
  }
  // Events of the searcher and its operations.
  // Without times, which a kill changes.
  json Events() const {
    json events = json::array();
    for (const SearcherEventRow& row : store_.SearcherEvents(id_, 0)) {
      json event = row.event;
      event.erase("seconds");
      events.push_back({std::move(event), row.operations});
    }
    return events;
  }

  bool one_at_a_time = false;
  std::set<std::int64_t> early;
  std::set<std::int64_t> invalid;
  std::set<std::int64_t> failing;
  std::int64_t bad_loss = 0;  // the trial whose loss is NaN; 0: none

 private:
  static json ToJson(const std::optional<BestValidation>& best) {
    if (!best) return nullptr;
    return {std::to_string(best->value), best->batches, best->checkpoint};
  }

  ExperimentConfig config_;
  std::size_t slots_;
  Store store_;
  std::int64_t id_ = 0;
  RunResult result_;  // of the last runner that was not killed
  Duration time_{0};
  Clock clock_{
      .now = [] { return Timestamp(1'000'000); },
      .monotonic = [this] { return time_ += std::chrono::milliseconds(100); }};
};

class RecoveryTest : public testing::Test {
 protected:
  static ExperimentConfig Config(SearcherConfig searcher) {
    ExperimentConfig config;
    config.name = "test";
    config.entrypoint = std::string("builtin:FaultTrial");
    config.hyperparameters = {
        {"x", {{"type", "int"}, {"minval", 1}, {"maxval", 9}, {"count", 9}}}};
    config.searcher = std::move(searcher);
    config.searcher.metric = "loss";
    config.max_restarts = 0;
    config.hang_timeout = 1e9;
    return config;
  }
  static SearcherConfig Asha(bool stop_once) {
    return {.name = "async_halving",
            .max_length = 90,
            .max_trials = 9,
            .max_concurrent_trials = 4,
            .num_rungs = 3,
            .divisor = 3,
            .stop_once = stop_once};
  }

  KilledSearch Make() const {
    KilledSearch search(config_, slots_);
    search.one_at_a_time = one_at_a_time_;
    search.early = early_;
    search.invalid = invalid_;
    search.failing = failing_;
    search.bad_loss = bad_loss_;
    return search;
  }

  // Kills the runner after each of its waits, in turn, and compares the end
  // with that of a run that was left alone. Gives the number of waits. A
  // sanitizer, ten times as slow, takes every seventh.
  int KillEverywhere(bool compare_events = true) const {
    KilledSearch whole = Make();
    const int waits = whole.Run();
    EXPECT_EQ(whole.Story().at("state"), "COMPLETED");
    for (int at = 1; at < waits; at += kSanitized ? 7 : 1) {
      KilledSearch killed = Make();
      (void)killed.Run(at);
      (void)killed.Run();
      EXPECT_EQ(killed.Story(), whole.Story()) << "killed at wait " << at;
      if (compare_events) {
        EXPECT_EQ(killed.Events(), whole.Events());
      }
      if (HasFailure()) break;
    }
    return waits - 1;
  }

  // Kills three runners in a row at random moments.
  void KillThrice(int rounds) const {
    KilledSearch whole = Make();
    const int waits = whole.Run();
    std::mt19937 random(4);
    if (kSanitized) rounds = (rounds + 3) / 4;
    for (int round = 0; round < rounds && !HasFailure(); ++round) {
      KilledSearch killed = Make();
      for (int i = 0; i < 3; ++i) {
        (void)killed.Run(static_cast<int>(random() % waits) + 1);
      }
      (void)killed.Run();
      EXPECT_EQ(killed.Story(), whole.Story()) << "round " << round;
      EXPECT_EQ(killed.Events(), whole.Events());
    }
  }

  ExperimentConfig config_;
  std::size_t slots_ = 1;
  bool one_at_a_time_ = true;
  std::set<std::int64_t> early_;
  std::set<std::int64_t> invalid_;
  std::set<std::int64_t> failing_;
  std::int64_t bad_loss_ = 0;
};

TEST_F(RecoveryTest, ResumesGrid) {
  config_ = Config({.name = "grid", .max_length = 50});

  EXPECT_GT(KillEverywhere(), 100);
}

TEST_F(RecoveryTest, ResumesRandom) {
  config_ = Config({.name = "random",
                    .max_length = 50,
                    .max_trials = 7,
                    .max_concurrent_trials = 3});

  EXPECT_GT(KillEverywhere(), 80);
}

TEST_F(RecoveryTest, ResumesPromotion) {
  config_ = Config(Asha(/*stop_once=*/false));

  EXPECT_GT(KillEverywhere(), 100);
}

TEST_F(RecoveryTest, ResumesPromotionWithLargeTransactions) {
  config_ = Config(Asha(/*stop_once=*/false));
  one_at_a_time_ = false;

  EXPECT_GT(KillEverywhere(), 100);
}

TEST_F(RecoveryTest, ResumesStopping) {
  config_ = Config(Asha(/*stop_once=*/true));

  EXPECT_GT(KillEverywhere(), 100);
}

TEST_F(RecoveryTest, ResumesAdaptiveAsha) {
  config_ = Config({.name = "adaptive_asha",
                    .max_length = 90,
                    .max_trials = 8,
                    .max_concurrent_trials = 2,
                    .divisor = 3,
                    .max_rungs = 3});

  EXPECT_GT(KillEverywhere(), 80);
}

// Whether all trials are created at once or one after another, the search is
// the same, and so it is after a death of the runner.
TEST_F(RecoveryTest, ResumesWithDeferredTrials) {
  const std::array searches = {
      SearcherConfig{.name = "random", .max_length = 50, .max_trials = 7},
      SearcherConfig{.name = "grid", .max_length = 50},
      Asha(/*stop_once=*/false),
      Asha(/*stop_once=*/true),
      SearcherConfig{.name = "adaptive_asha",
                     .max_length = 90,
                     .max_trials = 12,
                     .divisor = 3,
                     .max_rungs = 3},
  };
  invalid_ = {3};
  failing_ = {5};
  for (SearcherConfig search : searches) {
    SCOPED_TRACE(search.name + (search.stop_once ? " stop_once" : ""));
    search.max_concurrent_trials = search.num_rungs > 0 ? 9 : 0;
    config_ = Config(search);
    KilledSearch whole = Make();
    (void)whole.Run();
    config_.searcher.creates_ahead = 1;
    KilledSearch deferred = Make();
    (void)deferred.Run();

    EXPECT_EQ(deferred.Story(), whole.Story());
    EXPECT_NE(deferred.Events(), whole.Events());
    KillThrice(/*rounds=*/8);
  }
}

// A million trials begin as fast as two.
TEST_F(RecoveryTest, RecordsTrialsAsSlotsNeedThem) {
  config_ = Config({.name = "random",
                    .max_length = 50,
                    .max_trials = 1'000'000,
                    .max_concurrent_trials = 0});
  KilledSearch search = Make();

  (void)search.Run(/*kill_at=*/30);
  (void)search.Run(/*kill_at=*/30);

  const auto trials = search.Story().at("trials").size();
  EXPECT_GT(trials, 1024u);
  EXPECT_LT(trials, 1100u);
}

TEST_F(RecoveryTest, ResumesAfterTrialsOfAllKinds) {
  config_ = Config(Asha(/*stop_once=*/false));
  early_ = {2};
  invalid_ = {3};
  failing_ = {5};
  bad_loss_ = 4;

  EXPECT_GT(KillEverywhere(), 100);
}

TEST_F(RecoveryTest, ResumesGridOnSeveralSlots) {
  config_ = Config({.name = "grid", .max_length = 50});
  slots_ = 3;

  // The order of the results may differ, the results may not.
  EXPECT_GT(KillEverywhere(/*compare_events=*/false), 100);
}

TEST_F(RecoveryTest, ResumesAfterRepeatedDeaths) {
  config_ = Config(Asha(/*stop_once=*/false));

  KillThrice(/*rounds=*/60);
}

}  // namespace
}  // namespace dtrain
