#include "engine/process/trial_process.h"

#include <algorithm>
#include <csignal>
#include <utility>

#include <fcntl.h>
#include <sys/socket.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <unistd.h>

#include "engine/base/system_error.h"
#include "engine/process/process_table.h"

namespace dtrain {
namespace {

constexpr Duration kAfterTerm = std::chrono::seconds(5);
// What is written later than this after the death can only come from processes
// that should not have the descriptor.
constexpr Duration kDrain = std::chrono::seconds(1);

std::array<UniqueFd, 2> MakePipe() {
  std::array<int, 2> ends{};
  if (::pipe2(ends.data(), O_CLOEXEC) != 0) ThrowSystemError("make a pipe");
  std::array<UniqueFd, 2> pipe = {UniqueFd(ends[0]), UniqueFd(ends[1])};
  ::fcntl(pipe[0].get(), F_SETFL, O_NONBLOCK);
  return pipe;
}

std::array<UniqueFd, 2> MakeControlSockets() {
  std::array<int, 2> ends{};
  if (::socketpair(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0, ends.data()) != 0) {
    ThrowSystemError("make a control socket");
  }
  std::array<UniqueFd, 2> sockets = {UniqueFd(ends[0]), UniqueFd(ends[1])};
  ::fcntl(sockets[0].get(), F_SETFL, O_NONBLOCK);
  return sockets;
}

}  // namespace

TrialProcess::TrialProcess(TrialSpec spec, SlotLease lease,
                           std::filesystem::path log, Clock clock,
                           Poller& poller, std::uint64_t token)
    : spec_(std::move(spec)),
      lease_(std::move(lease)),
      clock_(std::move(clock)),
      poller_(poller),
      token_(token) {
  auto sockets = MakeControlSockets();
  auto out = MakePipe();
  auto err = MakePipe();
  control_.emplace(std::move(sockets[0]));
  handed_ = {std::move(sockets[1]), std::move(out[1]), std::move(err[1])};
  output_.emplace(
      std::move(log), clock_,
      std::array<UniqueFd, 2>{std::move(out[0]), std::move(err[0])});
  poller_.Add(output_->fd(TrialOutput::kStandardOutput), token_ + kStdout);
  poller_.Add(output_->fd(TrialOutput::kStandardError), token_ + kStderr);
  poller_.Add(control_->fd(), token_ + kControl);
}

TrialProcess::~TrialProcess() {
  if (pidfd_) poller_.Remove(pidfd_.get());
  CloseControl();
  CloseOutput(TrialOutput::kStandardOutput);
  CloseOutput(TrialOutput::kStandardError);
}

std::vector<int> TrialProcess::HandedFds() const {
  std::vector<int> fds;
  for (const UniqueFd& fd : handed_) fds.push_back(fd.get());
  for (const UniqueFd& lock : lease_.locks) fds.push_back(lock.get());
  return fds;
}

TrialStarted TrialProcess::OnForked(std::int64_t pid,
                                    const std::string& store) {
  pid_ = pid;
  started_at_ = clock_.monotonic();
  pidfd_.reset(static_cast<int>(::syscall(SYS_pidfd_open, pid, 0)));
  if (!pidfd_) ThrowSystemError("watch a trial");
  poller_.Add(pidfd_.get(), token_ + kExit);
  for (UniqueFd& fd : handed_) fd.reset();
  DescribeHolder(lease_, spec_.id, pid, store);
  const std::string spec = spec_.ToJson().dump(
      -1, ' ', false, nlohmann::json::error_handler_t::replace);
  Write(spec + "\n" + std::exchange(unsent_, {}));
  if (stop_ == StopStep::kKilled) SignalAll(SIGKILL);
  const auto process = ReadProcess(pid);
  return {.trial = spec_.id,
          .pid = pid,
          .start_ticks = process ? process->start_ticks : 0,
          .slots = lease_.slots};
}

void TrialProcess::Send(const RunnerMessage& message) {
  if (pid_ == 0) {
    unsent_ += Encode(message);
  } else {
    Write(Encode(message));
  }
}

void TrialProcess::Write(const std::string& lines) {
  if (!control_) return;
  const bool wanted = control_->wants_write();
  try {
    control_->Write(lines);
    const bool wants = control_->wants_write();
    if (wants != wanted) {
      poller_.WantWrite(control_->fd(), token_ + kControl, wants);
    }
  } catch (const Error& error) {
    Punish(error.what());
  }
}

void TrialProcess::FailToStart(const std::string& reason) {
  not_started_ = "cannot start trial " + ToString(spec_.id) + ": " + reason;
  output_->Note(not_started_);
  exit_code_ = 1;
}

void TrialProcess::RequestStop(Duration grace) {
  if (stop_ != StopStep::kNone) return;
  stop_ = StopStep::kAsked;
  next_stop_at_ = clock_.monotonic() + grace;
  Send(StopTrial{});
}

void TrialProcess::Kill() {
  if (!dead_ && !punished_) killed_by_us_ = true;
  stop_ = StopStep::kKilled;
  next_stop_at_.reset();
  SignalAll(SIGKILL);
}

void TrialProcess::Punish(const std::string& reason) {
  if (punished_ || dead_) return;
  punished_ = true;
  output_->Note("trial " + ToString(spec_.id) + " is killed: " + reason);
  CloseControl();
  stop_ = StopStep::kKilled;
  next_stop_at_.reset();
  SignalAll(SIGKILL);
}

// The process by its descriptor, for it may not yet lead a group of its own;
// then the group, whose number nobody else has while the process is not reaped.
void TrialProcess::SignalAll(int signal) {
  if (pid_ == 0 || dead_) return;
  ::syscall(SYS_pidfd_send_signal, pidfd_.get(), signal, nullptr, 0);
  ::kill(-static_cast<pid_t>(pid_), signal);
}

void TrialProcess::OnReady(Channel channel, const Poller::Ready& ready,
                           std::deque<LaunchEvent>& events) {
  switch (channel) {
    case kStdout:
    case kStderr: {
      const auto stream = static_cast<TrialOutput::Stream>(channel);
      if (output_->fd(stream) >= 0 && !output_->Drain(stream)) {
        CloseOutput(stream);
      }
      return;
    }
    case kControl:
      if (control_ && ready.writable) {
        control_->Flush();
        poller_.WantWrite(control_->fd(), token_ + kControl,
                          control_->wants_write());
      }
      if (control_ && ready.readable) ReadMessages(events);
      return;
    case kExit:
      OnExit();
      return;
  }
}

void TrialProcess::ReadMessages(std::deque<LaunchEvent>& events) {
  try {
    const bool more = control_->Fill();
    while (std::optional<TrialMessage> message = control_->Next()) {
      events.push_back(TrialSaid{spec_.id, *std::move(message)});
    }
    if (!more) CloseControl();
  } catch (const Error& error) {
    Punish(error.what());
    CloseControl();
  }
}

void TrialProcess::OnExit() {
  if (dead_) return;
  siginfo_t info{};
  // What is left of its group dies before its number is given back.
  ::kill(-static_cast<pid_t>(pid_), SIGKILL);
  if (::waitid(P_PIDFD, static_cast<id_t>(pidfd_.get()), &info,
               WEXITED | WNOHANG) != 0 ||
      info.si_pid == 0) {
    return;
  }
  dead_ = true;
  const bool exited = info.si_code == CLD_EXITED;
  exit_code_ = exited ? info.si_status : -1;
  signal_ = exited ? 0 : info.si_status;
  const Duration now = clock_.monotonic();
  seconds_ = std::chrono::duration<double>(now - started_at_).count();
  drain_until_ = now + kDrain;
  next_stop_at_.reset();
  poller_.Remove(pidfd_.get());
  pidfd_.reset();
}

void TrialProcess::OnTime() {
  const Duration now = clock_.monotonic();
  if (const auto flush_at = output_->flush_at(); flush_at && *flush_at <= now) {
    output_->Flush();
  }
  if (pid_ == 0 || !next_stop_at_ || *next_stop_at_ > now) return;
  killed_by_us_ = true;
  if (stop_ == StopStep::kAsked) {
    stop_ = StopStep::kTerminated;
    next_stop_at_ = now + kAfterTerm;
    SignalAll(SIGTERM);
  } else {
    Kill();
  }
}

std::optional<Duration> TrialProcess::Deadline() const {
  std::optional<Duration> deadline = output_->flush_at();
  const auto add = [&deadline](Duration time) {
    deadline = std::min(deadline.value_or(time), time);
  };
  if (pid_ != 0 && next_stop_at_) add(*next_stop_at_);
  if (dead_ && drain_until_ > clock_.monotonic()) add(drain_until_);
  return deadline;
}

bool TrialProcess::drained() const {
  if (!dead_) return false;
  const bool ended = !control_ &&
                     output_->fd(TrialOutput::kStandardOutput) < 0 &&
                     output_->fd(TrialOutput::kStandardError) < 0;
  return ended || clock_.monotonic() >= drain_until_;
}

void TrialProcess::CloseControl() {
  if (!control_) return;
  poller_.Remove(control_->fd());
  control_.reset();
}

void TrialProcess::CloseOutput(TrialOutput::Stream stream) {
  if (output_->fd(stream) < 0) return;
  poller_.Remove(output_->fd(stream));
  output_->Close(stream);
}

TrialExited TrialProcess::Result(bool out_of_memory) {
  CloseOutput(TrialOutput::kStandardOutput);
  CloseOutput(TrialOutput::kStandardError);
  output_->Flush();
  return {.trial = spec_.id,
          .exit_code = exit_code_,
          .signal = signal_,
          .killed_by_us = killed_by_us_,
          .out_of_memory = out_of_memory && signal_ == SIGKILL &&
                           !killed_by_us_ && !punished_,
          .not_started = not_started_,
          .seconds = seconds_,
          .last_lines = output_->last_lines()};
}

}  // namespace dtrain
