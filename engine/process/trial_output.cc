// Output of a trial's ranks on its way to the log, or to another machine
// (Sink). Records are flushed after a tenth of a second, or when a trial ends:
// each would otherwise cost a system call, and `dtrain logs -f` need not be
// faster. The last lines of each rank and the likely cause of a failure are
// kept in memory, so that the end of a trial is reported without reading the
// log.

#include "engine/process/trial_output.h"

#include <utility>

#include "engine/base/error.h"
#include "engine/store/file_tree.h"

namespace dtrain {
namespace {

constexpr std::size_t kLastLines = 20;
constexpr Duration kFlushAfter = std::chrono::milliseconds(100);

}  // namespace

TrialOutput::TrialOutput(std::filesystem::path log, Clock clock)
    : clock_(std::move(clock)), writer_(std::in_place, std::move(log)) {}

TrialOutput::TrialOutput(Sink sink, Clock clock)
    : clock_(std::move(clock)), sink_(std::move(sink)) {}

void TrialOutput::Log(int rank, const std::string& text) {
  Append({.time = clock_.now(),
          .rank = rank,
          .from_stderr = true,
          .level = LogLevel::kError,
          .text = "dtrain: " + text});
}

void TrialOutput::Append(const LogRecord& record) {
  if (writer_) {
    writer_->Append(record);
    if (!flush_at_) flush_at_ = clock_.monotonic() + kFlushAfter;
  } else {
    sink_(record);
  }
  std::deque<std::string>& lines = last_lines_[record.rank];
  lines.push_back(record.text.substr(0, FailureCause::kMaxLine));
  if (lines.size() > kLastLines) lines.pop_front();
  if (!record.from_stderr || record.text.starts_with("dtrain: ")) return;
  causes_[record.rank].Read(record.text);
}

std::vector<std::string> TrialOutput::LastLines(int rank) const {
  const auto lines = last_lines_.find(rank);
  if (lines == last_lines_.end()) return {};
  return {lines->second.begin(), lines->second.end()};
}

std::string TrialOutput::LastErrorLine(int rank) const {
  const auto cause = causes_.find(rank);
  return cause == causes_.end() ? "" : cause->second.Text();
}

void TrialOutput::Flush() {
  if (writer_) writer_->Flush();
  flush_at_.reset();
}

TrialOutput OpenTrialOutput(const TrialSpec& spec, const StoreLayout& layout,
                            Clock clock) {
  const std::filesystem::path directory = layout.Trial(spec.id);
  // A store that was moved away must not be created again in part.
  const bool recorded = spec.directory == directory.string();
  const std::filesystem::path there =
      recorded ? layout.Experiment(spec.id.experiment) : layout.root();
  std::error_code error;
  if (!std::filesystem::is_directory(there, error)) {
    throw Error(ErrorKind::kStore,
                there.string() + ": no longer exists; put it back");
  }
  if (!spec.directory.empty()) MakePrivateDirectories(spec.directory);
  MakePrivateDirectories(directory);
  return TrialOutput(layout.TrialLog(spec.id), std::move(clock));
}

}  // namespace dtrain
