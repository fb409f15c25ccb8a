#include "engine/run/search.h"

#include <algorithm>
#include <stdexcept>
#include <string>

#include "engine/base/error.h"

namespace dtrain {
namespace {

// A snapshot bounds the replay, but is as large as the search: they come at
// distances that grow with it, so that an event costs the same however many
// trials there are.
constexpr std::int64_t kSnapshotEvery = 256;

Error Damaged(std::int64_t experiment, std::int64_t seq, const char* what) {
  return Error(ErrorKind::kStore,
               "experiment " + std::to_string(experiment) +
                   ": the recorded search cannot be continued at event " +
                   std::to_string(seq) + " (" + what +
                   "); it was written by another version of dtrain or is "
                   "damaged: create the experiment anew");
}

}  // namespace

void Search::Recover(const std::optional<Store::Snapshot>& snapshot,
                     const std::vector<SearcherEventRow>& events) {
  try {
    if (snapshot) {
      searcher_->Load(snapshot->state);
      seq_ = snapshot_ = snapshot->seq;
    }
    for (const SearcherEventRow& row : events) {
      for (const nlohmann::json& operation : row.operations) {
        Count(OperationFromJson(operation));
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

std::vector<Operation> Search::Handle(const Event& event, Outbox& outbox) {
  std::vector<Operation> operations = searcher_->Handle(event);
  for (const Operation& operation : operations) Count(operation);
  SearcherEventRow row{
      .seq = ++seq_, .event = ToJson(event), .operations = ToJson(operations)};
  outbox.Add(
      [experiment = experiment_, row = std::move(row)](StoreWriter& writer) {
        writer.AddSearcherEvent(experiment, row);
      },
      Outbox::Urgency::kUrgent);
  SaveNowAndThen(outbox);
  return operations;
}

void Search::Count(const Operation& operation) {
  if (std::get_if<Create>(&operation) != nullptr) ++created_;
}

void Search::SaveNowAndThen(Outbox& outbox) {
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
