#pragma once

#include <cstdint>
#include <filesystem>
#include <map>
#include <optional>
#include <set>
#include <string>
#include <vector>

#include "engine/base/clock.h"
#include "engine/base/tfevents.h"
#include "engine/os/unique_fd.h"
#include "engine/program/metric_steps.h"
#include "engine/wire/trial_spec.h"

namespace dtrain {

/// Follows the event files that a program writes in a directory, and below it.
/// Ignores the contents of files that exist at the start: they belong to an
/// earlier run. Values of a step may come in any order and from several files,
/// so a step is reported when all of its metrics are known and a later one has
/// begun, when those of a later one are known, or at the end. One thread.
class EventMetrics {
 public:
  EventMetrics(const MetricSource& source, std::filesystem::path directory,
               std::string searcher_metric, double from, bool refuses_zero,
               MetricFindings& findings);

  /// Reads what was added, at most 1 MiB of each file. True if there was
  /// something. Looks for new files once a second.
  bool Poll(Duration now);
  /// Reads the rest once the program has ended, and with `whole` reports the
  /// last step.
  void End(bool whole);
  /// Returns the count of the last step if all of its metrics are known and it
  /// waits for the next one.
  std::optional<double> held() const;
  /// Reports that step now. REQUIRES: held().
  void Settle() { ReportUntil(waiting_.rbegin()->first); }

  /// See PrintedMetrics.
  std::string Hint() const;

 private:
  struct File {
    std::filesystem::path path;
    UniqueFd fd;
    std::int64_t offset = 0;
    EventRecords records;
    bool grown = false;  // since the program started
    bool damaged = false;
  };

  void FindFiles();
  bool Read(File& file);
  void Add(const File& file, const EventScalars& event);
  std::optional<std::string> FindMetric(const std::string& tag,
                                        const std::string& whole);
  void ReportUntil(double step);
  void Report(double step, MetricValues values);

  const MetricSource source_;
  const std::filesystem::path directory_;
  const std::string searcher_metric_;
  MetricFindings& findings_;
  StepCounter steps_;
  std::set<std::filesystem::path> known_;
  std::vector<File> files_;
  std::optional<Duration> looked_at_;
  std::map<std::string, std::string> chosen_;  // whole tag of each metric
  std::map<double, MetricValues> waiting_;     // values by step
  double reported_ = -1;                       // the last step
  std::set<std::string> tags_;                 // that were seen
  bool has_result_ = false;
  bool warned_of_link_ = false;
};

}  // namespace dtrain
