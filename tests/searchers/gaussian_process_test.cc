#include "searchers/gaussian_process.h"

#include <cmath>
#include <fstream>
#include <numeric>
#include <string>
#include <vector>

#include <gtest/gtest.h>
#include <nlohmann/json.hpp>

#include "searchers/portable_math.h"
#include "searchers/search_model.h"

namespace dtrain {
namespace {

using nlohmann::json;

constexpr double kReferenceTolerance = 1e-6;

// A decision that was recorded from the reference in Python.
struct RecordedDecision {
  json record;
  std::vector<bool> categorical;

  std::size_t dimensions() const { return categorical.size(); }
  int top() const { return static_cast<int>(record.at("rungs").size()) - 1; }
  std::vector<double> Features(TrialIndex trial) const {
    return record.at("features").at(trial).get<std::vector<double>>();
  }
};

std::vector<RecordedDecision> ReadDecisions() {
  std::ifstream file(std::string(DTRAIN_GOLDEN_DIR) + "/bayesian.json");
  std::vector<RecordedDecision> decisions;
  for (const json& record : json::parse(file)) {
    decisions.push_back({record, {}});
    for (const json& axis : record.at("space")) {
      decisions.back().categorical.push_back(axis.at("kind") == "cat");
    }
  }
  return decisions;
}

class RecordedDecisionTest : public testing::TestWithParam<int> {
 protected:
  RecordedDecision decision_ = ReadDecisions().at(GetParam());

  const json& At(const char* name) const { return decision_.record.at(name); }

  // The observations that the model keeps, from all recorded ones.
  Observations Kept() const {
    std::vector<double> values;
    for (const json& row : At("observations")) values.push_back(row.at(2));
    const auto standard = StandardizeValues(values);
    Observations kept;
    for (const std::size_t i : KeptObservations(standard, 120)) {
      const json& row = At("observations").at(i);
      kept.Add(decision_.Features(row.at(0)), row.at(1), row.at(0),
               standard[i]);
    }
    return kept;
  }

  // The process with the recorded hyperparameters, conditioned on the
  // observations and on the trials in training.
  GaussianProcess Conditioned() const {
    GaussianProcess process(decision_.categorical,
                            GaussianProcess::Kind::kRungs);
    process.SetHyperparameters(At("theta"));
    Observations data = Kept();
    process.Condition(data);
    for (const json& row : At("pending")) {
      const auto point = decision_.Features(row.at(0));
      data.Add(point, row.at(1), row.at(0),
               process.Predict(point, row.at(1), row.at(0)).mean);
    }
    process.Condition(data);
    return process;
  }

  // Points as the reference's features: a coordinate that is not in use has a
  // fixed value.
  std::vector<double> CandidateFeatures() const {
    std::vector<double> flat;
    for (const json& point : At("candidates")) {
      auto features = point.get<std::vector<double>>();
      if (At("bench") == "MIX") {
        if (features[0] != 0) features[2] = 0.5;
        if (features[0] != 1) features[3] = 0.5;
      }
      flat.insert(flat.end(), features.begin(), features.end());
    }
    return flat;
  }

  double LeastAtTop(const GaussianProcess& process, const Observations& data) {
    double least = 1e9;
    double least_of_all = 1e9;
    for (std::size_t i = 0; i < data.size(); ++i) {
      const double mean = process
                              .Predict(decision_.Features(data.trials[i]),
                                       decision_.top(), data.trials[i])
                              .mean;
      least_of_all = std::min(least_of_all, mean);
      if (data.rungs[i] == decision_.top()) least = std::min(least, mean);
    }
    return least < 1e9 ? least : least_of_all;
  }
};

TEST_P(RecordedDecisionTest, KeepsTheSameObservations) {
  const Observations kept = Kept();

  const json& expected = At("kept");
  EXPECT_EQ(json(kept.trials), expected.at("trial"));
  EXPECT_EQ(json(kept.rungs), expected.at("rung"));
  ASSERT_EQ(kept.size(), expected.at("z").size());
  for (std::size_t i = 0; i < kept.size(); ++i) {
    EXPECT_NEAR(kept.values[i], expected.at("z").at(i), kReferenceTolerance);
  }
}

TEST_P(RecordedDecisionTest, PredictsAndScoresCandidates) {
  const GaussianProcess process = Conditioned();

  const auto predictions =
      process.PredictNew(CandidateFeatures(), decision_.top());

  const double least = LeastAtTop(process, Kept());
  EXPECT_NEAR(least, At("best"), kReferenceTolerance);
  ASSERT_EQ(predictions.size(), At("cand_mean").size());
  for (std::size_t i = 0; i < predictions.size(); ++i) {
    EXPECT_NEAR(predictions[i].mean, At("cand_mean").at(i),
                kReferenceTolerance);
    EXPECT_NEAR(predictions[i].deviation, At("cand_sd").at(i),
                kReferenceTolerance);
    const double cost =
        At("cand_cost").at(i).get<double>() * At("cost_sd").get<double>() / 2;
    EXPECT_NEAR(LogExpectedImprovement(predictions[i], least) - cost,
                At("cand_score").at(i), kReferenceTolerance);
  }
}

TEST_P(RecordedDecisionTest, PredictsWaitingTrials) {
  const GaussianProcess process = Conditioned();

  for (std::size_t i = 0; i < At("paused").size(); ++i) {
    const TrialIndex trial = At("paused").at(i);
    const auto prediction =
        process.Predict(decision_.Features(trial), decision_.top(), trial);
    EXPECT_NEAR(prediction.mean, At("paused_mean").at(i), kReferenceTolerance);
    EXPECT_NEAR(prediction.deviation, At("paused_sd").at(i),
                kReferenceTolerance);
  }
}

TEST_P(RecordedDecisionTest, PredictsTheCost) {
  std::vector<TrialIndex> trials;
  for (const json& row : At("observations")) trials.push_back(row.at(0));
  std::sort(trials.begin(), trials.end());
  trials.erase(std::unique(trials.begin(), trials.end()), trials.end());
  if (trials.size() > 120) trials.erase(trials.begin(), trials.end() - 120);
  Observations data;
  for (const TrialIndex trial : trials) {
    const double seconds = At("seconds_per_step").at(std::to_string(trial));
    data.Add(decision_.Features(trial), 0, trial,
             (PortableLog(seconds) - At("cost_mean").get<double>()) /
                 At("cost_sd").get<double>());
  }
  GaussianProcess process(decision_.categorical, GaussianProcess::Kind::kPlain);
  process.SetHyperparameters(At("cost_theta"));
  process.Condition(data);

  const auto predictions = process.PredictNew(CandidateFeatures(), 0);

  for (std::size_t i = 0; i < predictions.size(); ++i) {
    EXPECT_NEAR(predictions[i].mean, At("cand_cost").at(i),
                kReferenceTolerance);
  }
}

// The reference has trained only some of the recorded hyperparameters anew; the
// density of the others must not get worse.
TEST_P(RecordedDecisionTest, TrainsToNoWorseDensity) {
  const Observations kept = Kept();
  GaussianProcess process(decision_.categorical, GaussianProcess::Kind::kRungs);
  const bool first = At("theta_before").is_null();
  if (!first) process.SetHyperparameters(At("theta_before"));

  process.Train(kept, first ? 30 : 15);

  const auto loss = process.Loss(kept, process.hyperparameters());
  const auto recorded = process.Loss(kept, At("theta"));
  ASSERT_TRUE(loss && recorded);
  EXPECT_LE(*loss, *recorded + kReferenceTolerance);
}

INSTANTIATE_TEST_SUITE_P(All, RecordedDecisionTest, testing::Range(0, 4));

}  // namespace
}  // namespace dtrain
