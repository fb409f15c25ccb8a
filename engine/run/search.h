#pragma once

#include <cstdint>
#include <memory>
#include <vector>

#include "engine/run/outbox.h"
#include "engine/store/rows.h"
#include "searchers/searcher.h"

namespace dtrain {

/// A searcher whose every event is recorded with the operations it gave, so
/// that it can be brought back after a crash at any moment.
class Search {
 public:
  Search(std::unique_ptr<Searcher> searcher, std::int64_t experiment)
      : searcher_(std::move(searcher)), experiment_(experiment) {}

  /// Goes on from what is recorded: loads the snapshot, replays the events
  /// behind it and compares. Throws Error(kStore) if they give other
  /// operations: the record is damaged or of another build.
  void Recover(const std::optional<Store::Snapshot>& snapshot,
               const std::vector<SearcherEventRow>& events);

  /// Takes in one event; its record goes into the outbox.
  std::vector<Operation> Handle(const Event& event, Outbox& outbox);

  double progress() const { return searcher_->Progress(); }
  /// Events so far.
  std::int64_t seq() const { return seq_; }

 private:
  void Count(const Operation& operation);
  void SaveNowAndThen(Outbox& outbox);

  std::unique_ptr<Searcher> searcher_;
  std::int64_t experiment_;
  std::int64_t seq_ = 0;
  std::int64_t created_ = 0;   // trials
  std::int64_t snapshot_ = 0;  // the event of the newest snapshot
};

}  // namespace dtrain
