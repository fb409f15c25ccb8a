#pragma once

#include <cstddef>
#include <cstdint>
#include <memory>
#include <span>

namespace dtrain {

/// A convolution of stride 1, alone or with what may follow it: ReLU, then max
/// pooling of 2x2 with stride 2. Float32, PyTorch's contiguous NCHW throughout.
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

  /// What the output measures. Pooling drops an odd last row and column.
  std::int64_t output_height() const;
  std::int64_t output_width() const;

  /// How many bytes of `kept` a batch of `images` needs; 0 without ReLU and
  /// pooling.
  std::size_t KeptBytes(std::int64_t images) const;
};

/// Throws Error(kUsage) that names what is wrong with a shape: a size below 1,
/// a kernel larger than the padded image, an output without pixels.
void CheckConvShape(const ConvShape& shape);

/// The images [first, last) of a batch. Batch pointers below are to image 0.
/// `first` is a multiple of ImagesPerBlock(); `last` best is, too.
struct ImageRange {
  std::int64_t first = 0;
  std::int64_t last = 0;
};

struct ConvForwardData {
  const float* input = nullptr;   // [images, in_channels, height, width]
  const float* weight = nullptr;  // [out_channels, in_channels, kernel, kernel]
  const float* bias = nullptr;    // [out_channels]; unread without bias
  float* output = nullptr;  // [images, out_channels, output_height, -_width]
  /// For ConvBackward by the same kernels: KeptBytes() bytes of a layout of
  /// their own. Null: no gradient will be asked for.
  std::uint8_t* kept = nullptr;
};

struct ConvBackwardData {
  const float* input = nullptr;        // as in forward
  const float* weight = nullptr;       // as in forward
  const std::uint8_t* kept = nullptr;  // as forward left it
  const float* grad_output = nullptr;  // shaped as output
  float* grad_input =
      nullptr;  // shaped as input, overwritten; null: not wanted
  /// Shaped as weight and bias. The sum over the range is added to what stands
  /// there. Null: not wanted.
  float* grad_weight = nullptr;
  float* grad_bias = nullptr;
};

/// Working memory of one thread, which grows to what its largest call needs and
/// is best kept from step to step.
class ConvScratch {
 public:
  /// At least `count` floats, aligned for vectors; their values are arbitrary.
  /// Valid until the next call.
  float* Floats(std::size_t count);

 private:
  struct Free {
    void operator()(float* memory) const;
  };
  std::unique_ptr<float[], Free> memory_;
  std::size_t count_ = 0;
};

struct ConvKernels;

/// Those that run on this processor, from the one that runs everywhere to the
/// fastest: "portable", "avx2" (with FMA), "avx512". Every thread may ask.
std::span<const ConvKernels* const> UsableConvKernels();
/// The fastest.
const ConvKernels& BestConvKernels();
const char* NameOf(const ConvKernels& kernels);

/// How many images they take at a time.
std::int64_t ImagesPerBlock(const ConvKernels& kernels = BestConvKernels());

/// What either does is what PyTorch does: of equal values in a window the first
/// in reading order is the maximum, NaN passes through ReLU and pooling, and
/// ReLU lets no gradient through at 0.
///
/// Any threads may call them at once, each for a range and with a scratch of
/// its own. An image's output, `kept` and grad_input do not depend on the range
/// it is in. The sums of grad_weight and grad_bias depend on how the batch is
/// divided, by rounding, but on nothing else: callers that give each range
/// gradients of its own, zero at first, and add these up in the order of the
/// ranges get the same bits however many threads there are.
///
/// REQUIRES: a shape that CheckConvShape accepts; pointers aligned for floats.
void ConvForward(const ConvShape& shape, const ConvForwardData& data,
                 ImageRange range, ConvScratch& scratch,
                 const ConvKernels& kernels = BestConvKernels());
void ConvBackward(const ConvShape& shape, const ConvBackwardData& data,
                  ImageRange range, ConvScratch& scratch,
                  const ConvKernels& kernels = BestConvKernels());

}  // namespace dtrain
