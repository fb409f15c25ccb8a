#pragma once

#include <cstdint>
#include <memory>
#include <string>
#include <string_view>
#include <vector>

#include "engine/train/cuda_factories.h"
#include "engine/train/trial.h"

namespace dtrain {

class MetricSums;
class TrainerContext;

/// Trains batches by replaying one captured step (a CUDA graph) instead of
/// issuing its hundreds of operations one by one.
///
/// The first batches are trained normally, so that all memory is allocated,
/// algorithms are tuned, and momentum and metrics exist. Then a step is
/// captured; from there on, each batch is copied into the graph's static input
/// and the step is replayed. Every step is a step of the training: weights,
/// running means and random numbers are those of training without graphs.
/// Batches of other shapes, and those that the trial does not declare
/// capturable, are trained normally; the log says so once.
///
/// With `steps` above 1, several steps are also captured as one graph, which
/// gathers their batches itself (DeviceBatches). It takes the place of as many
/// replays if neither a report nor a new learning rate comes in between.
///
/// See PyTorch's notes on CUDA graphs,
/// https://docs.pytorch.org/docs/stable/notes/cuda.html#cuda-graphs.
class GraphedStep {
 public:
  static constexpr std::int64_t kWarmUpBatches = 4;

  /// `graph` may be null: all batches are then trained normally. REQUIRES: all
  /// references outlive this object; everything is restored; per-step state is
  /// on the device if there is a graph (TrainerContext::StepOnDevice).
  GraphedStep(std::unique_ptr<StepGraph> graph, TrainerContext& context,
              Trial& trial, MetricSums& sums, std::int64_t steps = 1);

  /// Trains on `batch` and adds its metrics.
  void Train(const Batch& batch, BatchIndex index);

  /// Trains the next batches of `data`, from `first` on, by the graph of
  /// several steps, and returns their number. Returns 0, with nothing read, if
  /// they have to be trained one by one. `limit`: batches to the next report,
  /// validation, checkpoint or end of an epoch.
  [[nodiscard]] std::int64_t TrainSeveral(DataSource& data, BatchIndex first,
                                          std::int64_t limit,
                                          std::int64_t batches_per_epoch);

  bool is_captured() const { return is_captured_; }
  /// Steps of the graph of several steps; 1: there will be none.
  std::int64_t steps() const { return steps_; }

 private:
  void TrainEagerly(const Batch& batch, BatchIndex index);
  // The part of the step that is captured, or executed directly.
  Metrics Step(const Batch& batch, BatchIndex index) const;
  bool CanReplay(const Batch& batch, BatchIndex index);
  bool IsWarm(const Batch& batch);
  // Captures a step for this batch, from `input_`. Returns true if it
  // succeeded.
  bool Capture(BatchIndex index);
  std::string TryCapture(BatchIndex index);
  // Returns null, or why several steps cannot be one graph.
  const char* SeveralObstacle(DataSource& data) const;
  bool CaptureSeveral(DeviceBatches& batches, BatchIndex first);
  std::string TryCaptureSeveral(DeviceBatches& batches, BatchIndex first);
  // Issues the work of several steps, for their capture.
  void IssueSeveral(DeviceBatches& batches, BatchIndex index);
  void CopyIn(const Batch& batch);
  void LogOnce(const std::string& what);

  // A tensor that the captured step reads, and the last tensor copied into it.
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
  // Static input of the captured graph.
  Batch input_;
  std::vector<Input> inputs_;       // tensors of `input_`
  std::vector<std::string> names_;  // of the metrics
  std::vector<std::string> logged_;

  // The graph of several steps: null before its capture.
  std::int64_t steps_;
  std::unique_ptr<StepGraph> several_;
  // Position of the next batch that it gathers, int64 [1] on the device. The
  // graph itself advances it.
  torch::Tensor position_;
  std::int64_t position_on_device_ = -1;
};

/// Environment variable with the number of steps to capture as one graph.
inline constexpr char kGraphStepsVariable[] = "DTRAIN_GRAPH_STEPS";

/// Returns the number in kGraphStepsVariable; 1 if it is not set. Throws
/// Error(kUsage) for anything but a number from 1 to 64.
std::int64_t StepsPerGraph();

}  // namespace dtrain
