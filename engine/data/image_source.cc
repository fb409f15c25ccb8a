// Batches of image files: decode, crop, mirror, scale.
//
// ImageLoader makes one batch and is called by several threads at once
// (ThreadLoader), so it has no state but shared counters. What is drawn for an
// image depends on the seed of the pass and the number of the sample only,
// never on the thread or the batch, so that the data of a pass are the same for
// any number of workers.
//
// An image that cannot be read is left out and counted in SkippedFiles, or an
// error if there is none. A training batch that would become too small for
// batch normalisation gets the next images of the folder instead; in evaluation
// a batch may be empty, and sample numbers tell which images the rows are. Only
// if no image of the folder can be read is that an error.
//
// With normalize_on_device a batch holds bytes, which are a quarter of the size
// to copy to the GPU, and the scales to normalise them there; the memory is
// channels-last, as it was decoded.

#include "engine/data/image_source.h"

#include <algorithm>
#include <array>
#include <atomic>
#include <cstring>
#include <new>
#include <span>
#include <utility>
#include <vector>

#include <torch/types.h>

#include "engine/base/error.h"
#include "engine/base/text.h"
#include "engine/data/seeds.h"
#include "engine/image/cached_images.h"
#include "engine/image/image_file.h"
#include "engine/image/resize.h"
#include "engine/image/transforms.h"

namespace dtrain {
namespace {

constexpr std::size_t kMaxLogged = 10;

// Throws Error(kFailed) for invalid steps.
void CheckSteps(const ImageSteps& steps) {
  const auto fail = [](const std::string& what) {
    throw Error(ErrorKind::kFailed, "ImageSteps: " + what);
  };
  if (steps.channels != 1 && steps.channels != 3) {
    fail("channels is " + std::to_string(steps.channels) +
         "; images have 3, or 1 (grayscale)");
  }
  if (steps.crop < 1 || steps.resize < 1) {
    fail("crop and resize must be at least 1");
  }
  const auto& [mean, std] = steps.normalization;
  if (mean.empty() && std.empty()) return;
  const auto channels = static_cast<std::size_t>(steps.channels);
  if (mean.size() != channels || std.size() != channels) {
    fail("the normalization must have " + std::to_string(channels) +
         " means and as many deviations, one for each channel");
  }
  if (std::ranges::find(std, 0.0F) != std.end()) {
    fail("the normalization has a deviation of 0");
  }
}

// Scales for the normalisation, or for values from 0 to 1.
std::vector<ChannelScale> MakeChannelScales(const ImageSteps& steps) {
  CheckSteps(steps);
  if (!steps.normalization.mean.empty()) {
    return ChannelScales(steps.normalization);
  }
  const auto channels = static_cast<std::size_t>(steps.channels);
  return ChannelScales({.mean = std::vector<float>(channels, 0.0F),
                        .std = std::vector<float>(channels, 1.0F)});
}

// Writes the image, mirrored if `flip`, as bytes [height, width, channels].
void CopyInto(const Image& image, bool flip, std::int64_t channels,
              std::uint8_t* to) {
  for (std::int64_t y = 0; y < image.height; ++y) {
    for (std::int64_t x = 0; x < image.width; ++x) {
      const std::int64_t from = flip ? image.width - 1 - x : x;
      to = std::copy_n(image.row(y) + 3 * from, channels, to);
    }
  }
}

// Loads batches; shared by several threads.
class ImageLoader {
 public:
  ImageLoader(std::shared_ptr<const ImageFolder> folder,
              const ImageSteps& steps, const LoaderOptions& loading,
              bool stands_in, std::shared_ptr<SkippedFiles> skipped,
              std::shared_ptr<CachedImages> cache)
      : folder_(std::move(folder)),
        steps_(steps),
        is_pinned_(loading.pinned),
        replaces_unreadable_(stands_in),
        gives_bytes_(loading.normalize_on_device),
        scales_(MakeChannelScales(steps)),
        skipped_(std::move(skipped)),
        cache_(std::move(cache)) {
    if (!gives_bytes_) return;
    scales_tensor_ = torch::empty({steps.channels, 2});
    std::memcpy(scales_tensor_.mutable_data_ptr(), scales_.data(),
                scales_tensor_.nbytes());
    if (is_pinned_) scales_tensor_ = scales_tensor_.pin_memory();
  }

  Batch operator()(std::span<const std::int64_t> samples,
                   std::uint64_t pass_seed) const {
    const auto size = static_cast<std::int64_t>(samples.size());
    const torch::Tensor data = NewData(size);
    const torch::Tensor target = torch::empty(
        {size}, torch::TensorOptions(torch::kInt64).pinned_memory(is_pinned_));
    std::vector<std::int64_t> kept_samples;
    std::int64_t kept = 0;
    const auto keep = [&](std::int64_t sample) {
      if (!Load(sample, pass_seed, kept, data, target)) return;
      kept_samples.push_back(sample);
      ++kept;
    };
    for (const std::int64_t sample : samples) keep(sample);
    // A training batch must not be empty, nor have a single image, from which
    // batch normalisation cannot learn: the next images of the folder replace
    // those.
    const std::int64_t needed = steps_.augment && size > 1 ? 2 : 1;
    for (std::int64_t i = 1;
         replaces_unreadable_ && kept < needed && i < folder_size(); ++i) {
      keep((samples.back() + i) % folder_size());
    }
    if (kept > 0) *any_read_ = true;
    if (kept == 0 &&
        (replaces_unreadable_ || !AnyRead(samples.back(), data, target))) {
      throw Error(ErrorKind::kFailed,
                  "none of " + std::to_string(folder_size()) +
                      " images could be read; see the log for the first ones");
    }
    Batch batch{.data = data.narrow(0, 0, kept),
                .target = target.narrow(0, 0, kept),
                .scales = scales_tensor_};
    if (!steps_.augment) {
      batch.extra.emplace(kSampleNumbers,
                          torch::tensor(kept_samples, torch::kInt64));
    }
    return batch;
  }

 private:
  std::int64_t folder_size() const {
    return static_cast<std::int64_t>(folder_->samples.size());
  }

  torch::Tensor NewData(std::int64_t size) const {
    const auto options = torch::TensorOptions().pinned_memory(is_pinned_);
    if (!gives_bytes_) {
      return torch::empty({size, steps_.channels, steps_.crop, steps_.crop},
                          options.dtype(torch::kFloat));
    }
    return torch::empty({size, steps_.crop, steps_.crop, steps_.channels},
                        options.dtype(torch::kByte))
        .permute({0, 3, 1, 2});
  }

  // True if any image of the folder is readable. Searches from `sample` and
  // writes to the first row.
  bool AnyRead(std::int64_t sample, const torch::Tensor& data,
               const torch::Tensor& target) const {
    for (std::int64_t i = 1; !*any_read_ && i < folder_size(); ++i) {
      *any_read_ = Load((sample + i) % folder_size(), /*pass_seed=*/0,
                        /*row=*/0, data, target);
    }
    return *any_read_;
  }

  // Loads the sample into row `row`. Returns false if it is unreadable.
  bool Load(std::int64_t sample, std::uint64_t pass_seed, std::int64_t row,
            const torch::Tensor& data, const torch::Tensor& target) const {
    const ImageSample& file =
        folder_->samples[static_cast<std::size_t>(sample)];
    try {
      Image buffer;
      const ImageView image = Pixels(sample, buffer);
      if (buffer.is_clipped && skipped_ != nullptr) {
        skipped_->ReportClipped(file.path.string());
      }
      Rng rng(static_cast<std::uint32_t>(SampleSeed(pass_seed, sample)));
      const Image cropped = Crop(image, rng);
      const bool flip = steps_.augment && rng.Uniform() < 0.5;
      const std::int64_t start =
          row * steps_.channels * steps_.crop * steps_.crop;
      if (gives_bytes_) {
        CopyInto(steps_.channels == 3 ? cropped : Grayed(cropped), flip,
                 steps_.channels,
                 data.mutable_data_ptr<std::uint8_t>() + start);
      } else {
        Normalize(cropped, flip, data.mutable_data_ptr<float>() + start);
      }
    } catch (const Error& error) {
      Skip(file, error.what());
      return false;
    } catch (const std::bad_alloc&) {
      Skip(file, EscapeForTerminal(file.path.string()) +
                     ": not enough memory to decode it");
      return false;
    }
    target.mutable_data_ptr<std::int64_t>()[row] = file.label;
    return true;
  }

  void Skip(const ImageSample& file, const std::string& why) const {
    if (skipped_ == nullptr) {
      throw Error(ErrorKind::kFailed,
                  why +
                      "; remove the file, or pass a SkippedFiles to "
                      "MakeImageSource to skip such files");
    }
    skipped_->Add(file.path.string(), why);
  }

  // Pixels of the sample: in the cache, or decoded into `buffer`.
  ImageView Pixels(std::int64_t sample, Image& buffer) const {
    const auto number = static_cast<std::size_t>(sample);
    if (cache_) return cache_->View(number, buffer);
    buffer = ReadImage(folder_->samples[number].path);
    return buffer;
  }

  void Normalize(const Image& image, bool flip, float* to) const {
    if (steps_.channels == 3) return NormalizeInto(image, flip, scales_, to);
    const auto plane = static_cast<std::size_t>(image.height * image.width);
    std::vector<float> planes(3 * plane);
    const std::array<ChannelScale, 3> scales = {scales_[0], scales_[0],
                                                scales_[0]};
    NormalizeInto(Grayed(image), flip, scales, planes.data());
    std::copy_n(planes.begin(), plane, to);
  }

  Image Crop(const ImageView& image, Rng& rng) const {
    if (!steps_.augment) {
      return CenterCropped(image, steps_.resize, steps_.crop);
    }
    return ResizeBilinear(image,
                          RandomResizedCropBox(image.height, image.width, rng),
                          steps_.crop, steps_.crop);
  }

  std::shared_ptr<const ImageFolder> folder_;
  ImageSteps steps_;
  bool is_pinned_;
  bool replaces_unreadable_;  // replaces unreadable images
  bool gives_bytes_;
  std::vector<ChannelScale> scales_;
  torch::Tensor scales_tensor_;            // undefined unless bytes are given
  std::shared_ptr<SkippedFiles> skipped_;  // null: unreadable images are errors
  std::shared_ptr<CachedImages> cache_;    // may be null
  std::shared_ptr<std::atomic<bool>> any_read_ =
      std::make_shared<std::atomic<bool>>(false);
};

}  // namespace

SkippedFiles::~SkippedFiles() {
  if (!log_ || files_.size() <= kMaxLogged) return;
  log_("skipped: " + std::to_string(files_.size()) + " files in total");
}

void SkippedFiles::Add(const std::string& file, const std::string& why) {
  const std::lock_guard lock(mutex_);
  const bool is_new = files_.insert(file).second;
  if (!log_ || !is_new || files_.size() > kMaxLogged) return;
  log_("skipped: " + why);
  if (files_.size() == kMaxLogged) log_("further files are only counted");
}

void SkippedFiles::ReportClipped(const std::string& file) {
  if (clipped_.exchange(true) || !log_) return;
  log_(EscapeForTerminal(file) +
       ": grey of 16 bits is clipped at 255, as torchvision does, so brighter "
       "pixels are all white; scale such images to 8 bits (value / 256), this "
       "and others of its kind");
}

std::size_t SkippedFiles::count() const {
  const std::lock_guard lock(mutex_);
  return files_.size();
}

std::unique_ptr<DataSource> MakeImageSource(
    std::shared_ptr<const ImageFolder> folder, SamplerOptions samples,
    const ImageSteps& steps, const LoaderOptions& loading,
    std::shared_ptr<SkippedFiles> skipped,
    std::shared_ptr<CachedImages> cache) {
  if (folder == nullptr) {
    throw Error(ErrorKind::kFailed,
                "MakeImageSource: the folder is null; list one with "
                "ListImageFolder");
  }
  samples.samples = static_cast<std::int64_t>(folder->samples.size());
  return std::make_unique<ThreadLoader>(
      samples,
      ImageLoader(std::move(folder), steps, loading,
                  /*stands_in=*/samples.wrap, std::move(skipped),
                  std::move(cache)),
      loading);
}

}  // namespace dtrain
