#pragma once

#include <cstdint>
#include <functional>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "engine/train/trial.h"

namespace dtrain {

// What FaultTrial does to its own process. No Torch.

/// Leaves at once, like a crash: no destructors, no last word to the runner.
[[noreturn]] void ExitNow(int code);

/// Sleeps for ever; signals that end a process still do.
[[noreturn]] void Hang();

/// From now on SIGTERM does nothing to this process.
void IgnoreTerm();

/// Sleeps; a signal does not end it early.
void SleepMilliseconds(double milliseconds);

/// So many MiB of memory that are really there: every page was written to.
std::vector<std::uint8_t> HoldMemory(std::int64_t mebibytes);

/// Writes `bytes` bytes to stdout as lines of `line` bytes each, newline
/// included; 0: as one line that does not end.
void FloodLog(std::int64_t bytes, std::int64_t line);

/// Writes to stdout, as they are, the bytes that `hex` spells. Throws
/// std::invalid_argument if it spells none.
void WriteHex(const std::string& hex);

/// Leaves behind a daemon as badly written libraries do: a grandchild in a
/// session of its own that holds stdout and sleeps ten minutes.
void SpawnDaemon();

/// A trial that learns nothing and fails on request, for tests and benchmarks.
///
/// One batch is one step, and step s is the one after which s batches are
/// trained in all; step 0 is the trial's start, before any batch. The metrics,
/// exactly in double: loss(s) = (x − 0.3)² + 1/(1 + s/100) and acc(s) =
/// 1 − loss(s). The training metrics of a batch are those of its step, so a
/// training report has their mean over its batches; a validation after b
/// batches has loss(b) and acc(b).
///
/// A fault fires when its step begins, before anything is reported of it: after
/// `crash_at: 3` there are two batches. Those without a step fire at the start.
/// With `once` they fire only in the trial's first process.
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
  /// Something that happens when step `at` begins.
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
  // Steps whose metrics are wrong; −1: none.
  std::int64_t nan_at_ = -1;
  std::int64_t inf_at_ = -1;
  std::int64_t skip_metric_at_ = -1;
  std::int64_t dup_metric_at_ = -1;
  std::vector<std::string> extra_;  // names of the metrics beside the two
  std::vector<std::uint8_t> held_;  // memory of `rss_mb`
  torch::Tensor ballast_;           // of `ckpt_mb`
};

/// The row of models/table.cc.
std::unique_ptr<Trial> MakeFaultTrial(TrialContext& context);

}  // namespace dtrain
