// Metrics from TensorBoard's event files, which the program writes while it
// trains.
//
// Files are looked for below the directory once a second and read from where
// the last Poll ended, in bounded pieces, so that a fast writer cannot hold the
// loop up. What stood in them before this process of the trial began is
// skipped. A record that is not complete yet is left for the next Poll; one
// with a wrong checksum ends the reading of its file.
//
// Values are collected by step and reported in the order of steps, once a step
// has all metrics that the configuration names. Unless the first value of a
// step counts, that is only when a later step has begun. A value for a step
// that was already reported is ignored with a remark. Numbers of files, tags,
// and open steps are limited, since the files are not ours.

#include "engine/program/event_metrics.h"

#include <algorithm>
#include <array>
#include <limits>
#include <utility>

#include <fcntl.h>
#include <sys/stat.h>
#include <unistd.h>

#include "engine/base/error.h"
#include "engine/base/text.h"
#include "engine/program/metric_file.h"

namespace dtrain {
namespace {

namespace fs = std::filesystem;

constexpr std::size_t kEventChunk = std::size_t{64} << 10;
constexpr int kEventChunks = 16;
constexpr std::size_t kMaxTags = 1'000;
constexpr std::size_t kMaxEventFiles = 256;
constexpr std::size_t kMaxOpenSteps = 10'000;
constexpr int kMaxDepth = 4;
constexpr int kMaxEntries = 10'000;
constexpr Duration kLookAgain = std::chrono::seconds(1);

}  // namespace

EventMetrics::EventMetrics(const MetricSource& source, fs::path directory,
                           std::string searcher_metric, double from,
                           bool refuses_zero, MetricFindings& findings)
    : source_(source),
      directory_(std::move(directory)),
      searcher_metric_(std::move(searcher_metric)),
      findings_(findings),
      steps_(source, from, refuses_zero, findings) {
  FindFiles();
  std::error_code error;
  for (File& file : files_) {
    const auto size = fs::file_size(file.path, error);
    if (!error) file.offset = static_cast<std::int64_t>(size);
  }
}

// Adds the files that are not known yet.
void EventMetrics::FindFiles() {
  const auto refuse = [this](const std::string& problem) {
    if (std::exchange(warned_of_link_, true)) return;
    findings_.remarks.push_back({.text = problem, .ignored = true});
  };
  const std::string problem = FindLink(directory_, source_.tensorboard);
  if (!problem.empty()) return refuse(problem);
  std::error_code error;
  int entries = 0;
  for (auto at = fs::recursive_directory_iterator(
           directory_, fs::directory_options::skip_permission_denied, error);
       !error && at != fs::recursive_directory_iterator();
       at.increment(error)) {
    if (++entries > kMaxEntries || files_.size() >= kMaxEventFiles) return;
    if (at.depth() >= kMaxDepth) at.disable_recursion_pending();
    const fs::path& path = at->path();
    if (path.filename().string().find(".tfevents.") == std::string::npos ||
        !known_.insert(path).second) {
      continue;
    }
    const std::string link = FindLink(path, {});
    if (!link.empty()) refuse(link);
    UniqueFd fd(
        ::open(path.c_str(), O_RDONLY | O_CLOEXEC | O_NONBLOCK | O_NOFOLLOW));
    struct stat status {};
    // Try again later, except what was present at the start: its events are of
    // earlier runs.
    if (!fd && link.empty() && looked_at_) known_.erase(path);
    if (fd && ::fstat(fd.get(), &status) == 0 && S_ISREG(status.st_mode)) {
      files_.push_back({.path = path, .fd = std::move(fd)});
    }
  }
}

bool EventMetrics::Poll(Duration now) {
  if (!looked_at_ || now - *looked_at_ >= kLookAgain) {
    looked_at_ = now;
    FindFiles();
  }
  bool any = false;
  for (File& file : files_) {
    for (int i = 0; i < kEventChunks && Read(file); ++i) any = true;
  }
  // Reports the steps up to the last one that is complete and, unless the first
  // values of a step count, has ended.
  double last = -1;
  for (const auto& [step, values] : waiting_) {
    const bool ended = source_.first_value || step < waiting_.rbegin()->first;
    if (ended && values.size() == source_.names.size()) last = step;
  }
  if (last >= 0) ReportUntil(last);
  return any;
}

void EventMetrics::End(bool whole) {
  looked_at_.reset();
  while (Poll(Duration(0))) {
  }
  if (!whole) return;
  ReportUntil(std::numeric_limits<double>::infinity());
}

bool EventMetrics::Read(File& file) {
  if (file.damaged) return false;
  std::array<char, kEventChunk> chunk;
  const ssize_t count = ::pread(file.fd.get(), chunk.data(), chunk.size(),
                                static_cast<off_t>(file.offset));
  if (count <= 0) return false;
  file.offset += count;
  file.grown = true;
  file.records.Append({chunk.data(), static_cast<std::size_t>(count)});
  try {
    while (const auto record = file.records.Next()) {
      Add(file, ParseEvent(*record));
    }
  } catch (const Error& error) {
    file.damaged = true;
    findings_.remarks.push_back({.text = file.path.filename().string() + ": " +
                                         error.what() +
                                         "; the rest of the file is not read",
                                 .ignored = true});
  }
  return true;
}

void EventMetrics::Add(const File& file, const EventScalars& event) {
  const std::string below =
      file.path.parent_path().lexically_relative(directory_).generic_string();
  for (const auto& [tag, value] : event.values) {
    if (tags_.size() < kMaxTags) tags_.insert(tag);
    const auto metric = FindMetric(tag, below == "." ? tag : below + "/" + tag);
    if (!metric) continue;
    const auto step = static_cast<double>(event.step);
    if (step <= reported_) {
      findings_.remarks.push_back(
          {.text = "'" + *metric + "' at step " + FormatNumber(step) +
                   " was written after step " + FormatNumber(reported_) +
                   " was reported",
           .ignored = true});
      continue;
    }
    UpdateMetrics(waiting_[step], {{*metric, value}});
  }
  // Steps that never become complete must not grow without limit.
  if (waiting_.size() > kMaxOpenSteps) ReportUntil(waiting_.begin()->first);
}

// Returns the metric that has this tag. A directory of the tag may be named
// too: validation/loss. If several have it, the first that was found counts.
std::optional<std::string> EventMetrics::FindMetric(const std::string& tag,
                                                    const std::string& whole) {
  for (const auto& [name, source_tag] : source_.names) {
    if (source_tag != tag && source_tag != whole &&
        !whole.ends_with("/" + source_tag)) {
      continue;
    }
    const auto [chosen, is_new] = chosen_.try_emplace(name, whole);
    if (chosen->second == whole) return name;
    if (tags_.insert(whole).second) {
      findings_.remarks.push_back(
          {.text = "'" + source_tag + "' is in several event files, as " +
                   chosen->second + " and " + whole +
                   "; the first one counts; name the directory too"});
    }
  }
  return std::nullopt;
}

std::optional<double> EventMetrics::held() const {
  if (waiting_.empty()) return std::nullopt;
  const auto& [step, values] = *waiting_.rbegin();
  if (values.size() != source_.names.size()) return std::nullopt;
  return source_.first_step == 0 ? step + 1 : step;
}

void EventMetrics::ReportUntil(double step) {
  while (!waiting_.empty() && waiting_.begin()->first <= step) {
    auto first = waiting_.extract(waiting_.begin());
    Report(first.key(), std::move(first.mapped()));
  }
}

void EventMetrics::Report(double step, MetricValues values) {
  reported_ = step;
  const auto count = steps_.MoveTo(step);
  if (!count) return;
  has_result_ =
      has_result_ || std::ranges::any_of(values, [&](const auto& metric) {
        return metric.first == searcher_metric_;
      });
  findings_.reports.push_back({.count = *count, .metrics = std::move(values)});
}

std::string EventMetrics::Hint() const {
  if (has_result_) {
    return steps_.began_with_zero()
               ? "; its first step was 0: if that is the first step of "
                 "training, set metrics.first_step: 0, with 'dtrain run' "
                 "--pattern first_step=0"
               : "";
  }
  if (std::ranges::none_of(files_, &File::grown)) {
    return "; it wrote no event file in " + directory_.string();
  }
  const std::vector<std::string> tags(tags_.begin(), tags_.end());
  const auto source_tag = source_.names.find(searcher_metric_);
  if (source_tag == source_.names.end()) return "";
  const std::string hint = DidYouMean(source_tag->second, tags);
  return "; its event files have no tag '" + source_tag->second + "'" +
         (hint.empty() ? tags.empty() ? "" : "; they have " + Join(tags, ", ")
                       : hint);
}

}  // namespace dtrain
