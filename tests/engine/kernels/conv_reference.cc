#include "tests/engine/kernels/conv_reference.h"

#include <algorithm>
#include <cmath>
#include <limits>
#include <random>

namespace dtrain {
namespace {

std::vector<float> Values(std::int64_t count, Draw draw, std::mt19937& random) {
  std::vector<float> values(static_cast<std::size_t>(count));
  for (float& value : values) {
    const auto bits = static_cast<int>(random() % (1 << 20));
    const float real = static_cast<float>(bits) / (1 << 20);
    value = draw == Draw::kGrid   ? static_cast<float>(bits % 17 - 8) / 8.0F
            : draw == Draw::kReal ? 2 * real - 1
                                  : real;
  }
  return values;
}

// The plain loops: one object for a layer and its images.
class Reference {
 public:
  Reference(const ConvShape& shape, std::int64_t images,
            const ConvTensors<float>& tensors)
      : shape_(shape),
        images_(images),
        rows_(shape.height + 2 * shape.padding - shape.kernel + 1),
        columns_(shape.width + 2 * shape.padding - shape.kernel + 1),
        t_(Widened(tensors)) {}

  ConvTensors<double> Run() {
    std::ranges::fill(t_.output, 0.0);
    std::ranges::fill(t_.grad_input, 0.0);
    for (std::int64_t n = 0; n < images_; ++n) {
      for (std::int64_t o = 0; o < shape_.out_channels; ++o) Plane(n, o);
    }
    return std::move(t_);
  }

 private:
  // One output channel of one image, forward and backward.
  void Plane(std::int64_t n, std::int64_t o) {
    std::vector<double> sums;
    for (std::int64_t y = 0; y < rows_; ++y) {
      for (std::int64_t x = 0; x < columns_; ++x) {
        double sum = shape_.bias ? t_.bias[o] : 0.0;
        ForEachProduct(n, o, y, x, [&](std::int64_t from, std::int64_t weight) {
          sum += t_.input[from] * t_.weight[weight];
        });
        // `!(sum > 0)` would close at NaN.
        sums.push_back(shape_.relu && sum <= 0 ? 0.0 : sum);
      }
    }
    const std::int64_t step = shape_.pool ? 2 : 1;
    for (std::int64_t y = 0; y < shape_.output_height(); ++y) {
      for (std::int64_t x = 0; x < shape_.output_width(); ++x) {
        const std::int64_t out =
            ((n * shape_.out_channels + o) * shape_.output_height() + y) *
                shape_.output_width() +
            x;
        Pixel(n, o, y * step, x * step, sums, out);
      }
    }
  }

  void Pixel(std::int64_t n, std::int64_t o, std::int64_t y, std::int64_t x,
             const std::vector<double>& sums, std::int64_t out) {
    double best = -std::numeric_limits<double>::infinity();
    std::int64_t best_y = y;
    std::int64_t best_x = x;
    const std::int64_t window = shape_.pool ? 2 : 1;
    for (std::int64_t i = 0; i < window * window; ++i) {
      const double value = sums[(y + i / window) * columns_ + x + i % window];
      if (!(value > best || std::isnan(value))) continue;
      best = value;
      best_y = y + i / window;
      best_x = x + i % window;
    }
    t_.output[out] = best;
    const double gradient =
        shape_.relu && best <= 0 ? 0.0 : t_.grad_output[out];
    t_.grad_bias[o] += gradient;
    ForEachProduct(n, o, best_y, best_x,
                   [&](std::int64_t from, std::int64_t weight) {
                     t_.grad_input[from] += gradient * t_.weight[weight];
                     t_.grad_weight[weight] += gradient * t_.input[from];
                   });
  }

  // Calls with the places in input and weight that pixel (y, x) is made of.
  template <typename Call>
  void ForEachProduct(std::int64_t n, std::int64_t o, std::int64_t y,
                      std::int64_t x, const Call& call) const {
    const std::int64_t k = shape_.kernel;
    for (std::int64_t c = 0; c < shape_.in_channels; ++c) {
      for (std::int64_t i = 0; i < k * k; ++i) {
        const std::int64_t row = y + i / k - shape_.padding;
        const std::int64_t column = x + i % k - shape_.padding;
        if (row < 0 || row >= shape_.height) continue;
        if (column < 0 || column >= shape_.width) continue;
        const std::int64_t plane = n * shape_.in_channels + c;
        call((plane * shape_.height + row) * shape_.width + column,
             (o * shape_.in_channels + c) * k * k + i);
      }
    }
  }

  const ConvShape& shape_;
  std::int64_t images_;
  std::int64_t rows_;
  std::int64_t columns_;
  ConvTensors<double> t_;
};

std::vector<double> Widen(const std::vector<float>& values) {
  return {values.begin(), values.end()};
}

}  // namespace

ConvTensors<double> Widened(const ConvTensors<float>& tensors) {
  return {.input = Widen(tensors.input),
          .weight = Widen(tensors.weight),
          .bias = Widen(tensors.bias),
          .output = Widen(tensors.output),
          .grad_output = Widen(tensors.grad_output),
          .grad_input = Widen(tensors.grad_input),
          .grad_weight = Widen(tensors.grad_weight),
          .grad_bias = Widen(tensors.grad_bias)};
}

ConvTensors<float> DrawTensors(const ConvShape& shape, std::int64_t images,
                               Draw draw, unsigned seed) {
  std::mt19937 random(seed);
  const std::int64_t in =
      images * shape.in_channels * shape.height * shape.width;
  const std::int64_t out = images * shape.out_channels * shape.output_height() *
                           shape.output_width();
  ConvTensors<float> tensors;
  tensors.input = Values(in, draw, random);
  tensors.weight = Values(
      shape.out_channels * shape.in_channels * shape.kernel * shape.kernel,
      draw, random);
  tensors.bias = Values(shape.out_channels, draw, random);
  tensors.grad_output = Values(out, draw, random);
  tensors.output.assign(tensors.grad_output.size(), 0.0F);
  tensors.grad_input.assign(tensors.input.size(), 0.0F);
  tensors.grad_weight.assign(tensors.weight.size(), 1.0F);
  tensors.grad_bias.assign(tensors.bias.size(), 1.0F);
  return tensors;
}

ConvTensors<double> ReferenceConv(const ConvShape& shape, std::int64_t images,
                                  const ConvTensors<float>& tensors) {
  return Reference(shape, images, tensors).Run();
}

void RunConv(const ConvShape& shape, std::int64_t images,
             const ConvKernels& kernels, ConvTensors<float>& tensors) {
  // Exactly this size, so that a sanitizer detects an overrun by one byte.
  std::vector<std::uint8_t> kept(shape.KeptBytes(images));
  ConvScratch scratch;
  ConvForward(shape,
              {.input = tensors.input.data(),
               .weight = tensors.weight.data(),
               .bias = tensors.bias.data(),
               .output = tensors.output.data(),
               .kept = kept.data()},
              {0, images}, scratch, kernels);
  ConvBackward(shape,
               {.input = tensors.input.data(),
                .weight = tensors.weight.data(),
                .kept = kept.data(),
                .grad_output = tensors.grad_output.data(),
                .grad_input = tensors.grad_input.data(),
                .grad_weight = tensors.grad_weight.data(),
                .grad_bias = tensors.grad_bias.data()},
               {0, images}, scratch, kernels);
}

double Difference(const std::vector<float>& values,
                  const std::vector<double>& expected) {
  if (values.size() != expected.size()) return INFINITY;
  double largest = 0;
  double most = 1e-30;
  for (std::size_t i = 0; i < values.size(); ++i) {
    if (std::isnan(values[i]) != std::isnan(expected[i])) return INFINITY;
    if (std::isnan(expected[i])) continue;
    largest = std::max(largest, std::abs(values[i] - expected[i]));
    most = std::max(most, std::abs(expected[i]));
  }
  return largest / most;
}

double Difference(const ConvTensors<float>& values,
                  const ConvTensors<double>& expected) {
  return std::max({Difference(values.output, expected.output),
                   Difference(values.grad_input, expected.grad_input),
                   Difference(values.grad_weight, expected.grad_weight),
                   Difference(values.grad_bias, expected.grad_bias)});
}

}  // namespace dtrain
