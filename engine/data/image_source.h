#pragma once

#include <cstdint>
#include <functional>
#include <memory>
#include <mutex>
#include <set>
#include <string>
#include <utility>

#include "engine/base/api.h"
#include "engine/data/data_source.h"
#include "engine/data/memory_source.h"
#include "engine/data/thread_loader.h"
#include "engine/image/image_folder.h"

namespace dtrain {

class CachedImages;

/// Image files that could not be read and were left out. Any thread.
class DTRAIN_API SkippedFiles {
 public:
  /// `say` is called with a line for each of the first ten, and at the end with
  /// how many there were if there were more. Without it they are only counted.
  explicit SkippedFiles(std::function<void(const std::string&)> log = {})
      : log_(std::move(log)) {}
  ~SkippedFiles();
  SkippedFiles(const SkippedFiles&) = delete;
  SkippedFiles& operator=(const SkippedFiles&) = delete;

  /// Counts `file` once, however often it is met.
  void Add(const std::string& file, const std::string& why);
  /// How many there are.
  std::size_t count() const;

 private:
  const std::function<void(const std::string&)> log_;
  mutable std::mutex mutex_;
  std::set<std::string> files_;
};

/// What the numbers of a batch's samples are called in it.
inline constexpr const char* kSampleNumbers = "sample";

/// What becomes of an image on its way into a batch.
struct ImageSteps {
  std::int64_t crop = 224;    // the side of what the network sees
  std::int64_t resize = 256;  // the shorter side before a central crop
  std::int64_t channels = 3;  // 1: in shades of gray
  bool augment = false;       // a random crop, flipped or not, in place of that
  // A mean and a deviation for each channel; empty: pixels from 0 to 1.
  Normalization normalization;
};

/// A DataSource of image files, decoded and transformed by threads as
/// torchvision does with Pillow: RandomResizedCrop and RandomHorizontalFlip, or
/// Resize and CenterCrop; then ToTensor and Normalize. Batches are float
/// [samples, channels, crop, crop] and int64 [samples], the same with any
/// number of workers; without augmentation "sample" says which of the folder's
/// they are. The pixels are those of Pillow 12.2; Pillow 13 swaps the two
/// directions of a resize where that is cheaper, which rounds differently.
///
/// A file that cannot be read is left out of its batch and named in `skipped`;
/// without `skipped` it is an error. Where all of a batch are left out, or all
/// but one of several to train on, the next of the folder stand in if
/// `samples.wrap`; in a pass of its own, as for validation, no image may count
/// twice, and the batch is empty. Read throws Error(kFailed) if no image of the
/// folder can be read. With a `cache`, of the same folder, images come from it,
/// and the crops are cut from what it shrank them to.
///
/// Throws Error(kFailed) for steps that make no sense.
DTRAIN_API std::unique_ptr<DataSource> MakeImageSource(
    std::shared_ptr<const ImageFolder> folder, SamplerOptions samples,
    const ImageSteps& steps, const LoaderOptions& loading,
    std::shared_ptr<SkippedFiles> skipped = nullptr,
    std::shared_ptr<CachedImages> cache = nullptr);

}  // namespace dtrain
