#include "engine/base/length.h"

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

}  // namespace
}  // namespace dtrain
