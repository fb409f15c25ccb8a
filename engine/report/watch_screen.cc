// The screen of `dtrain watch`: keys, curves of bounded size, and the layout of
// the list and of one trial as text. It writes nothing; cli/watch.cc prints the
// lines that it returns.
//
// KeyReader takes bytes as they arrive. An escape character may be the key or
// the start of a sequence whose rest comes later, so it is the key only if
// nothing follows (idle).
//
// The list of trials is a table of the columns that fit: numbers are shown
// whole or not at all, so columns are omitted in the order of their importance,
// and hyperparameters end after the last whole one. Running trials come first,
// the ended ones by their best value; trials of experiments with different
// metrics are not mixed.

#include "engine/report/watch_screen.h"

#include <algorithm>
#include <array>
#include <cmath>
#include <span>
#include <tuple>

#include "engine/base/metric_order.h"
#include "engine/base/text.h"
#include "engine/report/format.h"

namespace dtrain {
namespace {

constexpr char kEscape = '\x1b';

struct KeySequence {
  std::string_view bytes;
  Key key;
};

// Key sequences of xterm and the Linux console, with and without application
// cursor keys.
constexpr std::array kSequences = {
    KeySequence{"\x1b[A", Key::kUp},
    KeySequence{"\x1bOA", Key::kUp},
    KeySequence{"\x1b[B", Key::kDown},
    KeySequence{"\x1bOB", Key::kDown},
    KeySequence{"\x1b[5~", Key::kPageUp},
    KeySequence{"\x1b[6~", Key::kPageDown},
    KeySequence{"\x1b[H", Key::kHome},
    KeySequence{"\x1bOH", Key::kHome},
    KeySequence{"\x1b[1~", Key::kHome},
    KeySequence{"\x1b[F", Key::kEnd},
    KeySequence{"\x1bOF", Key::kEnd},
    KeySequence{"\x1b[4~", Key::kEnd},
    KeySequence{"\r", Key::kEnter},
    KeySequence{"\n", Key::kEnter},
    KeySequence{"s", Key::kSort},
    KeySequence{"q", Key::kQuit},
    KeySequence{"k", Key::kUp},
    KeySequence{"j", Key::kDown},
};

// Returns the length of the escape sequence at the start of `text`; 0 if it is
// not complete.
std::size_t SequenceLength(std::string_view text) {
  if (text.size() < 2) return 0;
  // SS3 (ESC O) has one more byte; CSI (ESC [) ends at a byte from '@' to '~'
  // (ECMA-48). A sequence that does not end is dropped.
  if (text[1] == 'O') return text.size() < 3 ? 0 : 3;
  if (text[1] != '[') return 1;
  for (std::size_t i = 2; i < text.size(); ++i) {
    if (text[i] >= '@' && text[i] <= '~') return i + 1;
  }
  return text.size() > 32 ? text.size() : 0;
}

}  // namespace

std::optional<Key> KeyReader::Next(bool idle) {
  while (!pending_.empty()) {
    std::size_t length = 1;
    if (pending_[0] == kEscape) {
      length = SequenceLength(pending_);
      if (length == 0 && !idle) return std::nullopt;
      length = std::max<std::size_t>(length, 1);
    }
    const std::string bytes = pending_.substr(0, length);
    pending_.erase(0, length);
    if (bytes.size() == 1 && bytes[0] == kEscape) return Key::kEscape;
    const auto found =
        std::ranges::find(kSequences, bytes, &KeySequence::bytes);
    if (found != kSequences.end()) return found->key;
  }
  return std::nullopt;
}

namespace {

constexpr std::size_t kMaxMeans = 2048;

}  // namespace

void ThinnedCurve::Add(double value) {
  last_ = value;
  if (means_.empty() || means_.back().all == each_) {
    if (means_.size() == kMaxMeans) {
      for (std::size_t i = 0; i < kMaxMeans / 2; ++i) {
        const Mean& a = means_[2 * i];
        const Mean& b = means_[2 * i + 1];
        means_[i] = {a.sum + b.sum, a.count + b.count, a.all + b.all};
      }
      means_.resize(kMaxMeans / 2);
      // Full: pairs of means are merged, and from here on a mean is of twice as
      // many values, so that all cover equally long parts.
      each_ *= 2;
    }
    means_.emplace_back();
  }
  Mean& mean = means_.back();
  ++mean.all;
  if (!std::isfinite(value)) return;
  ++mean.count;
  mean.sum += value;
}

double ThinnedCurve::MeanValue(const Mean& mean) {
  return mean.count == 0 ? std::nan("")
                         : mean.sum / static_cast<double>(mean.count);
}

std::vector<double> ThinnedCurve::Values() const {
  std::vector<double> values;
  for (const Mean& mean : means_) values.push_back(MeanValue(mean));
  return values;
}

namespace {

constexpr std::size_t kMinHeight = 2;
constexpr std::size_t kHighScreen = 16;  // rows from which all is shown
constexpr std::size_t kMinHparams = 8;   // columns
constexpr std::size_t kColumnGap = 2;
constexpr std::size_t kMaxReserved = 3;  // rows for the log before metrics

// The terminal's size without the unknown, and never so small that nothing
// can be drawn.
TerminalMode Bounded(TerminalMode mode) {
  if (mode.width == 0) mode.width = 80;
  if (mode.height == 0) mode.height = 24;
  mode.width = std::max<std::size_t>(mode.width, 4);
  mode.height = std::max(mode.height, kMinHeight);
  return mode;
}

const TrialStatus* FindStatus(const WatchedRun& run, TrialId trial) {
  const auto& running = run.frame.status.running;
  const auto found = std::ranges::find(running, trial, &TrialStatus::id);
  return found == running.end() ? nullptr : &*found;
}

// Splits a text into lines of whole words, at most `most`.
std::vector<std::string> Wrapped(const std::string& text, std::size_t width,
                                 std::size_t most, const TerminalMode& mode) {
  std::vector<std::string> lines;
  std::string rest = text;
  while (!rest.empty() && lines.size() + 1 < most) {
    std::string line;
    for (const std::string& word : Split(rest, ' ')) {
      if (!line.empty() && DisplayWidth(line) + 1 + DisplayWidth(word) > width)
        break;
      line += (line.empty() ? "" : " ") + word;
    }
    rest.erase(0, std::min(rest.size(), line.size() + 1));
    lines.push_back(std::move(line));
  }
  if (!rest.empty() && most > 0) {
    lines.push_back(WholeWords(rest, width, mode));
  }
  return lines;
}

std::string LatestText(const TrialRow& trial) {
  return trial.latest ? FormatMetric(trial.latest->value) : "-";
}

std::string BestText(const TrialRow& trial) {
  return trial.best ? FormatMetric(trial.best->value) : "-";
}

std::string CountText(const TrialRow& trial, const TrialStatus* status) {
  if (status == nullptr) return std::to_string(trial.batches);
  std::string text = std::to_string(status->batches);
  if (status->total_batches > 0) {
    text += "/" + std::to_string(status->total_batches);
  }
  return text;
}

// A column of the list of trials.
struct ListColumn {
  std::string name;
  int importance = 0;  // columns of the least are omitted first
  bool right = false;
  std::size_t width = 0;
  std::vector<std::string> cells = {};
};

void SetWidth(ListColumn& column) {
  column.width = DisplayWidth(column.name);
  for (const std::string& cell : column.cells) {
    column.width = std::max(column.width, DisplayWidth(cell));
  }
}

std::size_t TotalWidth(const std::vector<ListColumn>& columns) {
  std::size_t total = 0;
  for (const ListColumn& column : columns) total += column.width + kColumnGap;
  return total;
}

void OmitWhatDoesNotFit(std::size_t width, std::vector<ListColumn>& columns) {
  while (columns.size() > 1 && TotalWidth(columns) > width) {
    columns.erase(
        std::ranges::min_element(columns, {}, &ListColumn::importance));
  }
}

// Returns the names of the columns, or one row of cells, after `start`.
std::string LineText(const std::vector<ListColumn>& columns,
                     const std::string& start,
                     std::optional<std::size_t> row = std::nullopt) {
  std::string line = start;
  for (const ListColumn& column : columns) {
    const std::string& text = row ? column.cells[*row] : column.name;
    const std::string pad(
        column.width - std::min(column.width, DisplayWidth(text)), ' ');
    line +=
        (column.right ? pad + text : text + pad) + std::string(kColumnGap, ' ');
  }
  line.erase(line.find_last_not_of(' ') + 1);
  return line;
}

Tone ToneOfTrial(const TrialRow& trial) {
  if (trial.state == State::kError) return Tone::kBad;
  return trial.state == State::kRunning ? Tone::kPlain : Tone::kDim;
}

std::string HparamsText(const WatchedRun& run, const TrialRow& trial) {
  return EscapeForTerminal(FormatHparamsBriefly(
      SearchedHparams(run.frame.info.hyperparameters, trial.hparams)));
}

}  // namespace

bool WatchScreen::IsBefore(const Row& a, const Row& b) const {
  const auto rank = [](const TrialRow& trial) {
    return trial.state == State::kRunning   ? 0
           : trial.state == State::kPending ? 1
                                            : 2;
  };
  const auto key = [&](const Row& row) {
    const TrialRow& trial = *row.trial;
    const int place = sort_ == Sort::kRunning ? rank(trial) : 0;
    const bool by_value =
        sort_ == Sort::kBest || (sort_ == Sort::kRunning && place == 2);
    const bool has_value = by_value && trial.best.has_value();
    const double value =
        has_value
            ? RankKey(trial.best->value, row.run->frame.info.smaller_is_better)
            : 0;
    return std::tuple(place, by_value && !has_value, value, trial.id);
  };
  if (a.group != b.group) return a.group < b.group;
  return key(a) < key(b);
}

std::vector<WatchScreen::Row> WatchScreen::Rows(
    const std::vector<WatchedRun>& runs) const {
  std::vector<Row> rows;
  for (const WatchedRun& run : runs) {
    // Values of different metrics cannot be compared.
    const auto group = std::ranges::find_if(runs, [&](const WatchedRun& other) {
      return other.frame.info.metric == run.frame.info.metric &&
             other.frame.info.smaller_is_better ==
                 run.frame.info.smaller_is_better;
    });
    for (const TrialRow& trial : run.trials) {
      rows.push_back({.run = &run, .trial = &trial, .group = &*group});
    }
  }
  std::ranges::stable_sort(
      rows, [this](const Row& a, const Row& b) { return IsBefore(a, b); });
  return rows;
}

std::size_t WatchScreen::Selected(const std::vector<Row>& rows) const {
  const auto found = std::ranges::find_if(
      rows, [this](const Row& row) { return row.trial->id == selected_; });
  return found == rows.end() ? 0
                             : static_cast<std::size_t>(found - rows.begin());
}

bool WatchScreen::Press(Key key, const std::vector<WatchedRun>& runs) {
  if (key == Key::kQuit && !is_open_) return false;
  if (key == Key::kQuit || key == Key::kEscape) {
    is_open_ = false;
    return true;
  }
  if (key == Key::kSort) {
    if (is_open_) return true;  // the order is not visible
    sort_ = sort_ == Sort::kRunning ? Sort::kBest
            : sort_ == Sort::kBest  ? Sort::kNumber
                                    : Sort::kRunning;
    return true;
  }
  const std::vector<Row> rows = Rows(runs);
  if (rows.empty()) return true;
  if (key == Key::kEnter) is_open_ = true;
  if (key == Key::kHome && !is_open_) {
    // Whichever trial is the first, from now on.
    selected_.reset();
    return true;
  }
  selected_ = rows[Moved(key, Selected(rows), rows.size() - 1)].trial->id;
  return true;
}

std::size_t WatchScreen::Moved(Key key, std::size_t from,
                               std::size_t last) const {
  switch (key) {
    case Key::kUp:
      return from - std::min<std::size_t>(from, 1);
    case Key::kDown:
      return std::min(from + 1, last);
    case Key::kPageUp:
      return from - std::min(from, page_);
    case Key::kPageDown:
      return std::min(from + page_, last);
    case Key::kHome:
      return 0;
    case Key::kEnd:
      return last;
    case Key::kEnter:
    case Key::kEscape:
    case Key::kSort:
    case Key::kQuit:
      break;
  }
  return from;
}

std::string WatchScreen::Keys(std::size_t selected, std::size_t count,
                              const TerminalMode& mode) const {
  const std::string arrows = mode.utf8 ? "↑↓" : "arrows";
  const std::string place =
      count > 0 ? std::to_string(selected + 1) + "/" + std::to_string(count)
                : "";
  const char* order = sort_ == Sort::kRunning ? "running first"
                      : sort_ == Sort::kBest  ? "best first"
                                              : "by number";
  // The least important last: they are omitted where they do not fit.
  const std::vector<std::string> parts =
      is_open_
          ? std::vector<std::string>{"q back", place, arrows + " other trial"}
          : std::vector<std::string>{"q quit", "Enter open",
                                     std::string("s sort: ") + order, place,
                                     arrows + " select"};
  std::string text;
  for (const std::string& part : parts) {
    if (part.empty()) continue;
    const std::string longer = text + (text.empty() ? "" : "  ") + part;
    if (DisplayWidth(longer) > mode.width) continue;
    text = longer;
  }
  return text;
}

void WatchScreen::Scroll(std::size_t selected, std::size_t count,
                         std::size_t height) {
  page_ = std::max<std::size_t>(height > 0 ? height - 1 : 0, 1);
  // The selected one is visible, and no row below the last one is empty.
  top_ = std::min(top_, count - std::min(count, page_));
  top_ = std::min(top_, selected);
  if (selected >= top_ + page_) top_ = selected + 1 - page_;
}

namespace {

// Returns the columns of the list, without cells.
std::vector<ListColumn> EmptyColumns(const RunInfo& info, bool one_metric,
                                     const TerminalMode& mode) {
  const std::string metric =
      one_metric ? Truncate(EscapeForTerminal(info.metric), 16, Ellipsis(mode))
                 : "latest";
  return {{.name = "trial", .importance = 6},
          {.name = "state", .importance = 3},
          {.name = std::string(UnitName(info.units.counted)),
           .importance = 5,
           .right = true},
          {.name = metric, .importance = 4, .right = true},
          {.name = "best", .importance = 1, .right = true},
          {.name = "curve", .importance = 2}};
}

void AddCells(const WatchedRun& run, const TrialRow& trial,
              const std::string& curve, std::vector<ListColumn>& columns) {
  const std::array cells = {ToString(trial.id),
                            std::string(StateName(trial.state)),
                            CountText(trial, FindStatus(run, trial.id)),
                            LatestText(trial),
                            BestText(trial),
                            curve};
  for (std::size_t i = 0; i < cells.size(); ++i) {
    columns[i].cells.push_back(cells[i]);
  }
}

}  // namespace

void WatchScreen::AddTable(const std::vector<Row>& rows, std::size_t height,
                           const TerminalMode& mode, std::vector<Line>& lines) {
  const std::size_t selected = Selected(rows);
  Scroll(selected, rows.size(), height);
  const auto visible =
      std::span(rows).subspan(top_, std::min(page_, rows.size() - top_));
  const RunInfo& info = rows.front().run->frame.info;
  const bool one_metric = std::ranges::all_of(rows, [&](const Row& row) {
    return row.run->frame.info.metric == info.metric;
  });
  std::vector<ListColumn> columns = EmptyColumns(info, one_metric, mode);
  // Curves of one metric have one scale, so that they can be compared.
  std::vector<std::vector<double>> curves;
  std::map<const WatchedRun*, CurveRange> ranges;
  for (const Row& row : visible) {
    const auto& history = row.run->frame.history;
    curves.push_back(history ? history(row.trial->id) : std::vector<double>());
    ranges[row.group].Add(curves.back());
  }
  for (std::size_t i = 0; i < visible.size(); ++i) {
    const Row& row = visible[i];
    AddCells(*row.run, *row.trial,
             Sparkline(curves[i], kSparkWidth, mode.utf8, ranges[row.group]),
             columns);
  }
  std::erase_if(columns, [](const ListColumn& column) {
    return std::ranges::all_of(column.cells, &std::string::empty);
  });
  std::ranges::for_each(columns, SetWidth);
  OmitWhatDoesNotFit(mode.width - 2, columns);
  const std::size_t used = TotalWidth(columns) + 2;
  lines.push_back({LineText(columns, "  "), Tone::kDim});
  for (std::size_t i = 0; i < visible.size(); ++i) {
    const bool is_selected = top_ + i == selected;
    std::string line = LineText(columns, is_selected ? "> " : "  ", i);
    const std::string hparams = HparamsText(*visible[i].run, *visible[i].trial);
    if (used + kMinHparams <= mode.width && !hparams.empty()) {
      line += std::string(used - std::min(used, DisplayWidth(line)), ' ') +
              WholeWords(hparams, mode.width - used, mode);
    }
    lines.push_back(
        {line, is_selected ? Tone::kStrong : ToneOfTrial(*visible[i].trial)});
  }
}

namespace {

std::string DetailHead(const WatchedRun& run, const TrialRow& trial,
                       const TerminalMode& mode) {
  const RunInfo& info = run.frame.info;
  const TrialStatus* status = FindStatus(run, trial.id);
  return EscapeForTerminal("trial " + ToString(trial.id) + " of " +
                           Truncate(info.name, 24, Ellipsis(mode)) + "  " +
                           std::string(StateName(trial.state)) +
                           (status != nullptr
                                ? BatchText(run.frame, *status)
                                : "  " + PositionText(trial.at(), info.units)));
}

// Returns a line for each metric, at most `room`.
std::vector<std::string> CurveLines(const std::vector<WatchedCurve>& curves,
                                    std::size_t room,
                                    const TerminalMode& mode) {
  std::size_t names = 0;
  for (const WatchedCurve& curve : curves) {
    names = std::max(names, DisplayWidth(EscapeForTerminal(curve.name)));
  }
  names = std::min(names, mode.width / 3);
  std::vector<std::string> lines;
  for (const WatchedCurve& curve : curves) {
    if (lines.size() == room) break;
    const std::string name =
        Truncate(EscapeForTerminal(curve.name), names, Ellipsis(mode));
    const std::string drawn =
        Sparkline(curve.curve.Values(), kSparkWidth, mode.utf8);
    lines.push_back("  " + name +
                    std::string(names - DisplayWidth(name) + 2, ' ') + drawn +
                    std::string(kSparkWidth - DisplayWidth(drawn) + 2, ' ') +
                    FormatMetric(curve.curve.last()));
  }
  if (curves.size() > room && room > 0) {
    lines.back() = "  " + std::string(Ellipsis(mode)) + " and " +
                   std::to_string(curves.size() - room + 1) + " more metrics";
  }
  return lines;
}

}  // namespace

std::vector<WatchScreen::Line> WatchScreen::DetailLines(
    const Row& row, const WatchedTrial& details,
    const TerminalMode& mode) const {
  const TrialRow& trial = *row.trial;
  const RunInfo& info = row.run->frame.info;
  const std::size_t height = mode.height - 1;  // without the keys
  const bool is_high = mode.height >= kHighScreen;
  std::vector<Line> lines = {
      {DetailHead(*row.run, trial, mode), Tone::kStrong}};
  const auto add = [&](const std::string& text, Tone tone = Tone::kPlain) {
    if (lines.size() < height) lines.push_back({"  " + text, tone});
  };
  for (const std::string& line :
       Wrapped(EscapeForTerminal(trial.reason), mode.width - 2, is_high ? 4 : 2,
               mode)) {
    add(line, ToneOfTrial(trial));
  }
  const std::string hparams =
      EscapeForTerminal(is_high ? FormatHparams(trial.hparams)
                                : FormatHparamsBriefly(trial.hparams));
  for (const std::string& line :
       Wrapped(hparams, mode.width - 2, is_high ? 4 : 2, mode)) {
    add(line);
  }
  if (trial.best) {
    add("best " + EscapeForTerminal(info.metric) + " " +
        FormatBest(trial.best, info.units));
  }
  const std::size_t log_rows =
      std::min<std::size_t>(details.log.size(), kMaxReserved) + 1;
  for (const std::string& line :
       CurveLines(details.curves,
                  height - std::min(height, lines.size() + log_rows), mode)) {
    if (lines.size() < height) lines.push_back({line});
  }
  add(details.log.empty() ? "no log lines yet" : "log", Tone::kDim);
  const std::size_t shown =
      std::min(height - std::min(height, lines.size()), details.log.size());
  for (std::size_t i = details.log.size() - shown; i < details.log.size();
       ++i) {
    add("| " + details.log[i]);
  }
  return lines;
}

void WatchScreen::AddRuns(const std::vector<WatchedRun>& runs,
                          const TerminalMode& mode, std::vector<Line>& lines) {
  // At least half of the screen is for trials.
  const std::size_t most = std::max<std::size_t>((mode.height - 1) / 2, 1);
  for (std::size_t i = 0; i < runs.size(); ++i) {
    if (lines.size() + 1 == most && i + 1 < runs.size()) {
      lines.push_back({std::string(Ellipsis(mode)) + " and " +
                       std::to_string(runs.size() - i) + " more experiments"});
      return;
    }
    TerminalMode part = mode;
    part.width = mode.width + 1;  // the whole line is used
    part.height = runs.size() > 1 ? 2 : most + 1;
    Tone tone = Tone::kStrong;
    for (const std::string& line : RunLines(runs[i].frame, part)) {
      if (lines.size() < most) lines.push_back({line, tone});
      tone = Tone::kPlain;
    }
  }
}

std::vector<WatchScreen::Line> WatchScreen::Lines(
    const std::vector<WatchedRun>& runs, const WatchedTrial& details,
    const TerminalMode& terminal) {
  const TerminalMode mode = Bounded(terminal);
  const std::vector<Row> rows = Rows(runs);
  const std::size_t selected = Selected(rows);
  std::vector<Line> lines;
  if (is_open_ && !rows.empty()) {
    lines = DetailLines(rows[selected], details, mode);
  } else {
    AddRuns(runs, mode, lines);
    const std::size_t used = lines.size() + 1;
    if (!rows.empty() && mode.height > used + 1) {
      AddTable(rows, mode.height - used, mode, lines);
    }
  }
  while (lines.size() + 1 < mode.height) lines.push_back({});
  lines.resize(mode.height - 1);
  lines.push_back({Keys(selected, rows.size(), mode), Tone::kDim});
  for (Line& line : lines) {
    line.text = Truncate(line.text, mode.width, Ellipsis(mode));
  }
  return lines;
}

}  // namespace dtrain
