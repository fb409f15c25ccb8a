#pragma once

#include <functional>

#include <c10/util/intrusive_ptr.h>

namespace c10d {
class Backend;
class Store;
}  // namespace c10d

namespace dtrain {

/// Work for a device, recorded once and asked for again at the cost of one
/// call: a CUDA graph. Tests have one that records LibTorch's operations.
class StepGraph {
 public:
  virtual ~StepGraph() = default;

  /// Records what `work` asks the device for; none of it is done. What the host
  /// does meanwhile is done once, and is in no replay. Throws c10::Error for
  /// work that cannot be recorded, such as reading a value from the device, and
  /// what `work` throws; then the device is as before.
  virtual void Capture(const std::function<void()>& work) = 0;

  /// Asks for all of it again, on the memory that it was recorded with. Random
  /// numbers go on where they are. Does not wait. REQUIRES: captured.
  virtual void Replay() = 0;
};

/// Makes one for the current stream of this process's first GPU; the caller
/// owns it.
using MakeStepGraph = StepGraph* (*)();

/// Its name in libdtrain_trial_cuda.so.
inline constexpr char kMakeStepGraph[] = "DtrainMakeStepGraph";

/// Makes the part of `rank` of `ranks` in their collectives over NCCL, on the
/// GPU that is this process's first. They find each other by `store`. The
/// caller owns what comes back. Throws c10::Error.
using MakeNcclBackend =
    c10d::Backend* (*)(const c10::intrusive_ptr<c10d::Store>& store, int rank,
                       int ranks);

/// Its name in libdtrain_trial_cuda.so, which has it where that was built with
/// NCCL's header at hand.
inline constexpr char kMakeNcclBackend[] = "DtrainMakeNcclBackend";

}  // namespace dtrain
