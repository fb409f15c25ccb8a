#include "tests/bench/image_bench.h"

#include <algorithm>
#include <array>
#include <chrono>
#include <cstddef>
#include <cstdint>
#include <vector>

#include "engine/image/image_file.h"
#include "engine/image/image_folder.h"
#include "engine/image/resize.h"
#include "engine/image/transforms.h"
#include "searchers/rng.h"
#include "tests/support/cpu_time.h"

namespace dtrain {
namespace {

using nlohmann::json;

constexpr std::int64_t kCropSide = 224;
constexpr std::size_t kPasses = 5;

// Of ImageNet: (x/255 - mean)/std.
constexpr ChannelScale ScaleOf(float mean, float deviation) {
  return {.scale = 1 / (255 * deviation), .bias = -mean / deviation};
}
constexpr std::array kImageNetScales = {
    ScaleOf(0.485F, 0.229F), ScaleOf(0.456F, 0.224F), ScaleOf(0.406F, 0.225F)};

// As the loader of a trial does it, but for the batch that it writes into.
void Prepare(const ImageSample& sample, Rng& rng, float* numbers) {
  const Image image = ReadImage(sample.path);
  const Image cropped = ResizeBilinear(
      image, RandomResizedCropBox(image.height, image.width, rng), kCropSide,
      kCropSide);
  NormalizeInto(cropped, rng.Uniform() < 0.5, kImageNetScales, numbers);
}

struct PassTimes {
  double wall_ms = 0;
  double cpu_ms = 0;
};

PassTimes TimePass(const ImageFolder& folder, Rng& rng,
                   std::vector<float>& numbers) {
  using Milliseconds = std::chrono::duration<double, std::milli>;
  using Clock = std::chrono::steady_clock;
  const Clock::time_point start = Clock::now();
  const auto cpu_start = CpuTime();
  for (const ImageSample& sample : folder.samples) {
    Prepare(sample, rng, numbers.data());
  }
  return {.wall_ms = Milliseconds(Clock::now() - start).count(),
          .cpu_ms = Milliseconds(CpuTime() - cpu_start).count()};
}

}  // namespace

json ImageTimes(const std::filesystem::path& folder) {
  const ImageFolder listed = ListImageFolder(folder);
  Rng rng(1);
  std::vector<float> numbers(3 * kCropSide * kCropSide);
  TimePass(listed, rng, numbers);  // warms the page cache
  std::array<double, kPasses> wall{};
  std::array<double, kPasses> cpu{};
  for (std::size_t i = 0; i < kPasses; ++i) {
    const PassTimes times = TimePass(listed, rng, numbers);
    wall[i] = times.wall_ms;
    cpu[i] = times.cpu_ms;
  }
  std::ranges::sort(wall);
  std::ranges::sort(cpu);
  const auto images = static_cast<double>(listed.samples.size());
  return {{"images", listed.samples.size()},
          {"passes", kPasses},
          {"ms_per_image", wall[kPasses / 2] / images},
          {"cpu_ms_per_image", cpu[kPasses / 2] / images}};
}

}  // namespace dtrain
