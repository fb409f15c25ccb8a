#include "engine/checkpoint/disk_wait.h"

#include <chrono>
#include <thread>
#include <utility>

#include <sys/statvfs.h>

namespace dtrain {
namespace {

constexpr Duration kRetryPeriod = std::chrono::minutes(1);
// A try at a large model costs something: not for every log line that goes.
constexpr Duration kShortestWait = std::chrono::seconds(1);
constexpr std::int64_t kMoreBytes = 64 << 10;
constexpr std::int64_t kMoreInodes = 4;

}  // namespace

DiskWait::DiskWait(std::string directory, Clock clock)
    : directory_(std::move(directory)),
      clock_(std::move(clock)),
      began_(clock_.monotonic()),
      free_(Measure()) {}

bool DiskWait::IsOver() const {
  const Duration waited = clock_.monotonic() - began_;
  if (waited < kShortestWait) return false;
  if (waited >= kRetryPeriod) return true;
  const Free now = Measure();
  return now.bytes >= free_.bytes + kMoreBytes ||
         now.inodes >= free_.inodes + kMoreInodes;
}

void DiskWait::Sleep() {
  std::this_thread::sleep_for(std::chrono::milliseconds(200));
}

DiskWait::Free DiskWait::Measure() const {
  struct statvfs system {};
  if (::statvfs(directory_.c_str(), &system) != 0) return {};
  return {.bytes = static_cast<std::int64_t>(system.f_bavail) *
                   static_cast<std::int64_t>(system.f_frsize),
          .inodes = static_cast<std::int64_t>(system.f_favail)};
}

}  // namespace dtrain
