#include "engine/train/training_data.h"

#include <cstdlib>
#include <string>
#include <utility>

#include "engine/base/error.h"
#include "engine/train/log_line.h"
#include "engine/train/trial.h"

namespace dtrain {

RepeatedBatch::RepeatedBatch(std::unique_ptr<DataSource> source,
                             torch::Device device)
    : source_(std::move(source)), device_(device) {}

std::int64_t RepeatedBatch::BatchesPerEpoch() const {
  return source_->BatchesPerEpoch();
}

std::int64_t RepeatedBatch::SamplesPerEpoch() const {
  return source_->SamplesPerEpoch();
}

void RepeatedBatch::Seek(std::int64_t /*index*/) {}

// The copy belongs to this source alone: others reuse the memory of batches.
Batch RepeatedBatch::Read() {
  if (!batch_.data.defined()) {
    batch_ = source_->Read().To(device_).Normalized().Copy();
  }
  return batch_;
}

std::unique_ptr<DataSource> OpenTrainingData(Trial& trial,
                                             torch::Device device) {
  auto data = trial.TrainingData();
  if (!data) {
    throw Error(ErrorKind::kFailed,
                "TrainingData() returned null; return the data to train on");
  }
  const char* repeats = std::getenv(kRepeatBatchVariable);
  if (repeats == nullptr || std::string(repeats) != "1") return data;
  LogLine(LogLevel::kWarning,
          std::string(kRepeatBatchVariable) +
              " is 1: every step trains on the first batch, which measures "
              "speed only; unset it to train the model");
  return std::make_unique<RepeatedBatch>(std::move(data), device);
}

}  // namespace dtrain
