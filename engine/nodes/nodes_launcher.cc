// Trials on several machines. A trial consists of shards, each on one machine:
// on this one through a LocalLauncher, on workers by messages. placement.h
// chooses the machines.
//
// Shards start one after another, in an order of machines that all experiments
// share, and only one trial at a time takes slots: so no two trials hold slots
// that the other one waits for. Ranks find each other by the address in their
// specification (rank_connections.h). If rank 0 is here, it is known before; a
// worker of rank 0 is the first in the order, and reports the port at which it
// waits for the others once it has its slots.
#include "engine/nodes/nodes_launcher.h"

#include <algorithm>
#include <cstdint>
#include <deque>
#include <list>
#include <map>
#include <numeric>
#include <optional>
#include <set>
#include <string>
#include <utility>

#include "engine/base/deadlines.h"
#include "engine/base/error.h"
#include "engine/base/rng.h"
#include "engine/base/text.h"
#include "engine/nodes/nodes.h"
#include "engine/nodes/placement.h"
#include "engine/nodes/shared_trial.h"
#include "engine/nodes/worker_table.h"
#include "engine/os/socket.h"
#include "engine/process/local_launcher.h"

namespace dtrain {
namespace {

constexpr Duration kReturnPatience = std::chrono::minutes(5);
// By then a scheduler that ends all machines has signaled this process itself.
constexpr Duration kBeforeInterrupt = std::chrono::seconds(2);
// A worker that has not killed its ranks by then counts as lost.
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
  // A trial that waits for a worker, or for the slots of a trial before it.
  struct Waiting {
    TrialSpec spec;
    std::vector<RunnerMessage> messages;
  };
  struct Running {
    SharedTrial trial;
    UniqueFd listener;  // for this machine's shard, until it starts
  };

  Running* Find(TrialId trial);
  // The trial, if it has a shard on the node.
  Running* FindOn(int node, TrialId trial);
  // Tells Nodes the slots of this machine, which faults of GPUs may change.
  void OfferSlots();
  // A worker has joined, drains, is lost, or has another number of slots.
  void Update(int worker);
  void DismissIfDrained(int worker);
  WorkerTable Table() const;
  // Places for the shards of the next trial, by RANK, or by the names of their
  // machines; none if it must wait.
  std::vector<ShardPlace> Place();
  std::list<Waiting>::iterator FindWaiting(TrialId trial);
  // Ends a trial that has not started; false if there is none.
  bool EndWaiting(TrialId trial, bool killed);
  void BeginWaiting();
  struct Prepared;
  // None if it fails, which ends the trial.
  std::optional<Prepared> Prepare(const TrialSpec& spec,
                                  const std::vector<ShardPlace>& places);
  void Begin(Waiting waiting, std::vector<ShardPlace> places);
  void BeginNext(Running& running);
  void NotStarted(TrialId trial, const std::string& why);
  void SendOrder(const Running& running, const NodeOrder& order);
  void StopShards(const Running& running);
  void KillShards(const Running& running);
  // Stops the trials that have other shards than the one on this worker.
  void Preempt(int node);
  void Step(Duration timeout);
  std::optional<Duration> Deadline() const;
  void On(const LaunchEvent& event);
  void On(const NodeEvent& event);
  void OnReport(int node, const NodeReport& report);
  // `port` is that of a remote rank 0 of several machines.
  void OnStarted(int node, TrialStarted started, int port = 0);
  void OnSampled(int node, SystemSampled sampled);
  void OnEnded(int node, const ShardEnded& ended);
  void OnLost(const NodeLost& lost);
  void CheckFixedSet();
  void RunTimers();
  void RunTrialTimers(TrialId id);

  Nodes& nodes_;
  StoreLayout layout_;
  Clock clock_;
  std::int64_t experiment_;
  const SlotPlan plan_;      // of this machine
  const std::int64_t each_;  // slots of a trial
  std::size_t demand_ = 0;   // trials
  WorkerUpdates updates_;
  MachineSlots slots_;  // of this machine and of the workers
  std::list<Waiting> waiting_;
  std::map<TrialId, Running> running_;
  // Trials whose timers may have changed, and the timers of the others.
  std::set<TrialId> changed_;
  Deadlines<TrialId> timers_;
  std::deque<LaunchEvent> events_;
  bool interrupted_ = false;
  // Signal to a worker of a fixed set, and when it ends the experiment.
  std::optional<std::pair<Duration, int>> interrupt_at_;
  // Since when the fixed set is incomplete.
  std::optional<Duration> incomplete_since_;
  std::unique_ptr<LocalLauncher> local_;
};

NodesLauncher::NodesLauncher(Nodes& nodes, LocalLauncherOptions options,
                             WorkerHooks hooks)
    : nodes_(nodes),
      layout_(options.layout),
      clock_(options.clock),
      experiment_(options.experiment),
      plan_(options.slots),
      each_(plan_.slots_per_trial),
      updates_(std::move(hooks), clock_),
      slots_(each_, nodes.world_size()),
      local_([&] {
        options.wake = nodes_.fd();
        options.log = [this](TrialId id, const LogRecord& record) {
          if (Running* running = Find(id)) running->trial.OnPrinted(record);
          changed_.insert(id);
        };
        return MakeLocalLauncher(std::move(options));
      }()) {
  OfferSlots();
}

NodesLauncher::~NodesLauncher() { Abort(); }

std::size_t NodesLauncher::FreeSlots() const {
  const auto room = static_cast<std::size_t>(slots_.Room());
  return room > waiting_.size() ? room - waiting_.size() : 0;
}

std::size_t NodesLauncher::Capacity() const {
  return static_cast<std::size_t>(slots_.Capacity());
}

void NodesLauncher::OfferSlots() {
  const auto trials = static_cast<std::int64_t>(local_->Capacity());
  nodes_.OfferSlots(plan_.part_slots + std::min(plan_.count, trials) * each_,
                    !plan_.gpus.empty());
  Update(0);
}

void NodesLauncher::Update(int worker) {
  slots_.Offer(worker, nodes_.Capacity(worker));
  DismissIfDrained(worker);
}

// A worker that drains keeps its connection until its last trial has ended.
void NodesLauncher::DismissIfDrained(int worker) {
  if (worker == 0 || !nodes_.draining(worker)) return;
  if (slots_.On(worker).empty()) nodes_.Dismiss(worker);
}

WorkerTable NodesLauncher::Table() const {
  WorkerTable table{.workers = nodes_.Workers(),
                    .demand = static_cast<std::int64_t>(demand_) * each_,
                    .slots_per_trial = each_};
  for (WorkerRow& worker : table.workers) {
    for (const auto& [trial, slots] : slots_.On(worker.id)) {
      worker.trials.push_back(ToString(trial));
      worker.used += slots;
    }
  }
  return table;
}

std::vector<ShardPlace> NodesLauncher::Place() {
  std::vector<ShardPlace> places;
  const auto capacity = [this](const ShardPlace& place) {
    return nodes_.Capacity(place.node);
  };
  while (true) {
    places = slots_.Place();
    const auto lost = std::ranges::find(places, 0, capacity);
    if (lost == places.end()) break;
    Update(lost->node);  // It was lost just now.
  }
  // One trial takes its slots at a time: two that each have one slot of a
  // machine would wait for each other forever.
  const bool one_starts = std::ranges::any_of(running_, [](const auto& entry) {
    const SharedTrial& trial = entry.second.trial;
    return !trial.is_single() && trial.starting();
  });
  if (places.size() > 1 && one_starts) return {};
  if (!nodes_.is_fixed_set()) {
    std::ranges::stable_sort(places, {}, [this](const ShardPlace& place) {
      return nodes_.NodeHost(place.node);
    });
  }
  return places;
}

NodesLauncher::Running* NodesLauncher::Find(TrialId trial) {
  const auto found = running_.find(trial);
  return found == running_.end() ? nullptr : &found->second;
}

NodesLauncher::Running* NodesLauncher::FindOn(int node, TrialId trial) {
  Running* running = Find(trial);
  if (running == nullptr || !running->trial.ShardOn(node)) return nullptr;
  return running;
}

std::list<NodesLauncher::Waiting>::iterator NodesLauncher::FindWaiting(
    TrialId trial) {
  const auto id_of = [](const Waiting& it) { return it.spec.id; };
  return std::ranges::find(waiting_, trial, id_of);
}

void NodesLauncher::Start(const TrialSpec& spec) {
  waiting_.push_back({.spec = spec});
  BeginWaiting();
}

void NodesLauncher::BeginWaiting() {
  while (!waiting_.empty()) {
    std::vector<ShardPlace> places = Place();
    if (places.empty()) return;
    Waiting first = std::move(waiting_.front());
    waiting_.pop_front();
    Begin(std::move(first), std::move(places));
  }
}

// Resources of this machine that a trial needs before any shard starts.
struct NodesLauncher::Prepared {
  RankAddress address;
  UniqueFd listener;  // if rank 0 is here, and not alone
  TrialOutput output;
};

std::optional<NodesLauncher::Prepared> NodesLauncher::Prepare(
    const TrialSpec& spec, const std::vector<ShardPlace>& places) {
  try {
    RankAddress address{.host = nodes_.AddressFor(places),
                        .token = RandomUuid()};
    UniqueFd listener;
    if (places.size() > 1 && places.front().node == 0) {
      listener =
          ListenAt({.host = address.host}, {.only_here = nodes_.all_here()});
      address.port = GetPort(listener.get());
    }
    return Prepared{std::move(address), std::move(listener),
                    OpenTrialOutput(spec, layout_, clock_)};
  } catch (const Error& error) {
    NotStarted(spec.id, error.what());
    return std::nullopt;
  }
}

void NodesLauncher::Begin(Waiting waiting, std::vector<ShardPlace> places) {
  std::optional<Prepared> prepared = Prepare(waiting.spec, places);
  if (!prepared) return;
  std::vector<int> order(places.size());
  std::iota(order.begin(), order.end(), 0);
  std::ranges::stable_sort(order, {}, [&](int shard) {
    return nodes_.NodeHost(places[static_cast<std::size_t>(shard)].node);
  });
  const TrialId id = waiting.spec.id;
  for (const ShardPlace& place : places) slots_.Reserve(id, place);
  SharedTrial trial(std::move(waiting.spec), std::move(places), order,
                    std::move(prepared->output), clock_);
  Running& running =
      running_
          .emplace(id, Running{.trial = std::move(trial),
                               .listener = std::move(prepared->listener)})
          .first->second;
  running.trial.SetAddress(std::move(prepared->address));
  running.trial.Hold(std::move(waiting.messages));
  BeginNext(running);
}

// A trial that holds slots never waits for a machine earlier in the order.
void NodesLauncher::BeginNext(Running& running) {
  changed_.insert(running.trial.id());
  const std::optional<int> shard = running.trial.PopNext();
  if (!shard) return;
  const int node = running.trial.ShardNode(*shard);
  TrialSpec spec = running.trial.ShardSpec(*shard);
  if (node == 0) {
    if (spec.address) spec.address->token = RankSecret(nodes_.secret(), spec);
    local_->StartShard(spec, std::move(running.listener));
  } else {
    nodes_.Send(node,
                StartShard{.spec = spec,
                           .led_by_runner = running.trial.ShardNode(0) == 0});
  }
  if (*shard != 0) return;
  for (const RunnerMessage& message : running.trial.DrainHeld()) {
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
    running->trial.Hold({message});
  } else if (const int node = running->trial.ShardNode(0); node == 0) {
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

void NodesLauncher::StopShards(const Running& running) {
  local_->RequestStop(running.trial.id());
  SendOrder(running, StopShard{running.trial.id()});
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
  changed_.insert(trial);
  StopShards(*running);
}

void NodesLauncher::Kill(TrialId trial) {
  Running* running = Find(trial);
  if (EndWaiting(trial, /*killed=*/true) || running == nullptr) return;
  running->trial.OnKillRequested();
  changed_.insert(trial);
  KillShards(*running);
}

// Ranks save a checkpoint when rank 0 is asked to stop, once all have started.
void NodesLauncher::Preempt(int node) {
  for (auto& [id, running] : running_) {
    if (running.trial.is_single() || !running.trial.ShardOn(node)) continue;
    running.trial.OnPreempted();
    changed_.insert(id);
    if (running.trial.starting()) {
      KillShards(running);
    } else {
      StopShards(running);
    }
  }
}

void NodesLauncher::Abort() {
  while (!waiting_.empty()) Kill(waiting_.front().spec.id);
  for (const auto& [id, running] : running_) Kill(id);
  const Duration end = clock_.monotonic() + kAbortPatience;
  while (!running_.empty() && clock_.monotonic() < end) {
    Step(std::chrono::milliseconds(100));
  }
  local_->Abort();
  for (auto& [id, running] : running_) {
    SharedTrial& trial = running.trial;
    changed_.insert(id);
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
  if (interrupt_at_) add(interrupt_at_->first);
  if (incomplete_since_) add(*incomplete_since_ + kReturnPatience);
  add(timers_.next());
  if (!changed_.empty()) add(clock_.monotonic());
  return deadline;
}

void NodesLauncher::On(const LaunchEvent& event) {
  if (const auto* interrupted = std::get_if<Interrupted>(&event)) {
    interrupted_ = true;
    events_.push_back(*interrupted);
  } else if (const auto* restored = std::get_if<GpuRestored>(&event)) {
    events_.push_back(*restored);
  } else if (const auto* started = std::get_if<TrialStarted>(&event)) {
    OnStarted(0, *started);
  } else if (const auto* said = std::get_if<MessageReceived>(&event)) {
    Running* running = FindOn(0, said->trial);
    if (running == nullptr) return;
    if (const auto* finished = std::get_if<Finished>(&said->message)) {
      running->trial.OnFinished(*running->trial.ShardOn(0), *finished);
    } else {
      running->trial.OnMessage(said->message, events_);
    }
  } else if (const auto* sampled = std::get_if<SystemSampled>(&event)) {
    OnSampled(0, *sampled);
  } else if (const auto* exited = std::get_if<TrialExited>(&event)) {
    OnEnded(0, {.exited = *exited});
  }
}

void NodesLauncher::On(const NodeEvent& event) {
  if (const auto* joined = std::get_if<NodeJoined>(&event)) {
    Update(joined->node);
  } else if (const auto* lost = std::get_if<NodeLost>(&event)) {
    OnLost(*lost);
  } else if (const auto* said = std::get_if<NodeReported>(&event)) {
    OnReport(said->node, said->report);
  }
}

void NodesLauncher::OnLost(const NodeLost& lost) {
  Update(lost.node);
  for (auto& [id, running] : running_) {
    const auto shard = running.trial.ShardOn(lost.node);
    if (!shard) continue;
    running.trial.OnLost(*shard, lost.why);
    changed_.insert(id);
  }
}

void NodesLauncher::OnReport(int node, const NodeReport& report) {
  if (const auto* started = std::get_if<ShardStarted>(&report)) {
    // The process of a remote rank 0 has no pid here.
    TrialStarted remote{.trial = started->trial};
    for (const std::string& slot : started->slots) {
      remote.slots.push_back(nodes_.MachineName(node) + "/" + slot);
    }
    OnStarted(node, std::move(remote), started->port);
  } else if (const auto* said = std::get_if<ShardMessage>(&report)) {
    Running* running = FindOn(node, said->trial);
    if (running == nullptr || running->trial.ShardNode(0) != node) return;
    running->trial.OnMessage(DecodeTrialMessage(said->line), events_);
  } else if (const auto* printed = std::get_if<ShardPrinted>(&report)) {
    Running* running = FindOn(node, printed->trial);
    if (running == nullptr) return;
    running->trial.OnPrinted(printed->record);
    changed_.insert(printed->trial);
  } else if (const auto* sampled = std::get_if<SystemSampled>(&report)) {
    OnSampled(node, *sampled);
  } else if (const auto* ended = std::get_if<ShardEnded>(&report)) {
    OnEnded(node, *ended);
  } else if (const auto* draining = std::get_if<WorkerDraining>(&report)) {
    Update(node);
    Preempt(node);
    // Nothing can run without a worker of a fixed set.
    if (!nodes_.is_fixed_set()) return;
    if (draining->signal == 0) {
      events_.push_back(
          WorkersFailed{nodes_.Described(node) +
                        " takes no more trials: " + draining->reason});
    } else if (!interrupt_at_) {
      interrupt_at_ = {clock_.monotonic() + kBeforeInterrupt, draining->signal};
    }
  }
}

void NodesLauncher::OnStarted(int node, TrialStarted started, int port) {
  Running* running = FindOn(node, started.trial);
  if (running == nullptr) return;
  if (port > 0) running->trial.SetPort(port);
  running->trial.OnStarted(*running->trial.ShardOn(node), std::move(started),
                           events_);
  BeginNext(*running);
}

void NodesLauncher::OnSampled(int node, SystemSampled sampled) {
  Running* running = FindOn(node, sampled.trial);
  if (running == nullptr || running->trial.starting()) return;
  sampled.rank = running->trial.FirstRank(*running->trial.ShardOn(node));
  events_.emplace_back(std::move(sampled));
}

void NodesLauncher::OnEnded(int node, const ShardEnded& ended) {
  Running* running = FindOn(node, ended.exited.trial);
  if (running == nullptr) return;
  running->trial.OnEnded(*running->trial.ShardOn(node), ended);
  changed_.insert(ended.exited.trial);
}

void NodesLauncher::RunTimers() {
  for (const TrialId id : std::exchange(changed_, {})) RunTrialTimers(id);
  const Duration now = clock_.monotonic();
  while (const auto id = timers_.Pop(now)) RunTrialTimers(*id);
  BeginWaiting();
  OfferSlots();
  CheckFixedSet();
  if (!updates_.due()) return;
  // A worker is let go at once if it has no trial, otherwise it drains.
  for (const int worker : updates_.Apply(Table())) {
    if (worker <= 0 || nodes_.Capacity(worker) == 0) continue;
    if (!slots_.On(worker).empty()) {
      nodes_.Send(worker, DrainNode{});
      continue;
    }
    nodes_.Dismiss(worker);
    Update(worker);
  }
  auto failure = updates_.Failure();
  if (failure) events_.push_back(*std::move(failure));
}

void NodesLauncher::RunTrialTimers(TrialId id) {
  Running* running = Find(id);
  if (running == nullptr) return;
  SharedTrial& trial = running->trial;
  trial.OnTime();
  if (const std::optional<int> shard = trial.PopLongWait()) {
    const int node = trial.ShardNode(*shard);
    // LongWait reports waits for slots of this machine.
    if (node != 0) {
      nodes_.Notice("trial " + ToString(id) + " waits for free slots of " +
                    nodes_.Described(node) +
                    "; run 'dtrain slots' there to see who holds them");
    }
  }
  if (trial.PopKillDue()) KillShards(*running);
  for (int shard = 0; shard < std::ssize(trial.places()); ++shard) {
    if (!trial.ended(shard)) continue;
    slots_.Release(trial.id(), trial.ShardNode(shard));
    DismissIfDrained(trial.ShardNode(shard));
  }
  timers_.Set(id, trial.ended() ? std::nullopt : trial.Deadline());
  if (!trial.ended()) return;
  trial.EmitEnd(events_);
  running_.erase(id);
}

void NodesLauncher::CheckFixedSet() {
  const Duration now = clock_.monotonic();
  if (interrupt_at_ && interrupt_at_->first <= now) {
    const int signal = std::exchange(interrupt_at_, std::nullopt)->second;
    if (!std::exchange(interrupted_, true)) {
      events_.push_back(Interrupted{.signal = signal});
    }
  }
  const std::string absent = nodes_.AbsentRanks();
  if (absent.empty() || interrupted_) {
    incomplete_since_.reset();
  } else if (!incomplete_since_) {
    incomplete_since_ = now;
  } else if (now - *incomplete_since_ >= kReturnPatience) {
    incomplete_since_ = now;
    events_.push_back(
        WorkersFailed{absent + " did not come back within " +
                      FormatDuration(kReturnPatience) +
                      "; run 'dtrain resume " + std::to_string(experiment_) +
                      "' here, and start the same command there again"});
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
