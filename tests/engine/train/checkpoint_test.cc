#include "engine/train/checkpoint.h"

#include <filesystem>
#include <fstream>
#include <stdexcept>

#include <gmock/gmock.h>

#include "engine/base/error.h"
#include "engine/checkpoint/checkpoint_files.h"
#include "engine/train/tensor_file.h"
#include "engine/train/trainer_context.h"
#include "tests/engine/train/small_trial.h"

namespace dtrain {
namespace {

using testing::HasSubstr;
using testing::IsEmpty;

// State that is hard to resume from: dropout, warm-up and two
// schedules, gradients accumulated over three batches, clipping, a plateau.
class ResumeTest : public SmallTrialTest,
                   public testing::WithParamInterface<int> {
 protected:
  ResumeTest() {
    spec_.until = Length{23};
    spec_.settings.aggregation_frequency = 3;
    spec_.settings.clip_norm = 0.5;
    spec_.settings.min_validation_period = {5};
    spec_.settings.min_checkpoint_period = {4};
    spec_.settings.early_stopping = {.metric = "val_loss", .patience = 50};
    options_.set_up = [](TrialContext& context,
                         torch::optim::Optimizer& optimizer) {
      context.Add(LrSchedule(CosineLr{.steps = 30}, {.steps = 4}), optimizer,
                  StepMode::kEveryBatch);
      context.Add(LrSchedule(ReduceOnPlateau{
                      .metric = "val_loss", .factor = 0.5, .patience = 0}),
                  optimizer, StepMode::kManual);
    };
  }

  // Trains as if the process died when batch `batch` begins, then resumes from
  // the newest checkpoint; gives back what was heard in both lives.
  FakeRunner TrainKilledAt(int batch) {
    FakeRunner runner;
    const auto options = options_;
    options_.on_batch = [&](TrialContext&, BatchIndex index) {
      if (index.batch == batch) throw std::runtime_error("killed");
    };
    EXPECT_EQ(Train(runner).message, "killed");
    options_ = options;
    spec_.restore = runner.All<CheckpointSaved>().back().uuid;
    // The runner forgets messages beyond a checkpoint.
    EXPECT_EQ(Train(runner).reason, EndReason::kCompleted);
    return runner;
  }

  static MetricValues LastTraining(const FakeRunner& runner) {
    return runner.All<TrainingReport>().back().metrics;
  }
};

TEST_P(ResumeTest, EndsBitIdenticalWithMomentum) {
  FakeRunner whole;
  ASSERT_EQ(Train(whole).reason, EndReason::kCompleted);
  const FakeRunner resumed = TrainKilledAt(GetParam());
  const auto expected = whole.All<CheckpointSaved>().back().files;
  const auto files = resumed.All<CheckpointSaved>().back().files;
  EXPECT_EQ(files.at("model.safetensors"), expected.at("model.safetensors"));
  EXPECT_EQ(files.at("optimizer.safetensors"),
            expected.at("optimizer.safetensors"));
  EXPECT_EQ(files.at("extra.safetensors"), expected.at("extra.safetensors"));
  EXPECT_EQ(files.at("state.json"), expected.at("state.json"));
  EXPECT_EQ(LastTraining(resumed), LastTraining(whole));
  EXPECT_EQ(resumed.All<ValidationReport>().back().metrics,
            whole.All<ValidationReport>().back().metrics);
}

INSTANTIATE_TEST_SUITE_P(AnyBatch, ResumeTest, testing::Values(5, 9, 12, 22));

TEST_F(ResumeTest, EndsBitIdenticalWithAdam) {
  options_.adam = true;
  FakeRunner whole;
  ASSERT_EQ(Train(whole).reason, EndReason::kCompleted);
  const FakeRunner resumed = TrainKilledAt(8);
  EXPECT_EQ(resumed.All<CheckpointSaved>().back().files.at("model.safetensors"),
            whole.All<CheckpointSaved>().back().files.at("model.safetensors"));
}

TEST_F(ResumeTest, EndsBitIdenticalAfterAStopInTheMiddleOfAReport) {
  FakeRunner whole;
  ASSERT_EQ(Train(whole).reason, EndReason::kCompleted);
  FakeRunner runner;
  options_.on_batch = [&](TrialContext&, BatchIndex index) {
    runner.stop = index.batch == 6;
  };
  ASSERT_EQ(Train(runner).reason, EndReason::kStopped);
  spec_.restore = runner.All<CheckpointSaved>().back().uuid;
  runner.stop = false;
  ASSERT_EQ(Train(runner).reason, EndReason::kCompleted);
  EXPECT_EQ(runner.All<TrainingReport>()[1].metrics,
            whole.All<TrainingReport>()[1].metrics);
  EXPECT_EQ(runner.All<CheckpointSaved>().back().files.at("model.safetensors"),
            whole.All<CheckpointSaved>().back().files.at("model.safetensors"));
}

std::vector<std::int64_t> Beyond(std::int64_t batches,
                                 std::vector<std::int64_t> all) {
  std::erase_if(all, [&](std::int64_t one) { return one <= batches; });
  return all;
}

TEST_F(ResumeTest, RepeatsTheOperationsBeyondAnOlderCheckpoint) {
  spec_.until = Length{7};  // where nothing else is due
  FakeRunner whole{.orders = {RunOperation{Length{23}}}};
  ASSERT_EQ(Train(whole).reason, EndReason::kCompleted);
  const CheckpointSaved first = whole.All<CheckpointSaved>().front();
  ASSERT_EQ(first.batches, 4);
  spec_.restore = first.uuid;
  spec_.completed = {Length{3}, Length{7}};
  spec_.until = Length{23};

  FakeRunner again;
  ASSERT_EQ(Train(again).reason, EndReason::kCompleted);

  EXPECT_EQ(again.ReportedBatches<TrainingReport>(),
            Beyond(4, whole.ReportedBatches<TrainingReport>()));
  EXPECT_EQ(again.ReportedBatches<ValidationReport>(),
            Beyond(4, whole.ReportedBatches<ValidationReport>()));
  EXPECT_EQ(again.ReportedBatches<CheckpointSaved>(),
            Beyond(4, whole.ReportedBatches<CheckpointSaved>()));
  EXPECT_EQ(again.All<OperationCompleted>().size(), 1u);
  EXPECT_EQ(again.All<ValidationReport>().front().metrics,
            whole.All<ValidationReport>().front().metrics);
  EXPECT_EQ(again.All<CheckpointSaved>().back().files.at("state.json"),
            whole.All<CheckpointSaved>().back().files.at("state.json"));
}

class CheckpointTest : public SmallTrialTest {
 protected:
  CheckpointSaved TrainAndSave() {
    FakeRunner runner;
    EXPECT_EQ(Train(runner).reason, EndReason::kCompleted);
    return runner.All<CheckpointSaved>().back();
  }

  Finished TrainFrom(const CheckpointSaved& checkpoint) {
    FakeRunner runner;
    spec_.restore = checkpoint.uuid;
    return Train(runner);
  }
};

TEST_F(CheckpointTest, NamesTensorsAsPyTorchDoes) {
  const auto files = CheckpointFiles::Read(CheckpointPath(TrainAndSave()));
  const auto tensors = ReadTensors(files["model.safetensors"], "model");
  EXPECT_EQ(tensors.size(), 9u);
  EXPECT_EQ(tensors.at("0.weight").sizes(), (torch::IntArrayRef{8, 4}));
  EXPECT_EQ(tensors.at("1.running_mean").sizes(), torch::IntArrayRef{8});
  EXPECT_EQ(tensors.at("1.num_batches_tracked").item<std::int64_t>(), 10);
}

TEST_F(CheckpointTest, CarriesUnacknowledgedReports) {
  FakeRunner first{.acknowledges = false};
  ASSERT_EQ(Train(first).reason, EndReason::kCompleted);
  spec_.restore = first.All<CheckpointSaved>().back().uuid;
  FakeRunner second;
  ASSERT_EQ(Train(second).reason, EndReason::kCompleted);
  EXPECT_EQ(second.ReportedBatches<TrainingReport>(),
            first.ReportedBatches<TrainingReport>());
  EXPECT_EQ(second.ReportedBatches<ValidationReport>(),
            first.ReportedBatches<ValidationReport>());
  EXPECT_THAT(first.All<OperationCompleted>()[0].metrics, IsEmpty())
      << "the validation report has them";
  EXPECT_EQ(second.All<OperationCompleted>()[0].metrics,
            first.All<ValidationReport>().back().metrics)
      << "it did not validate again";
}

TEST_F(CheckpointTest, RefusesADamagedCheckpointByName) {
  const CheckpointSaved checkpoint = TrainAndSave();
  std::fstream file(CheckpointPath(checkpoint) + "/optimizer.safetensors",
                    std::ios::in | std::ios::out | std::ios::binary);
  file.seekp(-1, std::ios::end);
  file.put('!');
  file.close();
  const Finished finished = TrainFrom(checkpoint);
  EXPECT_EQ(finished.reason, EndReason::kDamaged);
  EXPECT_THAT(finished.message, HasSubstr(checkpoint.uuid));
  EXPECT_THAT(finished.message,
              HasSubstr("'optimizer.safetensors' does not match its checksum"));
}

TEST_F(CheckpointTest, RefusesAWarmStartFromADamagedCheckpoint) {
  const CheckpointSaved checkpoint = TrainAndSave();
  std::filesystem::remove(CheckpointPath(checkpoint) + "/model.safetensors");
  spec_.warm_start = CheckpointPath(checkpoint);
  FakeRunner runner;
  EXPECT_EQ(Train(runner).reason, EndReason::kError);
}

TEST_F(CheckpointTest, AnotherOptimizerIsRefused) {
  const CheckpointSaved checkpoint = TrainAndSave();
  options_.adam = true;
  EXPECT_THAT(TrainFrom(checkpoint).message,
              HasSubstr("optimizer 'optimizer' is \"SGD\""));
}

TEST_F(CheckpointTest, WarmStartKeepsWeightsAndCountsFromZero) {
  const CheckpointSaved first = TrainAndSave();
  spec_.warm_start = CheckpointPath(first);
  spec_.until = Length{1};
  spec_.settings.aggregation_frequency = 2;  // so that no step is taken
  FakeRunner runner;
  ASSERT_EQ(Train(runner).reason, EndReason::kCompleted);
  const CheckpointSaved second = runner.All<CheckpointSaved>().back();
  EXPECT_EQ(second.batches, 1);
  const auto before = CheckpointFiles::Read(CheckpointPath(first));
  const auto after = CheckpointFiles::Read(CheckpointPath(second));
  EXPECT_TRUE(
      torch::equal(ReadTensors(before["model.safetensors"], "").at("4.weight"),
                   ReadTensors(after["model.safetensors"], "").at("4.weight")));
  EXPECT_EQ(second.files.at("optimizer.safetensors"),
            first.files.at("optimizer.safetensors"));
}

class Layer final : public torch::nn::Module {
 public:
  explicit Layer(const torch::Tensor& weight)
      : weight_(register_parameter("weight", weight)) {}
  torch::Tensor weight_;
};

// Two layers with one weight, or with one each.
class TwoLayers final : public torch::nn::Module {
 public:
  explicit TwoLayers(bool tied)
      : first_(register_module("first",
                               std::make_shared<Layer>(torch::ones({3, 3})))),
        second_(register_module(
            "second", std::make_shared<Layer>(tied ? first_->weight_
                                                   : torch::zeros({3, 3})))) {}
  std::shared_ptr<Layer> first_;
  std::shared_ptr<Layer> second_;
};

TEST(TiesTest, AreWrittenOnceAndNamed) {
  NamedTensors tensors =
      CollectState({{"model", std::make_shared<TwoLayers>(/*tied=*/true)}});
  const Ties ties = ExtractTies(tensors);
  EXPECT_EQ(ties, (Ties{{"second.weight", "first.weight"}}));
  EXPECT_EQ(tensors.size(), 1u);
}

// One model and no more, for checkpoints without a training.
class BareTrial final : public Trial {
 public:
  std::unique_ptr<DataSource> TrainingData() override { return nullptr; }
  std::unique_ptr<DataSource> ValidationData() override { return nullptr; }
  Metrics TrainBatch(const Batch&, BatchIndex) override { return {}; }
  Metrics EvaluateBatch(const Batch&) override { return {}; }
};

TEST(TiesTest, AreTiedAgainWhenLoaded) {
  const TemporaryDirectory directory;
  const std::string path = directory.path() / "checkpoints" / "one";
  const TrialSpec spec;
  BareTrial trial;
  TrainerContext saved(spec, torch::kCPU);
  saved.Add(std::make_shared<TwoLayers>(/*tied=*/true), "model");
  (void)SaveCheckpoint(path, saved, trial, {}, 0);
  const auto net = std::make_shared<TwoLayers>(/*tied=*/false);
  TrainerContext loaded(spec, torch::kCPU);
  loaded.Add(net, "model");
  (void)LoadCheckpoint(path, loaded, trial);
  EXPECT_EQ(net->first_->weight_.const_data_ptr(),
            net->second_->weight_.const_data_ptr());
  EXPECT_EQ(net->second_->weight_.sum().item<double>(), 9);
}

TEST(TensorFileTest, KeepsEveryTypeToTheBit) {
  const TemporaryDirectory directory;
  const std::string path = directory.path() / "checkpoints" / "one";
  const auto numbers = torch::randn({2, 3});
  const NamedTensors tensors = {{"f64", numbers.to(torch::kFloat64)},
                                {"f32", numbers.t()},
                                {"f16", numbers.to(torch::kFloat16)},
                                {"bf16", numbers.to(torch::kBFloat16)},
                                {"i64", torch::tensor({-1, 1})},
                                {"u8", torch::tensor({255}, torch::kUInt8)},
                                {"bool", numbers > 0},
                                {"empty", torch::zeros({0, 2})},
                                {"scalar", torch::tensor(0.1)}};
  {
    CheckpointWriter writer(path);
    WriteTensors(writer, "t.safetensors", tensors);
    (void)writer.Commit();
  }
  const auto files = CheckpointFiles::Read(path);
  const auto read = ReadTensors(files["t.safetensors"], "t");
  ASSERT_EQ(read.size(), tensors.size());
  for (const auto& [name, tensor] : tensors) {
    EXPECT_TRUE(torch::equal(read.at(name), tensor)) << name;
    EXPECT_EQ(read.at(name).scalar_type(), tensor.scalar_type()) << name;
  }
}

}  // namespace
}  // namespace dtrain
