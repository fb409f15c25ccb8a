#pragma once

#include "engine/kernels/conv_call.h"

namespace dtrain {

/// The same kernels, once for each kind of processor.
struct ConvKernels {
  const char* name;
  ptrdiff_t images_per_block;
  void (*forward)(const ConvForwardCall& call);
  void (*backward)(const ConvBackwardCall& call);
};

extern const ConvKernels kPortableConvKernels;
// Where DTRAIN_X86_KERNELS is defined.
extern const ConvKernels kAvx2ConvKernels;
extern const ConvKernels kAvx512ConvKernels;

}  // namespace dtrain
