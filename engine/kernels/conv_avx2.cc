// Compiled for AVX2 and FMA. No inline function of another header may be used
// here: the linker could choose this copy of it for processors that have
// neither.

#define DTRAIN_CONV_LANES 8

#include "engine/kernels/conv_backward.h"
#include "engine/kernels/conv_forward.h"
#include "engine/kernels/conv_kernels.h"

namespace dtrain {

const ConvKernels kAvx2ConvKernels = {"avx2", Forward, Backward};

}  // namespace dtrain
