// Compiled for AVX-512: see conv_avx2.cc.

#define DTRAIN_LANES 16

#include "engine/kernels/conv_backward.h"
#include "engine/kernels/conv_call.h"
#include "engine/kernels/conv_forward.h"

namespace dtrain {

const ConvKernels kAvx512ConvKernels = {"avx512", kLanes, Forward, Backward};

}  // namespace dtrain
