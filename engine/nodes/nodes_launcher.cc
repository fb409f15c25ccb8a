// Trials on several machines. A trial consists of shards, each on one machine:
// on this one through a LocalLauncher, on others by messages.
//
// With followers (RANK, WORLD_SIZE) each trial has a shard on every machine,
// and rank 0 here. Shards start one after another, in an order of machines that
// all experiments share, and only one trial at a time takes slots: so no two
// trials hold slots that the other one waits for. The ranks then find each
// other by the address in their specification (rank_connections.h).
//
// With workers each trial has one shard, on the machine with the fewest free
// slots that has room, so that other workers become idle and can be let go.
// Then rank 0 is there, and its messages come over the connection, in order.
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
#include "engine/nodes/placement.h"
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
  NodesLauncher(Nodes& nodes, LocalLauncherOptions options, WorkerHooks hooks);
  ~NodesLauncher() override;

  std::size_t FreeSlots() const override;
  std::size_t Capacity() const override;
  void SetDemand(std::size_t trials) override { demand_ = trials; }
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
    UniqueFd listener;  // for this machine's shard, until it starts
  };

  LocalLauncherOptions LocalOptions(LocalLauncherOptions options);
  Running* Find(TrialId trial);
  // The trial, if it has a shard on the node.
  Running* FindOn(int node, TrialId trial);
  std::int64_t UsedOn(int node) const;
  // The machines that take trials of one shard, this one first.
  std::vector<NodeSlots> Machines() const;
  // Places for the shards of the next trial; none if it must wait.
  std::optional<std::vector<ShardPlace>> Place() const;
  std::list<Waiting>::iterator FindWaiting(TrialId trial);
  // Ends a trial that has not started; false if there is none.
  bool EndWaiting(TrialId trial, bool killed);
  void BeginWaiting();
  struct Prepared;
  // None if it fails, which ends the trial.
  std::optional<Prepared> Prepare(const TrialSpec& spec);
  void Begin(Waiting waiting, std::vector<ShardPlace> places);
  void BeginNext(Running& running);
  void NotStarted(TrialId trial, const std::string& why);
  void SendOrder(const Running& running, const NodeOrder& order);
  void KillShards(const Running& running);

  void Step(Duration timeout);
  std::optional<Duration> Deadline() const;
  void On(const LaunchEvent& event);
  void On(const NodeEvent& event);
  void OnReport(int node, const NodeReport& report);
  void OnShardStarted(int node, const ShardStarted& started);
  void EndWaitForNodes();
  void DismissDrained();
  WorkerTable Table();
  void Drain(int node);
  void RunTimers();

  Nodes& nodes_;
  StoreLayout layout_;
  Clock clock_;
  std::int64_t experiment_;
  const SlotPlan plan_;  // of this machine
  const Timestamp since_;
  std::size_t demand_ = 0;  // trials
  WorkerUpdates updates_;
  std::list<Waiting> waiting_;
  std::list<Running> running_;
  std::deque<LaunchEvent> events_;
  bool interrupted_ = false;
  std::unique_ptr<LocalLauncher> local_;
};

NodesLauncher::NodesLauncher(Nodes& nodes, LocalLauncherOptions options,
                             WorkerHooks hooks)
    : nodes_(nodes),
      layout_(options.layout),
      clock_(options.clock),
      experiment_(options.experiment),
      plan_(options.slots),
      since_(clock_.now()),
      updates_(std::move(hooks), clock_),
      local_(MakeLocalLauncher(LocalOptions(std::move(options)))) {
  if (!nodes_.elastic()) nodes_.SendAll(ExperimentStarted{experiment_});
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
  const auto minus = [](std::size_t count, std::size_t less) {
    return count > less ? count - less : 0;
  };
  if (nodes_.elastic()) {
    const std::int64_t room = RoomForTrials(Machines(), /*slots_per_trial=*/1);
    return minus(static_cast<std::size_t>(room), waiting_.size());
  }
  const std::size_t used = waiting_.size() + running_.size();
  return std::min(minus(local_->FreeSlots(), waiting_.size()),
                  minus(static_cast<std::size_t>(nodes_.trials()), used));
}

std::size_t NodesLauncher::Capacity() const {
  if (!nodes_.elastic()) {
    return std::min(local_->Capacity(),
                    static_cast<std::size_t>(nodes_.trials()));
  }
  std::int64_t trials = 0;
  for (const NodeSlots& machine : Machines()) trials += machine.all;
  return static_cast<std::size_t>(trials);
}

std::int64_t NodesLauncher::UsedOn(int node) const {
  return std::ranges::count_if(running_, [node](const Running& running) {
    return running.trial.ShardOn(node).has_value();
  });
}

std::vector<NodeSlots> NodesLauncher::Machines() const {
  std::vector<NodeSlots> machines;
  if (plan_.count > 0) {
    machines.push_back(
        {.node = 0,
         .all = static_cast<std::int64_t>(local_->Capacity()),
         .free = static_cast<std::int64_t>(local_->FreeSlots())});
  }
  for (const WorkerRow& worker : nodes_.Workers()) {
    const std::int64_t all = nodes_.Capacity(worker.id);
    const std::int64_t free = all - UsedOn(worker.id);
    machines.push_back({.node = worker.id,
                        .all = all,
                        .free = std::max<std::int64_t>(free, 0)});
  }
  return machines;
}

std::optional<std::vector<ShardPlace>> NodesLauncher::Place() const {
  if (nodes_.elastic()) {
    const std::optional<ShardPlace> place =
        PlaceTrial(Machines(), /*slots_per_trial=*/1);
    return place ? std::optional(std::vector{*place}) : std::nullopt;
  }
  // One trial takes its slots at a time: two that each have one slot of a
  // machine would wait for each other forever.
  const auto starting = [](const Running& it) { return it.trial.starting(); };
  if (!nodes_.complete() || std::ranges::any_of(running_, starting)) {
    return std::nullopt;
  }
  std::vector<ShardPlace> all;
  for (int node = 0; node < nodes_.env().world_size; ++node) {
    all.push_back({.node = node, .slots = plan_.slots_per_trial});
  }
  return all;
}

NodesLauncher::Running* NodesLauncher::Find(TrialId trial) {
  const auto found = std::ranges::find_if(
      running_,
      [&](const Running& running) { return running.trial.id() == trial; });
  return found == running_.end() ? nullptr : &*found;
}

NodesLauncher::Running* NodesLauncher::FindOn(int node, TrialId trial) {
  Running* running = Find(trial);
  if (running == nullptr || !running->trial.ShardOn(node)) return nullptr;
  return running;
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

void NodesLauncher::BeginWaiting() {
  while (!waiting_.empty()) {
    std::optional<std::vector<ShardPlace>> places = Place();
    if (!places) return;
    Waiting first = std::move(waiting_.front());
    waiting_.pop_front();
    Begin(std::move(first), *std::move(places));
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
    UniqueFd listener;
    if (!nodes_.elastic()) {
      listener = ListenAt({.host = nodes_.env().runner.host},
                          {.only_here = nodes_.env().all_here});
    }
    return Prepared{std::move(listener),
                    OpenTrialOutput(spec, layout_, clock_)};
  } catch (const Error& error) {
    NotStarted(spec.id, error.what());
    return std::nullopt;
  }
}

void NodesLauncher::Begin(Waiting waiting, std::vector<ShardPlace> places) {
  std::optional<Prepared> prepared = Prepare(waiting.spec);
  if (!prepared) return;
  std::vector<int> order = {0};
  if (places.size() > 1) order = nodes_.SlotOrder();
  Running& running = running_.emplace_back(
      Running{.trial = SharedTrial(std::move(waiting.spec), std::move(places),
                                   order, std::move(prepared->output), clock_),
              .listener = std::move(prepared->listener)});
  if (running.listener) {
    running.trial.SetAddress({.host = nodes_.env().runner.host,
                              .port = PortOf(running.listener.get()),
                              .token = RandomUuid()});
  }
  for (const RunnerMessage& message : waiting.messages) {
    running.trial.Hold(message);
  }
  BeginNext(running);
}

// A trial that holds slots never waits for a machine earlier in the order.
void NodesLauncher::BeginNext(Running& running) {
  const std::optional<int> shard = running.trial.PopNext();
  if (!shard) return;
  const int node = running.trial.NodeOf(*shard);
  TrialSpec spec = running.trial.ShardSpec(*shard);
  if (node == 0) {
    if (spec.address) spec.address->token = RankSecret(nodes_.secret(), spec);
    local_->StartShard(spec, std::move(running.listener));
  } else {
    nodes_.Send(node, StartShard{spec});
  }
  if (*shard != 0) return;
  for (const RunnerMessage& message : running.trial.TakeHeld()) {
    Send(spec.id, message);
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
    return;
  }
  Running* running = Find(trial);
  if (running == nullptr) return;
  if (running->trial.is_queued(0)) {
    running->trial.Hold(message);
  } else if (const int node = running->trial.NodeOf(0); node == 0) {
    local_->Send(trial, message);
  } else {
    nodes_.Send(node, TellShard{trial, Encode(message)});
  }
}

// Sends an order to the other machines of a trial.
void NodesLauncher::SendOrder(const Running& running, const NodeOrder& order) {
  for (const ShardPlace& place : running.trial.places()) {
    if (place.node != 0) nodes_.Send(place.node, order);
  }
}

void NodesLauncher::KillShards(const Running& running) {
  local_->Kill(running.trial.id());
  SendOrder(running, KillShard{running.trial.id()});
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
  SendOrder(*running, StopShard{trial});
}

void NodesLauncher::Kill(TrialId trial) {
  Running* running = Find(trial);
  if (EndWaiting(trial, /*killed=*/true) || running == nullptr) return;
  running->trial.OnKillRequested();
  KillShards(*running);
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
    SharedTrial& trial = running.trial;
    for (const ShardPlace& place : trial.places()) {
      if (place.node == 0) continue;
      trial.OnLost(*trial.ShardOn(place.node),
                   nodes_.Described(place.node) +
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
  if (!nodes_.elastic()) {
    for (const Waiting& waiting : waiting_) add(waiting.until);
  }
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
    if (Running* running = FindOn(0, started->trial)) {
      running->trial.OnFirstStarted(*started, events_);
      BeginNext(*running);
    }
  } else if (const auto* said = std::get_if<MessageReceived>(&event)) {
    Running* running = FindOn(0, said->trial);
    if (running == nullptr) return;
    if (const auto* finished = std::get_if<Finished>(&said->message)) {
      running->trial.OnFinished(0, *finished);
    } else {
      running->trial.OnMessage(said->message, events_);
    }
  } else if (const auto* exited = std::get_if<TrialExited>(&event)) {
    if (Running* running = FindOn(0, exited->trial)) {
      running->trial.OnEnded(0, {.exited = *exited});
    }
  }
}

void NodesLauncher::On(const NodeEvent& event) {
  if (const auto* joined = std::get_if<NodeJoined>(&event)) {
    if (!nodes_.elastic()) {
      nodes_.Send(joined->node, ExperimentStarted{experiment_});
    }
  } else if (const auto* lost = std::get_if<NodeLost>(&event)) {
    for (Running& running : running_) {
      if (const auto shard = running.trial.ShardOn(lost->node)) {
        running.trial.OnLost(*shard, lost->why);
      }
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
    OnShardStarted(node, *started);
  } else if (const auto* said = std::get_if<ShardSaid>(&report)) {
    Running* running = FindOn(node, said->trial);
    if (running == nullptr || running->trial.NodeOf(0) != node) return;
    running->trial.OnMessage(DecodeTrialMessage(said->line), events_);
  } else if (const auto* printed = std::get_if<ShardPrinted>(&report)) {
    Running* running = FindOn(node, printed->trial);
    if (running != nullptr) running->trial.OnPrinted(printed->record);
  } else if (const auto* ended = std::get_if<ShardEnded>(&report)) {
    Running* running = FindOn(node, ended->exited.trial);
    if (running == nullptr) return;
    running->trial.OnEnded(*running->trial.ShardOn(node), *ended);
  }
}

// The process of a remote rank 0 has no pid here.
void NodesLauncher::OnShardStarted(int node, const ShardStarted& started) {
  Running* running = FindOn(node, started.trial);
  if (running == nullptr) return;
  const int shard = *running->trial.ShardOn(node);
  if (shard == 0) {
    TrialStarted first{.trial = started.trial};
    for (const std::string& slot : started.slots) {
      first.slots.push_back(nodes_.MachineOf(node) + "/" + slot);
    }
    running->trial.OnFirstStarted(std::move(first), events_);
  } else {
    running->trial.OnStarted(shard, events_);
  }
  BeginNext(*running);
}

// A worker that drains keeps its connection until its last trial has ended.
void NodesLauncher::DismissDrained() {
  if (!nodes_.elastic()) return;
  for (const WorkerRow& worker : nodes_.Workers()) {
    if (nodes_.draining(worker.id) && UsedOn(worker.id) == 0) {
      nodes_.Dismiss(worker.id);
    }
  }
}

WorkerTable NodesLauncher::Table() {
  const std::int64_t each = plan_.slots_per_trial;
  WorkerTable table{.demand = static_cast<std::int64_t>(demand_) * each,
                    .slots_per_trial = each};
  table.workers = nodes_.Workers();
  if (plan_.count > 0) {
    table.workers.insert(
        table.workers.begin(),
        {.host = nodes_.MachineOf(0),
         .state = WorkerState::kReady,
         .gpus = !plan_.gpus.empty(),
         .slots = static_cast<std::int64_t>(local_->Capacity()),
         .joined = since_});
  }
  for (WorkerRow& row : table.workers) row.slots *= each;
  for (const Running& running : running_) {
    table.AddTrial(running.trial.NodeOf(0), ToString(running.trial.id()));
  }
  return table;
}

// Lets a worker go: at once if it has no trial, otherwise it drains.
void NodesLauncher::Drain(int node) {
  if (node <= 0 || nodes_.Capacity(node) == 0) return;
  if (UsedOn(node) == 0) return nodes_.Dismiss(node);
  nodes_.Send(node, DrainNode{});
}

void NodesLauncher::RunTimers() {
  for (Running& running : running_) {
    SharedTrial& trial = running.trial;
    trial.OnTime();
    if (const std::optional<int> shard = trial.PopLongWait()) {
      const int node = running.trial.NodeOf(*shard);
      // LongWait reports waits for slots of this machine.
      if (node != 0 || !nodes_.elastic()) {
        nodes_.Notice("trial " + ToString(trial.id()) +
                      " waits for free slots of " + nodes_.Described(node) +
                      "; run 'dtrain slots' there to see who holds them");
      }
    }
    if (trial.PopKillDue()) KillShards(running);
  }
  running_.remove_if([this](Running& running) {
    if (!running.trial.ended()) return false;
    running.trial.EmitEnd(events_);
    return true;
  });
  DismissDrained();
  BeginWaiting();
  if (!nodes_.elastic()) return EndWaitForNodes();
  if (!updates_.due()) return;
  for (const int node : updates_.Apply(Table())) Drain(node);
  if (auto failure = updates_.Failure()) events_.push_back(*failure);
}

// Workers come and go; a follower that does not come back is an error.
void NodesLauncher::EndWaitForNodes() {
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
                                            LocalLauncherOptions options,
                                            WorkerHooks hooks) {
  return std::make_unique<NodesLauncher>(nodes, std::move(options),
                                         std::move(hooks));
}

}  // namespace dtrain
