#include "engine/train/graphed_step.h"

#include <gmock/gmock.h>

#include "engine/base/error.h"
#include "engine/data/tensor_source.h"
#include "engine/train/device.h"
#include "engine/train/fused_optimizers.h"
#include "engine/train/metric_sums.h"
#include "engine/train/optimizer_state.h"
#include "engine/train/trainer.h"
#include "tests/engine/train/small_trial.h"
#include "tests/support/recorded_graph.h"

namespace dtrain {
namespace {

using testing::HasSubstr;
using testing::Not;

// Options of a GraphTrial that a test sets.
struct GraphTrialOptions {
  std::string optimizer = "sgd";
  std::function<void(TrialContext&, torch::optim::Optimizer&)> set_up;
  std::function<void(torch::Tensor)> on_loss;
  std::function<bool(BatchIndex)> capturable = [](BatchIndex) { return true; };
  std::int64_t short_batch = -1;          // of each pass
  std::function<void()> on_read = [] {};  // of a training batch
  bool on_device = false;  // batches of 6 of a shuffled set of 32
  bool has_validation = false;
};

// Batches of waves, one of which may be short.
class ShortBatchSource final : public DataSource {
 public:
  ShortBatchSource(std::int64_t short_batch, std::function<void()> on_read)
      : short_(short_batch), on_read_(std::move(on_read)) {}

  std::int64_t BatchesPerEpoch() const override { return kBatches; }
  std::int64_t SamplesPerEpoch() const override { return kBatches * 6; }
  void Seek(std::int64_t index) override { next_ = index; }
  Batch Read() override {
    on_read_();
    WaveSource waves(kBatches, next_ % kBatches == short_ ? 3 : 6);
    waves.Seek(next_++);
    return waves.Read();
  }

 private:
  static constexpr std::int64_t kBatches = 5;
  const std::int64_t short_;
  const std::function<void()> on_read_;
  std::int64_t next_ = 0;
};

// Dropout, running means, a mean of its own: all that a graph could get wrong.
class GraphTrial final : public Trial {
 public:
  GraphTrial(TrialContext& context, const GraphTrialOptions& options)
      : context_(context), options_(options) {
    context.Add(net_.ptr());
    const auto parameters = net_->parameters();
    if (options.optimizer == "sgd") {
      optimizer_ = std::make_shared<FusedSgd>(
          parameters, torch::optim::SGDOptions(0.05).momentum(0.9));
    } else if (options.optimizer == "adam") {
      optimizer_ = std::make_shared<FusedAdam>(parameters);
    } else if (options.optimizer == "adamw") {
      optimizer_ = std::make_shared<FusedAdamW>(parameters);
    } else {
      optimizer_ = std::make_shared<torch::optim::RMSprop>(parameters);
    }
    context.Add(optimizer_);
    if (options.set_up) options.set_up(context, *optimizer_);
  }

  std::unique_ptr<DataSource> TrainingData() override {
    if (options_.on_device) {
      WaveSource waves(/*batches=*/1, /*samples=*/32);
      return std::make_unique<TensorSource>(
          waves.Read(), SamplerOptions{.batch_size = 6, .shuffle = true},
          torch::kCPU);
    }
    return std::make_unique<ShortBatchSource>(options_.short_batch,
                                              options_.on_read);
  }
  std::unique_ptr<DataSource> ValidationData() override {
    if (!options_.has_validation) return nullptr;
    return std::make_unique<WaveSource>(/*batches=*/2, /*samples=*/3);
  }
  Metrics TrainBatch(const Batch& batch, BatchIndex) override {
    ++calls;
    const auto loss = torch::nn::functional::mse_loss(net_->forward(batch.data),
                                                      batch.target);
    if (options_.on_loss) options_.on_loss(loss);
    context_.Backward(loss);
    context_.Step(*optimizer_);
    sum.add_(loss.detach());
    return {{"loss", loss.detach()}};
  }
  Metrics EvaluateBatch(const Batch& batch) override {
    return {{"val_loss", torch::nn::functional::mse_loss(
                             net_->forward(batch.data), batch.target)}};
  }
  bool Capturable(BatchIndex index) const override {
    return options_.capturable(index);
  }
  std::map<std::string, torch::Tensor> Save() override {
    return {{"sum", sum}};
  }
  void Load(const std::map<std::string, torch::Tensor>& state) override {
    sum.copy_(state.at("sum"));
  }

  int calls = 0;
  torch::Tensor sum = torch::zeros({});

 private:
  TrialContext& context_;
  GraphTrialOptions options_;
  torch::nn::Sequential net_{torch::nn::Linear(4, 8), torch::nn::BatchNorm1d(8),
                             torch::nn::ReLU(), torch::nn::Dropout(0.3),
                             torch::nn::Linear(8, 1)};
  std::shared_ptr<torch::optim::Optimizer> optimizer_;
};

// Result of a training.
struct Ended {
  std::vector<torch::Tensor> state;  // of the model, and the trial's own
  std::string optimizer;             // its facts in a checkpoint
  nlohmann::json random;
  std::vector<MetricValues> metrics;
  std::vector<std::string> messages;  // reports and checkpoints, in order
  std::vector<std::size_t> sent;      // messages before each batch is read
  int calls = 0;                      // of TrainBatch
  int replays = 0;                    // of the graph of one step
  int several = 0;                    // of the graph of several steps
  std::string log;
};

// Reports and checkpoints as text.
std::vector<std::string> Texts(const std::vector<TrialMessage>& messages) {
  std::vector<std::string> texts;
  const auto add = [&](const char* kind, const auto& message) {
    texts.push_back(kind + std::to_string(message.batches) + " of epoch " +
                    std::to_string(message.epoch));
  };
  for (const TrialMessage& message : messages) {
    if (const auto* report = std::get_if<TrainingReport>(&message)) {
      add("training ", *report);
      texts.back() += nlohmann::json(report->metrics).dump();
    } else if (const auto* report = std::get_if<ValidationReport>(&message)) {
      add("validation ", *report);
      texts.back() += nlohmann::json(report->metrics).dump();
    } else if (const auto* saved = std::get_if<CheckpointSaved>(&message)) {
      add("checkpoint ", *saved);
    }
  }
  return texts;
}

class GraphedStepTest : public SmallTrialTest {
 protected:
  GraphedStepTest() { spec_.until = Length{20}; }

  // Trains with a graph or without; in all else it is the same.
  Ended Train(bool graphed) {
    SeedRandom(spec_.seed, torch::kCPU);
    TrainerContext context(spec_, torch::kCPU);
    FakeRunner runner;
    Ended ended;
    options_.on_read = [&] {
      ended.sent.push_back(Texts(runner.messages).size());
    };
    GraphTrial trial(context, options_);
    const TrialLink link = runner.Link();
    auto graph = graphed ? std::make_unique<RecordedGraph>() : nullptr;
    const RecordedGraph* held = graph.get();
    testing::internal::CaptureStderr();
    Trainer trainer(context, trial, link, clock_, std::move(graph));
    trainer.Restore();
    EXPECT_EQ(trainer.Run().reason, EndReason::kCompleted);
    ended.log = testing::internal::GetCapturedStderr();
    // A graph that was given up is gone.
    const bool is_held = ended.log.find("are replayed") != std::string::npos;
    ended.replays = is_held ? held->replays() : 0;
    ended.several = is_held ? held->other_replays() : 0;
    for (const auto& entry : CollectState(context.objects().models)) {
      ended.state.push_back(entry.second.detach().clone());
    }
    ended.state.push_back(trial.sum);
    ended.optimizer = SaveOptimizer(context.objects().optimizers[0],
                                    NameParameters(context.objects().models))
                          .facts.dump();
    ended.random = SaveRandomState(torch::kCPU);
    for (const auto& report : runner.All<TrainingReport>()) {
      ended.metrics.push_back(report.metrics);
    }
    ended.messages = Texts(runner.messages);
    ended.calls = trial.calls;
    checkpoint_ = runner.All<CheckpointSaved>().back().uuid;
    return ended;
  }

  // Learns the same with a graph as without, to the bit.
  Ended ExpectTheSame() {
    const Ended plain = Train(/*graphed=*/false);
    Ended graphed = Train(/*graphed=*/true);
    EXPECT_EQ(plain.replays, 0);
    EXPECT_EQ(plain.state.size(), graphed.state.size());
    for (std::size_t i = 0; i < plain.state.size(); ++i) {
      EXPECT_TRUE(torch::equal(plain.state[i], graphed.state[i])) << i;
    }
    EXPECT_EQ(plain.optimizer, graphed.optimizer);
    EXPECT_EQ(plain.random, graphed.random);
    EXPECT_EQ(plain.metrics, graphed.metrics);
    EXPECT_EQ(plain.messages, graphed.messages);
    return graphed;
  }

  GraphTrialOptions options_;
  Clock clock_ = Clock::System();
  std::string checkpoint_;
};

constexpr int kBatches = 20;
constexpr int kWarmUps = GraphedStep::kWarmUpBatches;

TEST_F(GraphedStepTest, TrainsBitIdentically) {
  const Ended ended = ExpectTheSame();
  EXPECT_EQ(ended.replays, kBatches - kWarmUps);
  EXPECT_EQ(ended.calls, kWarmUps + 1);
  EXPECT_THAT(ended.log, HasSubstr("from batch 5 on, steps are replayed"));
}

TEST(MetricSumsTest, AddsEachMetricInOneOperation) {
  const std::map<std::string, Reduction> reductions = {
      {"worst", Reduction::kMax}, {"best", Reduction::kMin}};
  const torch::Tensor value = torch::tensor(0.1F);
  const Metrics metrics = {{"loss", value},
                           {"right", torch::tensor(3)},
                           {"best", value.to(torch::kBFloat16)},
                           {"worst", value}};
  for (const bool last_only : {false, true}) {
    MetricSums sums(last_only, reductions);
    sums.KeepOn(torch::kCPU);
    sums.Add(metrics, /*weight=*/1);
    RecordedGraph graph;
    std::vector<std::string> names;
    graph.Capture([&] { names = sums.Capture(metrics, torch::kCPU); });
    EXPECT_EQ(graph.launches().size(), metrics.size());
    value.fill_(0.7F);
    graph.Replay();
    sums.CountReplay(names);
    const MetricValues values = sums.Values();
    EXPECT_EQ(*FindMetric(values, "loss"),
              last_only ? double{0.7F} : (double{0.1F} + double{0.7F}) / 2);
    EXPECT_EQ(*FindMetric(values, "worst"), double{0.7F});
    EXPECT_EQ(*FindMetric(values, "right"), 3);
    value.fill_(0.1F);
  }
}

// Reading the metrics of each batch would wait for the device each time.
TEST_F(GraphedStepTest, ReportsOfSingleBatchesAreReadTogether) {
  clock_.monotonic = [] { return Duration{0}; };  // no progress in between
  options_.has_validation = true;
  spec_.settings.scheduling_unit = 1;
  spec_.settings.min_validation_period = {10};
  spec_.settings.min_checkpoint_period = {7};
  spec_.settings.checkpoint_policy = "none";
  const Ended ended = ExpectTheSame();
  EXPECT_GT(ended.replays, 0);
  // 20 training reports, validations at 10 and 20, checkpoints at 7, 14, 20.
  EXPECT_EQ(ended.messages.size(), 25u);
  EXPECT_THAT(ended.sent,
              testing::ElementsAre(0, 0, 0, 0, 0, 0, 0, 8, 8, 8, 12, 12, 12, 12,
                                   17, 17, 17, 17, 17, 17));
}

TEST_F(GraphedStepTest, ReportsBeforeAFailureAreSent) {
  clock_.monotonic = [] { return Duration{0}; };
  options_.has_validation = true;
  spec_.settings.scheduling_unit = 1;
  SeedRandom(spec_.seed, torch::kCPU);
  TrainerContext context(spec_, torch::kCPU);
  int reads = 0;
  options_.on_read = [&] {
    if (++reads == 13) throw Error(ErrorKind::kFailed, "unreadable");
  };
  GraphTrial trial(context, options_);
  FakeRunner runner;
  const TrialLink link = runner.Link();
  Trainer trainer(context, trial, link, clock_,
                  std::make_unique<RecordedGraph>());
  trainer.Restore();
  EXPECT_THROW((void)trainer.Run(), Error);
  EXPECT_EQ(runner.All<TrainingReport>().size(), 12u);
}

TEST_F(GraphedStepTest, SchedulesChangeTheRateInsideTheGraph) {
  options_.set_up = [](TrialContext& context, torch::optim::Optimizer& one) {
    context.Add(LrSchedule(ExponentialLr{0.9}), one, StepMode::kEveryBatch);
  };
  EXPECT_GT(ExpectTheSame().replays, 0);
}

TEST_F(GraphedStepTest, SchedulesOfOptimizerStepsCountReplays) {
  options_.set_up = [](TrialContext& context, torch::optim::Optimizer& one) {
    context.Add(LrSchedule(StepLr{.step_size = 3, .gamma = 0.5}), one,
                StepMode::kEveryOptimizerStep);
  };
  EXPECT_GT(ExpectTheSame().replays, 0);
}

TEST_F(GraphedStepTest, AdamCountsItsStepsOnTheDevice) {
  for (const char* optimizer : {"adam", "adamw"}) {
    options_.optimizer = optimizer;
    const Ended ended = ExpectTheSame();
    EXPECT_GT(ended.replays, 0);
    EXPECT_THAT(ended.optimizer, HasSubstr("\"step\":20"));
  }
}

TEST_F(GraphedStepTest, ShortBatchIsTrainedWithoutCapture) {
  options_.short_batch = 4;
  const Ended ended = ExpectTheSame();
  // The first four warm up, the fifth is short and not what is captured.
  EXPECT_EQ(ended.replays, kBatches - kWarmUps - 4);
  EXPECT_THAT(
      ended.log,
      HasSubstr("batches of shape [3, 4] are trained without the CUDA graph, "
                "whose shape is [6, 4]"));
}

TEST_F(GraphedStepTest, WarmsUpAgainForALargerBatch) {
  options_.short_batch = 0;
  const Ended ended = ExpectTheSame();
  // The first of 20 batches is short, the next four warm up, and three of the
  // rest are short.
  EXPECT_EQ(ended.replays, kBatches - 1 - kWarmUps - 3);
}

TEST_F(GraphedStepTest, ReportsOnceWhyAStepIsNotCaptured) {
  options_.short_batch = 3;
  const Ended ended = ExpectTheSame();
  EXPECT_EQ(ended.replays, kBatches - 4 - kWarmUps);
  const std::string what = "batches of shape [3, 4]";
  const auto first = ended.log.find(what);
  ASSERT_NE(first, std::string::npos);
  EXPECT_EQ(ended.log.find(what, first + 1), std::string::npos);
}

TEST_F(GraphedStepTest, UncapturableBatchesAreTrainedWithoutCapture) {
  options_.capturable = [](BatchIndex index) { return index.batch % 4 != 3; };
  const Ended ended = ExpectTheSame();
  EXPECT_EQ(ended.replays, kBatches - kBatches / 4 - kWarmUps);
  EXPECT_THAT(ended.log, HasSubstr("Trial::Capturable"));
}

TEST_F(GraphedStepTest, TrialWithoutCaptureSupportIsNotCaptured) {
  options_.capturable = [](BatchIndex) { return false; };
  const Ended ended = ExpectTheSame();
  EXPECT_EQ(ended.replays, 0);
  EXPECT_EQ(ended.calls, kBatches);
}

TEST_F(GraphedStepTest, TrialThatReadsAValueIsNotCaptured) {
  options_.on_loss = [](const torch::Tensor& loss) { loss.item<float>(); };
  const Ended ended = ExpectTheSame();
  EXPECT_EQ(ended.replays, 0);
  // The attempt is one more, and has left no trace.
  EXPECT_EQ(ended.calls, kBatches + 1);
  EXPECT_THAT(ended.log, HasSubstr("cannot be captured as a CUDA graph"));
  EXPECT_THAT(ended.log, HasSubstr("not permitted"));
}

TEST_F(GraphedStepTest, OtherOptimizersAreNotCaptured) {
  options_.optimizer = "rmsprop";
  const Ended ended = ExpectTheSame();
  EXPECT_EQ(ended.replays, 0);
  EXPECT_THAT(ended.log, HasSubstr("FusedSgd"));
}

TEST_F(GraphedStepTest, AccumulationIsNotCaptured) {
  spec_.settings.aggregation_frequency = 2;
  const Ended ended = ExpectTheSame();
  EXPECT_EQ(ended.replays, 0);
  EXPECT_THAT(ended.log, HasSubstr("aggregation_frequency"));
}

TEST_F(GraphedStepTest, GradientsAreClippedInside) {
  spec_.settings.clip_norm = 0.1;
  EXPECT_GT(ExpectTheSame().replays, 0);
}

TEST_F(GraphedStepTest, TheLastBatchesMetricsAreThoseOfTheLastReplay) {
  spec_.settings.average_training_metrics = false;
  EXPECT_GT(ExpectTheSame().replays, 0);
}

TEST_F(GraphedStepTest, SinkingReportsOnceForManyReplays) {
  spec_.settings.sink_size = 10;
  const Ended ended = ExpectTheSame();
  EXPECT_EQ(ended.metrics.size(), 2u);
  EXPECT_EQ(ended.replays, kBatches - kWarmUps);
}

TEST_F(GraphedStepTest, ResumesFromACheckpointBetweenReplays) {
  options_.optimizer = "adam";
  const Ended whole = Train(/*graphed=*/true);
  spec_.until = Length{11};
  Train(/*graphed=*/true);
  spec_.restore = checkpoint_;
  spec_.until = Length{20};
  const Ended resumed = Train(/*graphed=*/true);
  for (std::size_t i = 0; i < whole.state.size(); ++i) {
    EXPECT_TRUE(torch::equal(whole.state[i], resumed.state[i])) << i;
  }
  EXPECT_EQ(whole.optimizer, resumed.optimizer);
  EXPECT_EQ(whole.random, resumed.random);
  EXPECT_EQ(resumed.replays, 20 - 11 - kWarmUps);
}

// Graphs of three steps. A pass has five full batches and a short one: after
// the first, which warms up, one graph of three and two of one step train a
// pass.
class SeveralStepsTest : public GraphedStepTest {
 protected:
  SeveralStepsTest() {
    ::setenv(kGraphStepsVariable, "3", /*replace=*/1);
    options_.on_device = true;
    spec_.until = Length{30};
    spec_.settings.scheduling_unit = 30;
  }
  ~SeveralStepsTest() override { ::unsetenv(kGraphStepsVariable); }
};

TEST_F(SeveralStepsTest, TrainBitIdentically) {
  const Ended ended = ExpectTheSame();
  EXPECT_EQ(ended.several, 4);
  EXPECT_EQ(ended.replays, 1 + 4 * 2);
  EXPECT_EQ(ended.calls, 5 /*short*/ + kWarmUps + 1 + 3);
  EXPECT_THAT(ended.log, HasSubstr("from batch 7 on, 3 steps are replayed as "
                                   "one CUDA graph"));
}

TEST_F(SeveralStepsTest, AdamAndTheLastMetricTrainBitIdentically) {
  options_.optimizer = "adam";
  spec_.settings.average_training_metrics = false;
  EXPECT_EQ(ExpectTheSame().several, 4);
}

TEST_F(SeveralStepsTest, EndWhereSomethingIsDue) {
  options_.has_validation = true;
  spec_.settings.scheduling_unit = 5;
  spec_.settings.min_validation_period = {8};
  spec_.settings.min_checkpoint_period = {9};
  const Ended ended = ExpectTheSame();
  // From batches 12 and 20 on, nothing is due for three batches; the last of
  // those from 27 on is short.
  EXPECT_EQ(ended.several, 2);
}

TEST_F(SeveralStepsTest, EndWithASink) {
  spec_.settings.sink_size = 4;
  EXPECT_GT(ExpectTheSame().several, 0);
}

TEST_F(SeveralStepsTest, RateOfEachBatchNeedsSingleSteps) {
  options_.set_up = [](TrialContext& context, torch::optim::Optimizer& one) {
    context.Add(LrSchedule(ExponentialLr{0.9}), one, StepMode::kEveryBatch);
  };
  EXPECT_EQ(ExpectTheSame().several, 0);
}

TEST_F(SeveralStepsTest, RateMayChangeBetweenEpochs) {
  options_.set_up = [](TrialContext& context, torch::optim::Optimizer& one) {
    context.Add(LrSchedule(ExponentialLr{0.9}), one, StepMode::kEveryEpoch);
  };
  EXPECT_EQ(ExpectTheSame().several, 4);
}

TEST_F(SeveralStepsTest, CountOptimizerStepsOfTheirSchedules) {
  options_.set_up = [](TrialContext& context, torch::optim::Optimizer& one) {
    context.Add(LrSchedule(StepLr{.step_size = 3, .gamma = 0.5}), one,
                StepMode::kEveryOptimizerStep);
  };
  EXPECT_EQ(ExpectTheSame().several, 0);
}

TEST_F(SeveralStepsTest, UncapturableBatchesAreTrainedWithoutCapture) {
  options_.capturable = [](BatchIndex index) { return index.batch != 14; };
  EXPECT_EQ(ExpectTheSame().several, 3);
}

TEST_F(SeveralStepsTest, DataFromTheHostNeedsSingleSteps) {
  options_.on_device = false;
  const Ended ended = ExpectTheSame();
  EXPECT_EQ(ended.several, 0);
  EXPECT_THAT(ended.log,
              HasSubstr("steps are replayed one by one: the training data is "
                        "not gathered on the device"));
}

TEST_F(SeveralStepsTest, ProfileNeedsSingleSteps) {
  spec_.settings.profile = true;
  const Ended ended = ExpectTheSame();
  EXPECT_EQ(ended.several, 0);
  EXPECT_THAT(ended.log, HasSubstr("one by one: the trial is profiled"));
}

TEST_F(SeveralStepsTest, WarnWithoutAGraph) {
  EXPECT_THAT(Train(/*graphed=*/false).log,
              HasSubstr("DTRAIN_GRAPH_STEPS has no effect: steps are not "
                        "captured as a CUDA graph"));
}

TEST_F(SeveralStepsTest, LossScaleNeedsSingleSteps) {
  spec_.settings.mixed_precision = "fp16";
  const Ended ended = Train(/*graphed=*/true);
  EXPECT_EQ(ended.several, 0);
  EXPECT_THAT(ended.log, HasSubstr("fp16 adapts its loss scale"));
}

TEST_F(SeveralStepsTest, FailedCaptureLeavesSingleSteps) {
  int calls = 0;
  // The eighth call is the second step of the capture of three.
  options_.on_loss = [&](const torch::Tensor& loss) {
    if (++calls == 8) loss.item<float>();
  };
  const Ended plain = Train(/*graphed=*/false);
  calls = 0;
  const Ended graphed = Train(/*graphed=*/true);
  EXPECT_EQ(graphed.several, 0);
  EXPECT_GT(graphed.replays, 15);
  EXPECT_THAT(graphed.log, HasSubstr("several steps cannot be captured as one "
                                     "CUDA graph, and are replayed one by "
                                     "one: operation not permitted"));
  for (std::size_t i = 0; i < plain.state.size(); ++i) {
    EXPECT_TRUE(torch::equal(plain.state[i], graphed.state[i])) << i;
  }
  EXPECT_EQ(plain.metrics, graphed.metrics);
  EXPECT_EQ(plain.optimizer, graphed.optimizer);
}

TEST_F(SeveralStepsTest, ResumeFromACheckpointInTheMiddleOfAPass) {
  const Ended whole = Train(/*graphed=*/true);
  spec_.until = Length{13};
  Train(/*graphed=*/true);
  spec_.restore = checkpoint_;
  spec_.until = Length{30};
  const Ended resumed = Train(/*graphed=*/true);
  EXPECT_GT(resumed.several, 0);
  for (std::size_t i = 0; i < whole.state.size(); ++i) {
    EXPECT_TRUE(torch::equal(whole.state[i], resumed.state[i])) << i;
  }
  EXPECT_EQ(whole.random, resumed.random);
}

TEST_F(SeveralStepsTest, NumberIsChecked) {
  for (const char* text : {"0", "65", "2.5", "many", ""}) {
    ::setenv(kGraphStepsVariable, text, /*replace=*/1);
    EXPECT_THAT([] { StepsPerGraph(); },
                testing::ThrowsMessage<Error>(HasSubstr(
                    "DTRAIN_GRAPH_STEPS is '" + std::string(text) +
                    "'; set it to a number from 1 to 64, or unset it")));
  }
  ::setenv(kGraphStepsVariable, "64", /*replace=*/1);
  EXPECT_EQ(StepsPerGraph(), 64);
}

TEST_F(GraphedStepTest, Float16SkipsStepsWithoutTheHost) {
  spec_.settings.mixed_precision = "fp16";
  spec_.settings.loss_scale = std::nullopt;
  options_.optimizer = "adam";
  const Ended ended = Train(/*graphed=*/true);
  EXPECT_GT(ended.replays, 0);
  // 65536 is too much for float16 at first, and then less is not.
  EXPECT_THAT(ended.log, HasSubstr("gradients overflowed float16"));
  EXPECT_THAT(ended.optimizer, Not(HasSubstr("\"step\":20")));
  for (const torch::Tensor& tensor : ended.state) {
    EXPECT_TRUE(tensor.isfinite().all().item<bool>());
  }
}

}  // namespace
}  // namespace dtrain
