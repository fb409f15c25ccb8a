#include "tests/bench/image_bench.h"

#include <algorithm>
#include <array>
#include <chrono>
#include <cstddef>
#include <cstdint>
#include <functional>
#include <memory>
#include <utility>
#include <vector>

#include "engine/base/error.h"
#include "engine/base/rng.h"
#include "engine/image/cached_images.h"
#include "engine/image/image_file.h"
#include "engine/image/image_folder.h"
#include "engine/image/resize.h"
#include "engine/image/transforms.h"
#include "engine/os/files.h"
#include "tests/support/cpu_time.h"

namespace dtrain {
namespace {

using nlohmann::json;

constexpr std::int64_t kCropSide = 224;
constexpr std::int64_t kCacheSide = 256;
constexpr std::size_t kPasses = 5;

// Of ImageNet: (x/255 - mean)/std.
constexpr ChannelScale ScaleOf(float mean, float deviation) {
  return {.scale = 1 / (255 * deviation), .bias = -mean / deviation};
}
constexpr std::array kImageNetScales = {
    ScaleOf(0.485F, 0.229F), ScaleOf(0.456F, 0.224F), ScaleOf(0.406F, 0.225F)};

// The pixels of a sample, in `room` if they stand nowhere else.
using LookUp = std::function<ImageView(std::size_t sample, Image& room)>;

// As the loader of a trial does it, but for the batch that it writes into.
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
  using Milliseconds = std::chrono::duration<double, std::milli>;
  using Clock = std::chrono::steady_clock;
  const Clock::time_point start = Clock::now();
  const auto cpu_start = CpuTime();
  for (std::size_t i = 0; i < samples; ++i) {
    Image room;
    Prepare(look_up(i, room), rng, numbers.data());
  }
  return {.wall_ms = Milliseconds(Clock::now() - start).count(),
          .cpu_ms = Milliseconds(CpuTime() - cpu_start).count()};
}

json MedianTimes(std::size_t samples, const LookUp& look_up) {
  Rng rng(1);
  std::vector<float> numbers(3 * kCropSide * kCropSide);
  TimePass(samples, look_up, rng, numbers);  // warms the page cache
  std::array<double, kPasses> wall{};
  std::array<double, kPasses> cpu{};
  for (std::size_t i = 0; i < kPasses; ++i) {
    const PassTimes times = TimePass(samples, look_up, rng, numbers);
    wall[i] = times.wall_ms;
    cpu[i] = times.cpu_ms;
  }
  std::ranges::sort(wall);
  std::ranges::sort(cpu);
  const auto images = static_cast<double>(samples);
  return {{"images", samples},
          {"passes", kPasses},
          {"ms_per_image", wall[kPasses / 2] / images},
          {"cpu_ms_per_image", cpu[kPasses / 2] / images}};
}

}  // namespace

json ImageTimes(const std::filesystem::path& folder) {
  const ImageFolder listed = ListImageFolder(folder);
  return MedianTimes(listed.samples.size(), [&](std::size_t i, Image& room) {
    room = ReadImage(listed.samples[i].path);
    return ImageView(room);
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
                "no cache could be made in " + scratch.path().string());
  }
  return MedianTimes(listed->samples.size(), [&](std::size_t i, Image& room) {
    return images.View(i, room);
  });
}

}  // namespace dtrain
