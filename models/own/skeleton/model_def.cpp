// A model of your own: `dtrain create const.yaml` compiles and trains it.
// What may be called here: docs/models.md and the headers of <dtrain/model.h>.
#include <dtrain/model.h>

using namespace dtrain;

// Made-up data in place of yours: points of a square, and whether each is in
// the circle.
Batch Points(std::int64_t samples, std::uint64_t seed) {
  auto generator = at::make_generator<at::CPUGeneratorImpl>(seed);
  const torch::Tensor points = torch::rand({samples, 2}, generator) * 2 - 1;
  const torch::Tensor inside = points.square().sum(1) < 0.6;
  return {.data = points, .target = inside.to(torch::kLong)};
}

class MyTrial final : public Trial {
 public:
  // Network and optimizer. What is added to the context is moved to the GPU,
  // if there is one, and is in the checkpoints.
  explicit MyTrial(TrialContext& context) : context_(context) {
    const auto hidden = context.Get<std::int64_t>("hidden");
    net_ = torch::nn::Sequential(torch::nn::Linear(2, hidden), torch::nn::ReLU(),
                                 torch::nn::Linear(hidden, 2));
    context.Add(net_.ptr());
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

  // Means over the batch; dtrain takes them over the whole set.
  Metrics EvaluateBatch(const Batch& batch) override {
    const torch::Tensor logits = net_->forward(batch.data);
    return {{"val_loss", torch::nn::functional::cross_entropy(logits,
                                                              batch.target)},
            {"val_accuracy", Accuracy(logits, batch.target)}};
  }

 private:
  TrialContext& context_;
  torch::nn::Sequential net_{nullptr};
  std::shared_ptr<torch::optim::Optimizer> optimizer_;
};

DTRAIN_TRIALS(MyTrial)
