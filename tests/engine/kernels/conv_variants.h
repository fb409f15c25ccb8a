#pragma once

#include <algorithm>
#include <string>

#include <gtest/gtest.h>

#include "engine/kernels/conv.h"
#include "tests/engine/kernels/conv_on_host.h"

namespace dtrain {

/// A test that runs by every variant of the kernels, whose name is its
/// parameter: "cuda" are those of GPUs, thread by thread, on the CPU. It is
/// skipped where the processor cannot run the variant.
class ConvVariantTest : public testing::TestWithParam<std::string> {
 protected:
  void SetUp() override {
    if (GetParam() == kCudaConvKernels.name) {
      kernels_ = &kCudaConvKernels;
      return;
    }
    const auto usable = UsableConvKernels();
    const auto found = std::ranges::find(
        usable, GetParam(),
        [](const ConvKernels* one) { return std::string(KernelsName(*one)); });
    if (found == usable.end()) {
      GTEST_SKIP() << "this processor cannot run the kernels '" << GetParam()
                   << "'";
    }
    kernels_ = *found;
  }

  const ConvKernels& kernels() const { return *kernels_; }

 private:
  const ConvKernels* kernels_ = nullptr;
};

inline auto ConvVariants() {
  return testing::Values("portable", "avx2", "avx512", "cuda");
}

inline std::string ConvVariantName(
    const testing::TestParamInfo<std::string>& info) {
  return info.param;
}

}  // namespace dtrain
