#include "engine/nodes/nodes_launcher.h"

#include <algorithm>
#include <utility>

#include "engine/base/error.h"
#include "engine/base/text.h"
#include "engine/base/uuid.h"
#include "engine/os/socket.h"

namespace dtrain {
namespace {

constexpr Duration kReturnPatience = std::chrono::minutes(5);
// After that a follower that was told to kill its ranks counts as lost.
constexpr Duration kAbortPatience = std::chrono::seconds(15);

}  // namespace

NodesLauncher::NodesLauncher(Nodes& nodes, LocalLauncherOptions options)
    : nodes_(nodes),
      layout_(options.layout),
      clock_(options.clock),
      experiment_(options.experiment),
      local_(LocalOptions(std::move(options))) {
  nodes_.SendAll(ExperimentBegun{experiment_});
}

NodesLauncher::~NodesLauncher() { Abort(); }

LocalLauncherOptions NodesLauncher::LocalOptions(LocalLauncherOptions options) {
  options.wake = nodes_.fd();
  options.log = [this](TrialId id, const LogRecord& record) {
    if (Running* running = Find(id)) running->trial.OnPrinted(record);
  };
  return options;
}

std::size_t NodesLauncher::FreeSlots() const {
  const std::size_t used = waiting_.size() + running_.size();
  const auto most = static_cast<std::size_t>(nodes_.trials());
  const std::size_t here = local_.FreeSlots();
  const std::size_t free_here =
      here > waiting_.size() ? here - waiting_.size() : 0;
  return std::min(free_here, most > used ? most - used : 0);
}

NodesLauncher::Running* NodesLauncher::Find(TrialId trial) {
  const auto found = std::ranges::find_if(
      running_,
      [&](const Running& running) { return running.trial.id() == trial; });
  return found == running_.end() ? nullptr : &*found;
}

std::list<NodesLauncher::Waiting>::iterator NodesLauncher::FindWaiting(
    TrialId trial) {
  return std::ranges::find_if(waiting_, [&](const Waiting& waiting) {
    return waiting.spec.id == trial;
  });
}

void NodesLauncher::Start(const TrialSpec& spec) {
  waiting_.push_back(
      {.spec = spec, .until = clock_.monotonic() + kReturnPatience});
  BeginWaiting();
}

// One trial takes its slots at a time: where processes share a machine, two
// that have one slot each there would wait for each other for ever.
void NodesLauncher::BeginWaiting() {
  const auto starting = [](const Running& it) { return it.trial.starting(); };
  while (!waiting_.empty() && nodes_.complete() &&
         std::ranges::none_of(running_, starting)) {
    Waiting first = std::move(waiting_.front());
    waiting_.pop_front();
    Begin(std::move(first));
  }
}

// What is to be had on this machine before any part is started.
struct NodesLauncher::Prepared {
  UniqueFd listener;
  TrialOutput output;
};

std::optional<NodesLauncher::Prepared> NodesLauncher::Prepare(
    const TrialSpec& spec) {
  try {
    UniqueFd listener = ListenAt({.host = nodes_.place().runner.host},
                                 {.only_here = nodes_.place().all_here});
    return Prepared{std::move(listener),
                    OpenTrialOutput(spec, layout_, clock_)};
  } catch (const Error& error) {
    NotStarted(spec.id, error.what());
    return std::nullopt;
  }
}

void NodesLauncher::Begin(Waiting waiting) {
  std::optional<Prepared> prepared = Prepare(waiting.spec);
  if (!prepared) return;
  const RankAddress address{.host = nodes_.place().runner.host,
                            .port = PortOf(prepared->listener.get()),
                            .token = RandomUuid(),
                            .ranks_here = waiting.spec.world_size};
  BeginNext(running_.emplace_back(
      Running{.trial = SharedTrial(std::move(waiting.spec), nodes_.SlotOrder(),
                                   std::move(prepared->output), clock_),
              .address = address,
              .listener = std::move(prepared->listener),
              .messages = std::move(waiting.messages)}));
}

// Whoever holds slots never waits for those of a machine that comes before.
void NodesLauncher::BeginNext(Running& running) {
  const std::optional<int> part = running.trial.TakeNext();
  if (!part) return;
  TrialSpec spec = running.trial.PartOf(*part, running.address);
  if (*part != 0) return nodes_.Send(*part, StartPart{spec});
  spec.address->token = RankSecret(nodes_.secret(), spec);
  local_.StartPart(spec, std::move(running.listener));
  for (const RunnerMessage& message : std::exchange(running.messages, {})) {
    local_.Send(spec.id, message);
  }
}

void NodesLauncher::NotStarted(TrialId trial, const std::string& why) {
  events_.push_back(TrialExited{
      .trial = trial,
      .exit_code = 1,
      .not_started = "cannot start trial " + ToString(trial) + ": " + why,
      .last_lines = {why}});
}

void NodesLauncher::Send(TrialId trial, const RunnerMessage& message) {
  if (const auto queued = FindWaiting(trial); queued != waiting_.end()) {
    queued->messages.push_back(message);
  } else if (Running* running = Find(trial);
             running != nullptr && running->trial.begins_later(0)) {
    running->messages.push_back(message);
  } else {
    local_.Send(trial, message);
  }
}

bool NodesLauncher::EndWaiting(TrialId trial, bool killed) {
  const auto queued = FindWaiting(trial);
  if (queued == waiting_.end()) return false;
  waiting_.erase(queued);
  events_.push_back(TrialExited{.trial = trial, .killed_by_us = killed});
  return true;
}

void NodesLauncher::RequestStop(TrialId trial) {
  Running* running = Find(trial);
  if (EndWaiting(trial, /*killed=*/false) || running == nullptr) return;
  running->trial.StopAsked();
  local_.RequestStop(trial);
  nodes_.SendAll(StopPart{trial});
}

void NodesLauncher::Kill(TrialId trial) {
  Running* running = Find(trial);
  if (EndWaiting(trial, /*killed=*/true) || running == nullptr) return;
  running->trial.KillAsked();
  local_.Kill(trial);
  nodes_.SendAll(KillPart{trial});
}

void NodesLauncher::Abort() {
  while (!waiting_.empty()) Kill(waiting_.front().spec.id);
  for (Running& running : running_) Kill(running.trial.id());
  const Duration end = clock_.monotonic() + kAbortPatience;
  while (!running_.empty() && clock_.monotonic() < end) {
    Step(std::chrono::milliseconds(100));
  }
  local_.Abort();
  for (Running& running : running_) {
    for (int node = 1; node < nodes_.place().world_size; ++node) {
      running.trial.OnLost(node, "RANK=" + std::to_string(node) +
                                     " does not say that its ranks are dead");
    }
  }
  while (!running_.empty()) Step(std::chrono::milliseconds(100));
}

LaunchEvent NodesLauncher::Wait(Duration timeout) {
  const Duration end = clock_.monotonic() + timeout;
  do {
    if (events_.empty()) Step(end - clock_.monotonic());
  } while (events_.empty() && clock_.monotonic() < end);
  if (events_.empty()) return Idle{};
  LaunchEvent event = std::move(events_.front());
  events_.pop_front();
  return event;
}

void NodesLauncher::Step(Duration timeout) {
  const Duration now = clock_.monotonic();
  const Duration due =
      std::min(now + timeout, Deadline().value_or(now + timeout));
  On(local_.Wait(std::max(due - now, Duration(0))));
  for (const NodeEvent& event : nodes_.Serve()) On(event);
  DoWhatIsDue();
}

std::optional<Duration> NodesLauncher::Deadline() const {
  std::optional<Duration> deadline = nodes_.Deadline();
  const auto add = [&deadline](std::optional<Duration> time) {
    if (time) deadline = std::min(deadline.value_or(*time), *time);
  };
  for (const Waiting& waiting : waiting_) add(waiting.until);
  for (const Running& running : running_) add(running.trial.Deadline());
  return deadline;
}

void NodesLauncher::On(const LaunchEvent& event) {
  if (const auto* interrupted = std::get_if<Interrupted>(&event)) {
    interrupted_ = true;
    events_.push_back(*interrupted);
  } else if (const auto* started = std::get_if<TrialStarted>(&event)) {
    if (Running* running = Find(started->trial)) {
      running->trial.OnFirstStarted(*started, events_);
      BeginNext(*running);
    }
  } else if (const auto* said = std::get_if<TrialSaid>(&event)) {
    Running* running = Find(said->trial);
    if (running == nullptr) return;
    if (const auto* word = std::get_if<Finished>(&said->message)) {
      running->word = *word;
    } else {
      running->trial.OnSaid(said->message, events_);
    }
  } else if (const auto* exited = std::get_if<TrialExited>(&event)) {
    if (Running* running = Find(exited->trial)) {
      running->trial.OnEnded(0, {*exited, running->word});
    }
  }
}

void NodesLauncher::On(const NodeEvent& event) {
  if (const auto* joined = std::get_if<NodeJoined>(&event)) {
    nodes_.Send(joined->node, ExperimentBegun{experiment_});
  } else if (const auto* lost = std::get_if<NodeLost>(&event)) {
    for (Running& running : running_) {
      running.trial.OnLost(lost->node, lost->why);
    }
  } else if (const auto* said = std::get_if<NodeSaid>(&event)) {
    OnReport(said->node, said->report);
  }
}

void NodesLauncher::OnReport(int node, const NodeReport& report) {
  if (const auto* interrupted = std::get_if<NodeInterrupted>(&report)) {
    // A scheduler that ends all machines has told this one itself.
    if (!std::exchange(interrupted_, true)) {
      events_.push_back(Interrupted{.signal = interrupted->signal});
    }
  } else if (const auto* started = std::get_if<PartStarted>(&report)) {
    Running* running = Find(started->trial);
    if (running == nullptr) return;
    running->trial.OnStarted(node, events_);
    BeginNext(*running);
  } else if (const auto* printed = std::get_if<PartPrinted>(&report)) {
    Running* running = Find(printed->trial);
    if (running != nullptr) running->trial.OnPrinted(printed->record);
  } else if (const auto* ended = std::get_if<PartEnded>(&report)) {
    Running* running = Find(ended->exited.trial);
    if (running != nullptr) running->trial.OnEnded(node, *ended);
  }
}

void NodesLauncher::DoWhatIsDue() {
  for (Running& running : running_) {
    SharedTrial& trial = running.trial;
    trial.OnTime();
    if (const std::optional<int> part = trial.TakeLongWait()) {
      nodes_.Notice("trial " + ToString(trial.id()) +
                    " waits for free slots of " + nodes_.Described(*part) +
                    "; 'dtrain slots' there says who has them");
    }
    if (!trial.TakeKillDue()) continue;
    local_.Kill(trial.id());
    nodes_.SendAll(KillPart{trial.id()});
  }
  running_.remove_if([this](Running& running) {
    if (!running.trial.ended()) return false;
    running.trial.TellEnd(events_);
    return true;
  });
  BeginWaiting();
  const Duration now = clock_.monotonic();
  if (nodes_.complete()) {
    for (Waiting& waiting : waiting_) waiting.until = now + kReturnPatience;
  }
  while (!waiting_.empty() && waiting_.front().until <= now) {
    const TrialId id = waiting_.front().spec.id;
    waiting_.pop_front();
    NotStarted(id, "nobody has come back with " + nodes_.Missing() +
                       " within " + FormatDuration(kReturnPatience) +
                       "; start the same command there again");
  }
}

namespace {

// Who waits longer for slots says so.
constexpr Duration kSilentWait = std::chrono::seconds(10);

bool Failed(const PartEnded& ended) {
  return ended.exited.exit_code != 0 && !ended.exited.killed_by_us;
}

}  // namespace

SharedTrial::SharedTrial(TrialSpec spec, const std::vector<int>& parts,
                         TrialOutput output, Clock clock)
    : spec_(std::move(spec)),
      clock_(std::move(clock)),
      output_(std::move(output)),
      parts_(parts.size()),
      to_begin_(parts.begin(), parts.end()) {}

std::optional<int> SharedTrial::TakeNext() {
  if (to_begin_.empty()) return std::nullopt;
  begun_ = to_begin_.front();
  to_begin_.pop_front();
  wait_told_ = clock_.monotonic() + kSilentWait;
  return begun_;
}

bool SharedTrial::begins_later(int part) const {
  return std::ranges::find(to_begin_, part) != to_begin_.end();
}

std::optional<int> SharedTrial::TakeLongWait() {
  if (!wait_told_ || clock_.monotonic() < *wait_told_) return std::nullopt;
  wait_told_.reset();
  return begun_;
}

void SharedTrial::StopAsked() {
  stop_asked_ = true;
  EndUnbegun(/*killed=*/false);
}

void SharedTrial::KillAsked() {
  kill_asked_ = true;
  EndUnbegun(/*killed=*/true);
}

void SharedTrial::EndUnbegun(bool killed) {
  wait_told_.reset();
  for (const int part : std::exchange(to_begin_, {})) {
    OnEnded(part, {.exited = {.trial = id(), .killed_by_us = killed}});
  }
}

TrialSpec SharedTrial::PartOf(int part, const RankAddress& address) const {
  TrialSpec spec = spec_;
  spec.rank = part * address.ranks_here;
  spec.world_size = static_cast<int>(parts_.size()) * address.ranks_here;
  spec.address = address;
  return spec;
}

void SharedTrial::OnFirstStarted(TrialStarted started,
                                 std::deque<LaunchEvent>& events) {
  first_ = std::move(started);
  OnStarted(0, events);
}

void SharedTrial::OnStarted(int part, std::deque<LaunchEvent>& events) {
  At(part).started = true;
  if (part == begun_) wait_told_.reset();
  if (std::ranges::all_of(parts_, &Part::started)) Release(events);
}

void SharedTrial::OnSaid(TrialMessage message,
                         std::deque<LaunchEvent>& events) {
  if (released_) {
    events.push_back(TrialSaid{id(), std::move(message)});
  } else {
    held_.push_back(std::move(message));
  }
}

void SharedTrial::Release(std::deque<LaunchEvent>& events) {
  if (std::exchange(released_, true)) return;
  events.push_back(*first_);
  for (TrialMessage& message : std::exchange(held_, {})) {
    events.push_back(TrialSaid{id(), std::move(message)});
  }
}

void SharedTrial::OnEnded(int part, PartEnded ended) {
  if (At(part).ended) return;
  const bool failed = Failed(ended);
  At(part).late_word = std::ranges::any_of(
      order_, [this](int other) { return Failed(*At(other).ended); });
  const Duration until = clock_.monotonic() + OthersLiveOn(failed);
  others_until_ = std::min(others_until_.value_or(until), until);
  At(part).ended = std::move(ended);
  order_.push_back(part);
  EndUnbegun(/*killed=*/true);
}

void SharedTrial::OnLost(int part, const std::string& why) {
  if (At(part).ended) return;
  const int rank = FirstRankOf(part);
  output_.Append({.time = clock_.now(),
                  .rank = rank,
                  .from_stderr = true,
                  .level = LogLevel::kError,
                  .text = "dtrain: " + why});
  // Without a word, as one that crashes: the same may happen again, and another
  // start mends it.
  OnEnded(
      part,
      {.exited = {
           .trial = id(), .exit_code = 1, .rank = rank, .last_lines = {why}}});
}

bool SharedTrial::TakeKillDue() {
  const bool due = others_until_ && !others_killed_ && !ended() &&
                   *others_until_ <= clock_.monotonic();
  if (due) others_killed_ = true;
  return due;
}

void SharedTrial::OnTime() {
  const auto flush_at = output_.flush_at();
  if (flush_at && *flush_at <= clock_.monotonic()) output_.Flush();
}

std::optional<Duration> SharedTrial::Deadline() const {
  std::optional<Duration> deadline = output_.flush_at();
  const auto add = [&deadline](const Duration& time) {
    deadline = std::min(deadline.value_or(time), time);
  };
  if (others_until_ && !others_killed_ && !ended()) add(*others_until_);
  if (wait_told_) add(*wait_told_);
  return deadline;
}

// A part that has ended before it had a process names none.
RankEnd SharedTrial::EndOf(int part) const {
  const TrialExited& exited = At(part).ended->exited;
  return {.rank = exited.rank < 0 ? FirstRankOf(part) : exited.rank,
          .exit_code = exited.exit_code,
          .signal = exited.signal,
          .ended_by_us = exited.killed_by_us,
          .word = At(part).ended->word,
          .late_word = At(part).late_word};
}

std::string SharedTrial::NotStarted() const {
  for (const Part& part : parts_) {
    const std::string& why = part.ended->exited.not_started;
    if (!why.empty()) return why;
  }
  return "";
}

void SharedTrial::TellEnd(std::deque<LaunchEvent>& events) {
  output_.Flush();
  std::vector<RankEnd> ends;
  for (const int part : order_) ends.push_back(EndOf(part));
  const TrialEnd end = JudgeEnd(ends);
  const auto counts = std::ranges::find(ends, end.rank.rank, &RankEnd::rank);
  const int culprit = order_[static_cast<std::size_t>(counts - ends.begin())];
  const TrialExited& first = At(0).ended->exited;
  TrialExited exited = At(culprit).ended->exited;
  exited.rank = end.rank.rank;
  exited.seconds = first.seconds;
  exited.killed_by_us = kill_asked_ || (stop_asked_ && first.killed_by_us);
  exited.not_started = NotStarted();
  if (exited.not_started.empty()) {
    if (first_) Release(events);
    if (end.word) events.push_back(TrialSaid{id(), *end.word});
  }
  events.push_back(std::move(exited));
}

}  // namespace dtrain
