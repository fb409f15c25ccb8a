// `dtrain watch`: shows experiments that other processes run, from the store
// alone.
//
// On a terminal it takes the whole screen (the alternate one, so that the
// shell's output is back afterwards) and reads keys; the size is asked before
// each drawing, so that no signal of a resize is needed. Elsewhere it prints
// the lines that `create` prints.

#include <algorithm>
#include <array>
#include <cerrno>
#include <csignal>
#include <cstdlib>
#include <deque>
#include <iostream>
#include <map>
#include <memory>
#include <optional>
#include <string>
#include <thread>
#include <utility>
#include <vector>

#include <poll.h>
#include <termios.h>
#include <unistd.h>

#include "cli/command_line.h"
#include "cli/commands.h"
#include "cli/output.h"
#include "engine/app/followed_run.h"
#include "engine/app/stores.h"
#include "engine/base/error.h"
#include "engine/os/signals.h"
#include "engine/report/plain_reporter.h"
#include "engine/report/watch_screen.h"
#include "engine/store/store.h"
#include "engine/store/trial_log.h"

namespace dtrain {
namespace {

constexpr Duration kTick = std::chrono::milliseconds(100);

// The whole terminal, without echo, line editing and cursor; given back when it
// is destroyed.
class FullScreen {
 public:
  FullScreen() { Enter(); }
  FullScreen(const FullScreen&) = delete;
  FullScreen& operator=(const FullScreen&) = delete;
  ~FullScreen() { Leave(); }

  void Enter() {
    if (::tcgetattr(STDIN_FILENO, &before_) == 0) {
      termios raw = before_;
      raw.c_lflag &= ~static_cast<tcflag_t>(ICANON | ECHO);
      raw.c_cc[VMIN] = 0;
      raw.c_cc[VTIME] = 0;
      is_raw_ = ::tcsetattr(STDIN_FILENO, TCSANOW, &raw) == 0;
    }
    std::cout << "\x1b[?1049h\x1b[?25l" << std::flush;
    shown_.clear();
  }
  void Leave() {
    std::cout << "\x1b[?25h\x1b[?1049l" << std::flush;
    if (is_raw_) ::tcsetattr(STDIN_FILENO, TCSANOW, &before_);
    is_raw_ = false;
  }

  void Draw(const std::vector<WatchScreen::Line>& lines,
            const TerminalMode& mode) {
    std::string text = "\x1b[H";
    for (std::size_t i = 0; i < lines.size(); ++i) {
      if (i > 0) text += "\r\n";
      // Erased first: afterwards the cursor may be on the last character.
      text += "\x1b[2K" + Paint(mode, lines[i].tone, lines[i].text);
    }
    text += "\x1b[J";
    const std::pair size(mode.width, mode.height);
    if (text == shown_ && size == size_) return;
    shown_ = text;
    size_ = size;
    std::cout << text << std::flush;
  }

 private:
  termios before_{};
  bool is_raw_ = false;
  std::string shown_;
  std::pair<std::size_t, std::size_t> size_;
};

// Reads metrics and the log of the trial that is open on the screen.
class OpenedTrial {
 public:
  OpenedTrial(const Store& store, const FollowedRun& run, TrialId id)
      : store_(store), run_(run), id_(id), log_(store.layout().TrialLog(id)) {
    log_.SeekToTail(kMaxLines);
  }

  TrialId id() const { return id_; }
  const WatchedTrial& details() const { return details_; }

  void Poll() {
    ReadLog();
    const auto& trials = run_.trials();
    const auto row = std::ranges::find(trials, id_, &TrialRow::id);
    const std::int64_t version = store_.DataVersion();
    if (row == trials.end() || version_ == version) return;
    version_ = version;
    if (row->runs != runs_) {
      // Values after the checkpoint that it resumed from are measured again.
      details_.curves.clear();
      after_.clear();
      runs_ = row->runs;
    }
    Read(MetricKind::kValidation);
    Read(MetricKind::kTraining);
    // The searched metric first, training last.
    std::ranges::stable_sort(details_.curves, {}, [this](const auto& curve) {
      return curve.name == run_.row().metric           ? 0
             : curve.name.starts_with(kTrainingPrefix) ? 2
                                                       : 1;
    });
  }

 private:
  static constexpr std::int64_t kMaxLines = 200;
  static constexpr char kTrainingPrefix[] = "training ";

  void Read(MetricKind kind) {
    const auto last = after_.find(kind);
    store_.ForEachMetric(
        {.experiment = id_.experiment,
         .trial = id_.number,
         .kind = kind,
         .after = last == after_.end() ? -1 : last->second},
        [&](const MetricRow& row) {
          after_[kind] = row.batches;
          const std::string name =
              (kind == MetricKind::kTraining ? kTrainingPrefix : "") + row.name;
          auto curve =
              std::ranges::find(details_.curves, name, &WatchedCurve::name);
          if (curve == details_.curves.end()) {
            details_.curves.push_back({.name = name});
            curve = details_.curves.end() - 1;
          }
          curve->curve.Add(row.value);
        });
  }

  void ReadLog() try {
    auto& lines = details_.log;
    for (std::int64_t i = 0; i < kMaxLines; ++i) {
      const auto record = log_.Next();
      if (!record) break;
      lines.push_back(OutputLine(*record));
    }
    if (lines.size() > kMaxLines) {
      lines.erase(lines.begin(), lines.end() - kMaxLines);
    }
  } catch (const Error& error) {
    details_.log = {error.what()};
  }

  const Store& store_;
  const FollowedRun& run_;
  TrialId id_;
  TrialLogReader log_;
  WatchedTrial details_;
  std::map<MetricKind, std::int64_t> after_;
  std::int64_t runs_ = -1;
  std::optional<std::int64_t> version_;
};

// Reads the searcher's metric at the validations of trials, again whenever a
// trial has a new one.
class Histories {
 public:
  explicit Histories(const Store& store) : store_(store) {}

  std::vector<double> Read(const FollowedRun& run, TrialId id) {
    const auto row = std::ranges::find(run.trials(), id, &TrialRow::id);
    if (row == run.trials().end() || !row->latest) return {};
    Known& history = known_[id];
    if (history.runs == row->runs && history.until == row->latest->batches) {
      return history.values;
    }
    history = {.runs = row->runs, .until = row->latest->batches};
    store_.ForEachMetric(
        {.experiment = id.experiment,
         .trial = id.number,
         .kind = MetricKind::kValidation,
         .name = run.row().metric},
        [&](const MetricRow& value) { history.values.push_back(value.value); });
    return history.values;
  }

 private:
  struct Known {
    std::int64_t runs = -1;
    std::int64_t until = -1;
    std::vector<double> values = {};
  };

  const Store& store_;
  std::map<TrialId, Known> known_;
};

std::vector<WatchedRun> MakeWatchedRuns(const FollowedRuns& runs,
                                        Histories& histories) {
  std::vector<LiveFrame> frames = runs.Frames();
  std::vector<WatchedRun> watched;
  for (std::size_t i = 0; i < frames.size(); ++i) {
    const FollowedRun& run = runs.runs()[i];
    frames[i].history = [&](TrialId id) { return histories.Read(run, id); };
    watched.push_back({.frame = std::move(frames[i]), .trials = run.trials()});
  }
  return watched;
}

// One session on a terminal.
class WatchSession {
 public:
  WatchSession(const Store& store, FollowedRuns& runs, ColorChoice color)
      : store_(store),
        runs_(runs),
        color_(color),
        signals_({SIGTSTP}),
        histories_(store) {}

  /// Returns the exit code of a session that a key or a signal ended; nothing
  /// if the experiments are over.
  std::optional<int> Run() {
    const Clock clock = Clock::System();
    while (!runs_.AllSettled() || view_.opened()) {
      changed_ = runs_.Poll(clock.monotonic()) || changed_;
      Draw();
      if (!std::cout) return kExitFailed;  // the terminal is gone
      Sleep();
      if (!ObeyKeys()) return kExitDone;
      const int signal = signals_.Read();
      if (signal == SIGTSTP) {
        Suspend();
      } else if (signal != 0) {
        return 128 + signal;
      }
    }
    return std::nullopt;
  }

 private:
  // Draws if there may be something new: with thousands of trials that takes
  // longer than to find out.
  void Draw() {
    const TerminalMode mode = GetTerminalMode(STDOUT_FILENO, color_);
    const std::pair size(mode.width, mode.height);
    if (!changed_ && size == size_) return;
    changed_ = false;
    size_ = size;
    const auto id = view_.opened();
    if (!id) {
      opened_.reset();
    } else if (!opened_ || opened_->id() != *id) {
      const auto run = std::ranges::find(
          runs_.runs(), id->experiment,
          [](const FollowedRun& one) { return one.row().id; });
      opened_ = std::make_unique<OpenedTrial>(store_, *run, *id);
    }
    if (opened_) opened_->Poll();
    screen_.Draw(
        view_.Lines(MakeWatchedRuns(runs_, histories_),
                    opened_ ? opened_->details() : WatchedTrial(), mode),
        mode);
  }

  void Sleep() {
    std::array<pollfd, 2> ends = {pollfd{.fd = signals_.fd(), .events = POLLIN},
                                  pollfd{.fd = STDIN_FILENO, .events = POLLIN}};
    // The rest of a key's bytes follows at once.
    const Duration limit =
        keys_.pending() ? std::chrono::milliseconds(30) : kTick;
    ::poll(ends.data(), has_keys_ ? 2 : 1,
           static_cast<int>(limit / std::chrono::milliseconds(1)));
    has_input_ = has_keys_ && ends[1].revents != 0;
  }

  // Reads keys and obeys them. False if one ends the session.
  bool ObeyKeys() {
    std::array<char, 256> bytes{};
    ssize_t size = 0;
    if (has_input_) {
      size = ::read(STDIN_FILENO, bytes.data(), bytes.size());
      // At the end of its input only signals and the experiments end it.
      if (size == 0 || (size < 0 && errno != EAGAIN && errno != EINTR)) {
        has_keys_ = false;
      }
    }
    if (size > 0) keys_.Feed({bytes.data(), static_cast<std::size_t>(size)});
    while (const auto key = keys_.Next(/*idle=*/size <= 0)) {
      if (!view_.Press(*key, MakeWatchedRuns(runs_, histories_))) return false;
      changed_ = true;
    }
    return true;
  }

  void Suspend() {
    screen_.Leave();
    ::raise(SIGSTOP);
    screen_.Enter();
    changed_ = true;
  }

  const Store& store_;
  FollowedRuns& runs_;
  ColorChoice color_;
  SignalWatch signals_;
  Histories histories_;
  WatchScreen view_;
  KeyReader keys_;
  bool has_keys_ = true;
  bool has_input_ = false;
  bool changed_ = true;  // since the last drawing
  std::pair<std::size_t, std::size_t> size_;
  std::unique_ptr<OpenedTrial> opened_;
  FullScreen screen_;
};

struct WatchOptions {
  std::vector<std::string> experiments;
};

// Explains the ends of the experiments and returns the exit code.
int Conclude(const FollowedRuns& runs, const GlobalOptions& globals) {
  int code = kExitDone;
  for (const FollowedRun& run : runs.runs()) {
    if (run.deleted()) {
      PrintError(globals, "experiment " + std::to_string(run.row().id) +
                              " was deleted while it was watched");
      code = WorstExitCode(code, kExitNotFound);
      continue;
    }
    ExplainState(run.row(), globals);
    code = WorstExitCode(code, ToExitCode(run.row().state));
  }
  return code;
}

int WatchOnTerminal(const Store& store, FollowedRuns& runs,
                    const GlobalOptions& globals) {
  runs.Poll(Clock::System().monotonic());
  if (!runs.AllSettled()) {
    const auto code = WatchSession(store, runs, globals.color).Run();
    if (code) return *code;
  }
  for (const LiveFrame& frame : runs.Frames()) {
    for (const std::string& line :
         RunLines(frame, GetTerminalMode(STDOUT_FILENO, globals.color))) {
      std::cout << line << '\n';
    }
  }
  return Conclude(runs, globals);
}

int WatchAsLines(FollowedRuns& runs, const TerminalMode& mode,
                 const GlobalOptions& globals) {
  const Verbosity verbosity = globals.quiet     ? Verbosity::kQuiet
                              : globals.verbose ? Verbosity::kVerbose
                                                : Verbosity::kNormal;
  std::deque<PlainReporter> lines;
  std::vector<Reporter*> reporters;
  for (std::size_t i = 0; i < runs.runs().size(); ++i) {
    reporters.push_back(&lines.emplace_back(std::cout, mode, verbosity));
  }
  const Clock clock = Clock::System();
  while (true) {
    runs.Poll(clock.monotonic(), reporters);
    if (runs.AllSettled()) break;
    std::this_thread::sleep_for(kTick);
  }
  return Conclude(runs, globals);
}

// True if the screen can be drawn and keys read. NO_COLOR speaks of colors
// alone, and the user asked for a display.
bool CanShowScreen(const GlobalOptions& globals) {
  const auto variable = [](const char* name) -> const char* {
    return std::string_view(name) == "NO_COLOR" ? nullptr : std::getenv(name);
  };
  return !globals.quiet && ::isatty(STDIN_FILENO) == 1 &&
         DecideMode(globals.color, ::isatty(STDOUT_FILENO) == 1, variable)
             .redraw;
}

int Watch(const WatchOptions& options, const GlobalOptions& globals) {
  const Store store = OpenStore(globals);
  const auto ids = ResolveExperiments(store, options.experiments);
  FollowedRuns runs(store, ids);
  if (CanShowScreen(globals)) return WatchOnTerminal(store, runs, globals);
  return WatchAsLines(runs, GetTerminalMode(STDOUT_FILENO, globals.color),
                      globals);
}

}  // namespace

CommandRun SetUpWatch(CLI::App& app) {
  auto options = std::make_shared<WatchOptions>();
  AddOption(app, "EXP", options->experiments, "Experiment IDs (3)")
      .Completes(ValueKind::kExperiment)
      .Required();
  SetHelp(app,
          {.notes = "Keys: arrows select a trial, Enter shows it, s sorts, q "
                    "goes back or quits. Without a terminal it prints the "
                    "lines of 'create'.",
           .exits = {{kExitDone, "all experiments completed, or you quit"},
                     {kExitFailed, "an experiment failed or was canceled"},
                     {kExitUsage},
                     {kExitNotFound},
                     {kExitStore},
                     {kExitResumable}},
           .examples = {
               {"Watch a detached experiment", "dtrain watch 3"},
               {"Keep its events in a file", "dtrain watch 3 > events.txt"}}});
  return RunWith(Watch, options);
}

}  // namespace dtrain
