// Autocast and the scale of losses.

#include "engine/train/mixed_precision.h"

#include <cmath>
#include <limits>
#include <memory>

#include <ATen/Context.h>
#include <gtest/gtest.h>
#include <torch/optim.h>

#include "engine/train/device.h"
#include "engine/train/torch_modules.h"
#include "tests/engine/train/small_trial.h"

namespace dtrain {
namespace {

TEST(AutocastTest, ComputesInTheTypeAndRestoresTheState) {
  torch::nn::Linear layer(4, 2);
  const torch::Tensor input = torch::ones({3, 4});
  {
    const Autocast autocast(torch::kCPU, ParsePrecision("bf16"));
    EXPECT_EQ(layer(input).scalar_type(), torch::kBFloat16);
    {
      const Autocast off(torch::kCPU, std::nullopt);
      EXPECT_EQ(layer(input).scalar_type(), torch::kFloat);
    }
    EXPECT_EQ(layer(input).scalar_type(), torch::kBFloat16);
  }
  EXPECT_EQ(layer(input).scalar_type(), torch::kFloat);
  const Autocast none(torch::kCPU, ParsePrecision("none"));
  EXPECT_EQ(layer(input).scalar_type(), torch::kFloat);
}

class LossScalerTest : public testing::Test {
 protected:
  // One step whose gradient is `gradient` times the scale.
  bool Step(LossScaler& scaler, double gradient) {
    parameter_.mutable_grad() =
        scaler.Scale(torch::full({2}, gradient, torch::kFloat));
    const bool is_good = scaler.Unscale(optimizer_);
    scaler.Update();
    return is_good;
  }

  torch::Tensor parameter_ = torch::zeros({2}).requires_grad_();
  torch::optim::SGD optimizer_{std::vector<torch::Tensor>{parameter_}, 0.1};
};

TEST_F(LossScalerTest, UnscalesByItsScale) {
  LossScaler scaler(torch::kCPU, std::nullopt);
  EXPECT_EQ(scaler.scale(), 65536);
  EXPECT_TRUE(Step(scaler, 0.25));
  EXPECT_EQ(parameter_.grad()[0].item<float>(), 0.25);
  EXPECT_EQ(scaler.scale(), 65536);
}

TEST_F(LossScalerTest, HalvesAtAnOverflowAndDoublesMuchLater) {
  LossScaler scaler(torch::kCPU, std::nullopt);
  EXPECT_FALSE(Step(scaler, std::numeric_limits<double>::infinity()));
  EXPECT_EQ(scaler.scale(), 32768);
  for (int i = 0; i < 1999; ++i) ASSERT_TRUE(Step(scaler, 1));
  EXPECT_EQ(scaler.scale(), 32768);
  EXPECT_TRUE(Step(scaler, 1));
  EXPECT_EQ(scaler.scale(), 65536);
}

TEST_F(LossScalerTest, FixedScaleIsConstant) {
  LossScaler scaler(torch::kCPU, 128);
  EXPECT_FALSE(Step(scaler, std::nan("")));
  EXPECT_EQ(scaler.scale(), 128);
  EXPECT_TRUE(Step(scaler, 1));
}

TEST_F(LossScalerTest, RestoresItsState) {
  LossScaler scaler(torch::kCPU, std::nullopt);
  (void)Step(scaler, std::numeric_limits<double>::infinity());
  for (int i = 0; i < 1500; ++i) (void)Step(scaler, 1);
  LossScaler resumed(torch::kCPU, std::nullopt);
  resumed.Load(scaler.Save());
  EXPECT_EQ(resumed.scale(), 32768);
  for (int i = 0; i < 500; ++i) (void)Step(resumed, 1);
  EXPECT_EQ(resumed.scale(), 65536);
}

class MixedPrecisionTest : public SmallTrialTest,
                           public testing::WithParamInterface<const char*> {};

TEST(Tf32Test, PermitsItInMatrixProductsOfGpus) {
  TrialSpec spec;
  EXPECT_FALSE(at::globalContext().allowTF32CuBLAS());
  spec.settings.mixed_precision = "tf32";
  OpenDevice(spec);
  EXPECT_TRUE(at::globalContext().allowTF32CuBLAS());
  EXPECT_TRUE(at::globalContext().allowTF32CuDNN());
  at::globalContext().setAllowTF32CuBLAS(false);
}

TEST_P(MixedPrecisionTest, TrainsNearlyAsInFullPrecision) {
  spec_.until = Length{60};
  FakeRunner full;
  ASSERT_EQ(Train(full).reason, EndReason::kCompleted);
  spec_.settings.mixed_precision = GetParam();
  spec_.settings.loss_scale = 128;  // one that adapts leaves out first steps
  FakeRunner mixed;
  ASSERT_EQ(Train(mixed).reason, EndReason::kCompleted);
  const auto reports = [](const FakeRunner& runner) {
    return runner.All<TrainingReport>();
  };
  const double end = Value(reports(full).back().metrics, "loss");
  const double mixed_end = Value(reports(mixed).back().metrics, "loss");
  EXPECT_NE(end, mixed_end);
  EXPECT_LT(end, Value(reports(full).front().metrics, "loss"));
  EXPECT_NEAR(mixed_end, end, 0.2 * end);
}

TEST_P(MixedPrecisionTest, ResumesBitIdentically) {
  spec_.settings.mixed_precision = GetParam();
  spec_.until = Length{12};
  FakeRunner through;
  ASSERT_EQ(Train(through).reason, EndReason::kCompleted);
  spec_.until = Length{6};
  FakeRunner first;
  ASSERT_EQ(Train(first).reason, EndReason::kCompleted);
  spec_.restore = first.All<CheckpointSaved>().back().uuid;
  spec_.completed = {Length{6}};
  spec_.until = Length{12};
  FakeRunner second;
  ASSERT_EQ(Train(second).reason, EndReason::kCompleted);
  EXPECT_EQ(Value(through.All<ValidationReport>().back().metrics, "val_loss"),
            Value(second.All<ValidationReport>().back().metrics, "val_loss"));
}

INSTANTIATE_TEST_SUITE_P(Types, MixedPrecisionTest,
                         testing::Values("bf16", "fp16"));

}  // namespace
}  // namespace dtrain
