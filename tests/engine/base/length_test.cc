#include "engine/base/length.h"

#include <cstdint>
#include <string>
#include <vector>

#include <gtest/gtest.h>

namespace dtrain {
namespace {

TEST(LengthTest, UnitsAreNamedAsInYaml) {
  EXPECT_EQ(UnitName(Unit::kBatches), "batches");
  EXPECT_EQ(UnitName(Unit::kRecords), "records");
  EXPECT_EQ(UnitName(Unit::kEpochs), "epochs");
}

TEST(LengthTest, LengthsOfDifferentUnitsDiffer) {
  EXPECT_EQ((Length{1, Unit::kEpochs}), (Length{1, Unit::kEpochs}));
  EXPECT_FALSE((Length{1, Unit::kEpochs}) == (Length{1, Unit::kBatches}));
}

TEST(LengthTest, TextsCountOneAndSeveral) {
  EXPECT_EQ(LengthText(std::int64_t{1}, Unit::kBatches), "1 batch");
  EXPECT_EQ(LengthText(2.5, Unit::kEpochs), "2.5 epochs");
  EXPECT_EQ(LengthText(std::int64_t{600}, Unit::kRecords), "600 records");
  EXPECT_EQ(RangeText(3, 3, Unit::kEpochs), "epoch 3");
  EXPECT_EQ(RangeText(1, 10, Unit::kEpochs), "epochs 1 to 10");
}

// A position is in the unit of the search, if that is known.
TEST(LengthTest, PositionsAreInTheUnitOfTheSearch) {
  constexpr Unit kBatches = Unit::kBatches;
  constexpr Unit kEpochs = Unit::kEpochs;
  constexpr Unit kRecords = Unit::kRecords;
  struct Case {
    Units units;
    ReportedAt at;
    std::string text;
  };
  const std::vector<Case> cases = {
      {{kBatches, kBatches}, {150, 1.5}, "batch 150"},
      {{kEpochs, kEpochs}, {3, 3}, "epoch 3"},
      {{kRecords, kRecords}, {600, 0}, "record 600"},
      {{kEpochs, kBatches}, {150, 1.5}, "epoch 1.5 (batch 150)"},
      {{kEpochs, kBatches}, {150, 0}, "batch 150"},
      {{kEpochs, kBatches}, {0, 0}, "epoch 0"},
      {{kRecords, kBatches, 1000}, {15, 0.3}, "record 300 (batch 15)"},
      {{kRecords, kBatches}, {15, 0.3}, "batch 15"},
      // Without max_length, what is counted is known from the reports.
      {{kBatches, kEpochs}, {3, 3}, "epoch 3"},
  };
  for (const auto& [units, at, text] : cases) {
    EXPECT_EQ(PositionText(at, units), text);
  }
}

}  // namespace
}  // namespace dtrain
