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

/// Operations on the gradients of an optimizer's parameters around a step. They
/// copy no value to the host, so that none of them waits for a GPU.

/// Divides the gradients by `count`.
void DivideGradients(torch::optim::Optimizer& optimizer, std::int64_t count);

/// Limits the total 2-norm of the gradients, then each element.
void ClipGradients(torch::optim::Optimizer& optimizer, const Clip& clip);

/// Frees the gradients: parameters have none until the next backward pass.
void ResetGradients(torch::optim::Optimizer& optimizer);

/// Averages the gradients of an optimizer's parameters over the ranks of a
/// trial. Gradients are copied into flat buckets, the last parameters first,
/// and a bucket is all-reduced while the backward pass computes the next one,
/// as in PyTorch's DistributedDataParallel (Li et al. 2020, arXiv:2006.15704).
///
/// A parameter that has a gradient on some ranks only counts as zero on the
/// others; one that has none on any rank has none afterwards. Not thread-safe.
/// Ranks that call it alike issue the same sequence of collectives.
class GradientSync {
 public:
  /// Installs hooks on the parameters for its lifetime. `bucket_bytes`: size of
  /// a bucket. REQUIRES: the parameters have no other hook, and the arguments
  /// outlive this object.
  GradientSync(torch::optim::Optimizer& optimizer, c10d::Backend& backend,
               std::size_t bucket_bytes = std::size_t{25} << 20);
  ~GradientSync();
  GradientSync(const GradientSync&) = delete;
  GradientSync& operator=(const GradientSync&) = delete;

  /// Sets whether the gradients of the current backward pass are final. If so,
  /// a bucket is sent as soon as it is complete; false while gradients
  /// accumulate.
  void SetOverlap(bool on) { overlap_ = on; }
  /// Waits until all gradients are averaged. Throws Error or c10::Error if a
  /// rank failed.
  void Finish();

 private:
  class Hook;
  struct Bucket {
    std::vector<torch::Tensor> parameters;
    std::size_t bytes = 0;
    torch::Tensor flat;  // gradients, then a flag for each: 1 if it exists
    std::vector<torch::Tensor> views;  // parts of `flat` like the parameters
    torch::Tensor flags;               // last part of `flat`
    std::size_t pending = 0;  // parameters without a gradient in this pass
    std::vector<bool> has_gradient;  // parameters with a gradient in this pass
    bool is_stale = false;           // got a second gradient after it was sent
    c10::intrusive_ptr<c10d::Work> work;
  };

  void MakeBuckets(const torch::optim::Optimizer& optimizer,
                   std::size_t bucket_bytes);
  void Allocate(Bucket& bucket);
  void OnGradient(std::size_t bucket, std::size_t parameter);
  void StartReadyBuckets();
  void StartAllReduce(Bucket& bucket);
  void FinishAllReduce(Bucket& bucket);
  void Reset(Bucket& bucket);

  c10d::Backend& backend_;
  const bool backend_averages_;  // otherwise it adds
  std::vector<Bucket> buckets_;
  std::size_t next_unsent_ = 0;  // first bucket not sent yet
  bool overlap_ = false;
};

/// Steps an optimizer during the backward pass: each parameter as soon as its
/// gradient is complete, after which the gradient is freed (LOMO, Lv et al.
/// 2023). The gradients of all parameters are therefore never in memory at
/// once. The result equals that of a step after the pass, provided that the
/// update of a parameter depends on no other (true of SGD, Adam and AdamW).
/// Removes its hooks at the end of its lifetime.
class BackwardUpdate {
 public:
  /// REQUIRES: the optimizer outlives this object, and its parameters have no
  /// other post-accumulate hook.
  explicit BackwardUpdate(torch::optim::Optimizer& optimizer);
  BackwardUpdate(const BackwardUpdate&) = delete;
  BackwardUpdate& operator=(const BackwardUpdate&) = delete;
  ~BackwardUpdate();

  /// Maximum number of bytes of gradients that existed at once.
  std::size_t peak_bytes() const { return peak_bytes_; }

 private:
  class Hook;

  void Update(const torch::Tensor& parameter);

  torch::optim::Optimizer& optimizer_;
  std::size_t peak_bytes_ = 0;
};

}  // namespace dtrain
