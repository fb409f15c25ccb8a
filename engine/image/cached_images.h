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

class ImageCacheBuild;
class ImageCacheFile;
struct ImageCacheId;
struct ImageFolder;

/// Where the shrunk images of the folder `root` are kept under `cache`: one
/// file for each side, which is made anew when the folder's files change. Empty
/// if `cache` is.
DTRAIN_API std::filesystem::path ImageCachePath(
    const std::filesystem::path& cache, const std::filesystem::path& root,
    std::int64_t side);

/// What is told of a cache.
struct ImageCacheListener {
  std::function<void(const std::string&)> say = [](const std::string&) {};
  std::function<void(const std::string&)> warn = [](const std::string&) {};
};

/// The images of a folder, each shrunk so that its shorter side has `side`
/// pixels, from a file that all trials share. As long as that file is not
/// there, or where it is damaged, an image is decoded and shrunk anew: the
/// pixels are the same. If nobody else makes the file, threads of our own do,
/// in the background, and take what is decoded meanwhile; they begin at the
/// first View. Any thread.
class DTRAIN_API CachedImages {
 public:
  struct Options {
    std::filesystem::path file;  // empty: there is no place for it
    std::int64_t side = 256;
    int threads = 1;  // that make the file; at least one
    ImageCacheListener listener;
  };

  CachedImages(std::shared_ptr<const ImageFolder> folder, Options options);
  ~CachedImages();
  CachedImages(const CachedImages&) = delete;
  CachedImages& operator=(const CachedImages&) = delete;

  /// The pixels of a sample: in the cache, or in `room`, and good as long as
  /// both. Throws what ReadImage throws.
  ImageView View(std::size_t sample, Image& room);

  /// Waits until the cache is there, or there will be none. Whether it is.
  bool WaitUntilMade();

 private:
  Image Decoded(std::size_t sample) const;
  void Start();
  void Prepare();
  std::optional<ImageCacheId> Identify() const;
  void OpenOrMake(const ImageCacheId& id);
  bool Open(const ImageCacheId& id);
  void Make(const ImageCacheId& id);
  void MakeInThreads();
  void MakeImages();
  void WarnOfDamage();
  void GoWithout(const std::string& why);
  void Over();
  bool stopped() const { return stop_.load(std::memory_order_relaxed); }

  const std::shared_ptr<const ImageFolder> folder_;
  const Options options_;
  std::once_flag started_;
  std::atomic<bool> stop_{false};
  std::once_flag damage_said_;

  // Set once each, by the thread that prepares; then seen by all.
  std::unique_ptr<const ImageCacheFile> opened_;
  std::unique_ptr<ImageCacheBuild> made_;
  std::atomic<const ImageCacheFile*> file_{nullptr};
  std::atomic<ImageCacheBuild*> build_{nullptr};

  std::mutex mutex_;  // guards what follows
  std::condition_variable changed_;
  bool over_ = false;  // nothing more will be prepared

  std::thread thread_;
};

}  // namespace dtrain
