#pragma once

#include <stddef.h>
#include <stdint.h>

// Arguments that conv.cc passes to the kernels. Plain data without inline
// functions, and no C++ headers: the linker keeps one copy of each inline
// function, and a copy compiled for AVX2 must not be used on other processors.

namespace dtrain {

struct ConvShape;

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
  // The convolution's output; with pooling, without an odd last row and column.
  ptrdiff_t rows;
  ptrdiff_t columns;
  // After pooling.
  ptrdiff_t output_height;
  ptrdiff_t output_width;
  bool relu;
  bool pool;
};

ConvSizes ToConvSizes(const ConvShape& shape);

/// The pointers of conv.h, and working memory. Blocks hold the same pixel of
/// several images next to each other: [channel][row][column][image].
struct ConvForwardCall {
  ConvSizes sizes;
  const float* input;
  const float* weight;
  const float* bias;  // may be null
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
  float* grad_output_block;  // gradient of the pooled output
  float* grad_block;         // gradient of the convolution, zero border of 1
  float* grad_input_block;
  float* packed_weight;
  float* weight_sums;  // by image, like bias_sums
  float* bias_sums;
};

/// The kernels for one kind of processor.
struct ConvKernels {
  const char* name;
  ptrdiff_t images_per_block;
  void (*forward)(const ConvForwardCall& call);
  void (*backward)(const ConvBackwardCall& call);
};

extern const ConvKernels kPortableConvKernels;
// Defined with DTRAIN_X86_KERNELS only.
extern const ConvKernels kAvx2ConvKernels;
extern const ConvKernels kAvx512ConvKernels;

}  // namespace dtrain
