// Effects of keys of docs/yaml.md on built-in models: settings that the trainer
// receives, and its actions. The metrics of builtin:FaultTrial are known (see
// models/fault.h).

#include <cmath>

#include "tests/cli/yaml_page.h"

namespace dtrain {
namespace {

using nlohmann::json;

const Settings kFault = {{"entrypoint", "builtin:FaultTrial"},
                         {"hyperparameters.x", "0.3"},
                         {"searcher.max_length", "100"},
                         {"max_restarts", "0"}};
// The batches of the events of one kind.
Look EventBatches(const std::string& kind) {
  return [kind](const PageRun& run) {
    json batches = json::array();
    for (const json& event : run.Events(kind)) {
      batches.push_back(event.at("batches"));
    }
    return batches;
  };
}

Look Reports(const std::string& kind, const std::string& metric) {
  return [=](const PageRun& run) { return run.Reports(kind, metric); };
}

Look LogHas(const std::string& text) {
  return [text](const PageRun& run) -> json {
    return run.Log().find(text) != std::string::npos;
  };
}

// Whether the trial has a profile.
json HasProfile(const PageRun& run) {
  return run.Run({"describe", "1.1", "--json"})
      .Json()
      .at("profile")
      .is_object();
}

Proof OfFault(const std::string& key, const std::string& value, Look look,
              const json& without, const json& with,
              const Settings& more = {}) {
  return {.key = key,
          .variant = "trainer_" + value,
          .base = kFault + more,
          .set = {{key, value}},
          .look = std::move(look),
          .without = without,
          .with = with};
}

}  // namespace

std::vector<Proof> TrainerProofs() {
  return {
      {.key = "entrypoint",
       .variant = "trainer",
       .base = {{"searcher.max_length", "100"}},
       .set = {{"entrypoint", "builtin:FaultTrial"}},
       .program = "validate $until 1\n",
       .look = Reports("validation", "loss"),
       .without = json{{100, 1}},
       .with = json{{100, 0.59}}},
      OfFault("hyperparameters", "{x: 0.3}", Reports("validation", "loss"),
              {{100, 0.59}}, {{100, 0.5}}, {{"hyperparameters", ""}}),
      OfFault("records_per_epoch", "640",
              LogHas("records_per_epoch is 640, but an epoch of the training "
                     "data has 100 samples"),
              false, true),
      OfFault("min_validation_period", "30", EventBatches("validation"), {100},
              {30, 60, 90, 100}),
      OfFault("min_checkpoint_period", "{epochs: 1}",
              EventBatches("checkpoint"), {100}, {40, 80, 100},
              {{"hyperparameters.batches_per_epoch", "40"}}),
      OfFault("perform_initial_validation", "true", EventBatches("validation"),
              {100}, {0, 100}),
      OfFault("scheduling_unit", "30", EventBatches("training"), {100},
              {30, 60, 90, 100}),
      OfFault("checkpoint_policy", "all", EventBatches("checkpoint"), {30, 100},
              {30, 60, 90, 100},
              {{"min_validation_period", "30"},
               {"searcher.smaller_is_better", "false"}}),
      OfFault("searcher.metric", "acc", EventBatches("checkpoint"),
              {30, 60, 90, 100}, {30, 100}, {{"min_validation_period", "30"}}),
      OfFault("searcher.smaller_is_better", "false", EventBatches("checkpoint"),
              {30, 60, 90, 100}, {30, 100}, {{"min_validation_period", "30"}}),
      OfFault("searcher.max_length", "{epochs: 2}", OfTrials("/batches"), {100},
              {80}, {{"hyperparameters.batches_per_epoch", "40"}}),
      OfFault("searcher.max_time", "80", OfTrials("/batches"), {100}, {8},
              {{"hyperparameters.global_batch_size", "10"},
               {"searcher.max_length", ""},
               {"searcher.max_time", "1000"},
               {"searcher.time_metric", "records"}}),
      OfFault(
          "early_stopping.metric", "acc", OfTrials("/batches"), {100}, {60},
          {{"min_validation_period", "20"}, {"early_stopping.patience", "2"}}),
      OfFault("early_stopping.patience", "1", OfTrials("/batches"), {80}, {40},
              {{"min_validation_period", "20"},
               {"early_stopping.metric", "acc"},
               {"early_stopping.patience", "3"}}),
      OfFault(
          "early_stopping.min_delta", "0.5", OfTrials("/batches"), {100}, {60},
          {{"min_validation_period", "20"}, {"early_stopping.patience", "2"}}),
      OfFault(
          "early_stopping.smaller_is_better", "false", OfTrials("/batches"),
          {100}, {60},
          {{"min_validation_period", "20"}, {"early_stopping.patience", "2"}}),
      OfFault("profiling", "{enabled: true}", HasProfile, false, true),
      OfFault("profiling.enabled", "true", HasProfile, false, true),
      OfFault("resources.slots_per_trial", "2",
              LogHas("global_batch_size 3 is not a multiple of 2 ranks"), false,
              true,
              {{"resources.slots", "cpu:2"},
               {"hyperparameters.global_batch_size", "3"}}),
      {.key = "searcher.source_trial_id",
       .variant = "trainer",
       .base = kFault,
       .set = {{"searcher.source_trial_id", "'1.1'"}},
       .look = LogHas("started from checkpoint "),
       .without = false,
       .with = true,
       .continues = true},
      OfFault("optimizations", "{sink_size: 25}", EventBatches("training"),
              {100}, {25, 50, 75, 100}),
      OfFault("optimizations.sink_size", "25", EventBatches("training"), {100},
              {25, 50, 75, 100}),
      OfFault("optimizations.sink_size", "-1", EventBatches("training"), {100},
              {40, 80, 100}, {{"hyperparameters.batches_per_epoch", "40"}}),
      OfFault("optimizations.dataset_sink_mode", "false",
              EventBatches("training"), {25, 50, 75, 100}, {100},
              {{"optimizations.sink_size", "25"}}),
      OfFault(
          "optimizations.average_training_metrics", "false",
          [](const PageRun& run) -> json {
            return run.Reports("training", "loss")[0][1] == 0.5;
          },
          false, true),
      OfFault("optimizations.cuda_graphs", "true",
              LogHas("optimizations.cuda_graphs: this trial is not on a GPU"),
              false, true),
  };
}

// Its weight is (3, 4), and so is the loss's gradient by it: the norm is 5. A
// step of SGD with the rate 0.5 goes half the way to 0.
std::string OwnModelSource() {
  return R"cpp(#include <dtrain/model.h>
               using namespace dtrain;

               torch::Tensor Number(double value) {
                 return torch::scalar_tensor(value, torch::kDouble);
               }

               class PageTrial final : public Trial {
                public:
                 explicit PageTrial(TrialContext& context) : context_(context) {
                   const torch::NoGradGuard no_grad;
                   layer_->weight.copy_(torch::tensor({{3.0F, 4.0F}}));
                   context.Add(layer_.ptr(), "layer");
                   context.Add(image_.ptr(), "image");
                   optimizer_ = MakeOptimizer(context, layer_->parameters());
                   context.Add(optimizer_);
                 }
                 std::unique_ptr<DataSource> TrainingData() override {
                   return TrainingSource(context_, {.data = torch::ones({1, 2})});
                 }
                 std::unique_ptr<DataSource> ValidationData() override {
                   return ValidationSource(context_, {.data = torch::ones({1, 2})});
                 }
                 Metrics TrainBatch(const Batch& batch, BatchIndex) override {
                   const double element = layer_(batch.data).element_size();
                   context_.Backward(layer_->weight.square().sum() / 2);
                   const torch::Tensor gradient = layer_->weight.grad();
                   Metrics metrics = {
                       {"bytes", Number(element)},
                       {"gradient", Number(gradient.defined()
                                               ? gradient[0][0].item<double>()
                                               : 0)},
                       {"loss", Number(layer_->weight[0][0].item<double>())}};
                   context_.Step(*optimizer_);
                   metrics["first"] = Number(layer_->weight[0][0].item<double>());
                   metrics["second"] = Number(layer_->weight[0][1].item<double>());
                   return metrics;
                 }
                 Metrics EvaluateBatch(const Batch&) override {
                   const bool last = image_->weight.is_contiguous(
                       torch::MemoryFormat::ChannelsLast);
                   const bool same = at::globalContext().deterministicAlgorithms();
                   return {{"loss", Number(context_.data().value("loss", 0.0))},
                           {"seed", Number(context_.seed())},
                           {"deterministic", Number(same ? 1 : 0)},
                           {"channels_last", Number(last ? 1 : 0)}};
                 }

                private:
                 TrialContext& context_;
                 torch::nn::Linear layer_{torch::nn::LinearOptions(2, 1).bias(false)};
                 torch::nn::Conv2d image_{torch::nn::Conv2dOptions(3, 4, 3)};
                 std::shared_ptr<torch::optim::Optimizer> optimizer_;
               };
               DTRAIN_TRIALS(PageTrial)
  )cpp";
}

std::vector<Proof> OwnModelProofs() {
  const Settings model = {
      {"entrypoint", "model_def:PageTrial"},
      {"hyperparameters", "{global_batch_size: 1, lr: 0.5, momentum: 0}"},
      {"searcher.max_length", "2"},
      {"scheduling_unit", "1"},
      {"max_restarts", "0"}};
  // The values that the metrics have had, batch by batch.
  const auto steps = [](const std::vector<std::string>& metrics) -> Look {
    return [metrics](const PageRun& run) {
      json values = json::array();
      for (const std::string& metric : metrics) {
        for (const json& report : run.Reports("training", metric)) {
          // float32, and clipping divides by a little more than the norm.
          values.push_back(std::round(report.at(1).get<double>() * 1e4) / 1e4);
        }
      }
      return values;
    };
  };
  const auto validated = [&](const std::string& key, const std::string& value,
                             const std::string& metric, const json& without,
                             const json& with) -> Proof {
    return {.key = key,
            .variant = "model",
            .base = model,
            .set = {{key, value}},
            .look = Reports("validation", metric),
            .without = json::array({json::array({2, without})}),
            .with = json::array({json::array({2, with})})};
  };
  const auto trained = [&](const std::string& name, const std::string& value,
                           const std::vector<std::string>& metrics,
                           const json& without, const json& with,
                           const Settings& more = {}) -> Proof {
    return {.key = "optimizations." + name,
            .variant = "model_" + value,
            .base = model + more,
            .set = {{"optimizations." + name, value}},
            .look = steps(metrics),
            .without = without,
            .with = with};
  };
  const std::vector<std::string> kWeight = {"first", "second"};
  const json plain = {1.5, 0.75, 2, 1};
  const Settings kFp16 = {{"optimizations.mixed_precision", "fp16"}};
  std::vector<Proof> proofs = {
      validated("data", "{loss: 0.25}", "loss", 0, 0.25),
      validated("reproducibility.deterministic", "true", "deterministic", 0, 1),
      validated("optimizations.channels_last", "true", "channels_last", 0, 1),
      trained("aggregation_frequency", "2", kWeight, plain, {3, 1.5, 4, 2}),
      trained("average_aggregated_gradients", "false", kWeight, {3, 1.5, 4, 2},
              {3, 0, 4, 0}, {{"optimizations.aggregation_frequency", "2"}}),
      trained("clip_gradients", "{norm: 2.5}", kWeight, plain,
              {2.25, 1.5, 3, 2}),
      trained("clip_gradients.norm", "2.5", kWeight, plain, {2.25, 1.5, 3, 2}),
      trained("clip_gradients.value", "2", kWeight, plain, {2, 1, 3, 2}),
      // Effect of Backward: a gradient, or an updated weight.
      trained("update_in_backward", "true", {"loss", "gradient"},
              {3, 1.5, 3, 1.5}, {1.5, 0.75, 0, 0}),
      trained("mixed_precision", "bf16", {"bytes"}, {4, 4}, {2, 2}),
      trained("mixed_precision", "fp16", {"bytes"}, {4, 4}, {2, 2}),
      // fp16 alone has a scale, which gradients have until the step.
      trained("mixed_precision", "O1", {"gradient"}, {3, 1.5}, {196608, 98304}),
      trained("mixed_precision", "O0", {"bytes"}, {2, 2}, {4, 4}, kFp16),
      trained("loss_scale", "8", {"gradient"}, {196608, 98304}, {24, 12},
              kFp16),
      trained("loss_scale", "dynamic", {"gradient"}, {24, 12}, {196608, 98304},
              kFp16 + Settings{{"optimizations.loss_scale", "8"}}),
  };
  for (Proof& proof : proofs) {
    const bool is_cast = proof.key == "optimizations.mixed_precision" ||
                         proof.key == "optimizations.loss_scale";
    proof.on_fast_floats = is_cast;
  }
  return proofs;
}

}  // namespace dtrain
