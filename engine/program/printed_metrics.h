#pragma once

#include <cstddef>
#include <cstdint>
#include <map>
#include <memory>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "engine/os/unique_fd.h"
#include "engine/program/metric_steps.h"
#include "engine/wire/trial_spec.h"

namespace re2 {
class RE2;
}

namespace dtrain {

/// A line of a program's output, without the characters that end it.
struct OutputLine {
  std::string_view text;     // valid until the next call of the reader
  bool overwritten = false;  // a carriage return ended it, as in progress bars
  bool too_long = false;     // discarded; `text` is empty
};

/// Copies one stream of a program's output to a descriptor of this process, and
/// splits it into lines. A line ends with a newline or a carriage return; one
/// that is too long is discarded to its end. An unreadable stream counts as
/// ended. One thread.
class ProgramOutput {
 public:
  static constexpr std::size_t kMaxLine = std::size_t{64} << 10;

  /// Reads `fd`, which it makes non-blocking, and copies to `copy`.
  ProgramOutput(UniqueFd fd, int copy);

  /// −1 at the end of the stream.
  int fd() const { return fd_.get(); }

  /// Reads and copies what is available, at most 64 KiB; true if there was
  /// something. Call `Next` until it returns nothing before the next `Fill`.
  bool Fill();
  std::optional<OutputLine> Next();
  /// Returns the text after the last end of a line, if any, once `Next` has
  /// returned nothing at the end of the stream.
  std::optional<OutputLine> Rest();

 private:
  OutputLine ExtractLine(std::size_t end, std::size_t next, bool overwritten);

  UniqueFd fd_;
  int copy_;
  std::string buffer_;
  std::size_t start_ = 0;    // of the first line not yet returned
  std::size_t scanned_ = 0;  // no end of a line before this
  bool discarding_ = false;  // `buffer_` starts within a line that is too long
};

/// Finds metrics in the lines of a program's output by regular expressions.
/// Their time is linear in the length of a line. One thread.
class PrintedMetrics {
 public:
  /// See MetricSteps. Throws Error(kFailed) for an invalid expression.
  PrintedMetrics(const MetricSource& source, const std::string& searcher_metric,
                 double from, bool refuses_zero, MetricFindings& findings);
  ~PrintedMetrics();

  /// Searches the next line.
  void Read(const OutputLine& line);
  /// The program has ended. See MetricSteps, also for the next two.
  void End(bool whole) { steps_.End(whole); }
  std::optional<double> held() const { return steps_.held(); }
  void Settle() { steps_.Settle(); }

  /// Returns why the searcher's metric was not found, as a part of a sentence
  /// that begins with "; ", or empty.
  std::string Hint() const;

 private:
  struct Pattern {
    std::string name;
    std::string text;
    std::unique_ptr<re2::RE2> compiled;
    std::int64_t matches = 0;
    bool warned = false;
  };

  void Search(const std::string& text, bool overwritten);
  std::optional<double> FindValue(Pattern& pattern, std::string_view line);
  void Ignore(const std::string& why, std::string_view line);
  const Pattern& searchers() const;
  std::string FirstLines() const;

  MetricFindings& findings_;
  const std::string searcher_metric_;
  const bool has_steps_;  // metrics.step or step_end
  MetricSteps steps_;
  std::vector<Pattern> patterns_;  // the step's has an empty name
  std::int64_t lines_ = 0;
  std::int64_t overwritten_ = 0;  // matches of the searcher's metric there
  std::vector<std::string> first_lines_;
};

/// Returns `line` without escape sequences, such as colours, and control
/// characters.
std::string WithoutEscapes(std::string_view line);

}  // namespace dtrain
