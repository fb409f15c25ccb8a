// Trials on several machines. The runner (RANK=0) starts one shard of a trial
// on each machine, its own through a LocalLauncher, the others by messages to
// their followers. Shards start one after another, in an order of machines that
// all experiments share, and only one trial at a time takes slots: so no two
// trials hold slots that the other one waits for. The ranks then find each
// other by the address in their specification
// (engine/ranks/rank_connections.h).
#include "engine/nodes/nodes_launcher.h"

#include <algorithm>
#include <cstdint>
#include <deque>
#include <list>
#include <optional>
#include <string>
#include <utility>

#include "engine/base/error.h"
#include "engine/base/text.h"
#include "engine/base/uuid.h"
#include "engine/nodes/nodes.h"
#include "engine/nodes/shared_trial.h"
#include "engine/os/socket.h"
#include "engine/process/local_launcher.h"

namespace dtrain {
namespace {

constexpr Duration kReturnPatience = std::chrono::minutes(5);
// A follower that has not killed its ranks by then counts as lost.
constexpr Duration kAbortPatience = std::chrono::seconds(15);

// The launcher of trials on several machines.
class NodesLauncher final : public Launcher {
 public:
  NodesLauncher(Nodes& nodes, LocalLauncherOptions options);
  ~NodesLauncher() override;

  std::size_t FreeSlots() const override;
  void Start(const TrialSpec& spec) override;
  void Send(TrialId trial, const RunnerMessage& message) override;
  void RequestStop(TrialId trial) override;
  void Kill(TrialId trial) override;
  std::optional<SlotWait> LongWait() override { return local_->LongWait(); }
  LaunchEvent Wait(Duration timeout) override;
  void Abort() override;

 private:
  // A trial that waits for a follower, or for the slots of a trial before it.
  struct Waiting {
    TrialSpec spec;
    // When its wait for a follower ends.
    Duration until{0};
    std::vector<RunnerMessage> messages;
  };
  struct Running {
    SharedTrial trial;
    RankAddress address;
    // For this machine's shard. The first two are empty once it has started.
    UniqueFd listener;
    std::vector<RunnerMessage> messages;
    std::optional<Finished> finished;
  };

  LocalLauncherOptions LocalOptions(LocalLauncherOptions options);
  Running* Find(TrialId trial);
  std::list<Waiting>::iterator FindWaiting(TrialId trial);
  // Ends a trial that has not started; false if there is none.
  bool EndWaiting(TrialId trial, bool killed);
  void BeginWaiting();
  struct Prepared;
  // None if it fails, which ends the trial.
  std::optional<Prepared> Prepare(const TrialSpec& spec);
  void Begin(Waiting waiting);
  void BeginNext(Running& running);
  void NotStarted(TrialId trial, const std::string& why);

  void Step(Duration timeout);
  std::optional<Duration> Deadline() const;
  void On(const LaunchEvent& event);
  void On(const NodeEvent& event);
  void OnReport(int node, const NodeReport& report);
  void RunTimers();

  Nodes& nodes_;
  StoreLayout layout_;
  Clock clock_;
  std::int64_t experiment_;
  std::list<Waiting> waiting_;
  std::list<Running> running_;
  std::deque<LaunchEvent> events_;
  bool interrupted_ = false;
  std::unique_ptr<LocalLauncher> local_;
};

NodesLauncher::NodesLauncher(Nodes& nodes, LocalLauncherOptions options)
    : nodes_(nodes),
      layout_(options.layout),
      clock_(options.clock),
      experiment_(options.experiment),
      local_(MakeLocalLauncher(LocalOptions(std::move(options)))) {
  nodes_.SendAll(ExperimentStarted{experiment_});
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
  const std::size_t here = local_->FreeSlots();
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

// One trial takes its slots at a time: two that each have one slot of a machine
// would wait for each other forever.
void NodesLauncher::BeginWaiting() {
  const auto starting = [](const Running& it) { return it.trial.starting(); };
  while (!waiting_.empty() && nodes_.complete() &&
         std::ranges::none_of(running_, starting)) {
    Waiting first = std::move(waiting_.front());
    waiting_.pop_front();
    Begin(std::move(first));
  }
}

// Resources of this machine that a trial needs before any shard starts.
struct NodesLauncher::Prepared {
  UniqueFd listener;
  TrialOutput output;
};

std::optional<NodesLauncher::Prepared> NodesLauncher::Prepare(
    const TrialSpec& spec) {
  try {
    UniqueFd listener = ListenAt({.host = nodes_.env().runner.host},
                                 {.only_here = nodes_.env().all_here});
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
  const RankAddress address{.host = nodes_.env().runner.host,
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

// A trial that holds slots never waits for a machine earlier in the order.
void NodesLauncher::BeginNext(Running& running) {
  const std::optional<int> shard = running.trial.PopNext();
  if (!shard) return;
  TrialSpec spec = running.trial.ShardSpec(*shard, running.address);
  if (*shard != 0) return nodes_.Send(*shard, StartShard{spec});
  spec.address->token = RankSecret(nodes_.secret(), spec);
  local_->StartShard(spec, std::move(running.listener));
  for (const RunnerMessage& message : std::exchange(running.messages, {})) {
    local_->Send(spec.id, message);
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
             running != nullptr && running->trial.is_queued(0)) {
    running->messages.push_back(message);
  } else {
    local_->Send(trial, message);
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
  running->trial.OnStopRequested();
  local_->RequestStop(trial);
  nodes_.SendAll(StopShard{trial});
}

void NodesLauncher::Kill(TrialId trial) {
  Running* running = Find(trial);
  if (EndWaiting(trial, /*killed=*/true) || running == nullptr) return;
  running->trial.OnKillRequested();
  local_->Kill(trial);
  nodes_.SendAll(KillShard{trial});
}

void NodesLauncher::Abort() {
  while (!waiting_.empty()) Kill(waiting_.front().spec.id);
  for (Running& running : running_) Kill(running.trial.id());
  const Duration end = clock_.monotonic() + kAbortPatience;
  while (!running_.empty() && clock_.monotonic() < end) {
    Step(std::chrono::milliseconds(100));
  }
  local_->Abort();
  for (Running& running : running_) {
    for (int node = 1; node < nodes_.env().world_size; ++node) {
      running.trial.OnLost(node, "RANK=" + std::to_string(node) +
                                     " did not report the end of its ranks");
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
  On(local_->Wait(std::max(due - now, Duration(0))));
  for (const NodeEvent& event : nodes_.Serve()) On(event);
  RunTimers();
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
  } else if (const auto* restored = std::get_if<GpuRestored>(&event)) {
    events_.push_back(*restored);
  } else if (const auto* started = std::get_if<TrialStarted>(&event)) {
    if (Running* running = Find(started->trial)) {
      running->trial.OnFirstStarted(*started, events_);
      BeginNext(*running);
    }
  } else if (const auto* said = std::get_if<MessageReceived>(&event)) {
    Running* running = Find(said->trial);
    if (running == nullptr) return;
    if (const auto* finished = std::get_if<Finished>(&said->message)) {
      running->finished = *finished;
    } else {
      running->trial.OnMessage(said->message, events_);
    }
  } else if (const auto* exited = std::get_if<TrialExited>(&event)) {
    if (Running* running = Find(exited->trial)) {
      running->trial.OnEnded(0, {*exited, running->finished});
    }
  }
}

void NodesLauncher::On(const NodeEvent& event) {
  if (const auto* joined = std::get_if<NodeJoined>(&event)) {
    nodes_.Send(joined->node, ExperimentStarted{experiment_});
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
    // A scheduler that ends all machines has also signaled this process.
    if (!std::exchange(interrupted_, true)) {
      events_.push_back(Interrupted{.signal = interrupted->signal});
    }
  } else if (const auto* started = std::get_if<ShardStarted>(&report)) {
    Running* running = Find(started->trial);
    if (running == nullptr) return;
    running->trial.OnStarted(node, events_);
    BeginNext(*running);
  } else if (const auto* printed = std::get_if<ShardPrinted>(&report)) {
    Running* running = Find(printed->trial);
    if (running != nullptr) running->trial.OnPrinted(printed->record);
  } else if (const auto* ended = std::get_if<ShardEnded>(&report)) {
    Running* running = Find(ended->exited.trial);
    if (running != nullptr) running->trial.OnEnded(node, *ended);
  }
}

void NodesLauncher::RunTimers() {
  for (Running& running : running_) {
    SharedTrial& trial = running.trial;
    trial.OnTime();
    if (const std::optional<int> shard = trial.PopLongWait()) {
      nodes_.Notice("trial " + ToString(trial.id()) +
                    " waits for free slots of " + nodes_.Described(*shard) +
                    "; run 'dtrain slots' there to see who holds them");
    }
    if (!trial.PopKillDue()) continue;
    local_->Kill(trial.id());
    nodes_.SendAll(KillShard{trial.id()});
  }
  running_.remove_if([this](Running& running) {
    if (!running.trial.ended()) return false;
    running.trial.EmitEnd(events_);
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
    NotStarted(id, nodes_.Missing() + " did not come back within " +
                       FormatDuration(kReturnPatience) +
                       "; start the same command there again");
  }
}

}  // namespace

std::unique_ptr<Launcher> MakeNodesLauncher(Nodes& nodes,
                                            LocalLauncherOptions options) {
  return std::make_unique<NodesLauncher>(nodes, std::move(options));
}

}  // namespace dtrain
