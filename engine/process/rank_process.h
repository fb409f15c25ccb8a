#pragma once

#include <array>
#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include <sys/resource.h>

#include "engine/base/clock.h"
#include "engine/os/line_reader.h"
#include "engine/os/poller.h"
#include "engine/os/unique_fd.h"
#include "engine/process/trial_output.h"
#include "engine/wire/trial_spec.h"

namespace dtrain {

/// Copies the output of one rank into the trial's log, in bounded memory. One
/// thread.
class RankOutput {
 public:
  enum Stream { kStandardOutput = 0, kStandardError = 1 };

  /// `pipes` are the non-blocking reading ends. `output` must outlive this.
  RankOutput(TrialOutput& output, int rank, Clock clock,
             std::array<UniqueFd, 2> pipes);

  /// Pipe of a stream; −1 once it is closed.
  int fd(Stream stream) const { return pipes_[stream].get(); }
  bool ended() const { return !pipes_[0] && !pipes_[1]; }
  /// Reads available output once; false at the end, when the pipe should be
  /// closed.
  [[nodiscard]] bool Drain(Stream stream);
  void Close(Stream stream);

 private:
  TrialOutput& output_;
  Clock clock_;
  std::array<UniqueFd, 2> pipes_;
  std::array<LogLineSplitter, 2> splitters_;
};

/// One process of a trial: its control socket, its output and its end. Decides
/// nothing for the trial. One thread.
class RankProcess {
 public:
  /// Its descriptors, as offsets from its first poller token.
  enum Channel { kStdout = 0, kStderr = 1, kControl = 2, kExit = 3 };
  static constexpr std::uint64_t kChannels = 4;

  /// Makes the socket and pipes of the process. `spec` is the first message
  /// that it gets, `output` receives what it prints. Throws Error(kFailed).
  RankProcess(const TrialSpec& spec, TrialOutput& output, Clock clock,
              Poller& poller, std::uint64_t token);
  ~RankProcess();
  RankProcess(const RankProcess&) = delete;
  RankProcess& operator=(const RankProcess&) = delete;

  /// Control socket, standard output and error, to be passed to the process.
  std::vector<int> HandedFds() const;
  /// The process was forked as a child of this one and waits for its
  /// specification. Closes the descriptors passed to it. Throws Error(kFailed).
  void OnForked(std::int64_t pid);
  /// Sends its specification and the buffered lines. REQUIRES: it was forked.
  /// Throws Error(kFailed) as Write.
  void Begin();
  /// Sends lines; buffered until `Begin`, dropped once the process has ended.
  /// Throws Error(kFailed) if it does not read them.
  void Write(const std::string& lines);
  /// Signals the process and its group. Does nothing unless it lives.
  void Signal(int signal);

  /// Handles readable `stream`.
  void DrainOutput(RankOutput::Stream stream);
  /// Handles a writable control socket.
  void FlushControl();
  /// Reads its messages once; false at the end. Throws Error(kFailed).
  [[nodiscard]] bool FillControl() { return !control_ || control_->Fill(); }
  /// Returns the next line that it has sent, if any. Throws Error(kFailed) if a
  /// line is too long.
  std::optional<std::string> NextLine();
  /// Reaps the process and kills the rest of its group. False if it has not
  /// ended.
  bool Reap();

  void CloseControl();
  void CloseOutput();

  bool dead() const { return dead_; }
  bool living() const { return pid_ != 0 && !dead_; }
  /// True if it is dead and its output was read, or the time for that is over.
  bool drained() const;
  /// End of that time; none if it lives or the time is over.
  std::optional<Duration> Deadline() const;

  int rank() const { return rank_; }
  std::int64_t pid() const { return pid_; }
  /// Resources that a dead process used, with those of its children that it
  /// waited for.
  const rusage& usage() const { return usage_; }
  /// Exit code of a dead process; −1: ended by `signal`.
  int exit_code() const { return exit_code_; }
  int signal() const { return signal_; }

 private:
  int rank_;
  Clock clock_;
  Poller& poller_;
  std::uint64_t token_;
  std::array<UniqueFd, 3> handed_;  // control, standard output and error
  std::optional<LineSocket> control_;
  std::optional<RankOutput> output_;
  std::string unsent_;  // lines buffered until `Begin`
  bool begun_ = false;
  std::int64_t pid_ = 0;
  UniqueFd exit_fd_;
  bool dead_ = false;
  rusage usage_{};
  Duration drain_until_{0};
  int exit_code_ = 0;
  int signal_ = 0;
};

}  // namespace dtrain
