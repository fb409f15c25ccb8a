#include "engine/run/search.h"

#include <stdexcept>
#include <string>

#include "engine/base/error.h"

namespace dtrain {
namespace {

// A snapshot now and then bounds the replay; one an event would cost O(trials)
// each time.
constexpr std::int64_t kSnapshotEvery = 256;

nlohmann::json OperationsToJson(const std::vector<Operation>& operations) {
  nlohmann::json json = nlohmann::json::array();
  for (const Operation& operation : operations) {
    json.push_back(ToJson(operation));
  }
  return json;
}

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
      seq_ = snapshot->seq;
    }
    for (const SearcherEventRow& row : events) {
      if (row.seq <= seq_) continue;
      const auto operations = searcher_->Handle(EventFromJson(row.event));
      if (OperationsToJson(operations) != row.operations) {
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
  SearcherEventRow row{.seq = ++seq_,
                       .event = ToJson(event),
                       .operations = OperationsToJson(operations)};
  const auto experiment = experiment_;
  outbox.Add(
      [experiment, row = std::move(row)](StoreWriter& writer) {
        writer.AddSearcherEvent(experiment, row);
      },
      Outbox::Urgency::kUrgent);
  if (seq_ % kSnapshotEvery == 0) {
    outbox.Add(
        [experiment, seq = seq_,
         state = searcher_->Save()](StoreWriter& writer) {
          writer.AddSearcherSnapshot(experiment, seq, state);
        },
        Outbox::Urgency::kUrgent);
  }
  return operations;
}

}  // namespace dtrain
