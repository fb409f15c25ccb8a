// An experiment whose runner dies at any moment ends as one that was left
// alone.

#include <array>
#include <cmath>
#include <functional>
#include <random>
#include <string>
#include <utility>
#include <vector>

#include "searchers/search_plan.h"
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
                                  .config = config_.effective,
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
    ExperimentSetup setup{
        .id = id_, .config = config_, .created = created_, .seed = 7};
    setup.options.retry_failed = retry;
    Experiment experiment(std::move(setup), {.store = store_,
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

  // The next runs have a plan with this many trials more.
  void Extend(std::int64_t more) {
    if (!created_) created_ = config_.searcher;
    config_.searcher =
        ExtendPlan(*created_, config_.searcher.max_trials + more);
  }

  // The next runs have no target and no duration.
  void Unlimit() {
    config_.searcher.target.reset();
    config_.searcher.max_duration.reset();
  }

  bool one_at_a_time = false;
  std::set<std::int64_t> early;
  std::set<std::int64_t> invalid;
  std::set<std::int64_t> failing;
  std::int64_t bad_loss = 0;  // the trial whose loss is NaN; 0: none
  bool retry = false;         // failed trials run again

 private:
  static json ToJson(const std::optional<BestValidation>& best) {
    if (!best) return nullptr;
    return {std::to_string(best->value), best->batches, best->checkpoint};
  }

  ExperimentConfig config_;
  std::optional<SearcherConfig> created_;  // before an extension
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

  // Each point is trained so often.
  void Repeat(std::int64_t repeats) {
    config_.searcher.repeats = repeats;
    config_.effective = {{"searcher", {{"repeats", repeats}}}};
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

  // Does the same with a second run of a search that has ended, which `change`
  // gives more to do.
  void KillEverywhereAfter(
      const std::function<void(KilledSearch&)>& change) const {
    const auto make_changed = [&] {
      KilledSearch search = Make();
      (void)search.Run();
      change(search);
      return search;
    };
    KilledSearch whole = make_changed();
    const int waits = whole.Run();
    EXPECT_GT(waits, 20);
    for (int at = 1; at < waits; at += kSanitized ? 7 : 2) {
      KilledSearch killed = make_changed();
      (void)killed.Run(at);
      (void)killed.Run();
      EXPECT_EQ(killed.Story(), whole.Story()) << "killed at wait " << at;
      EXPECT_EQ(killed.Events(), whole.Events());
      if (HasFailure()) break;
    }
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

// Of every method: a search that is over is extended, or its failed trials run
// again, and the runner dies then.
TEST_F(RecoveryTest, ResumesWhatGoesOnAfterItsEnd) {
  const std::array searches = {
      SearcherConfig{.name = "random", .max_length = 50, .max_trials = 5},
      Asha(/*stop_once=*/false),
      Asha(/*stop_once=*/true),
      SearcherConfig{.name = "adaptive_asha",
                     .max_length = 90,
                     .max_trials = 8,
                     .max_concurrent_trials = 2,
                     .divisor = 3,
                     .max_rungs = 3},
      SearcherConfig{.name = "bayesian_asha",
                     .max_length = 90,
                     .max_trials = 6,
                     .max_concurrent_trials = 2,
                     .num_rungs = 2,
                     .divisor = 3},
  };
  for (const SearcherConfig& search : searches) {
    SCOPED_TRACE(search.name + (search.stop_once ? " stop_once" : ""));
    config_ = Config(search);
    failing_ = {};
    KillEverywhereAfter([](KilledSearch& again) { again.Extend(6); });
    failing_ = {2, 5};
    KillEverywhereAfter([](KilledSearch& again) {
      again.failing = {};
      again.retry = true;
    });
  }
}

// Ended before its plan, by a target or a duration, and taken on after that.
TEST_F(RecoveryTest, ResumesWhatEndedBeforeItsPlan) {
  for (const bool by_target : {true, false}) {
    config_ = Config(Asha(/*stop_once=*/false));
    if (by_target) {
      config_.searcher.target = 0.3;
    } else {
      config_.searcher.max_duration = 12;
    }
    slots_ = 2;
    KilledSearch whole = Make();
    const int waits = whole.Run();
    const json ended = whole.Story();
    EXPECT_EQ(ended.at("state"), "COMPLETED");
    int stopped = 0;
    int completed = 0;
    for (const json& trial : ended.at("trials")) {
      stopped += trial.at(1) == "STOPPED";
      completed += trial.at(1) == "COMPLETED";
      EXPECT_TRUE(trial.at(1) == "STOPPED" || trial.at(1) == "COMPLETED");
    }
    EXPECT_GT(stopped, 0);
    EXPECT_EQ(completed, by_target ? 1 : 0);
    for (int at = 1; at < waits; at += 3) {
      SCOPED_TRACE((by_target ? "target " : "duration ") + std::to_string(at));
      KilledSearch killed = Make();
      (void)killed.Run(at);
      (void)killed.Run();
      const json story = killed.Story();
      EXPECT_EQ(story.at("state"), "COMPLETED");
      for (const json& trial : story.at("trials")) {
        EXPECT_TRUE(trial.at(1) == "STOPPED" || trial.at(1) == "COMPLETED");
      }
      // It goes on, to another target or for another duration, and then whole.
      killed.Extend(3);
      killed.Unlimit();
      (void)killed.Run();
      const json extended = killed.Story();
      EXPECT_EQ(extended.at("state"), "COMPLETED");
      EXPECT_EQ(extended.at("trials").size(), 12u);
      for (const json& trial : extended.at("trials")) {
        EXPECT_TRUE(trial.at(1) == "STOPPED" || trial.at(1) == "COMPLETED");
        EXPECT_GT(trial.at(6), 0) << trial;  // has the result of a rung
      }
      if (HasFailure()) break;
    }
  }
}

// Trials that failed after the end of the search, of which the searcher has not
// heard: they run again, or count as failed when the search is extended.
TEST_F(RecoveryTest, KnowsWhatFailedAfterAnEarlyEnd) {
  for (const bool retries : {true, false}) {
    config_ = Config(Asha(/*stop_once=*/false));
    config_.searcher.max_duration = 2;
    failing_ = {1, 2, 3, 4};
    config_.max_restarts = 3;  // delayed, until after the end
    slots_ = 2;
    KilledSearch search = Make();
    (void)search.Run();
    EXPECT_NE(search.Story().at("state"), "RUNNING");
    search.failing = {};
    search.Unlimit();
    search.retry = retries;
    search.Extend(1);

    (void)search.Run();

    const json story = search.Story();
    EXPECT_EQ(story.at("state"), "COMPLETED") << retries;
    EXPECT_EQ(story.at("trials").size(), 10u);
    for (const json& trial : story.at("trials")) {
      EXPECT_NE(trial.at(1), "PAUSED");
      if (retries) {
        EXPECT_NE(trial.at(1), "ERROR");
      }
    }
  }
}

// As if they had never failed.
TEST_F(RecoveryTest, RetriesTrialsInTheirPlace) {
  for (const auto& [name, repeats] :
       {std::pair<std::string, int>{"random", 1}, {"random", 3}, {"grid", 1}}) {
    config_ = Config({.name = name, .max_length = 50, .max_trials = 5});
    if (repeats > 1) Repeat(repeats);
    KilledSearch never_failed = Make();
    (void)never_failed.Run();
    KilledSearch retried = Make();
    retried.failing = {2, 5};
    (void)retried.Run();
    EXPECT_NE(retried.Story(), never_failed.Story());
    retried.failing = {};
    retried.retry = true;
    (void)retried.Run();

    EXPECT_EQ(retried.Story(), never_failed.Story());
  }
}

TEST_F(RecoveryTest, ResumesRepeats) {
  for (const std::string name : {"random", "bayesian_asha"}) {
    config_ = Config({.name = name,
                      .max_length = 50,
                      .max_trials = 4,
                      .max_concurrent_trials = 4,
                      .num_rungs = 1});
    Repeat(3);
    failing_ = {5};
    invalid_ = {7, 8, 9};
    EXPECT_GT(KillEverywhere(), 100);
  }
}

// A value of a point is the mean of its repeats, those that failed left out.
TEST_F(RecoveryTest, TheBestOfRepeatsIsThatOfAPoint) {
  config_ = Config({.name = "random", .max_length = 50, .max_trials = 4});
  Repeat(3);
  failing_ = {4};
  bad_loss_ = 8;
  KilledSearch search = Make();

  (void)search.Run();

  const json story = search.Story();
  double best = HUGE_VAL;
  std::int64_t best_trial = 0;
  for (std::int64_t first = 1; first <= 10; first += 3) {
    double sum = 0;
    double n = 0;
    double least = HUGE_VAL;
    std::int64_t number = 0;
    for (std::int64_t trial = first; trial < first + 3; ++trial) {
      if (trial == 4 || trial == 8) continue;
      const json& row =
          story.at("trials").at(static_cast<std::size_t>(trial - 1));
      const double loss = std::stod(row.at(8).at(0).get<std::string>());
      sum += loss;
      ++n;
      if (loss >= least) continue;
      least = loss;
      number = trial;
    }
    if (sum / n >= best) continue;
    best = sum / n;
    best_trial = number;
  }
  EXPECT_EQ(story.at("best_trial"), best_trial);
  EXPECT_NEAR(std::stod(story.at("best").at(0).get<std::string>()), best, 1e-6);
  EXPECT_EQ(story.at("told").at(0), best_trial);
}

TEST_F(RecoveryTest, APointReachesTheTarget) {
  config_ = Config({.name = "random", .max_length = 50, .max_trials = 9});
  Repeat(3);
  KilledSearch whole = Make();
  (void)whole.Run();
  const json story = whole.Story();
  const double best = std::stod(story.at("best").at(0).get<std::string>());
  config_.searcher.target = best + 1e-5;

  KilledSearch search = Make();
  (void)search.Run();

  const json ended = search.Story();
  EXPECT_EQ(ended.at("state"), "COMPLETED");
  EXPECT_EQ(ended.at("best"), story.at("best"));
  // One slot: no later point was begun, but for the trial in the slot.
  const auto point = (story.at("best_trial").get<std::size_t>() + 2) / 3;
  for (std::size_t i = 0; i < ended.at("trials").size(); ++i) {
    const std::string reason = ended.at("trials").at(i).at(2);
    EXPECT_EQ(reason.find("target reached: point ") == 0, i >= 3 * point)
        << i << reason;
  }
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
