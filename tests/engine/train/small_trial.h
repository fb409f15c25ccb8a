#pragma once

#include <deque>
#include <functional>
#include <map>
#include <memory>
#include <string>
#include <utility>
#include <vector>

#include <ATen/Parallel.h>
#include <gtest/gtest.h>
#include <torch/optim.h>

#include "engine/train/torch_modules.h"
#include "engine/train/train_trial.h"
#include "engine/train/trial.h"
#include "tests/support/temporary_directory.h"

namespace dtrain {

/// Batches of four numbers a sample and a target, made from their index.
class WaveSource final : public DataSource {
 public:
  WaveSource(std::int64_t batches, std::int64_t samples)
      : batches_(batches), samples_(samples) {}

  std::int64_t BatchesPerEpoch() const override { return batches_; }
  std::int64_t SamplesPerEpoch() const override { return batches_ * samples_; }
  void Seek(std::int64_t index) override { next_ = index; }
  Batch Read() override {
    const auto phase = static_cast<double>(next_++);
    const auto numbers = torch::arange(samples_ * 4, torch::kFloat32);
    const auto data = torch::sin(numbers + phase).reshape({samples_, 4});
    return {.data = data, .target = data.sum(1, /*keepdim=*/true)};
  }

 private:
  std::int64_t batches_;
  std::int64_t samples_;
  std::int64_t next_ = 0;
};

/// Options of a SmallTrial that a test sets.
struct SmallTrialOptions {
  bool adam = false;
  bool has_validation = true;
  std::function<void(TrialContext&, torch::optim::Optimizer&)> set_up;
  std::function<void(TrialContext&, BatchIndex)> on_batch;
  std::function<Metrics(TrialContext&)> evaluate;
  // A metric `epoch_loss`; undefined but where it is measured.
  std::function<torch::Tensor(BatchIndex)> epoch_loss;
};

/// A little network with all that makes resuming hard: dropout, batch norm,
/// momentum, state of its own.
class SmallTrial final : public Trial {
 public:
  SmallTrial(TrialContext& context, const SmallTrialOptions& options)
      : context_(context), options_(options) {
    context.Add(net_.ptr());
    if (options.adam) {
      optimizer_ = std::make_shared<torch::optim::Adam>(net_->parameters());
    } else {
      optimizer_ = std::make_shared<torch::optim::SGD>(
          net_->parameters(), torch::optim::SGDOptions(0.05).momentum(0.9));
    }
    context.Add(optimizer_);
    if (options.set_up) options.set_up(context, *optimizer_);
  }

  std::unique_ptr<DataSource> TrainingData() override {
    return std::make_unique<WaveSource>(/*batches=*/5, /*samples=*/6);
  }
  std::unique_ptr<DataSource> ValidationData() override {
    if (!options_.has_validation) return nullptr;
    return std::make_unique<WaveSource>(/*batches=*/2, /*samples=*/3);
  }
  Metrics TrainBatch(const Batch& batch, BatchIndex index) override {
    if (options_.on_batch) options_.on_batch(context_, index);
    const auto loss = torch::nn::functional::mse_loss(net_->forward(batch.data),
                                                      batch.target);
    context_.Backward(loss);
    context_.Step(*optimizer_);
    seen_ += 1;
    Metrics metrics = {{"loss", loss.detach()},
                       {"batch", torch::tensor(index.batch)}};
    if (options_.epoch_loss) {
      metrics.emplace("epoch_loss", options_.epoch_loss(index));
    }
    return metrics;
  }
  Metrics EvaluateBatch(const Batch& batch) override {
    if (options_.evaluate) return options_.evaluate(context_);
    return {{"val_loss", torch::nn::functional::mse_loss(
                             net_->forward(batch.data), batch.target)}};
  }
  std::map<std::string, torch::Tensor> Save() override {
    return {{"seen", seen_}};
  }
  void Load(const std::map<std::string, torch::Tensor>& state) override {
    seen_ = state.at("seen").clone();
  }

 private:
  TrialContext& context_;
  SmallTrialOptions options_;
  torch::nn::Sequential net_{torch::nn::Linear(4, 8), torch::nn::BatchNorm1d(8),
                             torch::nn::ReLU(), torch::nn::Dropout(0.3),
                             torch::nn::Linear(8, 1)};
  std::shared_ptr<torch::optim::Optimizer> optimizer_;
  torch::Tensor seen_ = torch::zeros({});
};

/// A runner that gives its orders, closes the trial then, and keeps all that it
/// hears.
struct FakeRunner {
  std::deque<RunnerMessage> orders;
  std::vector<TrialMessage> messages;
  bool acknowledges = true;
  bool stop = false;
  std::int64_t seq = 0;

  TrialLink Link() {
    return {.send = [this](TrialMessage message) { Hear(std::move(message)); },
            .next = [this]() -> RunnerMessage {
              if (stop) return StopTrial{};
              if (orders.empty()) return CloseTrial{};
              const RunnerMessage order = orders.front();
              orders.pop_front();
              return order;
            },
            .stop_requested = [this] { return stop; },
            .unacknowledged =
                [this] {
                  return acknowledges ? std::vector<TrialMessage>() : messages;
                }};
  }

  /// Numbers a message as a channel does, and keeps it.
  void Hear(TrialMessage message) {
    std::visit(
        [this](auto& kind) {
          if constexpr (requires { kind.seq; }) kind.seq = ++seq;
        },
        message);
    messages.push_back(std::move(message));
  }

  /// All messages of one kind.
  template <typename T>
  std::vector<T> All() const {
    std::vector<T> found;
    for (const TrialMessage& message : messages) {
      if (const T* match = std::get_if<T>(&message)) found.push_back(*match);
    }
    return found;
  }

  /// After how many batches each message of one kind came.
  template <typename T>
  std::vector<std::int64_t> ReportedBatches() const {
    std::vector<std::int64_t> batches;
    for (const T& message : All<T>()) batches.push_back(message.batches);
    return batches;
  }
};

/// The value of a metric; NaN if it is missing.
inline double Value(const MetricValues& metrics, const std::string& name) {
  for (const auto& [key, value] : metrics) {
    if (key == name) return value;
  }
  return std::numeric_limits<double>::quiet_NaN();
}

/// Trains SmallTrials in this process.
class SmallTrialTest : public testing::Test {
 protected:
  SmallTrialTest() {
    // Like a trial process; more threads would wait for each other on busy
    // cores.
    at::set_num_threads(1);
    spec_.id = {1, 1};
    spec_.seed = 7;
    spec_.directory = directory_.path();
    spec_.hparams = {{"global_batch_size", 6}};
    spec_.settings.scheduling_unit = 4;
    spec_.settings.searcher_metric = "val_loss";
    spec_.until = Length{10};
  }

  Finished Train(FakeRunner& runner) {
    const Clock clock = Clock::System();
    return TrainTrial(
        spec_,
        [this](TrialContext& context) {
          return std::make_unique<SmallTrial>(context, options_);
        },
        runner.Link(), torch::kCPU, clock);
  }

  std::string CheckpointPath(const CheckpointSaved& checkpoint) const {
    return spec_.directory + "/checkpoints/" + checkpoint.uuid;
  }

  TemporaryDirectory directory_;
  TrialSpec spec_;
  SmallTrialOptions options_;
};

}  // namespace dtrain
