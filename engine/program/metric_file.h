#pragma once

#include <cstdint>
#include <filesystem>
#include <optional>
#include <string>
#include <string_view>
#include <utility>
#include <variant>
#include <vector>

#include "engine/base/length.h"
#include "engine/os/line_reader.h"
#include "engine/os/unique_fd.h"
#include "engine/program/metric_steps.h"
#include "engine/wire/trial_spec.h"

namespace dtrain {

/// A row of a file of metrics: each column with its number, or with the text
/// that is in its place.
using MetricRow =
    std::vector<std::pair<std::string, std::variant<double, std::string>>>;

/// Parses the lines of a CSV file (RFC 4180, without line breaks in cells). The
/// first line names the columns. One thread.
class CsvRows {
 public:
  /// Returns the row of a line; nothing for a header. Cells that are empty are
  /// left out. Throws Error(kFailed) if the line has another number of cells
  /// than the header.
  std::optional<MetricRow> Parse(std::string_view line);

 private:
  std::vector<std::string> columns_;
};

/// Returns the row of a line of JSON: the numbers and texts of its object.
/// Throws Error(kFailed) if it is something else.
MetricRow ParseJsonRow(std::string_view line);

/// Returns why `path`, which is `relative` in the working directory, must not
/// be read, or "": it is a symbolic link, or its directories lead out of there.
std::string FindLink(const std::filesystem::path& path,
                     const std::filesystem::path& relative);

/// Follows a file of metrics that a program writes: JSON lines, or CSV if its
/// name ends in .csv. Each row is a report; a row with the searcher's metric
/// waits for the next step, and the last row of a step counts. One thread.
class MetricFile {
 public:
  /// Moves a file that exists already out of the way: it is from an earlier
  /// run, or a file of the user's. `from` and `unit`: the count that the
  /// program starts from, and what it counts.
  MetricFile(const MetricSource& source, std::filesystem::path path,
             std::string searcher_metric, double from, Unit unit,
             bool refuses_zero, MetricFindings& findings);

  /// Reads what was added, at most 1 MiB. True if there was something.
  bool Poll();
  /// Reads the rest once the program has ended. Without `whole`, a last line
  /// without a newline is not read.
  void End(bool whole);
  /// Returns the count of the step whose result waits for the next step, if
  /// there is one.
  std::optional<double> held() const {
    return held_ ? std::optional(held_->count) : std::nullopt;
  }
  /// Reports that result now.
  void Settle();

  /// See PrintedMetrics.
  std::string Hint() const;

 private:
  bool Open();
  bool IsRewritten();
  void StartAgain();
  void ReadLine(std::string_view line, bool too_long);
  void ReadRow(const MetricRow& row);
  void Send(FoundReport report);
  std::optional<double> FindStep(const MetricRow& row);
  MetricValues ReadValues(const MetricRow& row);
  void Ignore(const std::string& why, std::string_view line);

  const MetricSource source_;
  const std::filesystem::path path_;
  const std::string searcher_metric_;
  const Unit unit_;
  const bool is_csv_;
  const double from_;
  const bool refuses_zero_;
  MetricFindings& findings_;

  UniqueFd file_;
  std::int64_t offset_ = 0;
  std::string tail_;  // the last bytes before `offset_`
  LineSplitter lines_;
  CsvRows csv_;
  std::optional<StepCounter> steps_;
  std::optional<FoundReport> held_;  // the last result, with a step
  double results_ = 0;               // validations, where rows have no steps
  double reported_ = -1;             // the last count
  double repeated_until_;            // of a file that was written again
  std::int64_t line_ = 0;
  std::int64_t rows_ = 0;
  bool has_result_ = false;
  bool warned_of_link_ = false;
  std::vector<std::string> columns_;  // that were found, in their order
};

}  // namespace dtrain
