// Metrics in what a program prints, found by the expressions of the
// configuration (`metrics` with patterns).
//
// ProgramOutput copies the output to this process's own streams, unchanged, and
// splits it into lines. A carriage return means that the line is overwritten,
// as by a progress bar, unless a newline follows; so a line that ends with one
// waits for the next byte. A line that is too long is passed on, but not
// searched.
//
// PrintedMetrics searches each line without its escape sequences by every
// expression (RE2, so that no expression of a user can take exponential time).
// The first match of an expression counts. If no expression finds the step,
// every line with the searcher's metric is one, and lines that were overwritten
// are left out: a progress bar would be hundreds of steps.

#include "engine/program/printed_metrics.h"

#include <algorithm>
#include <array>
#include <cerrno>
#include <utility>

#include <fcntl.h>
#include <unistd.h>

#include <re2/re2.h>

#include "engine/base/error.h"
#include "engine/base/rounding.h"
#include "engine/base/text.h"
#include "engine/os/line_reader.h"

namespace dtrain {
namespace {

constexpr std::size_t kOutputChunk = std::size_t{64} << 10;
// Lines after which a program that has printed no metric causes a warning.
constexpr std::int64_t kLinesBeforeWarning = 100;
constexpr std::size_t kFirstLines = 3;
constexpr std::size_t kShownColumns = 80;

std::string ShownText(std::string_view text) {
  return "'" + Truncate(EscapeForTerminal(text.substr(0, 400)), kShownColumns) +
         "'";
}

bool IsIn(char c, char low, char high) { return c >= low && c <= high; }

// Returns the end of the escape sequence that starts at `at` (ECMA-48: CSI,
// OSC, and those of two characters).
std::size_t EndOfEscape(std::string_view text, std::size_t at) {
  if (++at >= text.size()) return at;
  const char kind = text[at++];
  if (kind == '[') {
    while (at < text.size() && !IsIn(text[at], '@', '~')) ++at;
    return at + 1;
  }
  if (kind != ']') return at;
  for (; at < text.size(); ++at) {
    if (text[at] == '\a') return at + 1;
    if (text[at] == '\x1b') return at + 2;
  }
  return at;
}

}  // namespace

std::string WithoutEscapes(std::string_view line) {
  std::string text;
  for (std::size_t at = 0; at < line.size();) {
    const char c = line[at];
    if (c == '\x1b') {
      at = EndOfEscape(line, at);
      continue;
    }
    if (c == '\t' || c < '\0' || c >= ' ') text += c;
    ++at;
  }
  return text;
}

ProgramOutput::ProgramOutput(UniqueFd fd, int copy)
    : fd_(std::move(fd)), copy_(copy) {
  ::fcntl(fd_.get(), F_SETFL, ::fcntl(fd_.get(), F_GETFL) | O_NONBLOCK);
}

bool ProgramOutput::Fill() {
  std::array<char, kOutputChunk> chunk;
  const ssize_t count = ::read(fd_.get(), chunk.data(), chunk.size());
  if (count < 0 && (errno == EAGAIN || errno == EINTR)) return false;
  if (count <= 0) {
    fd_.reset();
    return false;
  }
  const std::string_view bytes(chunk.data(), static_cast<std::size_t>(count));
  // Without its reader, the runner, this process is about to end.
  (void)WriteAll(copy_, bytes);
  if (start_ > 0) {
    buffer_.erase(0, start_);
    scanned_ -= start_;
    start_ = 0;
  }
  buffer_ += bytes;
  return true;
}

std::optional<OutputLine> ProgramOutput::Next() {
  const std::size_t end = buffer_.find_first_of("\r\n", scanned_);
  if (end != buffer_.npos) {
    scanned_ = end;
    const std::size_t after = buffer_.find_first_not_of('\r', end);
    if (after == buffer_.npos) {
      // The next character decides what a carriage return means.
      buffer_.resize(end + 1);
      return std::nullopt;
    }
    const bool newline = buffer_[after] == '\n';
    return ExtractLine(end, newline ? after + 1 : after, !newline);
  }
  scanned_ = buffer_.size();
  if (scanned_ - start_ > kMaxLine) {
    discarding_ = true;
    buffer_.clear();
    start_ = scanned_ = 0;
  }
  return std::nullopt;
}

std::optional<OutputLine> ProgramOutput::Rest() {
  if (start_ == buffer_.size() && !discarding_) return std::nullopt;
  const std::size_t end = buffer_.find_first_of('\r', start_);
  return ExtractLine(std::min(end, buffer_.size()), buffer_.size(), false);
}

OutputLine ProgramOutput::ExtractLine(std::size_t end, std::size_t next,
                                      bool overwritten) {
  OutputLine line{
      .text = std::string_view(buffer_).substr(start_, end - start_),
      .overwritten = overwritten};
  if (discarding_ || line.text.size() > kMaxLine) {
    line.too_long = true;
    line.text = {};
  }
  start_ = scanned_ = next;
  discarding_ = false;
  return line;
}

PrintedMetrics::PrintedMetrics(const MetricSource& source,
                               const std::string& searcher_metric, double from,
                               bool refuses_zero, MetricFindings& findings)
    : findings_(findings),
      searcher_metric_(searcher_metric),
      has_steps_(!source.step.empty() || !source.step_end.empty()),
      steps_(source, searcher_metric, from, refuses_zero, findings) {
  std::map<std::string, std::string> texts = source.names;
  if (has_steps_)
    texts[""] = source.step.empty() ? source.step_end : source.step;
  RE2::Options options;
  options.set_log_errors(false);
  for (const auto& [name, text] : texts) {
    auto compiled = std::make_unique<RE2>(text, options);
    if (!compiled->ok() || compiled->NumberOfCapturingGroups() != 1) {
      throw Error(
          ErrorKind::kFailed,
          "metrics: '" + text +
              "' is not an expression with one group: " + compiled->error());
    }
    patterns_.push_back(
        {.name = name, .text = text, .compiled = std::move(compiled)});
  }
}

PrintedMetrics::~PrintedMetrics() = default;

void PrintedMetrics::Read(const OutputLine& line) {
  if (!line.overwritten) ++lines_;
  if (line.too_long) {
    return Ignore("is longer than " +
                      FormatBytes(std::int64_t{ProgramOutput::kMaxLine}) +
                      " and was not searched for metrics",
                  "");
  }
  const std::string text = WithoutEscapes(
      IsValidUtf8(line.text) ? std::string(line.text) : ToValidUtf8(line.text));
  if (!Trim(text).empty() && first_lines_.size() < kFirstLines) {
    first_lines_.push_back(text.substr(0, 400));
  }
  Search(text, line.overwritten);
  if (lines_ != kLinesBeforeWarning || line.overwritten) return;
  const bool none_matched = std::ranges::all_of(
      patterns_, [](const Pattern& pattern) { return pattern.matches == 0; });
  if (!none_matched) return;
  findings_.remarks.push_back(
      {.text = "no expression of metrics has matched in the first " +
               std::to_string(lines_) + " lines; they begin with " +
               FirstLines()});
}

void PrintedMetrics::Search(const std::string& text, bool overwritten) {
  // Without steps, each match is one, but text that is overwritten was never
  // meant to stay.
  if (overwritten && !has_steps_) {
    if (RE2::PartialMatch(text, *searchers().compiled)) ++overwritten_;
    return;
  }
  MetricLine found{.whole = !overwritten};
  for (Pattern& pattern : patterns_) {
    const auto value = FindValue(pattern, text);
    if (!value) continue;
    if (pattern.name.empty()) {
      found.step = value;
    } else {
      found.values.emplace_back(pattern.name, *value);
    }
  }
  steps_.Add(found);
}

std::optional<double> PrintedMetrics::FindValue(Pattern& pattern,
                                                std::string_view line) {
  re2::StringPiece rest(line.data(), line.size());
  std::string captured;
  if (!RE2::FindAndConsume(&rest, *pattern.compiled, &captured)) {
    return std::nullopt;
  }
  ++pattern.matches;
  const std::string name =
      pattern.name.empty() ? "the step" : "'" + pattern.name + "'";
  const auto value = ParseMetric(captured);
  if (!value) {
    Ignore("has the text " + ShownText(captured) + " for " + name +
               ", which is not a number",
           line);
    return std::nullopt;
  }
  std::string other;
  if (!pattern.warned &&
      RE2::FindAndConsume(&rest, *pattern.compiled, &other)) {
    const auto second = ParseMetric(other);
    if (second && *second != *value) {
      pattern.warned = true;
      findings_.remarks.push_back(
          {.text = "line " + std::to_string(lines_) +
                   " has several values for " + name + ", " +
                   FormatNumber(*value) + " and " + FormatNumber(*second) +
                   "; the first one counts; make the expression more exact: " +
                   ShownText(line)});
    }
  }
  return value;
}

void PrintedMetrics::Ignore(const std::string& why, std::string_view line) {
  findings_.remarks.push_back(
      {.text = "line " + std::to_string(lines_) + " of the output " + why +
               (line.empty() ? "" : ": " + ShownText(line)),
       .ignored = true});
}

const PrintedMetrics::Pattern& PrintedMetrics::searchers() const {
  for (const Pattern& pattern : patterns_) {
    if (pattern.name == searcher_metric_) return pattern;
  }
  return patterns_.front();
}

std::string PrintedMetrics::FirstLines() const {
  std::vector<std::string> shown;
  for (const std::string& line : first_lines_) shown.push_back(ShownText(line));
  return Join(shown, ", ");
}

std::string PrintedMetrics::Hint() const {
  std::string hint;
  if (overwritten_ > 0) {
    hint =
        "; it was also in text that a carriage return overwrites, which "
        "counts only with metrics.step";
  } else if (searchers().matches == 0 && lines_ == 0) {
    hint = "; the program printed nothing";
  } else if (searchers().matches == 0) {
    hint = "; " + ShownText(searchers().text) + " matches none of its " +
           CountText(lines_, "line") + " of output, which begins with " +
           FirstLines();
  }
  if (!steps_.began_with_zero()) return hint;
  return hint +
         "; its first step was 0: if that is the first step of training, set "
         "metrics.first_step: 0, with 'dtrain run' --pattern first_step=0";
}

}  // namespace dtrain
