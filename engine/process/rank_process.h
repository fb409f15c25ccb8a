#pragma once

#include <array>
#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "engine/base/clock.h"
#include "engine/os/poller.h"
#include "engine/os/unique_fd.h"
#include "engine/process/control_channel.h"
#include "engine/process/trial_output.h"
#include "engine/wire/trial_spec.h"

namespace dtrain {

/// Drains what one rank of a trial prints into the trial's log, in bounded
/// memory. One thread.
class RankOutput {
 public:
  enum Stream { kStandardOutput = 0, kStandardError = 1 };

  /// `pipes` are the reading ends, which do not block. `output` must outlive
  /// this.
  RankOutput(TrialOutput& output, int rank, Clock clock,
             std::array<UniqueFd, 2> pipes);

  /// The pipe of a stream; −1 once it has ended.
  int fd(Stream stream) const { return pipes_[stream].get(); }
  bool ended() const { return !pipes_[0] && !pipes_[1]; }
  /// Reads once what is there; false at the end, when the pipe should be
  /// closed.
  [[nodiscard]] bool Drain(Stream stream);
  void Close(Stream stream);

 private:
  TrialOutput& output_;
  Clock clock_;
  std::array<UniqueFd, 2> pipes_;
  std::array<LogLineSplitter, 2> splitters_;
};

/// One process of a trial: what it is told and says, what it prints, and how
/// it ends. What its trial makes of that is not known here. One thread.
class RankProcess {
 public:
  /// Its descriptors, by what is added to its first token.
  enum Channel { kStdout = 0, kStderr = 1, kControl = 2, kExit = 3 };
  static constexpr std::uint64_t kChannels = 4;

  /// Makes the ends that the process is to have. `spec` is what it is told
  /// first, `output` where it prints to. Throws Error(kFailed).
  RankProcess(const TrialSpec& spec, TrialOutput& output, Clock clock,
              Poller& poller, std::uint64_t token);
  ~RankProcess();
  RankProcess(const RankProcess&) = delete;
  RankProcess& operator=(const RankProcess&) = delete;

  /// Its control socket, standard output and error, to be handed to it.
  std::vector<int> HandedFds() const;
  /// It lives, as a child of this process, and waits for its specification:
  /// closes what was handed to it. Throws Error(kFailed).
  void OnForked(std::int64_t pid);
  /// Writes its specification and the lines that wait. REQUIRES: it was forked.
  /// Throws Error(kFailed) as Write.
  void Begin();
  /// Writes lines; kept until it has begun, dropped once it is gone. Throws
  /// Error(kFailed) if it does not read them.
  void Write(const std::string& lines);
  /// To the process and its group. Does nothing unless it lives.
  void Signal(int signal);

  /// There is something to read from or written to `stream`.
  void DrainOutput(RankOutput::Stream stream);
  /// There is room for what waits to be written.
  void FlushControl();
  /// Reads once what it says; false at the end. Throws Error(kFailed).
  [[nodiscard]] bool FillControl() { return !control_ || control_->Fill(); }
  /// Its next message, or none yet. Throws Error(kFailed) for what is none.
  std::optional<TrialMessage> NextMessage();
  /// It has ended, by what its descriptor says: reaps it, with its group.
  /// False if it has not.
  bool Reap();

  void CloseControl();
  void CloseOutput();

  bool dead() const { return dead_; }
  bool living() const { return pid_ != 0 && !dead_; }
  /// It is dead and all that it wrote is read, or has had its time.
  bool drained() const;
  /// When that time is over; none if it lives or the time is over.
  std::optional<Duration> Deadline() const;

  int rank() const { return rank_; }
  std::int64_t pid() const { return pid_; }
  /// Of a dead one; −1: by `signal`.
  int exit_code() const { return exit_code_; }
  int signal() const { return signal_; }

 private:
  int rank_;
  Clock clock_;
  Poller& poller_;
  std::uint64_t token_;
  std::array<UniqueFd, 3> handed_;  // control, standard output and error
  std::optional<ControlChannel> control_;
  std::optional<RankOutput> output_;
  std::string unsent_;  // lines that wait for the process to begin
  bool begun_ = false;
  std::int64_t pid_ = 0;
  UniqueFd pidfd_;
  bool dead_ = false;
  Duration drain_until_{0};
  int exit_code_ = 0;
  int signal_ = 0;
};

}  // namespace dtrain
