#pragma once

#include <cstdint>
#include <string>

#include "engine/base/clock.h"

namespace dtrain {

/// A wait for space on a full disk, between one failed write and the next try:
/// over once more bytes or inodes are free on the file system of `directory`
/// than when the wait began, or after a minute. One thread.
class DiskWait {
 public:
  DiskWait(std::string directory, Clock clock);

  [[nodiscard]] bool IsOver() const;
  /// A fifth of a second: whoever waits has other questions to ask as well.
  static void Sleep();

 private:
  struct Free {
    std::int64_t bytes = -1;  // −1: unknown
    std::int64_t inodes = -1;
  };
  Free Measure() const;

  std::string directory_;
  Clock clock_;
  Duration began_;
  Free free_;
};

}  // namespace dtrain
