#pragma once

#include <stddef.h>
#include <stdint.h>

// What conv.cc hands to the kernels. Plain data without functions: the linker
// keeps one of the copies of an inline function, and the one compiled for AVX2
// must not become everyone's. Hence no header of C++ here, either.

namespace dtrain {

/// Sizes in elements, of a shape that was checked.
struct ConvSizes {
  ptrdiff_t in_channels;
  ptrdiff_t height;
  ptrdiff_t width;
  ptrdiff_t out_channels;
  ptrdiff_t kernel;
  ptrdiff_t padding;
  ptrdiff_t padded_height;
  ptrdiff_t padded_width;
  // Of the convolution; with pooling without what an odd size leaves over.
  ptrdiff_t rows;
  ptrdiff_t columns;
  // After pooling.
  ptrdiff_t output_height;
  ptrdiff_t output_width;
  bool relu;
  bool pool;
};

/// The pointers of conv.h, and where the kernels work. Blocks hold the same
/// pixel of several images side by side: [channel][row][column][image].
struct ConvForwardCall {
  ConvSizes sizes;
  const float* input;
  const float* weight;
  const float* bias;  // null: none
  float* output;
  uint8_t* kept;
  ptrdiff_t first;
  ptrdiff_t last;

  float* input_block;  // padded, InputBlockFloats()
  float* output_block;
  float* packed_weight;
};

struct ConvBackwardCall {
  ConvSizes sizes;
  const float* input;
  const float* weight;
  const uint8_t* kept;
  const float* grad_output;
  float* grad_input;
  float* grad_weight;
  float* grad_bias;
  ptrdiff_t first;
  ptrdiff_t last;

  float* input_block;        // padded
  float* grad_output_block;  // as it comes, before the pooling is undone
  float* grad_block;         // of the convolution, in a border of one zero
  float* grad_input_block;
  float* packed_weight;
  float* weight_sums;  // by image, as are bias_sums
  float* bias_sums;
};

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
