#pragma once

#include <atomic>
#include <cstdint>
#include <functional>
#include <memory>
#include <mutex>
#include <set>
#include <string>
#include <utility>

#include "engine/base/api.h"
#include "engine/data/data_source.h"
#include "engine/data/thread_loader.h"
#include "engine/image/image_folder.h"
#include "engine/image/transforms.h"

namespace dtrain {

class CachedImages;

/// Unreadable image files that were skipped, and those whose values were
/// clipped (Image::is_clipped). Thread-safe.
class DTRAIN_API SkippedFiles {
 public:
  /// `log` receives a line for each of the first ten files, and at the end the
  /// total if there were more; and a line for the first file that was clipped.
  /// Without it, files are only counted.
  explicit SkippedFiles(std::function<void(const std::string&)> log = {})
      : log_(std::move(log)) {}
  ~SkippedFiles();
  SkippedFiles(const SkippedFiles&) = delete;
  SkippedFiles& operator=(const SkippedFiles&) = delete;

  /// Records `file`, once however often it is called for it.
  void Add(const std::string& file, const std::string& why);
  /// Reports that the values of `file` were clipped. Only the first call has an
  /// effect.
  void ReportClipped(const std::string& file);
  /// Number of skipped files.
  std::size_t count() const;

 private:
  const std::function<void(const std::string&)> log_;
  mutable std::mutex mutex_;
  std::set<std::string> files_;
  std::atomic<bool> clipped_{false};
};

/// Name of the tensor with the indices of a batch's samples.
inline constexpr const char* kSampleNumbers = "sample";

/// Returns a DataSource of image files, decoded and transformed by threads as
/// torchvision does with Pillow: RandomResizedCrop and RandomHorizontalFlip, or
/// Resize and CenterCrop; then ToTensor and Normalize. Batches are float
/// [samples, channels, crop, crop] and int64 [samples], and do not depend on
/// the number of workers. With `loading.normalize_on_device` they are uint8 in
/// channels_last order, and become the same floats by Batch::Normalized.
/// Without augmentation, the extra tensor "sample" has the indices of the
/// samples in the folder. Pixels equal those of Pillow 12.2; Pillow 13 swaps
/// the two directions of a resize if that is cheaper, which rounds differently.
///
/// An unreadable file is left out of its batch and recorded in `skipped`;
/// without `skipped` it is an error. If a whole batch is unreadable, or all but
/// one image of a training batch, the next images of the folder replace them if
/// `samples.wrap`; otherwise, as in validation, no image may count twice, and
/// the batch is empty. Read throws Error(kFailed) if no image of the folder is
/// readable. With a `cache` of the same folder, images come from it, and crops
/// are taken from its shrunken images.
///
/// Throws Error(kFailed) for invalid steps.
DTRAIN_API std::unique_ptr<DataSource> MakeImageSource(
    std::shared_ptr<const ImageFolder> folder, SamplerOptions samples,
    const ImageSteps& steps, const LoaderOptions& loading,
    std::shared_ptr<SkippedFiles> skipped = nullptr,
    std::shared_ptr<CachedImages> cache = nullptr);

}  // namespace dtrain
