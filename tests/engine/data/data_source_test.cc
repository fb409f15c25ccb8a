#include "engine/data/data_source.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "engine/base/error.h"

namespace dtrain {

namespace {

class BatchTest : public ::testing::Test {
 protected:
  const Batch batch_ = {.data = torch::zeros({4, 2}),
                        .target = torch::ones({4}),
                        .extra = {{"mask", torch::full({4}, 2.0)}}};
};

TEST_F(BatchTest, CountsSamples) {
  EXPECT_EQ(batch_.size(), 4);
  EXPECT_EQ(Batch().size(), 0);
}

TEST_F(BatchTest, FindsTensorsByName) {
  EXPECT_TRUE(batch_["data"].is_same(batch_.data));
  EXPECT_TRUE(batch_["target"].is_same(batch_.target));
  EXPECT_TRUE(batch_["mask"].is_same(batch_.extra.at("mask")));
}

TEST_F(BatchTest, ListsTheTensorsIfOneIsMissing) {
  EXPECT_THAT([this] { batch_["weights"]; },
              testing::ThrowsMessage<Error>(
                  "the batch has no tensor 'weights'; it has: data, target, "
                  "mask"));
}

TEST_F(BatchTest, MovesEveryTensor) {
  const Batch moved = batch_.To(torch::kMeta);
  EXPECT_TRUE(moved.data.is_meta());
  EXPECT_TRUE(moved.target.is_meta());
  EXPECT_TRUE(moved["mask"].is_meta());
}

TEST_F(BatchTest, MovesABatchWithoutTargets) {
  const Batch moved = Batch{.data = batch_.data}.To(torch::kCPU);
  EXPECT_TRUE(moved.data.defined());
  EXPECT_FALSE(moved.target.defined());
}

}  // namespace

}  // namespace dtrain
