#pragma once

#include <cstdint>
#include <memory>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include <c10/util/intrusive_ptr.h>
#include <torch/types.h>

#include "engine/ranks/process_group.h"
#include "engine/train/trial_channel.h"

namespace c10d {
class Backend;
class Store;
}  // namespace c10d

namespace dtrain {

struct TrainedObjects;

/// The ranks of one trial as one of them sees them: what it agrees upon with
/// the others, and how they exchange tensors. A trial of one rank has one too,
/// which does everything at once.
///
/// Functions are collective unless they say otherwise: all ranks call the same
/// ones in the same order. They throw Error(kFailed) where another rank failed.
/// Used by one thread.
class RankGroup {
 public:
  /// A trial of one rank.
  RankGroup();
  explicit RankGroup(ProcessGroup group);
  /// On the memory that MakeSharedMemory made. Throws Error(kFailed).
  RankGroup(const UniqueFd& memory, int rank, int ranks);
  ~RankGroup();

  int rank() const { return control_ ? control_->rank() : 0; }
  int size() const { return control_ ? control_->ranks() : 1; }
  /// Rank 0 speaks with the runner, and writes the checkpoints.
  bool is_first() const { return rank() == 0; }
  bool is_alone() const { return !control_; }

  /// Whether any rank says so.
  bool Any(bool mine);
  /// The largest of what the ranks give.
  std::int64_t Most(std::int64_t mine);
  /// What rank 0 says.
  std::string FromFirst(std::string text);
  /// What each rank says, in their order.
  std::vector<std::string> Gather(std::string_view mine);
  /// Waits until all ranks have come.
  void Barrier();

  /// Makes parameters and buffers of all models those of rank 0. Throws
  /// Error(kFailed) if the ranks do not have the same ones.
  void ShareModels(const TrainedObjects& objects);
  /// The same for what batches change without a gradient, such as the running
  /// means of BatchNorm.
  void ShareBuffers(const TrainedObjects& objects);
  /// What all-reduces tensors on `device`, as c10d has it; made at the first
  /// call, which is collective. Throws Error(kFailed) where there is none.
  /// REQUIRES: !is_alone().
  c10d::Backend& Tensors(torch::Device device);

  /// Says that this rank failed, so that nobody waits for it. Not collective.
  void Fail(std::string_view why);

 private:
  c10::intrusive_ptr<c10d::Backend> NcclBackend();
  c10::intrusive_ptr<c10d::Store> NcclStore();
  void Share(const std::vector<torch::Tensor>& tensors);

  std::optional<ProcessGroup> process_group_;
  std::unique_ptr<Collectives> control_;
  c10::intrusive_ptr<c10d::Backend> tensors_;
};

/// `link` as the ranks of a trial have it: rank 0 speaks with the runner for
/// all, and passes on to the others what they are to do next. What they send
/// goes nowhere. `next` and `stop_requested` are collective, and give every
/// rank the same. REQUIRES: `ranks` outlives it.
TrialLink RankedLink(TrialLink link, RankGroup& ranks);

/// What the ranks made of their batches, in the order of the set: batches are
/// dealt out one by one, so the first of each rank come first. `mine` are on
/// the CPU; empty on all ranks but the first. Collective.
std::vector<torch::Tensor> BatchesInOrder(std::vector<torch::Tensor> mine,
                                          RankGroup& ranks);

}  // namespace dtrain
