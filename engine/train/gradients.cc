#include "engine/train/gradients.h"

#include <algorithm>
#include <memory>
#include <vector>

#include <ATen/ops/_foreach_clamp_max.h>
#include <ATen/ops/_foreach_clamp_min.h>
#include <ATen/ops/_foreach_copy.h>
#include <ATen/ops/_foreach_div.h>
#include <ATen/ops/_foreach_mul.h>
#include <ATen/ops/_foreach_norm.h>
#include <torch/csrc/autograd/function_hook.h>
#include <torch/csrc/autograd/variable.h>
#include <torch/csrc/distributed/c10d/Backend.hpp>
#include <torch/types.h>

#include "engine/train/trained_objects.h"

// GradientSync overlaps communication with the backward pass. A hook on each
// parameter runs when its gradient is complete. Once all parameters of a bucket
// have one, the bucket is copied into a flat tensor and its all-reduce starts,
// while autograd goes on to earlier layers. Collectives must be issued in the
// same order on all ranks, so a bucket starts only after all buckets before it.
// Behind the gradients, the flat tensor has one flag for each parameter: after
// the sum it tells whether any rank had a gradient for it. Finish() sends what
// is left, repeats buckets that received a second gradient after they were
// sent, and copies the means back.
//
// A gradient has the memory order of its parameter, and so has its part of the
// flat tensor: on GPUs, all gradients of a bucket are copied by one kernel, and
// those of channels-last weights are not permuted.
//
// NCCL averages by itself: it scales each rank's values before it adds them.
// The sums of CPU ranks are divided here.

namespace dtrain {

namespace {

std::vector<torch::Tensor> GetGradients(torch::optim::Optimizer& optimizer) {
  std::vector<torch::Tensor> gradients;
  for (const torch::Tensor& parameter : ParametersWithGradient(optimizer)) {
    gradients.push_back(parameter.grad());
  }
  return gradients;
}

}  // namespace

void DivideGradients(torch::optim::Optimizer& optimizer, std::int64_t count) {
  if (count == 1) return;
  const torch::NoGradGuard no_grad;
  const auto gradients = GetGradients(optimizer);
  if (!gradients.empty()) at::_foreach_div_(gradients, at::Scalar(count));
}

void ClipGradients(torch::optim::Optimizer& optimizer, const Clip& clip) {
  if (!clip.norm && !clip.value) return;
  const torch::NoGradGuard no_grad;
  const auto gradients = GetGradients(optimizer);
  if (gradients.empty()) return;
  if (clip.norm) {
    const auto norms = at::_foreach_norm(gradients, /*ord=*/2);
    const torch::Tensor total = at::linalg_vector_norm(at::stack(norms), 2);
    // Like PyTorch's clip_grad_norm_, never scales up.
    const torch::Tensor scale = at::clamp_max(*clip.norm / (total + 1e-6), 1.0);
    at::_foreach_mul_(gradients, scale);
  }
  if (clip.value) {
    at::_foreach_clamp_min_(gradients, -*clip.value);
    at::_foreach_clamp_max_(gradients, *clip.value);
  }
}

void ResetGradients(torch::optim::Optimizer& optimizer) {
  for (auto& group : optimizer.param_groups()) {
    for (torch::Tensor& parameter : group.params()) {
      parameter.mutable_grad().reset();
    }
  }
}

namespace {

// The first bucket is small, so that communication starts early.
constexpr std::size_t kFirstBucketBytes = std::size_t{1} << 20;

bool CanShareBucket(const torch::Tensor& parameter,
                    const torch::Tensor& other) {
  return parameter.scalar_type() == other.scalar_type() &&
         parameter.device() == other.device();
}

// View of `flat` from `start` on with the shape of `parameter`, and with its
// memory order if it is dense.
torch::Tensor ViewLike(const torch::Tensor& parameter,
                       const torch::Tensor& flat, std::int64_t start) {
  if (parameter.is_non_overlapping_and_dense()) {
    return flat.as_strided(parameter.sizes(), parameter.strides(), start);
  }
  return flat.narrow(0, start, parameter.numel()).view(parameter.sizes());
}

}  // namespace

class GradientSync::Hook final
    : public torch::autograd::PostAccumulateGradHook {
 public:
  Hook(GradientSync& owner, std::size_t bucket, std::size_t parameter)
      : owner_(owner), bucket_(bucket), parameter_(parameter) {}

  void operator()(const torch::autograd::Variable&) override {
    owner_.OnGradient(bucket_, parameter_);
  }

 private:
  GradientSync& owner_;
  const std::size_t bucket_;
  const std::size_t parameter_;
};

GradientSync::GradientSync(torch::optim::Optimizer& optimizer,
                           c10d::Backend& backend, std::size_t bucket_bytes)
    : backend_(backend), backend_averages_(backend.getBackendName() == "nccl") {
  MakeBuckets(optimizer, bucket_bytes);
  for (std::size_t b = 0; b < buckets_.size(); ++b) {
    for (std::size_t p = 0; p < buckets_[b].parameters.size(); ++p) {
      torch::autograd::impl::set_post_acc_grad_hooks(
          buckets_[b].parameters[p], std::make_unique<Hook>(*this, b, p));
    }
  }
}

GradientSync::~GradientSync() {
  for (const Bucket& bucket : buckets_) {
    for (const torch::Tensor& parameter : bucket.parameters) {
      torch::autograd::impl::set_post_acc_grad_hooks(parameter, nullptr);
    }
  }
}

// The backward pass mostly reaches the last parameters first.
void GradientSync::MakeBuckets(const torch::optim::Optimizer& optimizer,
                               std::size_t bucket_bytes) {
  std::vector<torch::Tensor> parameters;
  for (const auto& group : optimizer.param_groups()) {
    for (const torch::Tensor& parameter : group.params()) {
      if (parameter.requires_grad()) parameters.push_back(parameter);
    }
  }
  std::size_t max_bytes = std::min(kFirstBucketBytes, bucket_bytes);
  for (auto it = parameters.rbegin(); it != parameters.rend(); ++it) {
    // A bucket is closed once it has reached its size, so it may exceed it by
    // one parameter, which is never split.
    const bool fits = !buckets_.empty() && buckets_.back().bytes < max_bytes &&
                      CanShareBucket(*it, buckets_.back().parameters.front());
    if (!fits) {
      if (!buckets_.empty()) max_bytes = bucket_bytes;
      buckets_.emplace_back();
    }
    buckets_.back().parameters.push_back(*it);
    buckets_.back().bytes += it->nbytes();
  }
  for (Bucket& bucket : buckets_) Allocate(bucket);
}

void GradientSync::Allocate(Bucket& bucket) {
  std::int64_t values = 0;
  for (const torch::Tensor& parameter : bucket.parameters) {
    values += parameter.numel();
  }
  const auto count = static_cast<std::int64_t>(bucket.parameters.size());
  bucket.flat =
      torch::empty({values + count},
                   bucket.parameters.front().options().requires_grad(false));
  std::int64_t start = 0;
  for (const torch::Tensor& parameter : bucket.parameters) {
    bucket.views.push_back(ViewLike(parameter, bucket.flat, start));
    start += parameter.numel();
  }
  bucket.flags = bucket.flat.narrow(0, values, count);
  Reset(bucket);
}

void GradientSync::Reset(Bucket& bucket) {
  bucket.has_gradient.assign(bucket.parameters.size(), false);
  bucket.pending = bucket.parameters.size();
  bucket.is_stale = false;
  bucket.work.reset();
}

void GradientSync::OnGradient(std::size_t b, std::size_t p) {
  if (!overlap_) return;
  Bucket& bucket = buckets_[b];
  // A second backward pass before the step: the bucket sent is incomplete.
  if (bucket.has_gradient[p]) {
    bucket.is_stale = true;
    return;
  }
  bucket.has_gradient[p] = true;
  --bucket.pending;
  StartReadyBuckets();
}

// In bucket order, which must be the same on all ranks.
void GradientSync::StartReadyBuckets() {
  while (next_unsent_ < buckets_.size() &&
         buckets_[next_unsent_].pending == 0) {
    StartAllReduce(buckets_[next_unsent_++]);
  }
}

void GradientSync::StartAllReduce(Bucket& bucket) {
  const torch::NoGradGuard no_grad;
  std::vector<torch::Tensor> views;
  std::vector<torch::Tensor> gradients;
  // A parameter that this rank did not use contributes zeros and no flag, since
  // other ranks may have used it. The bucket has the same size on all ranks in
  // any case.
  bucket.flags.fill_(1);
  for (std::size_t i = 0; i < bucket.views.size(); ++i) {
    if (const auto& gradient = bucket.parameters[i].grad();
        gradient.defined()) {
      views.push_back(bucket.views[i]);
      gradients.push_back(gradient);
    } else {
      bucket.views[i].zero_();
      bucket.flags[static_cast<std::int64_t>(i)].fill_(0);
    }
  }
  if (!views.empty()) at::_foreach_copy_(views, gradients);
  std::vector<torch::Tensor> tensors = {bucket.flat};
  c10d::AllreduceOptions options;
  if (backend_averages_) options.reduceOp = c10d::ReduceOp::AVG;
  bucket.work = backend_.allreduce(tensors, options);
}

void GradientSync::FinishAllReduce(Bucket& bucket) {
  bucket.work->wait();
  const torch::NoGradGuard no_grad;
  if (!backend_averages_) bucket.flat.div_(backend_.getSize());
  std::vector<torch::Tensor> means;
  std::vector<torch::Tensor> gradients;
  torch::Tensor flags;  // read only if needed: it waits for the GPU
  for (std::size_t i = 0; i < bucket.views.size(); ++i) {
    torch::Tensor& gradient = bucket.parameters[i].mutable_grad();
    if (gradient.defined()) {
      means.push_back(bucket.views[i]);
      gradients.push_back(gradient);
      continue;
    }
    if (!flags.defined()) flags = bucket.flags.to(torch::kCPU, torch::kFloat);
    if (flags.const_data_ptr<float>()[i] == 0) continue;
    // Some other rank had a gradient, so this one needs the mean, too: all
    // ranks must step alike.
    gradient = bucket.views[i].clone();
  }
  if (!gradients.empty()) at::_foreach_copy_(gradients, means);
}

void GradientSync::Finish() {
  for (; next_unsent_ < buckets_.size(); ++next_unsent_)
    StartAllReduce(buckets_[next_unsent_]);
  for (Bucket& bucket : buckets_) {
    // The gradients have grown since they were sent.
    if (!bucket.is_stale) continue;
    bucket.work->wait();
    StartAllReduce(bucket);
  }
  for (Bucket& bucket : buckets_) {
    FinishAllReduce(bucket);
    Reset(bucket);
  }
  next_unsent_ = 0;
}

class BackwardUpdate::Hook final
    : public torch::autograd::PostAccumulateGradHook {
 public:
  explicit Hook(BackwardUpdate& owner) : owner_(owner) {}

  void operator()(const torch::autograd::Variable& parameter) override {
    owner_.Update(parameter);
  }

 private:
  BackwardUpdate& owner_;
};

BackwardUpdate::BackwardUpdate(torch::optim::Optimizer& optimizer)
    : optimizer_(optimizer) {
  for (const auto& group : optimizer.param_groups()) {
    for (const torch::Tensor& parameter : group.params()) {
      if (!parameter.requires_grad()) continue;
      torch::autograd::impl::set_post_acc_grad_hooks(
          parameter, std::make_unique<Hook>(*this));
    }
  }
}

BackwardUpdate::~BackwardUpdate() {
  for (const auto& group : optimizer_.param_groups()) {
    for (const torch::Tensor& parameter : group.params()) {
      if (!parameter.requires_grad()) continue;
      torch::autograd::impl::set_post_acc_grad_hooks(parameter, nullptr);
    }
  }
}

// Only `parameter` has a gradient at this point, so the optimizer steps it
// alone.
void BackwardUpdate::Update(const torch::Tensor& parameter) {
  std::size_t bytes = 0;
  for (const torch::Tensor& held : ParametersWithGradient(optimizer_)) {
    bytes += held.grad().nbytes();
  }
  peak_bytes_ = std::max(peak_bytes_, bytes);
  const torch::NoGradGuard no_grad;
  optimizer_.step();
  torch::Tensor handle = parameter;
  handle.mutable_grad().reset();
}

}  // namespace dtrain
