#pragma once

#include <cstdint>
#include <functional>
#include <string>

#include "engine/base/clock.h"

namespace dtrain {

/// Free bytes and inodes of a file system, as available to ordinary users.
struct FreeSpace {
  std::int64_t bytes = -1;  // −1: unknown
  std::int64_t inodes = -1;

  /// Measures the file system of `directory`.
  static FreeSpace Query(const std::string& directory);
};

/// A wait for space on a full disk, between one failed write and the next try:
/// over once more bytes or inodes are free on the file system of `directory`
/// than before the write or when the wait began, or after a minute. One thread.
class DiskWait {
 public:
  using Measure = std::function<FreeSpace(const std::string& directory)>;

  /// Measures the free space. Construct it before the write, so that space
  /// freed between the failure and Begin counts.
  DiskWait(std::string directory, Clock clock,
           Measure measure = FreeSpace::Query);

  /// Begins the wait, after the write has failed.
  void Begin();
  /// REQUIRES: the wait has begun.
  [[nodiscard]] bool IsOver() const;
  /// Sleeps for 200 ms, after which the caller also checks for other events.
  static void Sleep();

 private:
  std::string directory_;
  Clock clock_;
  Measure measure_;
  Duration began_{0};
  FreeSpace free_;
};

}  // namespace dtrain
