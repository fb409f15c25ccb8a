#pragma once

#include <cstddef>
#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "engine/report/live_display.h"
#include "engine/report/terminal.h"
#include "engine/store/rows.h"

namespace dtrain {

/// A key of the screen of `watch`.
enum class Key {
  kUp,
  kDown,
  kPageUp,
  kPageDown,
  kHome,
  kEnd,
  kEnter,
  kEscape,
  kSort,  // s
  kQuit,  // q
};

/// Finds keys in what a terminal sends. Unknown ones are skipped. Pure.
class KeyReader {
 public:
  void Feed(std::string_view bytes) { pending_ += bytes; }
  /// Returns the next key. `idle`: nothing has followed for a while, so that a
  /// lone escape character is a key and not the beginning of one.
  std::optional<Key> Next(bool idle);
  /// True if `Next` waits for more.
  bool pending() const { return !pending_.empty(); }

 private:
  std::string pending_;
};

/// A curve of any number of values in bounded memory: adjacent values are
/// replaced by their mean when there are many.
class ThinnedCurve {
 public:
  void Add(double value);
  /// Oldest first.
  std::vector<double> Values() const;
  double last() const { return last_; }

 private:
  struct Mean {
    double sum = 0;
    std::int64_t count = 0;  // finite values
    std::int64_t all = 0;
  };
  static double MeanValue(const Mean& mean);

  std::vector<Mean> means_;
  std::int64_t each_ = 1;  // values in each mean but the last
  double last_ = 0;
};

/// A followed experiment, as the screen shows it.
struct WatchedRun {
  LiveFrame frame;
  const std::vector<TrialRow>& trials;
};

/// The curve of one metric of a trial.
struct WatchedCurve {
  std::string name;
  ThinnedCurve curve;
};

/// Details of the trial that is open.
struct WatchedTrial {
  std::vector<WatchedCurve> curves;  // the most important first
  std::vector<std::string> log;      // its last lines, escaped
};

/// The screen of `watch`: the experiments, and below them their trials, one of
/// which is selected; or the details of that one. Pure; one thread.
class WatchScreen {
 public:
  struct Line {
    std::string text;  // escaped, not wider than the screen
    Tone tone = Tone::kPlain;
  };

  /// Obeys a key. False if it ends the program.
  [[nodiscard]] bool Press(Key key, const std::vector<WatchedRun>& runs);

  /// Returns the trial whose details are shown.
  std::optional<TrialId> opened() const {
    return is_open_ ? selected_ : std::nullopt;
  }

  /// Returns at most as many lines as the terminal has. `details` are those of
  /// the opened trial.
  std::vector<Line> Lines(const std::vector<WatchedRun>& runs,
                          const WatchedTrial& details,
                          const TerminalMode& mode);

 private:
  enum class Sort { kRunning, kBest, kNumber };
  struct Row {
    const WatchedRun* run = nullptr;
    const TrialRow* trial = nullptr;
    const WatchedRun* group = nullptr;  // first run with comparable values
  };

  std::vector<Row> Rows(const std::vector<WatchedRun>& runs) const;
  bool IsBefore(const Row& a, const Row& b) const;
  std::size_t Selected(const std::vector<Row>& rows) const;
  std::size_t Moved(Key key, std::size_t from, std::size_t last) const;
  void Scroll(std::size_t selected, std::size_t count, std::size_t height);
  static void AddRuns(const std::vector<WatchedRun>& runs,
                      const TerminalMode& mode, std::vector<Line>& lines);
  void AddTable(const std::vector<Row>& rows, std::size_t height,
                const TerminalMode& mode, std::vector<Line>& lines);
  std::vector<Line> DetailLines(const Row& row, const WatchedTrial& details,
                                const TerminalMode& mode) const;
  std::string Keys(std::size_t selected, std::size_t count,
                   const TerminalMode& mode) const;

  std::optional<TrialId> selected_;
  bool is_open_ = false;
  Sort sort_ = Sort::kRunning;
  std::size_t top_ = 0;   // first trial on the screen
  std::size_t page_ = 1;  // trials on the screen
};

}  // namespace dtrain
