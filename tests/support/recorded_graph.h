#pragma once

#include <functional>
#include <map>
#include <vector>

#include <ATen/core/dispatch/Dispatcher.h>
#include <torch/types.h>

#include "engine/train/cuda_factories.h"

namespace dtrain {

/// A StepGraph for tests without a GPU, which behaves as a CUDA graph does: it
/// records the operations that LibTorch comes down to, on the tensors that they
/// were called for, and what was only recorded has changed nothing. A replay
/// calls the operations again and no other code; what they make lies where it
/// lay when they were recorded. Reading a value while recording is refused.
class RecordedGraph final : public StepGraph {
 public:
  void Capture(const std::function<void()>& work) override;
  void Replay() override;

  std::size_t operations() const { return calls_.size(); }
  int replays() const { return replays_; }

  /// Called for each operation while one records.
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
  // What operations wrote to while recording, as it was before.
  std::map<void*, std::pair<torch::Tensor, torch::Tensor>> before_;
  int replays_ = 0;
};

}  // namespace dtrain
