// A custom model: `dtrain create const.yaml` compiles and trains it. API:
// docs/models.md and the headers in <dtrain/model.h>.
#include <dtrain/model.h>

using namespace dtrain;

// Synthetic data; replace it with yours: points in a square, labelled by
// whether they are in the circle.
Batch Points(std::int64_t samples, std::uint64_t seed) {
  auto generator = at::make_generator<at::CPUGeneratorImpl>(seed);
  const torch::Tensor points = torch::rand({samples, 2}, generator) * 2 - 1;
  const torch::Tensor inside = points.square().sum(1) < 0.6;
  return {.data = points, .target = inside.to(torch::kLong)};
}

struct Net : torch::nn::Module {
  explicit Net(std::int64_t hidden)
      : hidden_(register_module("hidden", torch::nn::Linear(2, hidden))),
        output_(register_module("output", torch::nn::Linear(hidden, 2))) {}
  torch::Tensor forward(const torch::Tensor& points) {
    return output_->forward(hidden_->forward(points).relu());
  }
  torch::nn::Linear hidden_;
  torch::nn::Linear output_;
};

// The trial: a constructor and four functions.
class MyTrial final : public Trial {
 public:
  // Creates network and optimizer. Objects added to the context are moved to
  // the GPU, if there is one, and saved in checkpoints.
  explicit MyTrial(TrialContext& context) : context_(context) {
    net_ = std::make_shared<Net>(context.Get<std::int64_t>("hidden"));
    context.Add(net_);
    optimizer_ = MakeOptimizer(context, net_->parameters());
    context.Add(optimizer_);
  }

  std::unique_ptr<DataSource> TrainingData() override {
    return TrainingSource(context_, Points(4000, /*seed=*/1));
  }

  std::unique_ptr<DataSource> ValidationData() override {
    return ValidationSource(context_, Points(1000, /*seed=*/2));
  }

  // One step of training. Metrics stay tensors: no item(), no copy.
  Metrics TrainBatch(const Batch& batch, BatchIndex) override {
    const torch::Tensor loss = torch::nn::functional::cross_entropy(
        net_->forward(batch.data), batch.target);
    context_.Backward(loss);
    context_.Step(*optimizer_);
    return {{"loss", loss.detach()}};
  }

  // Returns means over the batch; dtrain averages them over the whole set.
  Metrics EvaluateBatch(const Batch& batch) override {
    const torch::Tensor logits = net_->forward(batch.data);
    return {{"val_loss",
             torch::nn::functional::cross_entropy(logits, batch.target)},
            {"val_accuracy", Accuracy(logits, batch.target)}};
  }

 private:
  TrialContext& context_;
  std::shared_ptr<Net> net_;
  std::shared_ptr<torch::optim::Optimizer> optimizer_;
};

DTRAIN_TRIALS(MyTrial)
