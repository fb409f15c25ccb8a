#pragma once

#include <cstdint>
#include <filesystem>
#include <memory>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include <c10/util/intrusive_ptr.h>
#include <torch/types.h>

namespace c10d {
class Backend;
class Store;
class TCPStore;
}  // namespace c10d

namespace dtrain {

class Collectives;
class ProcessGroup;
class UniqueFd;
struct TrainedObjects;
struct TrialSpec;

/// The ranks of one trial, as seen by one of them: agreement between the ranks,
/// and exchange of tensors. A trial of one rank has a group, too, whose
/// operations return at once.
///
/// Functions are collective unless stated otherwise: all ranks call the same
/// ones in the same order. They throw Error(kFailed) if another rank failed.
/// Not thread-safe.
class RankGroup {
 public:
  /// Group of a trial with one rank.
  RankGroup();
  explicit RankGroup(ProcessGroup group);
  /// Group over the memory made by MakeSharedMemory. Throws Error(kFailed).
  RankGroup(const UniqueFd& memory, int rank, int ranks);
  /// Group of the rank of `spec`, over the connection inherited from the
  /// launcher. Waits for ranks on other machines. Throws Error(kFailed).
  explicit RankGroup(const TrialSpec& spec);
  ~RankGroup();

  int rank() const { return rank_; }
  int size() const { return size_; }
  /// True for rank 0, which talks to the runner and writes the checkpoints.
  bool is_first() const { return rank() == 0; }
  bool is_alone() const { return !control_; }

  /// True if `mine` is true on any rank.
  bool Any(bool mine);
  /// Maximum of `mine` over the ranks.
  std::int64_t Most(std::int64_t mine);
  /// Returns the text of rank 0 on all ranks.
  std::string FromFirst(std::string text);
  /// Texts of all ranks, in the order of ranks.
  std::vector<std::string> Gather(std::string_view mine);
  /// Waits until all ranks have arrived.
  void Barrier();

  /// Copies parameters and buffers of all models from rank 0 to the other
  /// ranks. Throws Error(kFailed) if the ranks have different models.
  void ShareModels(const TrainedObjects& objects);
  /// Copies the buffers, such as the running means of BatchNorm, from rank 0.
  void ShareBuffers(const TrainedObjects& objects);
  /// c10d backend for tensors on `device`. Created at the first call, which is
  /// collective. Throws Error(kFailed) if there is none. REQUIRES: !is_alone().
  c10d::Backend& Tensors(torch::Device device);

  /// Reports that this rank failed, so that no other rank waits for it. Not
  /// collective.
  void Fail(std::string_view why);

  /// Ends the use of a backend of GPUs; the last call on this group. Call it
  /// after this rank's final report, because it may wait for the GPU. A rank
  /// that `succeeded` shuts the backend down and waits until all have; errors
  /// of that are only logged. Otherwise it waits for nothing and is not
  /// collective: the backend is never destroyed, because its destructor would
  /// wait for operations that the other ranks no longer join; only the file of
  /// its store is removed. The process must then end without static
  /// destructors.
  void Leave(bool succeeded);

  /// Makes Tensors() return `backend`, whose ranks have met by `store_file`.
  /// For tests.
  void SetBackend(c10::intrusive_ptr<c10d::Backend> backend,
                  std::string store_file = "");

 private:
  c10::intrusive_ptr<c10d::Backend> NcclBackend();
  c10::intrusive_ptr<c10d::Store> NcclStore();
  void Share(const std::vector<torch::Tensor>& tensors);

  int rank_ = 0;
  int size_ = 1;
  std::unique_ptr<ProcessGroup> process_group_;  // these two: null if alone
  std::unique_ptr<Collectives> control_;
  std::optional<double> nccl_timeout_;  // seconds
  std::string store_file_;              // of NCCL on one machine
  c10::intrusive_ptr<c10d::Backend> tensors_;
};

/// Has NCCL use the network interface called `interface`, unless the
/// environment or one of NCCL's configuration files `files` names others. No
/// effect if it is empty.
void SetNcclInterface(const std::string& interface,
                      const std::vector<std::filesystem::path>& files);

/// Returns a store for NCCL's ranks on several machines, at a port chosen by
/// the system. It listens only where the ranks meet (see ListenAt), because it
/// has no authentication. Throws Error(kResources).
c10::intrusive_ptr<c10d::TCPStore> ServeStoreAt(const std::string& host);

/// Collects the outputs of all ranks in the order of the data set: batches are
/// dealt out one by one, so the first batch of each rank comes first. `mine` is
/// on the CPU. Empty on all ranks but rank 0. Collective.
std::vector<torch::Tensor> BatchesInOrder(std::vector<torch::Tensor> mine,
                                          RankGroup& ranks);

}  // namespace dtrain
