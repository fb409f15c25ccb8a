#include "tests/bench/conv_bench.h"

#include <algorithm>
#include <array>
#include <chrono>
#include <cstdint>
#include <string>
#include <vector>

#include "engine/kernels/conv.h"
#include "engine/kernels/conv_kernels.h"

namespace dtrain {
namespace {

using nlohmann::json;

// A layer of a reference workload, at its batch.
struct Case {
  std::string name;
  ConvShape shape;
  std::int64_t images;
  bool first_layer;  // wants no gradient by its input
};

std::array<Case, 4> Cases() {
  const ConvShape lenet1{.in_channels = 1,
                         .height = 32,
                         .width = 32,
                         .out_channels = 6,
                         .kernel = 5};
  const ConvShape second{.in_channels = 6,
                         .height = 14,
                         .width = 14,
                         .out_channels = 16,
                         .kernel = 5};
  ConvShape cifar1 = lenet1;
  cifar1.in_channels = 3;
  return {Case{"lenet conv1", lenet1, 32, true},
          Case{"lenet conv2", second, 32, false},
          Case{"cifar10 conv1", cifar1, 256, true},
          Case{"cifar10 conv2", second, 256, false}};
}

std::vector<float> Noise(std::int64_t count) {
  std::vector<float> values(static_cast<std::size_t>(count));
  std::uint32_t state = 1;
  for (float& value : values) {
    state = state * 1664525 + 1013904223;
    value = static_cast<float>(state >> 8) / (1 << 23) - 1;
  }
  return values;
}

// The tensors of a layer, forward and backward.
struct Tensors {
  explicit Tensors(const Case& of)
      : input(Noise(of.images * of.shape.in_channels * of.shape.height *
                    of.shape.width)),
        weight(Noise(of.shape.out_channels * of.shape.in_channels *
                     of.shape.kernel * of.shape.kernel)),
        bias(Noise(of.shape.out_channels)),
        output(Noise(of.images * of.shape.out_channels *
                     of.shape.output_height() * of.shape.output_width())),
        grad_output(output),
        grad_input(of.first_layer ? 0 : input.size()),
        grad_weight(weight.size()),
        grad_bias(bias.size()),
        kept(of.shape.KeptBytes(of.images)) {}

  std::vector<float> input;
  std::vector<float> weight;
  std::vector<float> bias;
  std::vector<float> output;
  std::vector<float> grad_output;
  std::vector<float> grad_input;
  std::vector<float> grad_weight;
  std::vector<float> grad_bias;
  std::vector<std::uint8_t> kept;
};

// What a call takes, in milliseconds: the median, and the least, which tells
// more where other programs run.
template <typename Call>
json Times(const Call& call) {
  using Clock = std::chrono::steady_clock;
  std::vector<double> times(201);
  for (double& time : times) {
    const Clock::time_point start = Clock::now();
    call();
    time =
        std::chrono::duration<double, std::milli>(Clock::now() - start).count();
  }
  std::ranges::sort(times);
  return {{"ms_median", times[times.size() / 2]}, {"ms_least", times[0]}};
}

json Measure(const Case& of, const ConvKernels& kernels) {
  Tensors tensors(of);
  ConvScratch scratch;
  const ImageRange all{0, of.images};
  const ConvForwardData forward{.input = tensors.input.data(),
                                .weight = tensors.weight.data(),
                                .bias = tensors.bias.data(),
                                .output = tensors.output.data(),
                                .kept = tensors.kept.data()};
  const ConvBackwardData backward{
      .input = tensors.input.data(),
      .weight = tensors.weight.data(),
      .kept = tensors.kept.data(),
      .grad_output = tensors.grad_output.data(),
      .grad_input = of.first_layer ? nullptr : tensors.grad_input.data(),
      .grad_weight = tensors.grad_weight.data(),
      .grad_bias = tensors.grad_bias.data()};
  json times;
  times["forward"] =
      Times([&] { ConvForward(of.shape, forward, all, scratch, kernels); });
  times["backward"] =
      Times([&] { ConvBackward(of.shape, backward, all, scratch, kernels); });
  return times;
}

}  // namespace

json ConvTimes() {
  json times = json::object();
  for (const Case& of : Cases()) {
    json& row = times[of.name + ", batch " + std::to_string(of.images)];
    for (const ConvKernels* kernels : UsableConvKernels()) {
      row[NameOf(*kernels)] = Measure(of, *kernels);
    }
  }
  return times;
}

}  // namespace dtrain
