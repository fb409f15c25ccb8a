// Decoded images in a file that is built while training goes on.
//
// View is called by the threads that load batches. It starts the one background
// thread at its first call and never waits for it: until `file_` is set, images
// are decoded from their files. The thread identifies the folder (stat of every
// file), and opens the cache file or builds it, with more threads at low
// priority, unless another process builds it already; then it looks again from
// time to time. A failure only means that images are decoded each time.
//
// A file is mapped, and views point into it, so a mapping is never closed while
// this object lives: one that turns out damaged is kept in `damaged_` when the
// file is built again, which happens at most once.

#include "engine/image/cached_images.h"

#include <chrono>
#include <exception>
#include <system_error>
#include <utility>
#include <vector>

#include <unistd.h>

#include "engine/base/error.h"
#include "engine/base/text.h"
#include "engine/image/image_cache.h"
#include "engine/image/image_file.h"
#include "engine/image/image_folder.h"
#include "engine/image/transforms.h"
#include "engine/os/files.h"
#include "engine/os/signals.h"

namespace dtrain {
namespace {

namespace fs = std::filesystem;

// Interval of looking whether another process has built the file, or died.
constexpr std::chrono::milliseconds kRetryInterval(500);
// Threads that load batches have priority where cores are few.
constexpr int kNiceness = 10;

std::string Named(const fs::path& file) {
  return "image cache " + EscapeForTerminal(file.string());
}

}  // namespace

fs::path ImageCachePath(const fs::path& cache, const fs::path& root,
                        std::int64_t side) {
  std::error_code ignored;
  FileSetKey key;
  key.AddText(fs::absolute(root, ignored).lexically_normal().native());
  if (cache.empty()) return {};
  return cache / "images" /
         (std::to_string(key.value()) + "-" + std::to_string(side));
}

CachedImages::CachedImages(std::shared_ptr<const ImageFolder> folder,
                           Options options)
    : folder_(std::move(folder)), options_(std::move(options)) {}

CachedImages::~CachedImages() {
  {
    const std::lock_guard lock(mutex_);
    stop_.store(true, std::memory_order_relaxed);
  }
  changed_.notify_all();
  if (thread_.joinable()) thread_.join();
}

ImageView CachedImages::View(std::size_t sample, Image& room) {
  std::call_once(started_, [this] { StartThread(); });
  if (const auto* file = file_.load(std::memory_order_acquire)) {
    const ImageCacheFile::Found found = file->Find(sample);
    if (found.state == ImageCacheFile::State::kPixels) return found.image;
    if (found.state == ImageCacheFile::State::kDamaged) RebuildDamaged(sample);
  }
  room = Decode(sample);
  return room;
}

bool CachedImages::WaitUntilMade() {
  std::call_once(started_, [this] { StartThread(); });
  std::unique_lock lock(mutex_);
  changed_.wait(lock, [this] { return over_; });
  return file_.load(std::memory_order_acquire) != nullptr;
}

Image CachedImages::Decode(std::size_t sample) const {
  const Image whole = ReadImage(folder_->samples[sample].path);
  Image shrunk = ShrunkTo(whole, options_.side);
  shrunk.is_clipped = whole.is_clipped;
  return shrunk;
}

void CachedImages::StartThread() {
  const SignalsBlocked blocked;
  try {
    thread_ = std::thread([this] { Prepare(); });
  } catch (const std::system_error& error) {
    StopCaching(error.what());
  }
}

void CachedImages::Prepare() {
  // For this thread and those that it starts.
  [[maybe_unused]] const int niceness = ::nice(kNiceness);
  try {
    if (options_.file.empty()) {
      throw Error(ErrorKind::kFailed,
                  "HOME is not set, so no directory for it is known");
    }
    if (const auto id = Identify()) OpenOrBuild(*id);
    EndPreparation();
  } catch (const std::exception& error) {
    StopCaching(error.what());
  }
}

void CachedImages::StopCaching(const std::string& why) {
  options_.listener.warn(
      "image cache: " + why +
      "; the images are decoded from their files each time (XDG_CACHE_HOME "
      "sets the directory of the cache, 'image_cache: 0' turns it off)");
  EndPreparation();
}

void CachedImages::EndPreparation() {
  const std::lock_guard lock(mutex_);
  over_ = true;
  changed_.notify_all();
}

// Calls stat for every file: seconds for a million of them.
std::optional<ImageCacheId> CachedImages::Identify() const {
  FileSetKey key;
  for (const ImageSample& sample : folder_->samples) {
    if (stopped()) return std::nullopt;
    key.Add(sample.path);
  }
  return ImageCacheId{.key = key.value(),
                      .count = folder_->samples.size(),
                      .side = static_cast<std::uint32_t>(options_.side)};
}

void CachedImages::OpenOrBuild(const ImageCacheId& id) {
  while (!stopped()) {
    if (Open(id)) return;
    if (const auto builder = ImageCacheBuilder::Begin(options_.file, id)) {
      // Another process may have finished it just before the lock was released.
      if (!Open(id)) Build(*builder, id);
      return;
    }
    // Another process builds it.
    std::unique_lock lock(mutex_);
    changed_.wait_for(lock, kRetryInterval, [this] { return stopped(); });
  }
}

bool CachedImages::Open(const ImageCacheId& id) {
  ImageCacheFile::Opened opened = ImageCacheFile::Open(options_.file, id);
  if (opened.damaged && !std::exchange(damage_reported_, true)) {
    options_.listener.warn(Named(options_.file) +
                           ": is damaged; rebuilding it");
  }
  if (opened.file && damaged_ &&
      opened.file->Find(damaged_sample_).state ==
          ImageCacheFile::State::kDamaged) {
    // Still the damaged file: no other process has replaced it.
    std::error_code ignored;
    fs::remove(options_.file, ignored);
    return false;
  }
  opened_ = std::move(opened.file);
  // Release, so that a thread that sees the pointer sees the mapping behind it.
  file_.store(opened_.get(), std::memory_order_release);
  return opened_ != nullptr;
}

void CachedImages::Build(ImageCacheBuilder& builder, const ImageCacheId& id) {
  options_.listener.say(Named(options_.file) + ": building it from " +
                        std::to_string(id.count) + " images");
  next_ = 0;
  {
    std::vector<std::jthread> others;
    for (int i = 1; i < options_.threads; ++i) {
      try {
        others.emplace_back([&] { PutImages(builder); });
      } catch (const std::system_error&) {
        break;  // continue with fewer threads
      }
    }
    PutImages(builder);
  }
  if (stopped() && !builder.failed()) return;
  builder.Finish();
  if (!Open(id)) return;
  options_.listener.say(
      Named(options_.file) + ": built, " +
      FormatBytes(static_cast<std::int64_t>(opened_->size())));
}

void CachedImages::PutImages(ImageCacheBuilder& builder) {
  while (!stopped() && !builder.failed()) {
    const std::size_t sample = next_.fetch_add(1);
    if (sample >= folder_->samples.size()) return;
    try {
      const Image image = Decode(sample);
      // Decoded at each use instead, so that every run reports it.
      if (image.is_clipped) {
        builder.PutUnreadable(sample);
      } else {
        builder.Put(sample, image);
      }
    } catch (const std::exception&) {
      builder.PutUnreadable(sample);
    }
  }
}

// The thread that opened the file has ended, or is about to.
void CachedImages::RebuildDamaged(std::size_t sample) {
  std::call_once(rebuilt_, [&] {
    thread_.join();
    options_.listener.warn(Named(options_.file) +
                           ": is damaged; rebuilding it, the images are "
                           "decoded from their files meanwhile");
    file_.store(nullptr, std::memory_order_release);
    damaged_ = std::move(opened_);
    damaged_sample_ = sample;
    {
      const std::lock_guard lock(mutex_);
      over_ = false;
    }
    StartThread();
  });
}

}  // namespace dtrain
