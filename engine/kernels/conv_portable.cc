#define DTRAIN_LANES 4

#include "engine/kernels/conv_backward.h"
#include "engine/kernels/conv_call.h"
#include "engine/kernels/conv_forward.h"

namespace dtrain {

const ConvKernels kPortableConvKernels = {"portable", kLanes, Forward,
                                          Backward};

}  // namespace dtrain
