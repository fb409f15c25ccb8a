#pragma once

#include <cstddef>
#include <cstdint>
#include <memory>
#include <span>

namespace dtrain {

/// A convolution of stride 1, optionally followed by ReLU and by 2x2 max
/// pooling with stride 2. Float32, PyTorch's contiguous NCHW layout throughout.
struct ConvShape {
  std::int64_t in_channels = 1;
  std::int64_t height = 1;
  std::int64_t width = 1;
  std::int64_t out_channels = 1;
  std::int64_t kernel = 1;   // as high as wide
  std::int64_t padding = 0;  // zeros on each of the four sides
  bool bias = true;
  bool relu = true;
  bool pool = true;

  /// Size of the output in pixels. Pooling drops an odd last row and column.
  std::int64_t output_height() const;
  std::int64_t output_width() const;

  /// Size of `kept` for a batch of `images`, in bytes; 0 without ReLU and
  /// pooling.
  std::size_t KeptBytes(std::int64_t images) const;
};

/// Throws Error(kUsage) that names the problem of an invalid shape: a size
/// below 1, a kernel larger than the padded image, an output without pixels.
void CheckConvShape(const ConvShape& shape);

/// Images [first, last) of a batch. The batch pointers below are to image 0.
/// `first` is a multiple of ImagesPerBlock(); `last` should be one, too.
struct ImageRange {
  std::int64_t first = 0;
  std::int64_t last = 0;
};

struct ConvForwardData {
  const float* input = nullptr;   // [images, in_channels, height, width]
  const float* weight = nullptr;  // [out_channels, in_channels, kernel, kernel]
  const float* bias = nullptr;    // [out_channels]; unread without bias
  float* output = nullptr;  // [images, out_channels, output_height, -_width]
  /// For ConvBackward with the same kernels: KeptBytes() bytes in an internal
  /// layout. Null: no gradient is needed.
  std::uint8_t* kept = nullptr;
};

struct ConvBackwardData {
  const float* input = nullptr;        // as in forward
  const float* weight = nullptr;       // as in forward
  const std::uint8_t* kept = nullptr;  // as forward left it
  const float* grad_output = nullptr;  // shaped as output
  float* grad_input =
      nullptr;  // shaped as input, overwritten; null: not wanted
  /// Shaped as weight and bias. The sum over the range is added to their
  /// contents. Null: not needed.
  float* grad_weight = nullptr;
  float* grad_bias = nullptr;
};

/// Working memory of one thread. Grows to the needs of its largest call; keep
/// it from step to step.
class ConvScratch {
 public:
  /// At least `count` floats with arbitrary values, aligned for vectors. Valid
  /// until the next call.
  float* Floats(std::size_t count);

 private:
  struct Free {
    void operator()(float* memory) const;
  };
  std::unique_ptr<float[], Free> memory_;
  std::size_t count_ = 0;
};

struct ConvKernels;

/// Kernels supported by this processor, from the most portable to the fastest:
/// "portable", "avx2" (with FMA), "avx512". Thread-safe.
std::span<const ConvKernels* const> UsableConvKernels();
/// The fastest of these.
const ConvKernels& BestConvKernels();
const char* KernelsName(const ConvKernels& kernels);

/// Number of images processed at a time.
std::int64_t ImagesPerBlock(const ConvKernels& kernels = BestConvKernels());

/// Forward and backward pass, with the semantics of PyTorch: of equal values in
/// a pooling window the first in reading order is the maximum, NaN passes
/// through ReLU and pooling, and ReLU has gradient 0 at 0.
///
/// Thread-safe, if each call has a scratch of its own. The output, `kept` and
/// grad_input of an image do not depend on the range. The sums of grad_weight
/// and grad_bias depend on the division of the batch into ranges, by rounding,
/// but on nothing else: callers that give each range its own gradients,
/// initially zero, and add these up in the order of the ranges get the same
/// bits with any number of threads.
///
/// REQUIRES: a shape that CheckConvShape accepts; pointers aligned for floats.
void ConvForward(const ConvShape& shape, const ConvForwardData& data,
                 ImageRange range, ConvScratch& scratch,
                 const ConvKernels& kernels = BestConvKernels());
void ConvBackward(const ConvShape& shape, const ConvBackwardData& data,
                  ImageRange range, ConvScratch& scratch,
                  const ConvKernels& kernels = BestConvKernels());

}  // namespace dtrain
