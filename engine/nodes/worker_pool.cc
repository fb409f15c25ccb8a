#include "engine/nodes/worker_pool.h"

#include <algorithm>
#include <iterator>
#include <utility>

namespace dtrain {

WorkerPool::WorkerPool(Nodes& nodes, WorkerHooks hooks,
                       std::int64_t slots_per_trial, Clock clock)
    : nodes_(nodes),
      each_(slots_per_trial),
      updates_(std::move(hooks), std::move(clock)),
      slots_(each_, nodes.world_size()) {}

std::vector<ShardPlace> WorkerPool::Place() {
  while (true) {
    std::vector<ShardPlace> places = slots_.Place();
    const auto lost = std::ranges::find(
        places, 0, [this](const auto& it) { return nodes_.Capacity(it.node); });
    if (lost != places.end()) {
      Update(lost->node);  // It was lost just now.
      continue;
    }
    if (nodes_.is_fixed_set()) return places;
    std::ranges::stable_sort(places, {}, [this](const ShardPlace& place) {
      return nodes_.HostOf(place.node);
    });
    return places;
  }
}

void WorkerPool::Take(TrialId trial, const std::vector<ShardPlace>& places) {
  for (const ShardPlace& place : places) slots_.Take(trial, place);
}

void WorkerPool::FreeEnded(const SharedTrial& trial) {
  for (int shard = 0; shard < std::ssize(trial.places()); ++shard) {
    if (!trial.ended(shard)) continue;
    slots_.Release(trial.id(), trial.NodeOf(shard));
    DismissIfDrained(trial.NodeOf(shard));
  }
}

void WorkerPool::Update(int worker) {
  slots_.Offer(worker, nodes_.Capacity(worker));
  DismissIfDrained(worker);
}

// A worker that drains keeps its connection until its last trial has ended.
void WorkerPool::DismissIfDrained(int worker) {
  if (worker == 0 || !nodes_.draining(worker)) return;
  if (slots_.On(worker).empty()) nodes_.Dismiss(worker);
}

// Lets a worker go: at once if it has no trial, otherwise it drains.
void WorkerPool::Drain(int worker) {
  if (worker <= 0 || nodes_.Capacity(worker) == 0) return;
  if (!slots_.On(worker).empty()) return nodes_.Send(worker, DrainNode{});
  nodes_.Dismiss(worker);
  Update(worker);
}

std::optional<WorkersFailed> WorkerPool::RunTimers(std::size_t trials) {
  if (!updates_.due()) return std::nullopt;
  for (const int worker : updates_.Apply(Table(trials))) Drain(worker);
  return updates_.Failure();
}

WorkerTable WorkerPool::Table(std::size_t trials) const {
  WorkerTable table{.workers = nodes_.Workers(),
                    .demand = static_cast<std::int64_t>(trials) * each_,
                    .slots_per_trial = each_};
  for (WorkerRow& worker : table.workers) {
    for (const auto& [trial, slots] : slots_.On(worker.id)) {
      worker.trials.push_back(ToString(trial));
      worker.used += slots;
    }
  }
  return table;
}

}  // namespace dtrain
