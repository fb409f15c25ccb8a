#pragma once

#include <cstdint>
#include <memory>
#include <string>
#include <string_view>
#include <vector>

#include "engine/train/cuda_factories.h"
#include "engine/train/metric_sums.h"
#include "engine/train/trainer_context.h"
#include "engine/train/trial.h"

namespace dtrain {

/// Trains batches by one captured step that is replayed, in place of hundreds
/// of operations that the host asks for one by one.
///
/// The first batches are trained as ever, so that everything there is to
/// allocate, to tune and to begin (momentum, metrics) is there. Then a step is
/// captured, and from there on a batch is copied to where that step reads its
/// input, and the step is replayed. No step is taken that is not one of the
/// training: weights, running means and random numbers are those of training
/// without graphs. Batches of other shapes, and those that the trial does not
/// declare capturable, are trained as ever. What is trained so is said once.
///
/// Capturing as in PyTorch's notes on CUDA graphs,
/// https://docs.pytorch.org/docs/stable/notes/cuda.html#cuda-graphs.
class GraphedStep {
 public:
  static constexpr std::int64_t kWarmUpBatches = 4;

  /// `graph` may be null: then every batch is trained as ever. REQUIRES: all
  /// references outlive it; all is restored; steps are on the device if there
  /// is a graph (TrainerContext::StepOnDevice).
  GraphedStep(std::unique_ptr<StepGraph> graph, TrainerContext& context,
              Trial& trial, MetricSums& sums);

  /// Trains on `batch`, and adds its metrics.
  void Train(const Batch& batch, BatchIndex index);

  bool is_captured() const { return is_captured_; }

 private:
  void TrainEagerly(const Batch& batch, BatchIndex index);
  // What of it is to be captured, or is done at once.
  Metrics Step(const Batch& batch, BatchIndex index) const;
  bool CanReplay(const Batch& batch, BatchIndex index);
  bool IsWarm(const Batch& batch);
  // Whether a step was captured, at this batch, of what is in `input_`.
  bool Capture(BatchIndex index);
  std::string TryCapture(BatchIndex index);
  void CopyIn(const Batch& batch);
  void SayOnce(const std::string& what);

  // A tensor that the captured step reads, and what was copied to it last.
  struct Input {
    torch::Tensor at;
    torch::Tensor from;
    std::uint32_t version = 0;
  };

  std::unique_ptr<StepGraph> graph_;
  TrainerContext& context_;
  Trial& trial_;
  MetricSums& sums_;
  std::int64_t warm_ups_ = 0;
  bool is_captured_ = false;
  // That the captured step reads; of the shape that is warmed up before.
  Batch input_;
  std::vector<Input> inputs_;       // its tensors
  std::vector<std::string> names_;  // of the metrics
  std::vector<std::string> said_;
};

}  // namespace dtrain
