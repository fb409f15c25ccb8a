#include "tests/bench/compute_bench.h"

#include <algorithm>
#include <array>
#include <chrono>
#include <cstddef>
#include <exception>
#include <functional>
#include <iostream>
#include <memory>
#include <string>
#include <utility>
#include <vector>

#include <sys/wait.h>
#include <unistd.h>

#include "engine/base/error.h"
#include "engine/base/rng.h"
#include "engine/image/cached_images.h"
#include "engine/image/image_file.h"
#include "engine/image/image_folder.h"
#include "engine/image/resize.h"
#include "engine/image/transforms.h"
#include "engine/kernels/conv.h"
#include "engine/kernels/conv_call.h"
#include "engine/os/files.h"
#include "engine/os/system_error.h"
#include "engine/ranks/shared_collectives.h"
#include "engine/ranks/shared_memory.h"
#include "tests/support/patience.h"

namespace dtrain {
namespace {

using nlohmann::json;
using std::chrono::steady_clock;

double ToMilliseconds(std::chrono::nanoseconds duration) {
  return std::chrono::duration<double, std::milli>(duration).count();
}

// --- Sum over ranks

constexpr int kWarmUps = 3;
constexpr int kSums = 31;

// Sums with all other ranks; returns the times of this one.
json TimeRank(int memory_fd, int rank, int ranks, std::int64_t bytes) {
  SharedCollectives group(memory_fd, rank, ranks);
  std::vector<float> gradients(static_cast<std::size_t>(bytes) / sizeof(float));
  std::vector<double> wall;
  std::vector<double> cpu;
  for (int i = 0; i < kWarmUps + kSums; ++i) {
    std::ranges::fill(gradients, static_cast<float>(rank + 1));
    group.Barrier();
    const auto start = steady_clock::now();
    const auto cpu_start = CpuTime();
    group.AllReduce(gradients);
    if (i < kWarmUps) continue;
    wall.push_back(ToMilliseconds(steady_clock::now() - start));
    cpu.push_back(ToMilliseconds(CpuTime() - cpu_start));
  }
  const auto sum = static_cast<float>(ranks * (ranks + 1) / 2);
  if (std::ranges::count(gradients, sum) != std::ssize(gradients)) {
    throw Error(ErrorKind::kFailed, "the ranks computed wrong sums");
  }
  return {{"ranks", ranks},
          {"bytes", bytes},
          {"times", kSums},
          {"wall_ms_median", Median(wall)},
          {"wall_ms_min", *std::ranges::min_element(wall)},
          {"cpu_ms_median", Median(cpu)}};
}

pid_t StartRank(int memory_fd, int rank, int ranks, std::int64_t bytes) {
  const pid_t child = ::fork();
  if (child < 0) ThrowSystemError("start a rank");
  if (child > 0) return child;
  try {
    TimeRank(memory_fd, rank, ranks, bytes);
    ::_exit(0);
  } catch (const std::exception& error) {
    std::cerr << "dtrain-bench: rank " << rank << ": " << error.what() << "\n";
    ::_exit(1);
  }
}

}  // namespace

double Median(std::vector<double> values) {
  std::ranges::sort(values);
  return values.at(values.size() / 2);
}

json AllReduceTime(int ranks, std::int64_t bytes) {
  const UniqueFd memory = MakeSharedMemory(ranks);
  std::vector<pid_t> others;
  for (int rank = 1; rank < ranks; ++rank) {
    others.push_back(StartRank(memory.get(), rank, ranks, bytes));
  }
  const json result = TimeRank(memory.get(), 0, ranks, bytes);
  for (const pid_t other : others) ::waitpid(other, nullptr, 0);
  return result;
}

namespace {

// --- Convolutions

// A layer of a reference workload and its batch size.
struct ConvLayer {
  std::string name;
  ConvShape shape;
  std::int64_t images;
  bool first_layer;  // needs no gradient of its input
};

std::array<ConvLayer, 4> ConvLayers() {
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
  return {ConvLayer{"lenet conv1", lenet1, 32, true},
          ConvLayer{"lenet conv2", second, 32, false},
          ConvLayer{"cifar10 conv1", cifar1, 256, true},
          ConvLayer{"cifar10 conv2", second, 256, false}};
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
  explicit Tensors(const ConvLayer& of)
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

// Returns the duration of a call in milliseconds: the median and the minimum,
// which is less affected by other programs.
template <typename Call>
json Times(const Call& call) {
  std::vector<double> times(201);
  for (double& time : times) {
    const auto start = steady_clock::now();
    call();
    time = ToMilliseconds(steady_clock::now() - start);
  }
  return {{"ms_median", Median(times)},
          {"ms_least", *std::ranges::min_element(times)}};
}

json MeasureConv(const ConvLayer& of, const ConvKernels& kernels) {
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
  for (const ConvLayer& of : ConvLayers()) {
    json& row = times[of.name + ", batch " + std::to_string(of.images)];
    for (const ConvKernels* kernels : UsableConvKernels()) {
      row[KernelsName(*kernels)] = MeasureConv(of, *kernels);
    }
  }
  return times;
}

namespace {

// --- Images

constexpr std::int64_t kCropSide = 224;
constexpr std::int64_t kCacheSide = 256;
constexpr std::size_t kPasses = 5;

// ImageNet's normalization: (x/255 - mean)/std.
constexpr ChannelScale MakeScale(float mean, float deviation) {
  return {.scale = 1 / (255 * deviation), .bias = -mean / deviation};
}
constexpr std::array kImageNetScales = {MakeScale(0.485F, 0.229F),
                                        MakeScale(0.456F, 0.224F),
                                        MakeScale(0.406F, 0.225F)};

// Returns the pixels of a sample, stored in `buffer` unless they are in memory
// already.
using LookUp = std::function<ImageView(std::size_t sample, Image& buffer)>;

// Prepares an image as the loader of a trial does.
void Prepare(const ImageView& image, Rng& rng, float* numbers) {
  const Image cropped = ResizeBilinear(
      image, RandomResizedCropBox(image.height, image.width, rng), kCropSide,
      kCropSide);
  NormalizeInto(cropped, rng.Uniform() < 0.5, kImageNetScales, numbers);
}

struct PassTimes {
  double wall_ms = 0;
  double cpu_ms = 0;
};

PassTimes TimePass(std::size_t samples, const LookUp& look_up, Rng& rng,
                   std::vector<float>& numbers) {
  const auto start = steady_clock::now();
  const auto cpu_start = CpuTime();
  for (std::size_t i = 0; i < samples; ++i) {
    Image buffer;
    Prepare(look_up(i, buffer), rng, numbers.data());
  }
  return {.wall_ms = ToMilliseconds(steady_clock::now() - start),
          .cpu_ms = ToMilliseconds(CpuTime() - cpu_start)};
}

json MedianTimes(std::size_t samples, const LookUp& look_up) {
  Rng rng(1);
  std::vector<float> numbers(3 * kCropSide * kCropSide);
  TimePass(samples, look_up, rng, numbers);  // warms the page cache
  std::vector<double> wall;
  std::vector<double> cpu;
  for (std::size_t i = 0; i < kPasses; ++i) {
    const PassTimes times = TimePass(samples, look_up, rng, numbers);
    wall.push_back(times.wall_ms);
    cpu.push_back(times.cpu_ms);
  }
  const auto images = static_cast<double>(samples);
  return {{"images", samples},
          {"passes", kPasses},
          {"ms_per_image", Median(wall) / images},
          {"cpu_ms_per_image", Median(cpu) / images}};
}

}  // namespace

json ImageTimes(const std::filesystem::path& folder) {
  const ImageFolder listed = ListImageFolder(folder);
  return MedianTimes(listed.samples.size(), [&](std::size_t i, Image& buffer) {
    buffer = ReadImage(listed.samples[i].path);
    return ImageView(buffer);
  });
}

json CachedImageTimes(const std::filesystem::path& folder) {
  const ScratchDirectory scratch;
  const auto listed =
      std::make_shared<const ImageFolder>(ListImageFolder(folder));
  CachedImages::Options options;
  options.file = scratch.path() / "cache";
  options.side = kCacheSide;
  CachedImages images(listed, std::move(options));
  if (!images.WaitUntilMade()) {
    throw Error(ErrorKind::kFailed,
                "cannot create an image cache in " + scratch.path().string());
  }
  return MedianTimes(listed->samples.size(), [&](std::size_t i, Image& buffer) {
    return images.View(i, buffer);
  });
}

}  // namespace dtrain
