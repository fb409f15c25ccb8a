// Compiled for AVX2 and FMA, as conv_avx512.cc for AVX-512. No inline function
// of another header may be used here: the linker could choose this copy of it
// for processors that have neither.

#define DTRAIN_LANES 8

#include "engine/kernels/conv_backward.h"
#include "engine/kernels/conv_call.h"
#include "engine/kernels/conv_forward.h"

namespace dtrain {

const ConvKernels kAvx2ConvKernels = {"avx2", kLanes, Forward, Backward};

}  // namespace dtrain
