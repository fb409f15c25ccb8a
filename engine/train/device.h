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

/// Prepares this process for training `spec`: allocator, threads, and the
/// device, which is the first visible GPU or the CPU. Throws Error(kFailed) if
/// the trial needs a GPU and there is none. REQUIRES: called once, before any
/// tensor exists.
torch::Device OpenDevice(const TrialSpec& spec);

/// Copies batches to a trial's device. Copies to a GPU run on a stream of their
/// own, so that the copy of one batch overlaps with the work on the previous
/// one; from pinned memory they need no waiting on the host. At most two copies
/// are in flight. Not thread-safe.
class DTRAIN_API DeviceCopy {
 public:
  explicit DeviceCopy(torch::Device device);

  /// Returns the batch on the device, ready for work on the current stream.
  Batch operator()(const Batch& batch);

 private:
  struct InFlight {
    c10::Event copied;
    Batch from;  // must stay unchanged until copied
  };

  Batch CopyBeside(const Batch& batch);

  const torch::Device device_;
  std::optional<c10::Stream> stream_;  // of a GPU
  std::deque<InFlight> in_flight_;
};

/// Message of a LibTorch error on one line, without its backtrace.
std::string TorchMessage(const c10::Error& error);

/// Seeds LibTorch's generators of the CPU and of `device`.
void SeedRandom(std::uint64_t seed, torch::Device device);

/// Save and restore the states of these generators. Load throws Error(kFailed)
/// for JSON that Save did not write.
nlohmann::json SaveRandomState(torch::Device device);
void LoadRandomState(const nlohmann::json& state, torch::Device device);

}  // namespace dtrain
