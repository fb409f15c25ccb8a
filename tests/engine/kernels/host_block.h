#pragma once

namespace dtrain {

/// A block of CUDA threads on the CPU (engine/kernels/thread_block.h): one
/// thread after the other, between two barriers. A kernel whose results depend
/// on their order has a race.
struct HostBlock {
  int threads = 1;
  bool is_reversed = false;

  template <typename Work>
  void ForEach(const Work& work) const {
    for (int i = 0; i < threads; ++i) {
      work(is_reversed ? threads - 1 - i : i);
    }
  }
};

}  // namespace dtrain
