#pragma once

#include <cstdint>
#include <memory>

#include <torch/types.h>

#include "engine/data/data_source.h"

namespace dtrain {

class Trial;

/// Repeats the first batch of another source, which stays on a device, to
/// measure the speed of training without that of its data. Epochs are those of
/// the source, unlike FixedSource's. Seeking has no effect.
class RepeatedBatch final : public DataSource {
 public:
  RepeatedBatch(std::unique_ptr<DataSource> source, torch::Device device);

  std::int64_t BatchesPerEpoch() const override;
  std::int64_t SamplesPerEpoch() const override;
  void Seek(std::int64_t index) override;
  Batch Read() override;

 private:
  const std::unique_ptr<DataSource> source_;
  const torch::Device device_;
  Batch batch_;  // empty before the first Read
};

/// Environment variable that makes a trial train on its first batch only. For
/// scripts/bench; the trial logs a warning.
inline constexpr char kRepeatBatchVariable[] = "DTRAIN_REPEAT_BATCH";

/// Returns the data that a trial trains on: a RepeatedBatch on `device` if
/// kRepeatBatchVariable is 1. Throws Error(kFailed) if the trial has none.
std::unique_ptr<DataSource> OpenTrainingData(Trial& trial,
                                             torch::Device device);

}  // namespace dtrain
