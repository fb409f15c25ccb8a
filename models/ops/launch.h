#pragma once

#include <string>

#include <c10/core/impl/VirtualGuardImpl.h>

#include "engine/base/error.h"

namespace dtrain {

/// Queues `job` on the current stream of a GPU by one of dtrain's CUDA kernels.
/// On a CPU, where tests put functions in place of kernels, there is no stream.
/// Throws Error(kFailed) with the cudaError_t.
template <typename Job>
void Launch(int (*kernel)(const Job* job, void* stream), const Job& job,
            c10::Device device) {
  void* stream = nullptr;
  if (device.is_cuda()) {
    stream = c10::impl::VirtualGuardImpl(device.type())
                 .getStream(device)
                 .native_handle();
  }
  const int error = kernel(&job, stream);
  if (error == 0) return;
  throw Error(ErrorKind::kFailed,
              "a kernel of dtrain failed on the GPU with CUDA error " +
                  std::to_string(error) + "; see the driver's log");
}

}  // namespace dtrain
