#pragma once

#include <cstdint>
#include <functional>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "engine/train/trial.h"

namespace dtrain {

// Faults of FaultTrial that concern its own process. Without Torch.

/// Exits at once, like a crash: no destructors, no final message to the runner.
[[noreturn]] void ExitNow(int code);

/// Sleeps forever; fatal signals still end the process.
[[noreturn]] void Hang();

/// Ignores SIGTERM from here on.
void IgnoreTerm();

/// Sleeps, even if a signal arrives.
void SleepMilliseconds(double milliseconds);

/// Allocates resident memory, in MiB: every page has been written to.
std::vector<std::uint8_t> HoldMemory(std::int64_t mebibytes);

/// Writes `bytes` bytes to stdout in lines of `line` bytes, newline included;
/// 0: one line without an end.
void FloodLog(std::int64_t bytes, std::int64_t line);

/// Writes the bytes encoded by `hex` to stdout, unchanged. Throws
/// std::invalid_argument for invalid hex.
void WriteHex(const std::string& hex);

/// Leaves a daemon behind, like a badly written library: a grandchild in its
/// own session that holds stdout and sleeps ten minutes.
void SpawnDaemon();

/// A trial that learns nothing and fails on request, for tests and benchmarks.
///
/// One batch is one step. Step s is the one after which s batches are trained;
/// step 0 is the trial's start. The metrics, exactly in double: loss(s) = (x −
/// 0.3)² + 1/(1 + s/100) and acc(s) = 1 − loss(s). The training metrics of a
/// batch are those of its step, so a training report has their mean over its
/// batches; a validation after b batches has loss(b) and acc(b).
///
/// A fault fires when its step starts, before the step is reported: after
/// `crash_at: 3` there are two batches. Faults without a step fire at the
/// start. With `once`, faults fire only in the trial's first process.
class FaultTrial final : public Trial {
 public:
  explicit FaultTrial(TrialContext& context);

  std::unique_ptr<DataSource> TrainingData() override;
  std::unique_ptr<DataSource> ValidationData() override;
  Metrics TrainBatch(const Batch& batch, BatchIndex index) override;
  Metrics EvaluateBatch(const Batch& batch) override;
  std::map<std::string, torch::Tensor> Save() override;
  void Load(const std::map<std::string, torch::Tensor>& state) override;

 private:
  /// An action at the start of step `at`.
  struct Fault {
    std::int64_t at = 0;
    std::function<void()> act;
  };

  void ReadFaults();
  void BeginStep(std::int64_t step) const;
  void Misbehave();
  Metrics Measure(std::int64_t step) const;

  TrialContext& context_;
  const double x_;
  const double step_ms_;
  std::vector<Fault> faults_;
  // Steps with wrong metrics; −1: none.
  std::int64_t nan_at_ = -1;
  std::int64_t inf_at_ = -1;
  std::int64_t skip_metric_at_ = -1;
  std::int64_t dup_metric_at_ = -1;
  std::int64_t invalid_label_at_ = -1;
  std::vector<std::string> extra_;  // names of additional metrics
  std::vector<std::uint8_t> held_;  // memory of `rss_mb`
  torch::Tensor held_on_device_;    // memory of `device_mb`
  torch::Tensor ballast_;           // of `ckpt_mb`
};

/// Maker for models/table.cc.
std::unique_ptr<Trial> MakeFaultTrial(TrialContext& context);

}  // namespace dtrain
