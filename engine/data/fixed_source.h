#pragma once

#include <cstdint>
#include <utility>

#include "engine/base/api.h"
#include "engine/data/data_source.h"

namespace dtrain {

/// A DataSource that gives one batch again and again: made-up data, to measure
/// a model or to see whether it can learn a batch by heart. An epoch is one
/// batch.
class DTRAIN_API FixedSource final : public DataSource {
 public:
  explicit FixedSource(Batch batch) : batch_(std::move(batch)) {}

  std::int64_t BatchesPerEpoch() const override { return 1; }
  std::int64_t SamplesPerEpoch() const override { return batch_.size(); }
  void Seek(std::int64_t) override {}
  Batch Read() override { return batch_; }

 private:
  Batch batch_;
};

}  // namespace dtrain
