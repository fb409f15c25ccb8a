// Validation and MetricSums: how values of batches become values of a set.

#include "engine/train/validation.h"

#include <cmath>
#include <limits>
#include <utility>

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "engine/base/error.h"
#include "engine/train/metric_sums.h"

namespace dtrain {
namespace {

using testing::HasSubstr;

// Two batches, of three samples and of one.
class UnevenSource final : public DataSource {
 public:
  std::int64_t BatchesPerEpoch() const override { return 2; }
  std::int64_t SamplesPerEpoch() const override { return 4; }
  void Seek(std::int64_t index) override { next_ = index; }
  Batch Read() override {
    return {.data = torch::full({next_++ == 0 ? 3 : 1, 1}, 1.0)};
  }

 private:
  std::int64_t next_ = 0;
};

// Each metric is the batch's size; `x` is so for each sample.
class SizeTrial final : public Trial {
 public:
  explicit SizeTrial(std::map<std::string, Reducer> reducers)
      : reducers_(std::move(reducers)) {}

  std::unique_ptr<DataSource> TrainingData() override { return nullptr; }
  std::unique_ptr<DataSource> ValidationData() override { return nullptr; }
  Metrics TrainBatch(const Batch&, BatchIndex) override { return {}; }
  Metrics EvaluateBatch(const Batch& batch) override {
    sees_gradients_ |= torch::GradMode::is_enabled();
    const auto size = static_cast<double>(batch.size());
    return {{"mean", torch::tensor(size)},
            {"sum", torch::tensor(size)},
            {"min", torch::tensor(size)},
            {"max", torch::tensor(size)},
            {"x", torch::full({batch.size()}, size)}};
  }
  std::map<std::string, Reducer> Reducers() override { return reducers_; }

  bool sees_gradients_ = false;

 private:
  std::map<std::string, Reducer> reducers_;
};

TEST(ValidationTest, AppliesTheTrialsReductions) {
  SizeTrial trial(
      {{"sum", Reduction::kSum},
       {"min", Reduction::kMin},
       {"max", Reduction::kMax},
       {"whole", WholeSet{.inputs = {"x"}, .compute = [](const auto& all) {
                            return all[0].sum().template item<double>();
                          }}}});
  UnevenSource source;
  RankGroup alone;
  const auto values = RunValidation(
      trial, source, torch::kCPU, /*max_batches=*/0, [] { return true; },
      alone);
  ASSERT_TRUE(values);
  EXPECT_EQ(*values, (MetricValues{{"max", 3},
                                   {"mean", (3 * 3 + 1 * 1) / 4.0},
                                   {"min", 1},
                                   {"sum", 4},
                                   {"whole", 3 * 3 + 1}}));
  EXPECT_FALSE(trial.sees_gradients_);
}

TEST(ValidationTest, StopsBetweenBatches) {
  SizeTrial trial({{"x", WholeSet{}}});
  UnevenSource source;
  RankGroup alone;
  EXPECT_FALSE(RunValidation(
      trial, source, torch::kCPU, /*max_batches=*/0, [] { return false; },
      alone));
}

TEST(ValidationTest, NamesAMissingInputOfAReducer) {
  SizeTrial trial({{"auc", WholeSet{.inputs = {"scores"}}}});
  UnevenSource source;
  RankGroup alone;
  try {
    (void)RunValidation(
        trial, source, torch::kCPU, /*max_batches=*/0, [] { return true; },
        alone);
    FAIL();
  } catch (const Error& error) {
    EXPECT_THAT(error.what(), HasSubstr("no 'scores'"));
  }
}

TEST(MetricSumsTest, SkipsMissingMetrics) {
  MetricSums sums;
  sums.Add({{"a", torch::tensor(1.0)}, {"b", torch::Tensor()}}, 1);
  sums.Add({{"a", torch::tensor(3.0)}, {"b", torch::tensor(5.0)}}, 1);
  EXPECT_EQ(sums.Values(), (MetricValues{{"a", 2}, {"b", 5}}));
}

TEST(MetricSumsTest, SumsInDouble) {
  MetricSums sums;
  sums.Add({{"a", torch::tensor(16777216.0F)}}, 1);
  sums.Add({{"a", torch::tensor(1.0F)}}, 1);
  EXPECT_EQ(sums.Values(), (MetricValues{{"a", 16777217.0 / 2}}));
}

TEST(MetricSumsTest, NanIsAValueInEveryReduction) {
  MetricSums sums(false, {{"low", Reduction::kMin}});
  const auto nan = torch::tensor(std::numeric_limits<double>::quiet_NaN());
  sums.Add({{"low", nan}, {"mean", nan}}, 1);
  sums.Add({{"low", torch::tensor(1.0)}, {"mean", torch::tensor(1.0)}}, 1);
  const MetricValues values = sums.Values();
  EXPECT_TRUE(std::isnan(values[0].second));
  EXPECT_TRUE(std::isnan(values[1].second));
}

TEST(MetricSumsTest, RestoresItsState) {
  MetricSums sums;
  sums.Add({{"a", torch::tensor(0.1)}}, 1);
  MetricSums copy;
  copy.Load(sums.Save());
  sums.Add({{"a", torch::tensor(0.2)}}, 1);
  copy.Add({{"a", torch::tensor(0.2)}}, 1);
  EXPECT_EQ(copy.Values(), sums.Values());
}

}  // namespace
}  // namespace dtrain
