#pragma once

#include <condition_variable>
#include <cstddef>
#include <cstdint>
#include <filesystem>
#include <functional>
#include <memory>
#include <mutex>
#include <optional>
#include <string>
#include <vector>

#include "engine/image/image.h"
#include "engine/image/image_cache_format.h"
#include "engine/os/unique_fd.h"

namespace dtrain {

/// A cache of shrunk images while it is made: FILE.part, which one process at a
/// time has a lock on, and which gets its name when it is whole. What is in it
/// when its maker dies, the next one goes on with. Each image is first claimed,
/// then put. Any thread, but for Begin, Finish and Discard.
class ImageCacheBuild {
 public:
  /// Null if another process makes it, or `stopped` says so while what is there
  /// already is looked through. Throws Error(kFailed) if it cannot be written.
  static std::unique_ptr<ImageCacheBuild> Begin(
      const std::filesystem::path& file, const ImageCacheId& id,
      const std::function<bool()>& stopped);

  /// Whether the caller is to put image `i`: it is nobody else's, and nothing
  /// has failed.
  bool Claim(std::size_t i);
  /// The next one that nobody has claimed, claimed; nothing at the end.
  std::optional<std::size_t> ClaimNext();
  /// Writes a claimed image, or that its file cannot be decoded. A failure
  /// comes out of Finish.
  void Put(std::size_t i, const ImageView& image);
  void PutUnreadable(std::size_t i);
  /// Whether anything could not be written.
  bool failed() const;

  /// Waits for what is claimed, and gives the file its name. Throws
  /// Error(kFailed) if anything could not be written. REQUIRES: ClaimNext has
  /// come to the end.
  void Finish();
  /// Removes what there is of the file.
  void Discard();

 private:
  ImageCacheBuild(std::filesystem::path file, const ImageCacheId& id);
  bool Lock();
  void Resume(const std::function<bool()>& stopped);
  void TakeOver(const std::function<bool()>& stopped);
  bool Stands(std::uint64_t i, const ImageCacheEntry& entry,
              std::uint64_t size) const;
  void Write(std::size_t i, ImageCacheEntry entry, const ImageView& image);
  void Done(const std::string& fault);
  std::string LackOfRoom() const;
  [[noreturn]] void Fail(int error) const;

  const std::filesystem::path file_;
  const std::filesystem::path part_;
  const ImageCacheId id_;
  UniqueFd fd_;

  mutable std::mutex mutex_;  // guards all that follows
  std::condition_variable done_changed_;
  std::vector<bool> claimed_;
  std::size_t next_ = 0;   // none before it is unclaimed
  std::uint64_t end_ = 0;  // where the next pixels go
  std::uint64_t done_ = 0;
  std::string fault_;  // the first one
};

}  // namespace dtrain
