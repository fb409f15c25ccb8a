#pragma once

#include <cstdint>
#include <map>
#include <string>
#include <vector>

#include "engine/base/length.h"
#include "engine/run/reporter.h"
#include "engine/run/trial_table.h"
#include "searchers/search_plan.h"
#include "searchers/searcher_config.h"

namespace dtrain {

/// "batch 3750", "epoch 3" or "record 600": a count of what `unit` says.
std::string PositionText(std::int64_t count, Unit unit);

/// The lengths at which a search compares its trials, for people: how many
/// trials were validated at each, and why one was not trained on. Pure.
class Rungs {
 public:
  Rungs(const SearcherConfig& config, Unit unit);

  /// A trial was validated at this length.
  void Count(std::int64_t length);

  /// By length over all brackets; empty for fewer than two lengths.
  std::vector<RungStatus> Status(const TrialTable::Live& live) const;
  /// Why a trial that completed `rung` operations, the last one of length
  /// `trained`, ended: "not promoted from rung 1 of 3 (100 batches)".
  std::string WhyStopped(std::int64_t rung, std::int64_t trained) const;

 private:
  std::vector<Bracket> brackets_;
  Unit unit_;
  bool stop_once_;
  std::map<std::int64_t, std::int64_t> done_;  // trials by length
};

}  // namespace dtrain
