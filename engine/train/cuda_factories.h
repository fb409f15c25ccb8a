#pragma once

#include <cstdint>
#include <functional>
#include <memory>
#include <optional>

#include <c10/util/intrusive_ptr.h>

namespace c10d {
class Backend;
class Store;
}  // namespace c10d

namespace dtrain {

/// Device work that is recorded once and replayed at the cost of one call: a
/// CUDA graph. Tests use an implementation that records LibTorch's operations
/// on the CPU.
class StepGraph {
 public:
  virtual ~StepGraph() = default;

  /// Records the device work that `work` issues, without executing it. Host
  /// code in `work` runs once, now, and is not part of a replay. Throws
  /// c10::Error for work that cannot be recorded, such as reading a value from
  /// the device, and whatever `work` throws; the device is then unchanged.
  virtual void Capture(const std::function<void()>& work) = 0;

  /// Issues the recorded work again, on the same memory. Random numbers
  /// advance. Does not wait. REQUIRES: Capture succeeded.
  virtual void Replay() = 0;

  /// Returns an empty graph of the same kind.
  virtual std::unique_ptr<StepGraph> Another() const = 0;
};

/// Returns a graph for the current stream of this process's first GPU, owned by
/// the caller.
using MakeStepGraph = StepGraph* (*)();

/// Name of the MakeStepGraph function in libdtrain_trial_cuda.so.
inline constexpr char kMakeStepGraph[] = "DtrainMakeStepGraph";

/// Nodes of a captured graph, by kind.
struct GraphNodes {
  std::int64_t kernels = 0;
  std::int64_t copies = 0;
  std::int64_t fills = 0;
  std::int64_t others = 0;
};

/// Returns such a graph, for measurements: its Capture writes to `nodes`, which
/// must outlive it.
using MakeCountedStepGraph = StepGraph* (*)(GraphNodes* nodes);

/// Name of the MakeCountedStepGraph function in libdtrain_trial_cuda.so.
inline constexpr char kMakeCountedStepGraph[] = "DtrainMakeCountedStepGraph";

/// Returns the NCCL backend of `rank` of `ranks`, on the first GPU of this
/// process, owned by the caller. The ranks find each other through `store`. An
/// operation that takes longer than `timeout` seconds ends the process; empty:
/// NCCL's default of 10 minutes. Throws c10::Error, also if dtrain, LibTorch
/// and NCCL do not fit together.
using MakeNcclBackend =
    c10d::Backend* (*)(const c10::intrusive_ptr<c10d::Store>& store, int rank,
                       int ranks, std::optional<double> timeout);

/// Name of the MakeNcclBackend function in libdtrain_trial_cuda.so; absent if
/// dtrain was built without NCCL's header.
inline constexpr char kMakeNcclBackend[] = "DtrainMakeNcclBackend";

}  // namespace dtrain
