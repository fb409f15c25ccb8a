#pragma once

#include <deque>
#include <optional>

#include <c10/core/Event.h>
#include <c10/core/Stream.h>
#include <torch/types.h>

#include "engine/base/api.h"
#include "engine/data/data_source.h"

namespace dtrain {

/// Brings batches to a trial's device. To a GPU they are copied on a stream
/// for copies, so that the copy of one goes on beside the work on the one
/// before, which the host has only asked for; from pinned memory without the
/// host. Two are under way at a time at most. One thread.
class DTRAIN_API DeviceCopy {
 public:
  explicit DeviceCopy(torch::Device device);

  /// The batch on the device, for work on the current stream.
  Batch operator()(const Batch& batch);

 private:
  struct UnderWay {
    c10::Event copied;
    Batch from;  // must stay as it is until then
  };

  Batch CopyBeside(const Batch& batch);

  const torch::Device device_;
  std::optional<c10::Stream> stream_;  // of a GPU
  std::deque<UnderWay> under_way_;
};

}  // namespace dtrain
