// One process of a trial as the launcher sees it: control socket, output, end.
//
// The three descriptors of the process are made before it exists and handed to
// the trial host, which forks it with copies. Messages are kept until the fork
// is known (OnForked) and the launcher says Begin, and then written without
// blocking; the poller tells when more can be written. Output is read line by
// line into the trial's log.
//
// The end of the process is seen at its exit_fd_, not at the end of its pipes,
// which its own children may keep open. After the end, output is read for at
// most kDrain longer. A pid is used only between OnForked and Reap, so it
// cannot have been reused; Reap kills the rest of the process group before it
// lets the kernel free the number.

#include "engine/process/rank_process.h"

#include <cerrno>
#include <csignal>
#include <utility>

#include <fcntl.h>
#include <sys/resource.h>
#include <sys/socket.h>
#include <sys/wait.h>
#include <unistd.h>

#include "engine/os/spawn.h"
#include "engine/os/system_error.h"
#include "engine/wire/message.h"

namespace dtrain {
namespace {

constexpr std::size_t kChunk = std::size_t{64} << 10;

}  // namespace

RankOutput::RankOutput(TrialOutput& output, int rank, Clock clock,
                       std::array<UniqueFd, 2> pipes)
    : output_(output),
      clock_(std::move(clock)),
      pipes_(std::move(pipes)),
      splitters_{LogLineSplitter(rank, /*from_stderr=*/false),
                 LogLineSplitter(rank, /*from_stderr=*/true)} {}

bool RankOutput::Drain(Stream stream) {
  std::array<char, kChunk> chunk;
  const ssize_t count =
      ::read(pipes_[stream].get(), chunk.data(), chunk.size());
  if (count < 0) return errno == EAGAIN || errno == EINTR;
  splitters_[stream].Feed(
      {chunk.data(), static_cast<std::size_t>(count)}, clock_.now(),
      [this](const LogRecord& record) { output_.Append(record); });
  return count > 0;
}

void RankOutput::Close(Stream stream) {
  if (!pipes_[stream]) return;
  pipes_[stream].reset();
  splitters_[stream].Finish(clock_.now(), [this](const LogRecord& record) {
    output_.Append(record);
  });
}

namespace {

// Output that arrives later than this after the death can only come from
// processes that should not have the descriptor.
constexpr Duration kDrain = std::chrono::seconds(1);

Pipe MakeOutputPipe() {
  Pipe pipe = MakePipe();
  ::fcntl(pipe.reading.get(), F_SETFL, O_NONBLOCK);
  return pipe;
}

}  // namespace

RankProcess::RankProcess(const TrialSpec& spec, TrialOutput& output,
                         Clock clock, Poller& poller, std::uint64_t token)
    : rank_(spec.rank),
      clock_(std::move(clock)),
      poller_(poller),
      token_(token) {
  std::array<int, 2> ends{};
  if (::socketpair(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0, ends.data()) != 0) {
    ThrowSystemError("make a control socket");
  }
  std::array<UniqueFd, 2> sockets = {UniqueFd(ends[0]), UniqueFd(ends[1])};
  ::fcntl(sockets[0].get(), F_SETFL, O_NONBLOCK);
  Pipe out = MakeOutputPipe();
  Pipe err = MakeOutputPipe();
  control_.emplace(std::move(sockets[0]), "the trial");
  handed_ = {std::move(sockets[1]), std::move(out.writing),
             std::move(err.writing)};
  output_.emplace(
      output, rank_, clock_,
      std::array<UniqueFd, 2>{std::move(out.reading), std::move(err.reading)});
  poller_.Add(output_->fd(RankOutput::kStandardOutput), token_ + kStdout);
  poller_.Add(output_->fd(RankOutput::kStandardError), token_ + kStderr);
  poller_.Add(control_->fd(), token_ + kControl);
  unsent_ = Encode(spec);
}

RankProcess::~RankProcess() {
  if (exit_fd_) poller_.Remove(exit_fd_.get());
  CloseControl();
  CloseOutput();
}

std::vector<int> RankProcess::HandedFds() const {
  std::vector<int> fds;
  for (const UniqueFd& fd : handed_) fds.push_back(fd.get());
  return fds;
}

void RankProcess::OnForked(std::int64_t pid) {
  exit_fd_ = OpenExitFd(static_cast<pid_t>(pid));
  if (!exit_fd_) ThrowSystemError("watch a trial");
  poller_.Add(exit_fd_.get(), token_ + kExit);
  for (UniqueFd& fd : handed_) fd.reset();
  pid_ = pid;
}

void RankProcess::Begin() {
  begun_ = true;
  Write({});
}

void RankProcess::Write(const std::string& lines) {
  if (!control_) return;
  unsent_ += lines;
  if (!begun_) return;
  const bool wanted = control_->wants_write();
  control_->Write(std::exchange(unsent_, {}));
  const bool wants = control_->wants_write();
  if (wants != wanted) {
    poller_.WatchForWrite(control_->fd(), token_ + kControl, wants);
  }
}

// Signals the process, since it may not lead a group of its own yet, and then
// the group. Neither number is reused before the process is reaped.
void RankProcess::Signal(int signal) {
  if (!living()) return;
  ::kill(static_cast<pid_t>(pid_), signal);
  ::kill(-static_cast<pid_t>(pid_), signal);
}

void RankProcess::DrainOutput(RankOutput::Stream stream) {
  if (output_->fd(stream) < 0 || output_->Drain(stream)) return;
  poller_.Remove(output_->fd(stream));
  output_->Close(stream);
}

void RankProcess::FlushControl() {
  if (!control_) return;
  control_->Flush();
  poller_.WatchForWrite(control_->fd(), token_ + kControl,
                        control_->wants_write());
}

std::optional<std::string> RankProcess::NextLine() {
  if (!control_) return std::nullopt;
  return control_->Next();
}

bool RankProcess::Reap() {
  if (!living()) return false;
  // The rest of its group must be killed before the number can be reused.
  ::kill(-static_cast<pid_t>(pid_), SIGKILL);
  int status = 0;
  const pid_t reaped =
      ::wait4(static_cast<pid_t>(pid_), &status, WNOHANG, &usage_);
  const bool known = reaped >= 0;
  if (known ? reaped == 0 : errno != ECHILD) return false;
  dead_ = true;
  const bool exited = !known || WIFEXITED(status);
  exit_code_ = known && exited ? WEXITSTATUS(status) : -1;
  signal_ = exited ? 0 : WTERMSIG(status);
  drain_until_ = clock_.monotonic() + kDrain;
  poller_.Remove(exit_fd_.get());
  exit_fd_.reset();
  return true;
}

bool RankProcess::drained() const {
  if (!dead_) return false;
  return (!control_ && output_->ended()) || clock_.monotonic() >= drain_until_;
}

std::optional<Duration> RankProcess::Deadline() const {
  if (!dead_ || drain_until_ <= clock_.monotonic()) return std::nullopt;
  return drain_until_;
}

void RankProcess::CloseControl() {
  if (!control_) return;
  poller_.Remove(control_->fd());
  control_.reset();
}

void RankProcess::CloseOutput() {
  for (const auto stream :
       {RankOutput::kStandardOutput, RankOutput::kStandardError}) {
    if (output_->fd(stream) < 0) continue;
    poller_.Remove(output_->fd(stream));
    output_->Close(stream);
  }
}

}  // namespace dtrain
