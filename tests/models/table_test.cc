#include "models/table.h"

#include <algorithm>

#include <gmock/gmock.h>
#include <gtest/gtest.h>

namespace dtrain {
namespace {

using ::testing::ElementsAre;

TEST(ModelTableTest, ListsEntrypointsInTheOrderOfTheirNames) {
  EXPECT_THAT(
      Entrypoints(),
      ElementsAre("builtin:FaultTrial", "cifar10:CNNTrial", "digits:LeNetTrial",
                  "lenet:MNISTTrial", "lenet:ReLUReduceMeanDenseTrial",
                  "model_def:ImageNetTrial", "xception:XceptionTrial"));
}

TEST(ModelTableTest, FindsARowByItsEntrypoint) {
  const ModelEntry* entry = FindModel("digits:LeNetTrial");
  ASSERT_NE(entry, nullptr);
  EXPECT_EQ(entry->entrypoint, "digits:LeNetTrial");
}

TEST(ModelTableTest, FindsNoRowForAnythingElse) {
  EXPECT_EQ(FindModel("digits:LeNet"), nullptr);
  EXPECT_EQ(FindModel(""), nullptr);
}

TEST(ModelTableTest, SaysWhichHyperparametersATrialReads) {
  const auto& hparams = FindModel("digits:LeNetTrial")->hparams;
  const auto lr = std::ranges::find(hparams, "lr", &HparamDoc::name);
  ASSERT_NE(lr, hparams.end());
  EXPECT_EQ(lr->type, "float");
  EXPECT_EQ(lr->default_value, "0.05");
}

// This executable links the table without the trials, as `dtrain` does.
TEST(ModelTableTest, MakesNothingWithoutTheTrials) {
  EXPECT_TRUE(std::ranges::all_of(ModelTable(), [](const ModelEntry& entry) {
    return entry.make == nullptr;
  }));
}

}  // namespace
}  // namespace dtrain
