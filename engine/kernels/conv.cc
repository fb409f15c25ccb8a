// Convolution with ReLU and pooling on CPUs: checks, memory and choice of
// kernels. The loops are in conv_forward.h and conv_backward.h, which
// conv_portable.cc, conv_avx2.cc and conv_avx512.cc compile for vectors of
// different widths.
//
// Images are processed in blocks whose number depends on the width of vectors.
// A call gets a range of whole blocks and works in a scratch of its own, so
// that threads share nothing but their inputs. Divide lays out the scratch
// twice with the same code: first without memory, to count the floats, and then
// to set the pointers.
//
// Forward keeps, for backward, one byte for each output: which pixel of a
// pooling window was the largest and whether ReLU let it pass.

#include "engine/kernels/conv.h"

#include <algorithm>
#include <cassert>
#include <new>
#include <string>
#include <vector>

#include "engine/base/error.h"
#include "engine/kernels/conv_call.h"

namespace dtrain {
namespace {

constexpr std::align_val_t kAlignment{64};
// Maximum over all kernels: memory is allocated for this.
constexpr std::int64_t kMaxImagesPerBlock = 16;

std::int64_t ConvolvedSize(std::int64_t size, const ConvShape& shape) {
  return size + 2 * shape.padding - shape.kernel + 1;
}

std::int64_t OutputSize(std::int64_t size, const ConvShape& shape) {
  return ConvolvedSize(size, shape) / (shape.pool ? 2 : 1);
}

// Sizes of the parts of a scratch, in floats.
std::size_t BlockFloats(std::int64_t channels, std::int64_t height,
                        std::int64_t width) {
  return static_cast<std::size_t>(channels * height * width *
                                  kMaxImagesPerBlock);
}

// Includes what 2x2 pixels may touch beyond an odd row or column.
std::size_t InputBlockFloats(const ConvSizes& sizes) {
  return BlockFloats(sizes.in_channels, sizes.padded_height,
                     sizes.padded_width) +
         BlockFloats(1, 1, sizes.padded_width + 2);
}

std::size_t OutputBlockFloats(const ConvSizes& sizes) {
  return BlockFloats(sizes.out_channels, sizes.output_height,
                     sizes.output_width);
}

std::size_t WeightFloats(const ConvSizes& sizes) {
  return static_cast<std::size_t>(sizes.out_channels * sizes.in_channels *
                                  sizes.kernel * sizes.kernel);
}

// Layout of a scratch. Each part requests its floats: first to compute the
// total, then to get the pointers.
class Parts {
 public:
  explicit Parts(float* memory) : memory_(memory) {}

  float* Next(std::size_t count) {
    const std::size_t at = used_;
    used_ += (count + 15) / 16 * 16;  // keeps the alignment
    return memory_ == nullptr ? nullptr : memory_ + at;
  }
  std::size_t used() const { return used_; }

 private:
  float* memory_;
  std::size_t used_ = 0;
};

std::size_t Divide(float* memory, ConvForwardCall& call) {
  Parts parts(memory);
  call.input_block = parts.Next(InputBlockFloats(call.sizes));
  call.output_block = parts.Next(OutputBlockFloats(call.sizes));
  call.packed_weight = parts.Next(WeightFloats(call.sizes));
  return parts.used();
}

std::size_t GradBlockFloats(const ConvSizes& sizes) {
  return BlockFloats(sizes.out_channels, sizes.rows + 2, sizes.columns + 2);
}

std::size_t Divide(float* memory, ConvBackwardCall& call) {
  const ConvSizes& sizes = call.sizes;
  Parts parts(memory);
  call.input_block = parts.Next(InputBlockFloats(sizes));
  call.grad_output_block = parts.Next(OutputBlockFloats(sizes));
  call.grad_block = parts.Next(GradBlockFloats(sizes));
  call.grad_input_block =
      parts.Next(BlockFloats(sizes.in_channels, sizes.height, sizes.width));
  call.packed_weight = parts.Next(WeightFloats(sizes));
  call.weight_sums = parts.Next(WeightFloats(sizes) * kMaxImagesPerBlock);
  call.bias_sums = parts.Next(BlockFloats(sizes.out_channels, 1, 1));
  return parts.used();
}

[[maybe_unused]] bool IsRange(ImageRange range, const ConvKernels& kernels) {
  return range.first >= 0 && range.first % kernels.images_per_block == 0;
}

// Kernels of this machine, the widest last. The choice is made at run time, so
// that one build runs everywhere.
std::vector<const ConvKernels*> FindUsable() {
  std::vector<const ConvKernels*> usable = {&kPortableConvKernels};
#ifdef DTRAIN_X86_KERNELS
  if (!__builtin_cpu_supports("avx2") || !__builtin_cpu_supports("fma")) {
    return usable;
  }
  usable.push_back(&kAvx2ConvKernels);
  if (__builtin_cpu_supports("avx512f") && __builtin_cpu_supports("avx512bw") &&
      __builtin_cpu_supports("avx512dq") &&
      __builtin_cpu_supports("avx512vl")) {
    usable.push_back(&kAvx512ConvKernels);
  }
#endif
  return usable;
}

[[noreturn]] void ThrowShape(const std::string& what) {
  throw Error(ErrorKind::kUsage, "convolution: " + what);
}

}  // namespace

std::int64_t ConvShape::output_height() const {
  return OutputSize(height, *this);
}

std::int64_t ConvShape::output_width() const {
  return OutputSize(width, *this);
}

ConvSizes ToConvSizes(const ConvShape& shape) {
  ConvSizes sizes{};
  sizes.in_channels = shape.in_channels;
  sizes.height = shape.height;
  sizes.width = shape.width;
  sizes.out_channels = shape.out_channels;
  sizes.kernel = shape.kernel;
  sizes.padding = shape.padding;
  sizes.padded_height = shape.height + 2 * shape.padding;
  sizes.padded_width = shape.width + 2 * shape.padding;
  sizes.output_height = shape.output_height();
  sizes.output_width = shape.output_width();
  sizes.rows = sizes.output_height * (shape.pool ? 2 : 1);
  sizes.columns = sizes.output_width * (shape.pool ? 2 : 1);
  sizes.relu = shape.relu;
  sizes.pool = shape.pool;
  return sizes;
}

std::size_t ConvShape::KeptBytes(std::int64_t images) const {
  if (!relu && !pool) return 0;
  const std::int64_t blocks =
      (images + kMaxImagesPerBlock - 1) / kMaxImagesPerBlock;
  return static_cast<std::size_t>(blocks) *
         BlockFloats(out_channels, output_height(), output_width());
}

void CheckConvShape(const ConvShape& shape) {
  const std::int64_t least =
      std::min({shape.in_channels, shape.height, shape.width,
                shape.out_channels, shape.kernel});
  if (least < 1) {
    ThrowShape(
        "channels, height, width and kernel must be at least 1, one is " +
        std::to_string(least));
  }
  if (shape.padding < 0) {
    ThrowShape("padding must not be negative, is " +
               std::to_string(shape.padding));
  }
  if (std::min(shape.output_height(), shape.output_width()) < 1 ||
      ConvolvedSize(std::min(shape.height, shape.width), shape) < 1) {
    ThrowShape(
        "nothing is left of an image of " + std::to_string(shape.height) + "x" +
        std::to_string(shape.width) + " with kernel " +
        std::to_string(shape.kernel) + ", padding " +
        std::to_string(shape.padding) + (shape.pool ? " and pooling" : "") +
        "; choose a smaller kernel or more padding");
  }
}

float* ConvScratch::Floats(std::size_t count) {
  if (count > count_) {
    memory_.reset();
    count_ = 0;
    memory_.reset(static_cast<float*>(
        ::operator new[](count * sizeof(float), kAlignment)));
    count_ = count;
  }
  return memory_.get();
}

void ConvScratch::Free::operator()(float* memory) const {
  ::operator delete[](memory, kAlignment);
}

std::span<const ConvKernels* const> UsableConvKernels() {
  static const std::vector<const ConvKernels*> usable = FindUsable();
  return usable;
}

const ConvKernels& BestConvKernels() { return *UsableConvKernels().back(); }

const char* KernelsName(const ConvKernels& kernels) { return kernels.name; }

std::int64_t ImagesPerBlock(const ConvKernels& kernels) {
  return kernels.images_per_block;
}

void ConvForward(const ConvShape& shape, const ConvForwardData& data,
                 ImageRange range, ConvScratch& scratch,
                 const ConvKernels& kernels) {
  if (range.first >= range.last) return;
  assert(IsRange(range, kernels));
  ConvForwardCall call{};
  call.sizes = ToConvSizes(shape);
  call.input = data.input;
  call.weight = data.weight;
  call.bias = shape.bias ? data.bias : nullptr;
  call.output = data.output;
  call.kept = data.kept;
  call.first = range.first;
  call.last = range.last;
  Divide(scratch.Floats(Divide(nullptr, call)), call);
  std::fill_n(call.input_block, InputBlockFloats(call.sizes), 0.0F);
  kernels.forward(call);
}

void ConvBackward(const ConvShape& shape, const ConvBackwardData& data,
                  ImageRange range, ConvScratch& scratch,
                  const ConvKernels& kernels) {
  if (range.first >= range.last) return;
  assert(IsRange(range, kernels));
  ConvBackwardCall call{};
  call.sizes = ToConvSizes(shape);
  call.input = data.input;
  call.weight = data.weight;
  call.kept = data.kept;
  call.grad_output = data.grad_output;
  call.grad_input = data.grad_input;
  call.grad_weight = data.grad_weight;
  call.grad_bias = data.grad_bias;
  call.first = range.first;
  call.last = range.last;
  Divide(scratch.Floats(Divide(nullptr, call)), call);
  std::fill_n(call.input_block, InputBlockFloats(call.sizes), 0.0F);
  if (call.grad_input != nullptr) {
    std::fill_n(call.grad_block, GradBlockFloats(call.sizes), 0.0F);
  }
  std::fill_n(call.weight_sums, WeightFloats(call.sizes) * kMaxImagesPerBlock,
              0.0F);
  std::fill_n(call.bias_sums, BlockFloats(call.sizes.out_channels, 1, 1), 0.0F);
  kernels.backward(call);
}

}  // namespace dtrain
