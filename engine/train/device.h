#pragma once

#include <cstdint>
#include <deque>
#include <optional>
#include <string>

#include <c10/core/Event.h>
#include <c10/core/Stream.h>
#include <c10/util/Exception.h>
#include <nlohmann/json.hpp>
#include <torch/types.h>

#include "engine/base/api.h"
#include "engine/data/data_source.h"
#include "engine/wire/trial_spec.h"

namespace dtrain {

/// Makes this process one that trains `spec`: allocator, threads, and the
/// device, which is the first of the visible GPUs or the CPU. Throws
/// Error(kFailed) if the trial is to have a GPU and there is none. REQUIRES:
/// called once, before any tensor is made.
torch::Device OpenDevice(const TrialSpec& spec);

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
  struct InFlight {
    c10::Event copied;
    Batch from;  // must stay as it is until then
  };

  Batch CopyBeside(const Batch& batch);

  const torch::Device device_;
  std::optional<c10::Stream> stream_;  // of a GPU
  std::deque<InFlight> in_flight_;
};

/// What LibTorch complains of, as one line without its backtrace.
std::string TorchMessage(const c10::Error& error);

/// Seeds LibTorch's generators of the CPU and, if it is a GPU, of `device`.
void SeedRandom(std::uint64_t seed, torch::Device device);

/// Their states, and back. Throws Error(kFailed) for what was not saved so.
nlohmann::json SaveRandomState(torch::Device device);
void LoadRandomState(const nlohmann::json& state, torch::Device device);

}  // namespace dtrain
