#pragma once

// CUDA kernels for the mean cross entropy of a batch, its gradient, and the
// accuracy. Each is one launch where LibTorch needs four or two, which matters
// for small networks: their steps are bound by launches. The forward pass is a
// single block, so that its sum needs no second launch and always has the same
// order. Without Torch, and compiled by nvcc, too.

#include <cassert>
#include <cstdint>
#include <limits>

#ifndef __CUDACC__
#include <cmath>
#endif

#include "engine/base/host_device.h"
#include "engine/kernels/thread_block.h"

namespace dtrain {

/// Label of rows that do not count, as in LibTorch.
inline constexpr std::int64_t kIgnoredLabel = -100;

/// More logits than this are faster with LibTorch's kernels, which use the
/// whole GPU.
inline constexpr std::int64_t kMaxFusedLogits = 65'536;

/// Inputs and outputs of the forward pass. Pointers are to the memory of one
/// device.
struct CrossEntropyJob {
  const float* logits = nullptr;         // [rows, classes]
  const std::int64_t* target = nullptr;  // [rows]
  std::int64_t rows = 0;
  std::int64_t classes = 0;
  float* loss = nullptr;      // mean over the rows that count
  float* accuracy = nullptr;  // of all rows; of equal logits the first counts
  /// For the gradient: the largest logit of each row, the logarithm of its sum
  /// of exponentials relative to that, and the number of rows that count.
  float* saved = nullptr;  // SavedFloats(rows)
};

DTRAIN_HOST_DEVICE constexpr std::int64_t SavedFloats(std::int64_t rows) {
  return 2 * rows + 1;
}

/// Inputs and outputs of the gradient.
struct CrossEntropyGradientJob {
  const float* logits = nullptr;         // as in the forward pass
  const std::int64_t* target = nullptr;  // as in the forward pass
  std::int64_t rows = 0;
  std::int64_t classes = 0;
  const float* saved = nullptr;      // as the forward pass left it
  const float* grad_loss = nullptr;  // scalar
  float* grad_logits = nullptr;      // [rows, classes]
};

/// Threads of a block of either kernel.
inline constexpr int kCrossEntropyThreads = 1024;

/// Memory that the threads of the forward pass share. All by thread.
struct CrossEntropyShared {
  float best[kCrossEntropyThreads];
  std::int64_t place[kCrossEntropyThreads];
  float sum[kCrossEntropyThreads];
  float loss[kCrossEntropyThreads];
  float hits[kCrossEntropyThreads];
  float counted[kCrossEntropyThreads];
};

/// A logit and its class.
struct ClassScore {
  float value = -std::numeric_limits<float>::infinity();
  std::int64_t place = std::numeric_limits<std::int64_t>::max();
};

/// True if `one` precedes `other` as the predicted class: it is larger, or
/// equal and earlier. NaN is larger than any number, as in LibTorch's argmax.
DTRAIN_HOST_DEVICE inline bool Precedes(const ClassScore& one,
                                        const ClassScore& other) {
  const bool one_is_nan = one.value != one.value;
  const bool other_is_nan = other.value != other.value;
  if (one_is_nan || other_is_nan) {
    return one_is_nan && (!other_is_nan || one.place < other.place);
  }
  if (one.value == other.value) return one.place < other.place;
  return one.value > other.value;
}

/// Number of threads that share a row: a power of two up to a warp, with about
/// four classes for each.
DTRAIN_HOST_DEVICE inline int LanesOfRow(std::int64_t classes) {
  int lanes = 1;
  while (lanes < 32 && lanes * 4 < classes) lanes *= 2;
  return lanes;
}

/// A label that is not a class ends the kernel, as LibTorch's does.
DTRAIN_HOST_DEVICE inline void CheckLabel(std::int64_t label,
                                          std::int64_t classes) {
#ifdef __CUDA_ARCH__
  // Not assert, which releases leave out.
  if (label < 0 || label >= classes) {
    __assert_fail("label >= 0 && label < classes", __FILE__, __LINE__,
                  "CrossEntropy");
  }
#else
  assert(label >= 0 && label < classes);
  (void)label, (void)classes;
#endif
}

/// Forward pass of the only block.
template <typename Block>
class CrossEntropyForward {
 public:
  DTRAIN_HOST_DEVICE CrossEntropyForward(const CrossEntropyJob& job,
                                         CrossEntropyShared& shared,
                                         const Block& block)
      : job_(job),
        shared_(shared),
        block_(block),
        lanes_(LanesOfRow(job.classes)) {}

  DTRAIN_HOST_DEVICE void Run() const {
    block_.ForEach([&](int thread) {
      shared_.loss[thread] = 0;
      shared_.hits[thread] = 0;
      shared_.counted[thread] = 0;
    });
    const std::int64_t at_once = kCrossEntropyThreads / lanes_;
    for (std::int64_t first = 0; first < job_.rows; first += at_once) {
      block_.ForEach([&](int thread) { FindBest(first, thread); });
      block_.ForEach([&](int thread) { AddExponentials(first, thread); });
      block_.ForEach([&](int thread) { FinishRow(first, thread); });
    }
    AddUp(shared_.loss, kCrossEntropyThreads, block_);
    AddUp(shared_.hits, kCrossEntropyThreads, block_);
    AddUp(shared_.counted, kCrossEntropyThreads, block_);
    block_.ForEach([&](int thread) {
      if (thread != 0) return;
      *job_.loss = shared_.loss[0] / shared_.counted[0];
      *job_.accuracy = shared_.hits[0] / static_cast<float>(job_.rows);
      job_.saved[2 * job_.rows] = shared_.counted[0];
    });
  }

 private:
  // Largest logit of the thread's classes.
  DTRAIN_HOST_DEVICE void FindBest(std::int64_t first, int thread) const {
    const std::int64_t row = first + thread / lanes_;
    if (row >= job_.rows) return;
    const float* logits = job_.logits + row * job_.classes;
    ClassScore best;
    for (std::int64_t c = thread % lanes_; c < job_.classes; c += lanes_) {
      const ClassScore score = {logits[c], c};
      if (Precedes(score, best)) best = score;
    }
    shared_.best[thread] = best.value;
    shared_.place[thread] = best.place;
  }

  // Largest logit of the thread's row.
  DTRAIN_HOST_DEVICE ClassScore BestOfRow(int thread) const {
    const int start = thread - thread % lanes_;
    ClassScore best = {shared_.best[start], shared_.place[start]};
    for (int i = start + 1; i < start + lanes_; ++i) {
      const ClassScore score = {shared_.best[i], shared_.place[i]};
      if (Precedes(score, best)) best = score;
    }
    return best;
  }

  DTRAIN_HOST_DEVICE void AddExponentials(std::int64_t first,
                                          int thread) const {
    const std::int64_t row = first + thread / lanes_;
    if (row >= job_.rows) return;
    const float* logits = job_.logits + row * job_.classes;
    const float largest = BestOfRow(thread).value;
    float sum = 0;
    for (std::int64_t c = thread % lanes_; c < job_.classes; c += lanes_) {
      sum += expf(logits[c] - largest);
    }
    shared_.sum[thread] = sum;
  }

  // By the first thread of each row.
  DTRAIN_HOST_DEVICE void FinishRow(std::int64_t first, int thread) const {
    const std::int64_t row = first + thread / lanes_;
    if (row >= job_.rows || thread % lanes_ != 0) return;
    float sum = 0;
    for (int i = thread; i < thread + lanes_; ++i) sum += shared_.sum[i];
    const ClassScore best = BestOfRow(thread);
    const float log_sum = logf(sum);
    job_.saved[row] = best.value;
    job_.saved[job_.rows + row] = log_sum;
    const std::int64_t label = job_.target[row];
    if (label == kIgnoredLabel) return;
    CheckLabel(label, job_.classes);
    const float logit = job_.logits[row * job_.classes + label];
    shared_.loss[thread] += log_sum - (logit - best.value);
    shared_.hits[thread] += best.place == label ? 1 : 0;
    shared_.counted[thread] += 1;
  }

  const CrossEntropyJob& job_;
  CrossEntropyShared& shared_;
  const Block& block_;
  int lanes_;
};

/// Number of blocks that compute the gradient.
constexpr std::int64_t CrossEntropyGradientBlocks(
    const CrossEntropyGradientJob& job) {
  return (job.rows * job.classes + kCrossEntropyThreads - 1) /
         kCrossEntropyThreads;
}

/// Gradient of one logit: (softmax - one-hot) * grad_loss / rows that count.
DTRAIN_HOST_DEVICE inline void CrossEntropyGradient(
    const CrossEntropyGradientJob& job, std::int64_t block, int thread) {
  const std::int64_t at = block * kCrossEntropyThreads + thread;
  if (at >= job.rows * job.classes) return;
  const std::int64_t row = at / job.classes;
  const std::int64_t label = job.target[row];
  if (label == kIgnoredLabel) {
    job.grad_logits[at] = 0;
    return;
  }
  const float softmax =
      expf(job.logits[at] - job.saved[row] - job.saved[job.rows + row]);
  const float one_hot = at % job.classes == label ? 1 : 0;
  job.grad_logits[at] =
      (softmax - one_hot) * (*job.grad_loss / job.saved[2 * job.rows]);
}

/// The kernels in libdtrain_trial_cuda.so, found by name if that library is
/// loaded. They queue the job on a cudaStream_t and return the cudaError_t.
struct CrossEntropyKernels {
  int (*forward)(const CrossEntropyJob* job, void* stream) = nullptr;
  int (*gradient)(const CrossEntropyGradientJob* job, void* stream) = nullptr;
};
inline constexpr char kCrossEntropyOnCuda[] = "DtrainCrossEntropy";
inline constexpr char kCrossEntropyGradientOnCuda[] =
    "DtrainCrossEntropyGradient";

}  // namespace dtrain
