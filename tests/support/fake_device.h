#pragma once

#include <cstddef>
#include <functional>

#include <c10/core/Stream.h>
#include <torch/types.h>

namespace dtrain {

/// An accelerator for tests without a GPU, behind LibTorch's interface for
/// private devices. Its memory is the host's; work is queued on streams and
/// runs only when something waits for it, so that a missing dependency between
/// two streams, or memory that is freed or overwritten too early, shows as
/// wrong data. Copies from the host are queued on the current stream. One for
/// the process; not thread-safe.
class FakeDevice {
 public:
  static torch::Device device() {
    return torch::Device(torch::kPrivateUse1, 0);
  }

  /// Makes the device new: no queued work, no failure.
  static void Reset();
  /// Queues work on the current stream.
  static void Launch(std::function<void()> work);
  /// Runs the queued work of stream `id` as far as its dependencies allow.
  static void RunAhead(c10::StreamId id);
  /// Runs all queued work.
  static void Synchronize();
  /// Pieces of work on the current stream that have not run.
  static std::size_t pending();
  /// Copies that waited for all queued work.
  static int waits();
  /// True if record_stream was called for memory that is not freed yet.
  static bool has_tied_memory();
  /// From now on, every call throws c10::Error, as after a device-side
  /// assertion; so does freeing memory that record_stream was called for, in a
  /// destructor, which ends the process.
  static void Fail();
};

}  // namespace dtrain
