#pragma once

#include <cstdint>
#include <map>
#include <string>
#include <vector>

#include "engine/base/clock.h"
#include "engine/command/program_report.h"

namespace dtrain {

/// How many reports a program may have recorded: `burst` at once, and
/// `per_second` in the long run. One thread.
class ReportRate {
 public:
  explicit ReportRate(Duration now, double per_second = 500,
                      double burst = 5'000)
      : per_second_(per_second), burst_(burst), left_(burst), at_(now) {}

  /// Whether there is room for one more now, which is then taken.
  [[nodiscard]] bool Take(Duration now);

 private:
  double per_second_;
  double burst_;
  double left_;
  Duration at_;
};

/// Means over training reports that come faster than they can be recorded. One
/// thread.
class TrainingMeans {
 public:
  void Add(const ProgramTraining& report);
  bool empty() const { return sums_.empty(); }
  /// The last report's point with the mean of each metric, in the order of
  /// their first coming; begins anew.
  ProgramTraining Take();

 private:
  struct Sum {
    double total = 0;
    std::int64_t count = 0;
  };

  ProgramPoint point_;
  std::vector<std::string> names_;
  std::map<std::string, Sum> sums_;
};

}  // namespace dtrain
