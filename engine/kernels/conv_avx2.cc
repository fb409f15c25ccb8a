// Compiled for AVX2 and FMA, like conv_avx512.cc for AVX-512. Must not use
// inline functions of other headers: the linker could choose this copy of them
// for processors without these instructions.

#define DTRAIN_LANES 8

#include "engine/kernels/conv_backward.h"
#include "engine/kernels/conv_call.h"
#include "engine/kernels/conv_forward.h"

namespace dtrain {

const ConvKernels kAvx2ConvKernels = {"avx2", kLanes, Forward, Backward};

}  // namespace dtrain
