// End of a trial. A stop escalates: the trial is asked by a message to save a
// checkpoint and exit; after the grace period all ranks get SIGTERM, and 5 s
// later SIGKILL, as do their process groups. A kill starts at SIGKILL. If one
// rank ends by itself, the others get a short time (PeerExitGrace) to report
// their own errors, since the first to exit is often not the cause, and are
// killed after it. The trial is dead when every rank was reaped, and drained
// when their pipes are at their ends; orphans are the launcher's concern.

#include "engine/process/launched_trial.h"

#include <algorithm>
#include <csignal>
#include <memory>
#include <string>
#include <utility>
#include <vector>

#include <sys/resource.h>
#include <sys/time.h>

#include "engine/base/error.h"
#include "engine/base/text.h"
#include "engine/os/process.h"
#include "engine/process/rank_process.h"
#include "engine/process/trial_end.h"
#include "engine/ranks/shared_memory.h"
#include "engine/slots/slots.h"
#include "engine/wire/message.h"
#include "engine/wire/trial_spec.h"

namespace dtrain {

int RanksHere(const TrialSpec& trial) {
  return trial.address ? trial.address->ranks_here : trial.world_size;
}

namespace {

constexpr Duration kAfterTerm = std::chrono::seconds(5);

}  // namespace

struct LaunchedTrial::Rank {
  std::unique_ptr<RankProcess> process;
  std::vector<Gpu> gpus;
  RankEnd end;
};

LaunchedTrial::LaunchedTrial(TrialSpec spec, SlotLease lease,
                             TrialOutput output, Clock clock, Poller& poller,
                             std::uint64_t token, UniqueFd listener)
    : id_(spec.id),
      lease_(std::move(lease)),
      clock_(clock),
      token_(token),
      output_(std::move(output)),
      several_(spec.world_size > 1),
      listener_(std::move(listener)) {
  if (several_ && !spec.address) memory_ = MakeSharedMemory(spec.world_size);
  const int count = RanksHere(spec);
  for (int i = 0; i < count; ++i) {
    // The GPUs of the rank: one, or all if it is the only rank here; none on
    // CPU slots. It sees only its own.
    std::vector<Gpu> gpus = lease_.gpus;
    if (count > 1 && !gpus.empty()) {
      gpus = {lease_.gpus.at(static_cast<std::size_t>(i))};
    }
    TrialSpec of_rank = spec;
    of_rank.rank = spec.rank + i;
    for (int gpu = 0; gpu < std::ssize(gpus); ++gpu) {
      of_rank.gpus.push_back(gpu);
    }
    auto process = std::make_unique<RankProcess>(
        std::move(of_rank), output_, clock, poller, token_ + tokens());
    ranks_.push_back({.process = std::move(process),
                      .gpus = std::move(gpus),
                      .end = RankEnd{.rank = spec.rank + i}});
  }
}

LaunchedTrial::~LaunchedTrial() = default;

std::uint64_t LaunchedTrial::tokens() const {
  return ranks_.size() * RankProcess::kChannels;
}

bool LaunchedTrial::wants_fork() const {
  return !forking_ && next_ < ranks_.size() && stop_ != StopStep::kKilled;
}

ForkOrder LaunchedTrial::NextFork() {
  forking_ = true;
  ForkOrder order{.fds = ranks_[next_].process->HandedFds(),
                  .rendezvous = (memory_ ? memory_ : listener_).get()};
  // Other ranks connect to rank 0, on this machine too.
  if (next_ > 0 && !memory_) order.rendezvous = -1;
  // Each rank inherits the locks of all slots, so that they are free only when
  // the last rank has ended.
  for (const auto* locks : {&lease_.locks, &lease_.claims}) {
    for (const UniqueFd& lock : *locks) order.fds.push_back(lock.get());
  }
  // The variables that restrict a process to its GPUs, and name them.
  std::vector<std::string> visible;
  std::vector<std::string> names;
  for (const Gpu& gpu : ranks_[next_].gpus) {
    visible.push_back(gpu.uuid.empty() ? std::to_string(gpu.index) : gpu.uuid);
    names.push_back(ToString(gpu));
  }
  order.variables = {{"CUDA_DEVICE_ORDER", "PCI_BUS_ID"},
                     {"CUDA_VISIBLE_DEVICES", Join(visible, ",")},
                     {kGpuNamesVariable, Join(names, ", ")}};
  return order;
}

std::optional<TrialStarted> LaunchedTrial::OnForked(std::int64_t pid,
                                                    const std::string& store) {
  if (next_ == 0) started_at_ = clock_.monotonic();
  ranks_[next_].process->OnForked(pid);
  forking_ = false;
  if (next_++ == 0) DescribeHolder(lease_, id_, pid, store);
  // It was killed while the fork was in flight.
  if (stop_ == StopStep::kKilled) SignalAll(SIGKILL);
  if (next_ < ranks_.size()) return std::nullopt;
  // The ranks have copies. The last one to end frees the memory.
  memory_.reset();
  listener_.reset();
  Begin();
  const std::int64_t first = ranks_.front().process->pid();
  const auto process = ReadProcess(first);
  return TrialStarted{.trial = id_,
                      .pid = first,
                      .start_ticks = process ? process->start_ticks : 0,
                      .slots = lease_.slots};
}

void LaunchedTrial::Begin() {
  for (Rank& rank : ranks_) {
    try {
      rank.process->Begin();
    } catch (const Error& error) {
      KillForProtocolError(rank, error.what());
    }
  }
}

void LaunchedTrial::FailToStart(const std::string& reason) {
  forking_ = false;
  not_started_ = "cannot start trial " + ToString(id_) + ": " + reason;
  output_.Log(RankToFork(), not_started_);
  KillAll();
}

void LaunchedTrial::Send(const RunnerMessage& message) {
  try {
    ranks_.front().process->Write(Encode(message));
  } catch (const Error& error) {
    KillForProtocolError(ranks_.front(), error.what());
  }
}

void LaunchedTrial::RequestStop(Duration grace) {
  if (stop_ != StopStep::kNone) return;
  stop_ = StopStep::kAsked;
  next_stop_at_ = clock_.monotonic() + grace;
  Send(StopTrial{});
}

void LaunchedTrial::Kill() {
  if (!dead() && violator_ == nullptr) killed_by_us_ = true;
  KillAll();
}

void LaunchedTrial::KillAll() {
  stop_ = StopStep::kKilled;
  next_stop_at_.reset();
  others_until_.reset();
  SignalAll(SIGKILL);
}

void LaunchedTrial::SignalAll(int signal) {
  for (Rank& rank : ranks_) {
    if (!rank.process->living()) continue;
    rank.end.ended_by_us = &rank != violator_;
    rank.process->Signal(signal);
  }
}

void LaunchedTrial::KillForProtocolError(Rank& rank,
                                         const std::string& reason) {
  if (violator_ != nullptr || dead()) return;
  violator_ = &rank;
  output_.Log(rank.end.rank,
              "trial " + ToString(id_) + " is killed: " + reason);
  rank.process->CloseControl();
  KillAll();
}

void LaunchedTrial::OnReady(const Poller::Ready& ready,
                            std::deque<LaunchEvent>& events) {
  const std::uint64_t offset = ready.token - token_;
  Rank& rank = ranks_[offset / RankProcess::kChannels];
  switch (static_cast<RankProcess::Channel>(offset % RankProcess::kChannels)) {
    case RankProcess::kStdout:
      return rank.process->DrainOutput(RankOutput::kStandardOutput);
    case RankProcess::kStderr:
      return rank.process->DrainOutput(RankOutput::kStandardError);
    case RankProcess::kControl:
      if (ready.writable) rank.process->FlushControl();
      if (!ready.readable) return;
      try {
        const bool more = rank.process->FillControl();
        while (const auto line = rank.process->NextLine()) {
          HandleMessage(rank, DecodeTrialMessage(*line), events);
        }
        if (!more) rank.process->CloseControl();
      } catch (const Error& error) {
        KillForProtocolError(rank, error.what());
        rank.process->CloseControl();
      }
      return;
    case RankProcess::kExit:
      return OnExit(offset / RankProcess::kChannels);
  }
}

void LaunchedTrial::HandleMessage(Rank& rank, TrialMessage message,
                                  std::deque<LaunchEvent>& events) {
  if (auto* finished = std::get_if<Finished>(&message)) {
    rank.end.message = std::move(*finished);
    // A message after the failure of another rank is often its consequence:
    // "connection lost" is not the cause.
    rank.end.late_message = std::any_of(
        dead_.begin(), dead_.end(),
        [this](std::size_t dead) { return ranks_[dead].end.failed(); });
  } else if (rank.end.rank == 0) {
    events.push_back(MessageReceived{id_, std::move(message)});
  } else {
    throw Error(ErrorKind::kFailed,
                "rank " + std::to_string(rank.end.rank) +
                    " sent a message that only rank 0 may send");
  }
}

void LaunchedTrial::OnExit(std::size_t number) {
  Rank& rank = ranks_[number];
  if (!rank.process->Reap()) return;
  const Duration now = clock_.monotonic();
  rank.end.exit_code = rank.process->exit_code();
  rank.end.signal = rank.process->signal();
  dead_.push_back(number);
  seconds_ = std::chrono::duration<double>(now - started_at_).count();
  if (stop_ == StopStep::kKilled || rank.end.ended_by_us) return;
  // Ranks that wait in a collective for one that is gone end by themselves
  // within this time, and then say why.
  const Duration until = now + PeerExitGrace(rank.end.failed());
  others_until_ = std::min(others_until_.value_or(until), until);
}

void LaunchedTrial::OnTime() {
  const Duration now = clock_.monotonic();
  if (const auto flush_at = output_.flush_at(); flush_at && *flush_at <= now) {
    output_.Flush();
  }
  if (!living()) return;
  if (others_until_ && *others_until_ <= now) {
    const int first = ranks_[dead_.front()].end.rank;
    for (const Rank& rank : ranks_) {
      if (!rank.process->living()) continue;
      output_.Log(rank.end.rank, "rank " + std::to_string(rank.end.rank) +
                                     " is killed: rank " +
                                     std::to_string(first) +
                                     " has ended, and it has not");
    }
    return KillAll();
  }
  if (!next_stop_at_ || *next_stop_at_ > now) return;
  killed_by_us_ = true;
  if (stop_ == StopStep::kAsked) {
    stop_ = StopStep::kTerminated;
    next_stop_at_ = now + kAfterTerm;
    SignalAll(SIGTERM);
  } else {
    Kill();
  }
}

std::optional<Duration> LaunchedTrial::Deadline() const {
  std::optional<Duration> deadline = output_.flush_at();
  const auto add = [&deadline](std::optional<Duration> time) {
    if (time) deadline = std::min(deadline.value_or(*time), *time);
  };
  if (living()) {
    add(next_stop_at_);
    add(others_until_);
  }
  for (const Rank& rank : ranks_) add(rank.process->Deadline());
  return deadline;
}

// Returns the rank that is forked next, or the last one if all are forked.
int LaunchedTrial::RankToFork() const {
  return ranks_[std::min(next_, ranks_.size() - 1)].end.rank;
}

bool LaunchedTrial::living() const {
  return std::any_of(ranks_.begin(), ranks_.end(),
                     [](const Rank& rank) { return rank.process->living(); });
}

bool LaunchedTrial::dead() const {
  return !forking_ && !wants_fork() && !living();
}

bool LaunchedTrial::drained() const {
  return dead() &&
         std::all_of(dead_.begin(), dead_.end(), [this](std::size_t number) {
           return ranks_[number].process->drained();
         });
}

MonitoredTrial LaunchedTrial::FindProcesses() const {
  MonitoredTrial monitored{.trial = id_,
                           .rank = ranks_.front().process->rank()};
  for (const Rank& rank : ranks_) {
    if (rank.process->living()) monitored.pids.push_back(rank.process->pid());
  }
  for (const Gpu& gpu : lease_.gpus) {
    monitored.gpus.push_back({gpu.index, gpu.uuid});
  }
  return monitored;
}

SystemSample LaunchedTrial::Used() const {
  constexpr std::int64_t kBlock = 512;
  const auto to_seconds = [](const timeval& time) {
    return static_cast<double>(time.tv_sec) +
           static_cast<double>(time.tv_usec) / 1e6;
  };
  SystemSample used{.seconds = seconds_,
                    .processes = std::ssize(ranks_),
                    .read_bytes = 0,
                    .written_bytes = 0};
  for (const Rank& rank : ranks_) {
    const rusage& usage = rank.process->usage();
    used.cpu_seconds += to_seconds(usage.ru_utime) + to_seconds(usage.ru_stime);
    used.memory_bytes += std::int64_t{usage.ru_maxrss} << 10;
    *used.read_bytes += usage.ru_inblock * kBlock;
    *used.written_bytes += usage.ru_oublock * kBlock;
  }
  return used;
}

void LaunchedTrial::AddPids(std::set<std::int64_t>& pids) const {
  for (const Rank& rank : ranks_) {
    if (rank.process->living()) pids.insert(rank.process->pid());
  }
}

TrialEnd LaunchedTrial::End() const {
  if (!not_started_.empty()) {
    return {.rank = RankEnd{.rank = RankToFork(), .exit_code = 1}};
  }
  std::vector<RankEnd> ends;
  for (const std::size_t number : dead_) ends.push_back(ranks_[number].end);
  return CombineEnds(ends);
}

// Returns the final message or the last line of the log for which `is_cause` is
// true. A program, and a process that was aborted, tell it in the log only.
std::optional<std::string> LaunchedTrial::FindCause(
    const Rank& rank, bool (*is_cause)(std::string_view)) const {
  if (!rank.end.failed()) return std::nullopt;
  if (rank.end.message && is_cause(rank.end.message->message)) {
    return rank.end.message->message;
  }
  const std::vector<std::string> lines = output_.LastLines(rank.end.rank);
  const auto found = std::find_if(lines.rbegin(), lines.rend(), is_cause);
  if (found == lines.rend()) return std::nullopt;
  return *found;
}

std::vector<Gpu> LaunchedTrial::GpusOfFailure(
    bool (*is_cause)(std::string_view), std::string* reason) const {
  std::vector<Gpu> gpus;
  for (const std::size_t number : dead_) {
    const Rank& rank = ranks_[number];
    const auto line = FindCause(rank, is_cause);
    if (!line) continue;
    if (gpus.empty() && reason != nullptr) *reason = *line;
    gpus.insert(gpus.end(), rank.gpus.begin(), rank.gpus.end());
  }
  return gpus;
}

void LaunchedTrial::ReportEnd(bool out_of_memory,
                              std::deque<LaunchEvent>& events) {
  for (const Rank& rank : ranks_) rank.process->CloseOutput();
  output_.Flush();
  const TrialEnd end = End();
  if (end.message) events.push_back(MessageReceived{id_, *end.message});
  events.push_back(TrialExited{
      .trial = id_,
      .exit_code = end.rank.exit_code,
      .signal = end.rank.signal,
      .rank = several_ ? end.rank.rank : -1,
      .killed_by_us = killed_by_us_,
      .out_of_memory = out_of_memory && end.rank.signal == SIGKILL &&
                       !end.rank.ended_by_us && violator_ == nullptr,
      .not_started = not_started_,
      .seconds = seconds_,
      .last_lines = output_.LastLines(end.rank.rank),
      .last_error_line = output_.LastErrorLine(end.rank.rank)});
}

}  // namespace dtrain
