#include <cstdio>

#include <dlfcn.h>

#include <gtest/gtest.h>
#include <torch/cuda.h>

#include "engine/train/device.h"

// One process for all tests, on one GPU, as a trial's is.
int main(int argc, char** argv) {
  testing::InitGoogleTest(&argc, argv);
  if (::dlopen(DTRAIN_CUDA_HALF, RTLD_NOW | RTLD_GLOBAL) == nullptr) {
    std::fprintf(stderr, "gpu_test: %s\n", ::dlerror());
    return 1;
  }
  if (!torch::cuda::is_available()) {
    std::fprintf(stderr,
                 "gpu_test: there is no GPU that LibTorch can use; these tests "
                 "are for a machine that has one\n");
    return 1;
  }
  dtrain::TrialSpec spec;
  spec.gpus = {0};
  dtrain::OpenDevice(spec);
  return RUN_ALL_TESTS();
}
