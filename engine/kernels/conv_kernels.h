#pragma once

#include "engine/kernels/conv_call.h"

namespace dtrain {

/// The same kernels, once for each kind of processor.
struct ConvKernels {
  const char* name;
  void (*forward)(const ConvForwardCall& call);
  void (*backward)(const ConvBackwardCall& call);
};

extern const ConvKernels kPortableConvKernels;
extern const ConvKernels kAvx2ConvKernels;  // where DTRAIN_CONV_AVX2 is defined

}  // namespace dtrain
