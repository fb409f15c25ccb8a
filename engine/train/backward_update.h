#pragma once

#include <cstddef>
#include <memory>

#include <torch/optim/optimizer.h>

namespace dtrain {

/// Steps an optimizer while the backward pass goes on: each parameter as soon
/// as its gradient is whole, which is then freed. So there is no moment at
/// which the gradients of all parameters are in memory, and the result is that
/// of a step behind the pass, if the rule for one parameter needs no other
/// (SGD, Adam and AdamW do not). As LOMO (Lv et al., 2023) does it. The hooks
/// are taken off the parameters when this ends.
class BackwardUpdate {
 public:
  /// REQUIRES: the optimizer outlives it, and its parameters have no other
  /// hook behind their gradients.
  explicit BackwardUpdate(torch::optim::Optimizer& optimizer);
  BackwardUpdate(const BackwardUpdate&) = delete;
  BackwardUpdate& operator=(const BackwardUpdate&) = delete;
  ~BackwardUpdate();

  /// The most bytes of gradients that were there at once, as far as parameters
  /// held them.
  std::size_t peak_bytes() const { return peak_bytes_; }

 private:
  class Hook;

  void Update(const torch::Tensor& parameter);

  torch::optim::Optimizer& optimizer_;
  std::size_t peak_bytes_ = 0;
};

}  // namespace dtrain
