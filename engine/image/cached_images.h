#pragma once

#include <atomic>
#include <condition_variable>
#include <cstddef>
#include <cstdint>
#include <filesystem>
#include <functional>
#include <memory>
#include <mutex>
#include <optional>
#include <string>
#include <thread>

#include "engine/base/api.h"
#include "engine/image/image.h"

namespace dtrain {

class ImageCacheBuilder;
class ImageCacheFile;
struct ImageCacheId;
struct ImageFolder;

/// Returns the file under `cache` that holds the shrunk images of the folder
/// `root`: one for each side, rebuilt when the folder's files change. Empty if
/// `cache` is.
DTRAIN_API std::filesystem::path ImageCachePath(
    const std::filesystem::path& cache, const std::filesystem::path& root,
    std::int64_t side);

/// Callbacks for notices about a cache. Any thread.
struct ImageCacheListener {
  std::function<void(const std::string&)> say = [](const std::string&) {};
  std::function<void(const std::string&)> warn = [](const std::string&) {};
};

/// The images of a folder, each shrunk so that its shorter side has `side`
/// pixels, from a file that all trials share. While that file is missing, an
/// image is decoded and shrunk at each use: the pixels are the same. Unless
/// another process builds the file, threads of this object build it in the
/// background, from the first View on. A damaged file is reported, rebuilt
/// once, and never used for an image whose checksum differs. Any thread.
class DTRAIN_API CachedImages {
 public:
  struct Options {
    std::filesystem::path file;  // empty: no cache directory is known
    std::int64_t side = 256;
    int threads = 1;  // that build the file; at least one
    ImageCacheListener listener;
  };

  CachedImages(std::shared_ptr<const ImageFolder> folder, Options options);
  ~CachedImages();
  CachedImages(const CachedImages&) = delete;
  CachedImages& operator=(const CachedImages&) = delete;

  /// Returns the pixels of a sample, which are in the cache or in `room`; valid
  /// as long as both live. Throws what ReadImage throws.
  ImageView View(std::size_t sample, Image& room);

  /// Waits until the cache is built, or cannot be. Returns true if it is.
  bool WaitUntilMade();

 private:
  Image Decode(std::size_t sample) const;
  void StartThread();
  void Prepare();
  std::optional<ImageCacheId> Identify() const;
  void OpenOrBuild(const ImageCacheId& id);
  bool Open(const ImageCacheId& id);
  void Build(ImageCacheBuilder& builder, const ImageCacheId& id);
  void PutImages(ImageCacheBuilder& builder);
  void RebuildDamaged(std::size_t sample);
  void StopCaching(const std::string& why);
  void EndPreparation();
  bool stopped() const { return stop_.load(std::memory_order_relaxed); }

  const std::shared_ptr<const ImageFolder> folder_;
  const Options options_;
  std::once_flag started_;
  std::once_flag rebuilt_;
  std::atomic<bool> stop_{false};

  // Set by the thread that prepares; then read by all.
  std::unique_ptr<const ImageCacheFile> opened_;
  bool damage_reported_ = false;
  std::atomic<const ImageCacheFile*> file_{nullptr};
  std::atomic<std::size_t> next_{0};  // image to be decoded for the cache

  // Set before the thread is started again for a rebuild. Views into the old
  // file stay valid.
  std::unique_ptr<const ImageCacheFile> damaged_;
  std::size_t damaged_sample_ = 0;

  std::mutex mutex_;  // guards what follows
  std::condition_variable changed_;
  bool over_ = false;  // nothing more will be prepared

  std::thread thread_;
};

}  // namespace dtrain
