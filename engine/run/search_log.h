#pragma once

#include <cstdint>
#include <memory>
#include <optional>
#include <vector>

#include "engine/run/outbox.h"
#include "engine/store/rows.h"
#include "searchers/searcher.h"

namespace dtrain {

/// Returns the operations of an event. For Ended, which is not passed to the
/// searcher, that is a Shutdown.
std::vector<Operation> HandleRecorded(Searcher& searcher, const Event& event);

/// A searcher and the record of its events and operations, from which it can be
/// restored after a crash at any moment.
class SearchLog {
 public:
  SearchLog(std::unique_ptr<Searcher> searcher, std::int64_t experiment)
      : searcher_(std::move(searcher)), experiment_(experiment) {}

  /// Restores the searcher: loads the snapshot, replays the events after it
  /// and compares their operations. Throws Error(kStore) if these differ: the
  /// record is damaged or was written by another build.
  void Recover(const std::optional<Store::Snapshot>& snapshot,
               const std::vector<SearcherEventRow>& events);

  /// Passes an event to the searcher and returns its operations. Both are
  /// recorded through `outbox`. Nothing may follow an Ended but an Extended or
  /// a Retried.
  std::vector<Operation> Handle(const Event& event, Outbox& outbox);

  /// The early end of the search; none if it has continued since.
  const std::optional<Ended>& ended() const { return ended_; }
  /// True if the target has ended the search at least once.
  bool has_reached_target() const { return has_reached_target_; }
  /// Seconds of all runs until the last such end; 0 if there was none.
  double seconds_ended() const { return seconds_ended_; }

  /// Plan of the last extension; none if the search was not extended.
  const std::optional<Extended>& extension() const { return extension_; }

  double progress() const { return searcher_->Progress(); }
  std::int64_t creates_ahead() const { return searcher_->CreatesAhead(); }
  /// Number of events so far.
  std::int64_t seq() const { return seq_; }
  /// True once the searcher has asked for the end of the search.
  bool over() const { return over_; }
  /// True if that was because every trial failed.
  bool failed() const { return failed_; }

 private:
  void Apply(const Event& event);
  void Apply(const Operation& operation);
  void SaveIfDue(Outbox& outbox);

  std::unique_ptr<Searcher> searcher_;
  std::int64_t experiment_;
  std::int64_t seq_ = 0;
  std::int64_t created_ = 0;   // trials
  std::int64_t snapshot_ = 0;  // event of the newest snapshot
  bool over_ = false;
  bool failed_ = false;
  std::optional<Extended> extension_;
  std::optional<Ended> ended_;
  double seconds_ended_ = 0;
  bool has_reached_target_ = false;
};

}  // namespace dtrain
