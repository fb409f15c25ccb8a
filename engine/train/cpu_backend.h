#pragma once

#include <condition_variable>
#include <deque>
#include <functional>
#include <memory>
#include <mutex>
#include <string>
#include <thread>
#include <vector>

#include <torch/csrc/distributed/c10d/Backend.hpp>

#include "engine/ranks/meeting_place.h"

namespace dtrain {

/// Collectives between the ranks of a trial behind c10d's interface: for
/// tensors on CPUs, as ProcessGroupNCCL is for those on GPUs. (LibTorch's wheel
/// has Gloo, but not the headers of it.) Sums are, to the bit, the same on
/// every rank and in every run.
///
/// What is asked for is done in turn by a thread of its own, and is done once
/// its Work is. Tensors are dense and on the CPU: float32, float64 or int64 for
/// allreduce (sum, minimum or maximum), any type for broadcast. Other functions
/// of the interface throw c10::Error. Used from one thread.
class CpuBackend final : public c10d::Backend {
 public:
  /// On one lane of `place`, which outlives it. Throws Error(kFailed).
  CpuBackend(const MeetingPlace& place, int lane);
  /// Gives up what is not done, as where another rank is gone.
  ~CpuBackend() override;

  const std::string getBackendName() const override { return "dtrain"; }
  c10::intrusive_ptr<c10d::Work> allreduce(
      std::vector<at::Tensor>& tensors,
      const c10d::AllreduceOptions& options) override;
  c10::intrusive_ptr<c10d::Work> broadcast(
      std::vector<at::Tensor>& tensors,
      const c10d::BroadcastOptions& options) override;
  c10::intrusive_ptr<c10d::Work> barrier(
      const c10d::BarrierOptions& options) override;

 private:
  c10::intrusive_ptr<c10d::Work> Queue(c10d::OpType type,
                                       std::function<void()> operation);
  void Run();

  std::mutex mutex_;
  std::condition_variable changed_;
  std::deque<std::function<void()>> queue_;
  std::atomic<bool> quit_ = false;
  std::unique_ptr<Collectives> group_;
  std::thread thread_;  // last: it uses all of the above
};

}  // namespace dtrain
