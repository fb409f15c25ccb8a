#include "searchers/halving_searcher.h"

#include <algorithm>
#include <cmath>
#include <limits>
#include <random>
#include <string>
#include <utility>
#include <vector>

#include <gtest/gtest.h>

#include "searchers/registry.h"

namespace dtrain {
namespace {

// Rungs at 50 and 100; one trial in two is promoted.
SearcherConfig TwoRungs() {
  return {.name = "async_halving",
          .metric = "loss",
          .max_length = 100,
          .max_trials = 3,
          .num_rungs = 2,
          .divisor = 2};
}

std::unique_ptr<Searcher> Begun(const SearcherConfig& config) {
  auto searcher = MakeSearcher(
      config, {{"x", {{"type", "double"}, {"minval", 0.0}, {"maxval", 1.0}}}},
      /*seed=*/1);
  (void)searcher->Handle(Started{});
  return searcher;
}

bool HasLength(const std::vector<Operation>& operations, std::int64_t length) {
  return std::ranges::any_of(operations, [&](const Operation& operation) {
    const auto* more = std::get_if<ValidateAfter>(&operation);
    return more != nullptr && more->length == length;
  });
}

TEST(HalvingSearcherTest, ForgetsTheResultOfAnInvalidPausedTrial) {
  const auto searcher = Begun(TwoRungs());
  (void)searcher->Handle(ValidationCompleted{0, 50, 0.5});
  (void)searcher->Handle(ExitedEarly{0, ExitReason::kInvalidHp});

  // It is the only result of the rung, and half of one trial is promoted: none.
  EXPECT_FALSE(
      HasLength(searcher->Handle(ValidationCompleted{1, 50, 0.25}), 100));
}

TEST(HalvingSearcherTest, ProgressCountsTheTrialsThatHaveEnded) {
  SearcherConfig config = TwoRungs();
  config.max_trials = 20;
  config.max_concurrent_trials = 20;
  config.stop_once = true;
  const auto searcher = Begun(config);
  // Each is worse than those before it, and stops.
  for (TrialIndex trial = 0; trial < 20; ++trial) {
    (void)searcher->Handle(
        ValidationCompleted{trial, 50, static_cast<double>(trial)});
  }
  const double before = searcher->Progress();
  for (TrialIndex trial = 19; trial > 0; --trial) {
    (void)searcher->Handle(Closed{trial});
  }

  EXPECT_NEAR(before, 1 / 1.2, 1e-9);
  EXPECT_NEAR(searcher->Progress(), 19.0 / 20, 1e-9);
}

// --- Values that are not finite, by every method with rungs ---

struct NotFinite {
  std::string name;
  std::string method;
  bool stop_once = false;
  double value = 0;
};

class NotFiniteTest : public testing::TestWithParam<NotFinite> {
 protected:
  // Returns whether one of eight trials trains on if all have the value.
  static bool OnePasses(std::int64_t rules) {
    SearcherConfig config = TwoRungs();
    config.name = GetParam().method;
    config.stop_once = GetParam().stop_once;
    config.max_trials = config.max_concurrent_trials = 8;
    config.max_rungs = 2;
    config.mode = "aggressive";
    config.rules = rules;
    const auto searcher = Begun(config);
    bool passes = false;
    for (TrialIndex trial = 0; trial < 8; ++trial) {
      const auto operations =
          searcher->Handle(ValidationCompleted{trial, 50, GetParam().value});
      passes |= HasLength(operations, 100);
    }
    return passes;
  }
};

TEST_P(NotFiniteTest, NeverPassesARung) {
  EXPECT_FALSE(OnePasses(kCurrentRules));
}

TEST_P(NotFiniteTest, PassesByTheRulesOfRecordedSearches) {
  EXPECT_TRUE(OnePasses(/*rules=*/1));
}

std::vector<NotFinite> NotFiniteCases() {
  const double infinity = std::numeric_limits<double>::infinity();
  std::vector<NotFinite> cases;
  for (const auto& [name, value] :
       {std::pair("Nan", std::nan("")), std::pair("Infinite", infinity),
        std::pair("MinusInfinite", -infinity)}) {
    const std::string what = name;
    cases.push_back({what + "Promotion", "async_halving", false, value});
    cases.push_back({what + "Stopping", "async_halving", true, value});
    cases.push_back({what + "Brackets", "adaptive_asha", false, value});
    cases.push_back({what + "StoppingBrackets", "adaptive_asha", true, value});
    cases.push_back({what + "ModelBased", "bayesian_asha", false, value});
  }
  return cases;
}

INSTANTIATE_TEST_SUITE_P(Searches, NotFiniteTest,
                         testing::ValuesIn(NotFiniteCases()),
                         [](const auto& test) { return test.param.name; });

TEST(HalvingSearcherTest, PromotesAnotherWhenAValueIsNotFinite) {
  SearcherConfig config = TwoRungs();
  config.max_concurrent_trials = 3;
  const auto searcher = Begun(config);
  (void)searcher->Handle(ValidationCompleted{0, 50, 0.5});

  const auto operations =
      searcher->Handle(ValidationCompleted{1, 50, std::nan("")});

  // Two results: half of them is promoted, and the finite one is the better.
  const std::vector<Operation> expected = {Close{1}, ValidateAfter{0, 100}};
  EXPECT_EQ(ToJson(operations), ToJson(expected));
}

// Determined counts a trial that exits as the worst of its own rung only.
TEST(HalvingSearcherTest, CountsAnExitedTrialInItsOwnRungIfItStopsOthers) {
  SearcherConfig config = TwoRungs();
  config.max_length = 16;
  config.num_rungs = 3;
  config.divisor = 1.5;
  config.max_trials = 4;
  config.max_concurrent_trials = 2;
  config.stop_once = true;
  const auto third_trains_to = [&](std::int64_t rules) {
    config.rules = rules;
    const auto searcher = Begun(config);
    (void)searcher->Handle(ExitedEarly{0, ExitReason::kErrored});
    std::int64_t length = 7;
    for (const double value : {2.0, 2.0, 2.0}) {
      const auto operations =
          searcher->Handle(ValidationCompleted{1, length, value});
      if (HasLength(operations, 10)) length = 10;
      if (HasLength(operations, 16)) length = 16;
    }
    (void)searcher->Handle(Closed{1});
    length = 7;
    for (const double value : {1.0, 3.0, 1.0}) {
      const auto operations =
          searcher->Handle(ValidationCompleted{2, length, value});
      if (HasLength(operations, 10)) length = 10;
      if (HasLength(operations, 16)) length = 16;
    }
    return length;
  };

  EXPECT_EQ(third_trains_to(/*rules=*/1), 16);
  EXPECT_EQ(third_trains_to(/*rules=*/2), 10);
}

// --- Rung ---

// The rules as they are written down, on a plain sorted list.
class PlainRung {
 public:
  PlainRung(double divisor, Rung::Rule rule) : divisor_(divisor), rule_(rule) {}

  Rung::Insertion Insert(TrialIndex trial, double metric) {
    const bool after = rule_ == Rung::Rule::kPromotion;
    const std::size_t old = Best(list_.size());
    const std::size_t now = Best(list_.size() + 1);
    std::size_t at = 0;
    while (at < list_.size() &&
           (list_[at].first < metric || (after && list_[at].first == metric))) {
      ++at;
    }
    list_.insert(list_.begin() + static_cast<std::ptrdiff_t>(at),
                 {metric, trial});
    if (at < now) return {.among_best = true};
    if (now != old) return {.risen = list_[old].second};
    return {};
  }

  void Remove(TrialIndex trial) {
    std::erase_if(list_, [&](const auto& r) { return r.second == trial; });
  }

 private:
  std::size_t Best(std::size_t n) const {
    const auto best =
        static_cast<std::size_t>(static_cast<double>(n) / divisor_);
    if (rule_ == Rung::Rule::kPromotion || n == 0) return best;
    return std::max<std::size_t>(best, 1);
  }

  double divisor_;
  Rung::Rule rule_;
  std::vector<std::pair<double, TrialIndex>> list_;
};

using RungParameter = std::tuple<Rung::Rule, double, std::uint32_t>;

class RungPropertyTest : public testing::TestWithParam<RungParameter> {};

TEST_P(RungPropertyTest, AgreesWithAPlainSortedList) {
  const auto [rule, divisor, seed] = GetParam();
  std::mt19937 dice(seed);
  Rung rung(divisor, rule);
  PlainRung plain(divisor, rule);

  for (TrialIndex trial = 0; trial < 500; ++trial) {
    const auto metric = static_cast<double>(dice() % 40);

    const Rung::Insertion fast = rung.Insert(trial, metric, /*waits=*/true);
    const Rung::Insertion slow = plain.Insert(trial, metric);

    ASSERT_EQ(fast.among_best, slow.among_best) << "trial " << trial;
    ASSERT_EQ(fast.risen, slow.risen) << "trial " << trial;
    if (dice() % 10 == 0) {
      const TrialIndex gone = dice() % (trial + 1);
      rung.Remove(gone);
      plain.Remove(gone);
    }
  }
}

INSTANTIATE_TEST_SUITE_P(
    All, RungPropertyTest,
    testing::Combine(testing::Values(Rung::Rule::kPromotion,
                                     Rung::Rule::kStopping),
                     testing::Values(1.5, 2.0, 3.0, 4.0, 50.0),
                     testing::Values(1u, 2u)));

TEST(RungTest, FirstResultContinuesOnlyWithStopping) {
  Rung promotion(3, Rung::Rule::kPromotion);
  Rung stopping(3, Rung::Rule::kStopping);

  EXPECT_FALSE(promotion.Insert(0, 0.5, true).among_best);
  EXPECT_TRUE(stopping.Insert(0, 0.5, false).among_best);
}

TEST(RungTest, TiesFollowTheRule) {
  Rung promotion(2, Rung::Rule::kPromotion);
  Rung stopping(2, Rung::Rule::kStopping);
  (void)promotion.Insert(0, 0.5, true);
  (void)stopping.Insert(0, 0.5, false);

  const Rung::Insertion later = promotion.Insert(1, 0.5, true);

  EXPECT_FALSE(later.among_best);
  EXPECT_EQ(later.risen, 0);
  EXPECT_TRUE(stopping.Insert(1, 0.5, false).among_best);
}

TEST(RungTest, ReturnsPausedTrialsBestFirst) {
  Rung rung(4, Rung::Rule::kPromotion);
  (void)rung.Insert(0, 3, true);
  (void)rung.Insert(1, 1, true);
  (void)rung.Insert(2, Rung::kWorst, false);
  (void)rung.Insert(3, 2, true);
  rung.Promote(1);

  EXPECT_EQ(rung.DrainWaiting(), (std::vector<TrialIndex>{3, 0}));
  EXPECT_TRUE(rung.DrainWaiting().empty());
  EXPECT_TRUE(rung.promoted(1));
}

TEST(RungTest, RoundTrips) {
  Rung rung(2, Rung::Rule::kPromotion);
  (void)rung.Insert(0, 3, true);
  (void)rung.Insert(1, 1, true);
  (void)rung.Insert(2, Rung::kWorst, false);
  rung.Promote(1);
  Rung other(2, Rung::Rule::kPromotion);

  other.Load(nlohmann::json::parse(rung.Save().dump()));

  EXPECT_EQ(other.Save(), rung.Save());
  EXPECT_EQ(other.Insert(3, 2, true).risen, rung.Insert(3, 2, true).risen);
}

}  // namespace
}  // namespace dtrain
