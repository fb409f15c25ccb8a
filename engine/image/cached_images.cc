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

// How soon it is noticed that another process has made the file, or died of it.
constexpr std::chrono::milliseconds kPatience(500);
// Who loads batches goes first where there are too few cores for all.
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
  Start();
  if (const auto* file = file_.load(std::memory_order_acquire)) {
    const ImageCacheFile::Found found = file->Find(sample);
    if (found.state == ImageCacheFile::State::kPixels) return found.image;
    if (found.state == ImageCacheFile::State::kDamaged) WarnOfDamage();
  }
  room = Decoded(sample);
  auto* build = build_.load(std::memory_order_acquire);
  if (build != nullptr && build->Claim(sample)) build->Put(sample, room);
  return room;
}

bool CachedImages::WaitUntilMade() {
  Start();
  std::unique_lock lock(mutex_);
  changed_.wait(lock, [this] { return over_; });
  return file_.load(std::memory_order_acquire) != nullptr;
}

Image CachedImages::Decoded(std::size_t sample) const {
  return ShrunkTo(ReadImage(folder_->samples[sample].path), options_.side);
}

void CachedImages::Start() {
  std::call_once(started_, [this] {
    const SignalsBlocked blocked;
    try {
      thread_ = std::thread([this] { Prepare(); });
    } catch (const std::system_error& error) {
      GoWithout(error.what());
    }
  });
}

void CachedImages::Prepare() {
  // Of this thread and those that it starts.
  [[maybe_unused]] const int niceness = ::nice(kNiceness);
  try {
    if (options_.file.empty()) {
      throw Error(ErrorKind::kFailed, "HOME names no directory for it");
    }
    if (const auto id = Identify()) OpenOrMake(*id);
    Over();
  } catch (const std::exception& error) {
    GoWithout(error.what());
  }
}

void CachedImages::GoWithout(const std::string& why) {
  options_.listener.warn(
      "image cache: " + why +
      "; the images are decoded from their files each time (XDG_CACHE_HOME "
      "says where the cache is, 'image_cache: 0' does without)");
  Over();
}

void CachedImages::Over() {
  const std::lock_guard lock(mutex_);
  over_ = true;
  changed_.notify_all();
}

// It takes a look at every file: seconds for a million of them.
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

void CachedImages::OpenOrMake(const ImageCacheId& id) {
  while (!stopped()) {
    if (Open(id)) return;
    made_ =
        ImageCacheBuild::Begin(options_.file, id, [this] { return stopped(); });
    if (made_) return Make(id);
    // Another process makes it. Until then we do without.
    std::unique_lock lock(mutex_);
    changed_.wait_for(lock, kPatience, [this] { return stopped(); });
  }
}

bool CachedImages::Open(const ImageCacheId& id) {
  opened_ = ImageCacheFile::Open(options_.file, id);
  file_.store(opened_.get(), std::memory_order_release);
  return opened_ != nullptr;
}

void CachedImages::Make(const ImageCacheId& id) {
  // Another may have finished it just before we got the lock.
  if (Open(id)) return made_->Discard();
  options_.listener.say(Named(options_.file) + ": is being made, of " +
                        std::to_string(id.count) + " images");
  build_.store(made_.get(), std::memory_order_release);
  MakeInThreads();
  if (stopped() && !made_->failed()) return;  // who comes next goes on
  try {
    made_->Finish();
  } catch (const Error&) {
    made_->Discard();
    throw;
  }
  if (!Open(id)) return;
  options_.listener.say(
      Named(options_.file) + ": is made, " +
      FormatBytes(static_cast<std::int64_t>(opened_->size())));
}

void CachedImages::MakeInThreads() {
  std::vector<std::jthread> others;
  for (int i = 1; i < options_.threads; ++i) {
    try {
      others.emplace_back([this] { MakeImages(); });
    } catch (const std::system_error&) {
      break;  // fewer will do
    }
  }
  MakeImages();
}

void CachedImages::MakeImages() {
  while (!stopped()) {
    const std::optional<std::size_t> sample = made_->ClaimNext();
    if (!sample) return;
    try {
      made_->Put(*sample, Decoded(*sample));
    } catch (const std::exception&) {
      made_->PutUnreadable(*sample);
    }
  }
}

void CachedImages::WarnOfDamage() {
  std::call_once(damage_said_, [this] {
    options_.listener.warn(
        Named(options_.file) +
        ": is damaged; what is damaged of it is decoded from the images' files "
        "instead (delete it to have it made anew)");
  });
}

}  // namespace dtrain
