#pragma once

#include <functional>
#include <map>
#include <memory>
#include <string>
#include <vector>

#include <ATen/core/dispatch/Dispatcher.h>
#include <torch/types.h>

#include "engine/train/cuda_factories.h"

namespace dtrain {

/// A StepGraph for tests without a GPU that behaves like a CUDA graph. It
/// records LibTorch's operations with their tensors; recording changes no
/// tensor. A replay runs only these operations, with results at their recorded
/// addresses. Reading a value while recording is an error.
class RecordedGraph final : public StepGraph {
 public:
  void Capture(const std::function<void()>& work) override;
  void Replay() override;
  std::unique_ptr<StepGraph> Another() const override;

  /// Names of the recorded operations that compute, in order: not views and
  /// not allocations. On a GPU most launch one kernel each.
  std::vector<std::string> launches() const;
  int replays() const { return *replays_; }
  /// Replays of the graphs that Another returned.
  int other_replays() const { return *other_replays_; }

  /// Called for each operation during a recording.
  void Record(const c10::OperatorHandle& operation, c10::DispatchKeySet keys,
              torch::jit::Stack* stack);

 private:
  struct Call {
    c10::OperatorHandle operation;
    std::vector<c10::IValue> arguments;
    std::vector<c10::IValue> results;
  };

  void KeepWritten(const Call& call);
  void PutBack();

  std::vector<Call> calls_;
  // Tensors written during the recording, with copies of their old values.
  std::map<void*, std::pair<torch::Tensor, torch::Tensor>> before_;
  std::shared_ptr<int> replays_ = std::make_shared<int>(0);
  std::shared_ptr<int> other_replays_ = std::make_shared<int>(0);
};

}  // namespace dtrain
