// Metrics in a file of rows that the program writes: CSV or lines of JSON.
//
// The file is polled, in bounded pieces, and may not exist yet. A file that is
// left from an earlier run is renamed at the beginning, so that its rows are
// not taken for new ones. A program may replace or truncate its file; that is
// noticed by the inode, by the size, or by the last bytes that were read, and
// the file is read again from its start, where steps that were reported already
// are passed over.
//
// Links are not followed, in the directories neither, and only a regular file
// is read: a program could name a file of another user or a pipe.
//
// The column of the step is chosen among usual names for the unit of the
// search, most specific first.

#include "engine/program/metric_file.h"

#include <algorithm>
#include <array>
#include <span>
#include <utility>

#include <fcntl.h>
#include <sys/stat.h>
#include <unistd.h>

#include <nlohmann/json.hpp>

#include "engine/base/error.h"
#include "engine/base/rounding.h"
#include "engine/base/text.h"
#include "engine/program/program_report.h"
#include "engine/train/log_line.h"

namespace dtrain {
namespace {

namespace fs = std::filesystem;

constexpr std::size_t kMaxRow = std::size_t{1} << 20;
constexpr std::size_t kFileChunk = std::size_t{64} << 10;
constexpr int kChunksAtOnce = 16;
constexpr std::size_t kTail = 256;
constexpr std::size_t kMaxColumns = 1'000;
// Files that are named if the one of metrics is missing.
constexpr std::size_t kMaxNamed = 5;
constexpr int kMaxVisited = 10'000;
constexpr std::size_t kRowColumns = 80;

[[noreturn]] void FailRow(const std::string& what) {
  throw Error(ErrorKind::kFailed, what);
}

// Splits a line of CSV. Throws Error(kFailed) for a quote that is not closed.
std::vector<std::string> SplitCells(std::string_view line) {
  std::vector<std::string> cells(1);
  bool quoted = false;
  for (std::size_t i = 0; i < line.size(); ++i) {
    const char c = line[i];
    if (quoted && c == '"' && i + 1 < line.size() && line[i + 1] == '"') {
      cells.back() += line[++i];
    } else if (c == '"') {
      quoted = !quoted;
    } else if (c == ',' && !quoted) {
      cells.emplace_back();
    } else {
      cells.back() += c;
    }
  }
  if (quoted) FailRow("has a quote that is not closed");
  return cells;
}

// The columns that hold a step of the unit, most specific first.
std::vector<std::string_view> StepColumns(Unit unit) {
  switch (unit) {
    case Unit::kEpochs:
      return {"epoch", "epochs", "step"};
    case Unit::kRecords:
      return {"records", "samples", "step"};
    case Unit::kBatches:
      return {"batches", "batch", "global_step", "step", "iteration", "iter"};
  }
  return {};
}

// Moves a file that exists already to a name that is free.
void MoveAside(const fs::path& path) {
  std::error_code error;
  if (!fs::is_regular_file(path, error)) return;
  fs::path old;
  for (int i = 1; old.empty() || fs::exists(old, error); ++i) {
    old = path.string() + ".old" + std::to_string(i);
  }
  fs::rename(path, old, error);
  if (error) {
    throw Error(ErrorKind::kFailed,
                "cannot rename " + path.string() + ": " + error.message());
  }
  LogLine(LogLevel::kInfo, "dtrain: renamed the earlier " +
                               path.filename().string() + " to " +
                               old.filename().string());
}

// Names files of the same kind below the directory.
std::string FilesLike(const fs::path& path) {
  std::vector<std::string> found;
  std::error_code error;
  const fs::path root = path.parent_path();
  int visited = 0;
  for (auto at = fs::recursive_directory_iterator(
           root, fs::directory_options::skip_permission_denied, error);
       !error && at != fs::recursive_directory_iterator();
       at.increment(error)) {
    if (at.depth() > 4) at.disable_recursion_pending();
    if (at->path().extension() == path.extension()) {
      found.push_back(at->path().lexically_relative(root).string());
    }
    if (found.size() == kMaxNamed || ++visited > kMaxVisited) break;
  }
  std::ranges::sort(found);
  return Join(found, ", ");
}

}  // namespace

std::string FindLink(const fs::path& path, const fs::path& relative) {
  std::error_code error;
  if (fs::is_symlink(fs::symlink_status(path, error))) {
    return path.filename().string() +
           " is a symbolic link, which is not followed; write the metrics "
           "there";
  }
  fs::path root = path;
  for (auto part = relative.begin(); part != relative.end(); ++part) {
    root = root.parent_path();
  }
  if (relative.empty()) return "";
  const fs::path inner = fs::weakly_canonical(path.parent_path(), error)
                             .lexically_relative(fs::canonical(root, error));
  if (error || inner.empty() || *inner.begin() != "..") return "";
  return relative.parent_path().string() +
         " leads out of the working directory by a symbolic link, which is "
         "not followed; write the metrics there";
}

std::optional<MetricRow> CsvRows::Parse(std::string_view line) {
  if (line.ends_with('\r')) line.remove_suffix(1);
  if (columns_.empty() && line.starts_with("\xEF\xBB\xBF")) {
    line.remove_prefix(3);
  }
  std::vector<std::string> cells = SplitCells(line);
  if (cells.size() > kMaxColumns) FailRow("has more than 1000 cells");
  for (std::string& cell : cells) cell = std::string(Trim(cell));
  // A program that opens the file again may write the header again.
  if (columns_.empty() || cells == columns_) {
    columns_ = std::move(cells);
    return std::nullopt;
  }
  if (cells.size() != columns_.size()) {
    FailRow("has " + std::to_string(cells.size()) + " cells, and the header " +
            std::to_string(columns_.size()));
  }
  MetricRow row;
  for (std::size_t i = 0; i < cells.size(); ++i) {
    if (cells[i].empty()) continue;
    if (const auto number = ParseMetric(cells[i])) {
      row.emplace_back(columns_[i], *number);
    } else {
      row.emplace_back(columns_[i], std::move(cells[i]));
    }
  }
  return row;
}

MetricRow ParseJsonRow(std::string_view line) {
  MetricRow row;
  const nlohmann::json object = ParseJsonLine(line);
  if (object.size() > kMaxColumns) FailRow("has more than 1000 fields");
  for (const auto& [name, value] : object.items()) {
    if (value.is_number()) {
      row.emplace_back(name, value.get<double>());
    } else if (value.is_string()) {
      const auto text = value.get<std::string>();
      // Like NaN and Infinity as Python's json module writes them.
      if (text == "NaN" || text == "Infinity" || text == "-Infinity") {
        row.emplace_back(name, *ParseMetric(text));
      } else {
        row.emplace_back(name, text);
      }
    }
  }
  return row;
}

MetricFile::MetricFile(const MetricSource& source, fs::path path,
                       std::string searcher_metric, double from, Unit unit,
                       bool refuses_zero, MetricFindings& findings)
    : source_(source),
      path_(std::move(path)),
      searcher_metric_(std::move(searcher_metric)),
      unit_(unit),
      is_csv_(path_.extension() == ".csv"),
      from_(from),
      refuses_zero_(refuses_zero),
      findings_(findings),
      lines_(kMaxRow, LineSplitter::Overlong::kDiscard),
      repeated_until_(-1) {
  if (FindLink(path_, source_.file).empty()) MoveAside(path_);
  StartAgain();
}

// Opens the file once it exists. A file of the kernel, or a pipe, is not one,
// and a link, in its directories too, may lead to another's.
bool MetricFile::Open() {
  const std::string problem = FindLink(path_, source_.file);
  if (!problem.empty()) {
    if (std::exchange(warned_of_link_, true)) return false;
    findings_.remarks.push_back({.text = problem, .ignored = true});
    return false;
  }
  UniqueFd file(
      ::open(path_.c_str(), O_RDONLY | O_CLOEXEC | O_NONBLOCK | O_NOFOLLOW));
  struct stat status {};
  if (!file || ::fstat(file.get(), &status) != 0) return false;
  if (!S_ISREG(status.st_mode)) return false;
  file_ = std::move(file);
  return true;
}

// True if the file under the name is another one, or has other bytes before the
// position that was reached.
bool MetricFile::IsRewritten() {
  struct stat named {};
  struct stat opened {};
  if (::lstat(path_.c_str(), &named) != 0) return false;
  if (::fstat(file_.get(), &opened) != 0) return true;
  if (named.st_ino != opened.st_ino || opened.st_size < offset_) return true;
  std::string now(tail_.size(), '\0');
  const auto start =
      static_cast<off_t>(offset_) - static_cast<off_t>(tail_.size());
  const ssize_t count = ::pread(file_.get(), now.data(), now.size(), start);
  return count != static_cast<ssize_t>(tail_.size()) || now != tail_;
}

void MetricFile::StartAgain() {
  file_.reset();
  offset_ = line_ = 0;
  tail_.clear();
  lines_.Clear();
  csv_ = {};
  steps_.emplace(source_, from_, refuses_zero_, findings_);
  results_ = from_;
  repeated_until_ = reported_;
}

bool MetricFile::Poll() {
  if (file_ && IsRewritten()) StartAgain();
  if (!file_ && !Open()) return false;
  bool any = false;
  for (int i = 0; i < kChunksAtOnce; ++i) {
    std::array<char, kFileChunk> chunk;
    const ssize_t count = ::pread(file_.get(), chunk.data(), chunk.size(),
                                  static_cast<off_t>(offset_));
    if (count <= 0) break;
    any = true;
    const std::string_view bytes(chunk.data(), static_cast<std::size_t>(count));
    offset_ += count;
    tail_ += bytes;
    if (tail_.size() > kTail) tail_.erase(0, tail_.size() - kTail);
    lines_.Append(bytes);
    while (const auto line = lines_.Next()) {
      ReadLine(line->text, line->overlong);
    }
  }
  return any;
}

void MetricFile::End(bool whole) {
  while (Poll()) {
  }
  if (!whole) return;
  if (const auto line = lines_.Rest()) ReadLine(line->text, line->overlong);
}

void MetricFile::Settle() {
  if (held_) Send(*std::exchange(held_, std::nullopt));
}

void MetricFile::ReadLine(std::string_view line, bool too_long) {
  ++line_;
  if (too_long) {
    return Ignore("is longer than " + FormatBytes(std::int64_t{kMaxRow}), line);
  }
  if (line.find_first_not_of(" \t\r") == line.npos) return;
  try {
    const auto row = is_csv_ ? csv_.Parse(line)
                             : std::optional<MetricRow>(ParseJsonRow(line));
    if (row) ReadRow(*row);
  } catch (const Error& error) {
    Ignore(error.what(), line);
  }
}

void MetricFile::ReadRow(const MetricRow& row) {
  ++rows_;
  for (const auto& [name, cell] : row) {
    if (std::ranges::find(columns_, name) != columns_.end()) continue;
    if (columns_.size() < kMaxColumns) columns_.push_back(name);
  }
  FoundReport report{.metrics = ReadValues(row)};
  const bool is_result = std::ranges::any_of(
      report.metrics,
      [&](const auto& metric) { return metric.first == searcher_metric_; });
  const auto step = FindStep(row);
  if (!findings_.refusal.empty()) return;
  if (step) {
    const auto count = steps_->MoveTo(*step);
    if (!count) return;
    report.count = *count;
  } else {
    report.count = is_result ? ++results_ : results_ + 1;
  }
  if (report.metrics.empty() || report.count <= repeated_until_) return;
  has_result_ = has_result_ || is_result;
  if (held_ && held_->count < report.count) Settle();
  const bool holds = is_result && step && !source_.first_value;
  if (holds && !held_) {
    held_ = std::move(report);
  } else if (holds && held_->count == report.count) {
    UpdateMetrics(held_->metrics, report.metrics);
  } else {
    Send(std::move(report));
  }
}

void MetricFile::Send(FoundReport report) {
  reported_ = std::max(reported_, report.count);
  findings_.reports.push_back(std::move(report));
}

// Returns the step of the row. Throws Error(kFailed) if it must have one.
std::optional<double> MetricFile::FindStep(const MetricRow& row) {
  std::vector<std::string_view> names = StepColumns(unit_);
  if (!source_.step.empty()) names = {source_.step};
  for (const std::string_view name : names) {
    for (const auto& [column, cell] : row) {
      if (column != name) continue;
      if (const auto* number = std::get_if<double>(&cell)) return *number;
      FailRow("has a text in the column of the step, '" + column + "'");
    }
  }
  if (source_.step.empty() && !steps_->begun()) return std::nullopt;
  FailRow("has no column '" +
          (source_.step.empty() ? std::string(names.front()) : source_.step) +
          "' with the step");
}

// Returns the metrics of the row: those of `source_`, or all of its numbers.
MetricValues MetricFile::ReadValues(const MetricRow& row) {
  MetricValues values;
  for (const auto& [column, cell] : row) {
    const auto* number = std::get_if<double>(&cell);
    if (source_.names.empty()) {
      const bool is_step =
          column == source_.step ||
          std::ranges::any_of(
              std::array{Unit::kEpochs, Unit::kRecords, Unit::kBatches},
              [&](Unit unit) {
                const auto columns = StepColumns(unit);
                return std::ranges::find(columns, column) != columns.end();
              });
      if (number != nullptr && (!is_step || column == searcher_metric_)) {
        values.emplace_back(column, *number);
      } else if (number == nullptr && column == searcher_metric_) {
        FailRow("has a text for '" + column + "'");
      }
      continue;
    }
    for (const auto& [name, source_column] : source_.names) {
      if (source_column != column) continue;
      if (number == nullptr) FailRow("has a text for '" + column + "'");
      values.emplace_back(name, *number);
    }
  }
  return values;
}

void MetricFile::Ignore(const std::string& why, std::string_view line) {
  findings_.remarks.push_back(
      {.text = "line " + std::to_string(line_) + " of " +
               path_.filename().string() + " " + why + ": '" +
               Truncate(EscapeForTerminal(line.substr(0, 400)), kRowColumns) +
               "'",
       .ignored = true});
}

std::string MetricFile::Hint() const {
  if (has_result_) {
    return steps_->began_with_zero()
               ? "; its first step was 0: if that is the first step of "
                 "training, set metrics.first_step: 0, with 'dtrain run' "
                 "--pattern first_step=0"
               : "";
  }
  if (!file_) {
    const std::string others = FilesLike(path_);
    return "; it did not write " + path_.string() +
           (others.empty() ? "" : ", but there: " + others);
  }
  const auto column = source_.names.find(searcher_metric_);
  const std::string source_column =
      column == source_.names.end() ? searcher_metric_ : column->second;
  const bool is_there =
      std::ranges::find(columns_, source_column) != columns_.end();
  return "; " + path_.filename().string() + " has " + CountText(rows_, "row") +
         (is_there || rows_ == 0
              ? ""
              : ", and no column '" + source_column + "'" +
                    (DidYouMean(source_column, columns_).empty()
                         ? "; its columns are " + Join(columns_, ", ")
                         : DidYouMean(source_column, columns_)));
}

}  // namespace dtrain
