// Waits for disk space without knowing how much is needed: a checkpoint that
// failed may have filled the disk by itself. So the least free space that was
// seen is kept, and a retry is made when there is clearly more, or after a
// minute, because a quota is not visible to statvfs(3).

#include "engine/checkpoint/disk_wait.h"

#include <algorithm>
#include <chrono>
#include <thread>
#include <utility>

#include <sys/statvfs.h>

namespace dtrain {
namespace {

constexpr Duration kRetryPeriod = std::chrono::minutes(1);
// A retry with a large model is expensive, so a little free space is no reason
// to retry.
constexpr Duration kMinWait = std::chrono::seconds(1);
constexpr std::int64_t kMinMoreBytes = 64 << 10;
constexpr std::int64_t kMinMoreInodes = 4;

// Returns the smaller amount; `before` may be unknown.
std::int64_t Less(std::int64_t before, std::int64_t now) {
  return before < 0 ? now : std::min(before, now);
}

}  // namespace

FreeSpace FreeSpace::Query(const std::string& directory) {
  struct statvfs system {};
  if (::statvfs(directory.c_str(), &system) != 0) return {};
  return {.bytes = static_cast<std::int64_t>(system.f_bavail) *
                   static_cast<std::int64_t>(system.f_frsize),
          .inodes = static_cast<std::int64_t>(system.f_favail)};
}

DiskWait::DiskWait(std::string directory, Clock clock, Measure measure)
    : directory_(std::move(directory)),
      clock_(std::move(clock)),
      measure_(std::move(measure)),
      free_(measure_(directory_)) {}

void DiskWait::Begin() {
  began_ = clock_.monotonic();
  const FreeSpace now = measure_(directory_);
  free_ = {.bytes = Less(free_.bytes, now.bytes),
           .inodes = Less(free_.inodes, now.inodes)};
}

bool DiskWait::IsOver() const {
  const Duration waited = clock_.monotonic() - began_;
  if (waited < kMinWait) return false;
  if (waited >= kRetryPeriod) return true;
  const FreeSpace now = measure_(directory_);
  return now.bytes >= free_.bytes + kMinMoreBytes ||
         now.inodes >= free_.inodes + kMinMoreInodes;
}

void DiskWait::Sleep() {
  std::this_thread::sleep_for(std::chrono::milliseconds(200));
}

}  // namespace dtrain
