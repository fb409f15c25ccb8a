#pragma once

#include <cstddef>
#include <cstdint>
#include <optional>
#include <string>
#include <vector>

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
/// one; from pinned memory they need no waiting on the host. The device memory
/// of a batch is reused kSlots batches later, after the work on it, for which
/// the host waits; tensors that are still referenced are replaced instead. Work
/// on a batch must be issued before the next one is copied, on the stream that
/// is current then. Not thread-safe.
class DTRAIN_API DeviceCopy {
 public:
  /// Batches on the GPU at once, and the most that the host runs ahead.
  static constexpr std::size_t kSlots = 3;

  explicit DeviceCopy(torch::Device device);
  /// Waits for copies in flight. Never throws, even if the GPU has failed.
  ~DeviceCopy();
  DeviceCopy(const DeviceCopy&) = delete;
  DeviceCopy& operator=(const DeviceCopy&) = delete;

  /// Returns the batch on the device, normalised (Batch::Normalized) and ready
  /// for work on the current stream.
  Batch operator()(const Batch& batch);

 private:
  // Tensors are in the order of Batch::tensors.
  struct Slot {
    std::vector<torch::Tensor> to;    // on the device
    std::vector<torch::Tensor> from;  // must stay unchanged until copied
    c10::Event copied;                // on the copy stream
    c10::Event is_free;               // on the working stream
  };

  Batch OnDevice(const Batch& batch);
  Batch CopyBeside(const Batch& batch);
  bool Allocate(Slot& slot) const;
  void Copy(const Slot& slot) const;

  const torch::Device device_;
  std::optional<c10::Stream> stream_;  // of a GPU
  std::vector<Slot> slots_;            // of a GPU
  torch::Tensor scales_;               // on the device
  torch::Tensor host_scales_;          // copied to `scales_`
  std::size_t copies_ = 0;
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
