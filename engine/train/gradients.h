#pragma once

#include <cstddef>
#include <cstdint>
#include <memory>
#include <vector>

#include <c10/util/intrusive_ptr.h>
#include <torch/optim/optimizer.h>
#include <torch/types.h>

#include "engine/train/trial.h"

namespace c10d {
class Backend;
class Work;
}  // namespace c10d

namespace dtrain {

/// What happens to the gradients of an optimizer's parameters around a step; no
/// value comes to the host, so that none of it waits for a GPU.

/// Divides them by `count`.
void DivideGradients(torch::optim::Optimizer& optimizer, std::int64_t count);

/// Limits their common 2-norm, then each element.
void ClipGradients(torch::optim::Optimizer& optimizer, const Clip& clip);

/// Gives them back: a parameter has no gradient until the next backward pass.
void ResetGradients(torch::optim::Optimizer& optimizer);

/// Makes the gradients of an optimizer's parameters their means over the ranks
/// of a trial. Gradients are put into flat buckets, the last parameters first,
/// and a bucket is all-reduced while backward goes on to the next, as PyTorch's
/// DistributedDataParallel does it (Li et al. 2020, arXiv:2006.15704).
///
/// A parameter that got a gradient on some ranks only counts as zero on the
/// others; one that got none anywhere has none afterwards. One thread; what it
/// calls on the backend is the same on all ranks as long as they call it alike.
class GradientSync {
 public:
  /// Watches the parameters until its end. `bucket_bytes`: of one bucket.
  /// REQUIRES: no other hook is on the parameters, and all outlives this.
  GradientSync(torch::optim::Optimizer& optimizer, c10d::Backend& backend,
               std::size_t bucket_bytes = std::size_t{25} << 20);
  ~GradientSync();
  GradientSync(const GradientSync&) = delete;
  GradientSync& operator=(const GradientSync&) = delete;

  /// Whether what backward now computes is complete once it has come to a
  /// parameter: then it may be sent at once. False while gradients accumulate.
  void SetOverlap(bool on) { overlap_ = on; }
  /// Makes all gradients the means. Throws Error or c10::Error if a rank
  /// failed.
  void Finish();

 private:
  class Hook;
  struct Bucket {
    std::vector<torch::Tensor> parameters;
    std::size_t bytes = 0;
    torch::Tensor flat;       // gradients, then 0 or 1 for each: there is one
    std::size_t pending = 0;  // parameters that backward has not come to
    std::vector<bool> has_gradient;  // those that it has come to
    bool is_stale = false;           // it came to one again
    c10::intrusive_ptr<c10d::Work> work;
  };

  static std::vector<torch::Tensor> Views(const Bucket& bucket);
  static torch::Tensor Flags(const Bucket& bucket);
  void MakeBuckets(const torch::optim::Optimizer& optimizer,
                   std::size_t bucket_bytes);
  void OnGradient(std::size_t bucket, std::size_t parameter);
  void StartReadyBuckets();
  void StartAllReduce(Bucket& bucket);
  void FinishAllReduce(Bucket& bucket);
  void Reset(Bucket& bucket);

  c10d::Backend& backend_;
  std::vector<Bucket> buckets_;
  std::size_t next_unsent_ = 0;  // the first bucket that was not sent
  bool overlap_ = false;
};

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
