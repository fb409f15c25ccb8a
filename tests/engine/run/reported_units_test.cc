#include "engine/run/reported_units.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

namespace dtrain {
namespace {

using testing::HasSubstr;

ExperimentConfig Config(Unit unit, std::int64_t length,
                        bool is_program = true) {
  ExperimentConfig config;
  if (is_program) {
    config.entrypoint = std::vector<std::string>{"train"};
  } else {
    config.entrypoint = std::string("model_def:Trial");
  }
  config.length_unit = unit;
  config.searcher.max_length = length;
  return config;
}

TEST(ReportedLengthsTest, DetectsTheUnitFromTheTotal) {
  struct Case {
    std::int64_t total;
    bool changes;
    Unit counted;
  };
  const ExperimentConfig config = Config(Unit::kEpochs, 9);
  for (const Case& it :
       {Case{3, true, Unit::kEpochs},
        // A length that the program had before.
        Case{9, false, Unit::kBatches}, Case{300, false, Unit::kBatches},
        Case{0, false, Unit::kBatches}}) {
    ReportedLengths lengths(config, {.searched = Unit::kEpochs});
    EXPECT_EQ(lengths.Detect({.batches = 1, .total = it.total}, 3), it.changes);
    EXPECT_EQ(lengths.units().counted, it.counted) << it.total;
  }
}

TEST(ReportedLengthsTest, ModelsCountBatches) {
  const ExperimentConfig config =
      Config(Unit::kEpochs, 9, /*is_program=*/false);
  ReportedLengths lengths(config, {.searched = Unit::kEpochs});
  EXPECT_FALSE(lengths.Detect({.batches = 1, .total = 3}, 3));
  EXPECT_FALSE(lengths.Detect(/*batches=*/2, /*epoch=*/2));
  EXPECT_FALSE(lengths.is_exact());
}

TEST(ReportedLengthsTest, DetectsTheUnitFromAReport) {
  const ExperimentConfig planned = Config(Unit::kEpochs, 9);
  ReportedLengths lengths(planned, {.searched = Unit::kEpochs});
  EXPECT_TRUE(lengths.Detect(/*batches=*/2, /*epoch=*/2));
  EXPECT_TRUE(lengths.is_exact());
  EXPECT_EQ(lengths.DecodeLength({.batches = 2}), 2);

  const ExperimentConfig batches = Config(Unit::kBatches, 9);
  ReportedLengths fixed(batches, {});
  EXPECT_FALSE(fixed.Detect(/*batches=*/2, /*epoch=*/2));
}

TEST(ReportedLengthsTest, ReachedIsAtMostTheOperationsLength) {
  const ExperimentConfig config = Config(Unit::kEpochs, 9);
  const ReportedLengths lengths(config, {.searched = Unit::kEpochs});
  EXPECT_EQ(lengths.Reached(Progress{.batches = 50, .total = 100}, 4), 2);
  EXPECT_EQ(lengths.Reached(Progress{.batches = 200, .total = 100}, 4), 4);
  EXPECT_EQ(lengths.Reached(Progress{.batches = 50, .total = 0}, 4), 0);
  EXPECT_EQ(lengths.Reached(ReportedAt{.batches = 50, .epoch = 2.5}, 4), 2.5);
  EXPECT_EQ(lengths.Reached(ReportedAt{.batches = 50, .epoch = 7}, 4), 4);

  const ReportedLengths counted(
      config, {.searched = Unit::kEpochs, .counted = Unit::kEpochs});
  // The total of a length that the program had before.
  EXPECT_EQ(counted.Reached(Progress{.batches = 1, .total = 2}, 4), 0);

  const ExperimentConfig endless = Config(Unit::kEpochs, 0);
  const ReportedLengths unplanned(endless, {.searched = Unit::kEpochs});
  EXPECT_EQ(unplanned.Reached(ReportedAt{.batches = 50, .epoch = 7}, 4), 0);
}

TEST(ReportedLengthsTest, WarnsOnceOfCountsFarBeyondTheSearch) {
  const ExperimentConfig config = Config(Unit::kEpochs, 3);
  ReportedLengths lengths(config, {.searched = Unit::kEpochs});
  EXPECT_EQ(lengths.WarnOfFarCount({.batches = 6, .epoch = 6}), "");
  EXPECT_THAT(lengths.WarnOfFarCount({.batches = 7, .epoch = 7}),
              HasSubstr("a validation at 7 epochs, far beyond the 3 epochs"));
  EXPECT_EQ(lengths.WarnOfFarCount({.batches = 8, .epoch = 8}), "");
}

}  // namespace
}  // namespace dtrain
