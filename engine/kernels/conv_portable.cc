#define DTRAIN_LANES 4

#include "engine/kernels/conv_backward.h"
#include "engine/kernels/conv_forward.h"
#include "engine/kernels/conv_kernels.h"

namespace dtrain {

const ConvKernels kPortableConvKernels = {"portable", kLanes, Forward,
                                          Backward};

}  // namespace dtrain
