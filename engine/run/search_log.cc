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

void SearchLog::Recover(const std::optional<Store::Snapshot>& snapshot,
                        const std::vector<SearcherEventRow>& events) {
  try {
    if (snapshot) {
      searcher_->Load(snapshot->state);
      seq_ = snapshot_ = snapshot->seq;
    }
    for (const SearcherEventRow& row : events) {
      for (const nlohmann::json& operation : row.operations) {
        Apply(OperationFromJson(operation));
      }
      if (row.seq <= seq_) continue;
      const auto operations = searcher_->Handle(EventFromJson(row.event));
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
  std::vector<Operation> operations = searcher_->Handle(event);
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
