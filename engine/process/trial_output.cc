#include "engine/process/trial_output.h"

#include <algorithm>
#include <cctype>
#include <string_view>
#include <utility>

#include "engine/base/error.h"
#include "engine/base/text.h"
#include "engine/store/file_tree.h"

namespace dtrain {
namespace {

constexpr std::size_t kLastLines = 20;
constexpr std::size_t kMaxLastLine = 2000;
constexpr Duration kFlushAfter = std::chrono::milliseconds(100);
constexpr char kEscape = '\x1b';

bool HasText(std::string_view text) {
  return std::any_of(text.begin(), text.end(), [](char c) {
    const auto byte = static_cast<unsigned char>(c);
    return byte >= 0x80 || std::isalnum(byte) != 0;
  });
}

// Returns the length of the escape sequence that `text` begins with: a control
// sequence up to its final byte, a string up to BEL or ESC, or two bytes.
std::size_t EscapeLength(std::string_view text) {
  const char kind = text.size() > 1 ? text[1] : '\0';
  std::size_t end = 2;
  if (kind == '[') {
    while (end < text.size() && (text[end] < '@' || text[end] > '~')) ++end;
    ++end;
  } else if (kind == ']' || kind == 'P') {
    while (end < text.size() && text[end] != '\a' && text[end] != kEscape) {
      ++end;
    }
    end += end < text.size() && text[end] == kEscape ? 2 : 1;
  }
  return std::min(end, text.size());
}

std::string WithoutEscapes(std::string_view text) {
  std::string plain;
  while (!text.empty()) {
    std::size_t length = 1;
    if (text.front() == kEscape) {
      length = EscapeLength(text);
    } else {
      plain += text.front();
    }
    text.remove_prefix(length);
  }
  return plain;
}

// Returns the last part with text of a line that carriage returns overwrite,
// as progress bars do.
std::string_view LastOverwrite(std::string_view line) {
  std::string_view part;
  do {
    const std::size_t start = line.rfind('\r');
    const bool whole = start == std::string_view::npos;
    part = whole ? line : line.substr(start + 1);
    line = whole ? std::string_view() : line.substr(0, start);
  } while (!HasText(part) && !line.empty());
  return part;
}

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
  lines.push_back(record.text.substr(0, kMaxLastLine));
  if (lines.size() > kLastLines) lines.pop_front();
  if (!record.from_stderr || record.text.starts_with("dtrain: ")) return;
  const std::string_view part = LastOverwrite(record.text);
  if (!HasText(part)) return;
  last_error_lines_[record.rank] = part.substr(0, kMaxLastLine);
}

std::vector<std::string> TrialOutput::LastLines(int rank) const {
  const auto lines = last_lines_.find(rank);
  if (lines == last_lines_.end()) return {};
  return {lines->second.begin(), lines->second.end()};
}

std::string TrialOutput::LastErrorLine(int rank) const {
  const auto line = last_error_lines_.find(rank);
  if (line == last_error_lines_.end()) return "";
  std::string plain = WithoutEscapes(ToValidUtf8(line->second));
  std::replace(plain.begin(), plain.end(), '\t', ' ');
  std::erase_if(plain, [](char c) {
    return std::iscntrl(static_cast<unsigned char>(c)) != 0;
  });
  std::string_view text = Trim(plain);
  (void)TakeLevel(text);  // within a line that was overwritten
  return std::string(text);
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
