#include "engine/run/search_log.h"

#include <algorithm>
#include <stdexcept>
#include <string>

#include "engine/base/error.h"

namespace dtrain {
namespace {

// A snapshot bounds the replay, but is as large as the search. The distance
// between snapshots grows with the number of trials, so that the cost of an
// event does not.
constexpr std::int64_t kSnapshotEvery = 256;

Error Damaged(std::int64_t experiment, std::int64_t seq, const char* what) {
  return Error(ErrorKind::kStore,
               "experiment " + std::to_string(experiment) +
                   ": the recorded search cannot be continued at event " +
                   std::to_string(seq) + " (" + what +
                   "); it was written by another version of dtrain or is "
                   "damaged: create the experiment again");
}

}  // namespace

std::vector<Operation> HandleRecorded(Searcher& searcher, const Event& event) {
  if (std::get_if<Ended>(&event) != nullptr) return {Shutdown{}};
  return searcher.Handle(event);
}

void SearchLog::Recover(const std::optional<Store::Snapshot>& snapshot,
                        const std::vector<SearcherEventRow>& events) {
  try {
    if (snapshot) {
      searcher_->Load(snapshot->state);
      seq_ = snapshot_ = snapshot->seq;
    }
    for (const SearcherEventRow& row : events) {
      const Event event = EventFromJson(row.event);
      Apply(event);
      for (const nlohmann::json& operation : row.operations) {
        Apply(OperationFromJson(operation));
      }
      if (row.seq <= seq_) continue;
      const auto operations = HandleRecorded(*searcher_, event);
      if (ToJson(operations) != row.operations) {
        throw std::invalid_argument("it gives other operations now");
      }
      seq_ = row.seq;
    }
  } catch (const std::invalid_argument& error) {
    throw Damaged(experiment_, seq_ + 1, error.what());
  }
}

std::vector<Operation> SearchLog::Handle(const Event& event, Outbox& outbox) {
  Apply(event);
  std::vector<Operation> operations = HandleRecorded(*searcher_, event);
  for (const Operation& operation : operations) Apply(operation);
  SearcherEventRow row{
      .seq = ++seq_, .event = ToJson(event), .operations = ToJson(operations)};
  outbox.Add(
      [experiment = experiment_, row = std::move(row)](StoreWriter& writer) {
        writer.AddSearcherEvent(experiment, row);
      },
      Outbox::Urgency::kUrgent);
  SaveIfDue(outbox);
  return operations;
}

// An event that gives the search more to do takes its end back.
void SearchLog::Apply(const Event& event) {
  const auto* const extended = std::get_if<Extended>(&event);
  if (extended != nullptr) extension_ = *extended;
  if (extended != nullptr || std::get_if<Retried>(&event) != nullptr) {
    over_ = failed_ = false;
    ended_.reset();
  } else if (const auto* ended = std::get_if<Ended>(&event)) {
    ended_ = *ended;
    seconds_ended_ = ended->seconds;
    if (ended->reached_by >= 0) has_reached_target_ = true;
  }
}

void SearchLog::Apply(const Operation& operation) {
  if (std::get_if<Create>(&operation) != nullptr) ++created_;
  if (const auto* shutdown = std::get_if<Shutdown>(&operation)) {
    over_ = true;
    failed_ = shutdown->failed;
  }
}

void SearchLog::SaveIfDue(Outbox& outbox) {
  if (seq_ - snapshot_ < std::max(kSnapshotEvery, created_)) return;
  snapshot_ = seq_;
  outbox.Add(
      [experiment = experiment_, seq = seq_,
       state = searcher_->Save()](StoreWriter& writer) {
        writer.AddSearcherSnapshot(experiment, seq, state);
      },
      Outbox::Urgency::kUrgent);
}

}  // namespace dtrain
