#pragma once

#include <cstddef>
#include <cstdint>
#include <map>
#include <optional>
#include <string>
#include <vector>

#include <nlohmann/json.hpp>

#include "engine/base/clock.h"
#include "engine/wire/trial_spec.h"

namespace dtrain {

class Store;
struct ExperimentDetail;
struct ExperimentRow;
struct Target;
struct TrialRow;

/// The trials of experiments that --filter selects; by default all trials. A
/// value: it does not follow later changes of the store.
class TrialSelection {
 public:
  /// Selects all trials.
  TrialSelection() = default;
  /// Selects the trials of `targets` that match `filter`; all if that is empty.
  /// A name that only some of the experiments know has no value in the others.
  /// Throws Error(kUsage) or Error(kNotFound) for an invalid filter,
  /// Error(kNotFound) if no trial matches, or not one that a target names.
  TrialSelection(const Store& store, const std::vector<Target>& targets,
                 const std::string& filter, Timestamp now);

  /// True if there is a filter.
  bool is_filtered() const { return !filter_.empty(); }
  const std::string& filter() const { return filter_; }
  bool Has(TrialId id) const;
  /// Returns the numbers of the selected trials of an experiment, in increasing
  /// order; null for all.
  const std::vector<std::int64_t>* Numbers(std::int64_t experiment) const;
  /// Removes the trials that are not selected.
  void Keep(std::vector<TrialRow>& trials) const;
  /// Sets the best trial of an experiment to the best one of `trials`, the
  /// selected ones. Does nothing without a filter.
  void SetBest(const std::vector<TrialRow>& trials,
               ExperimentDetail& experiment) const;

  /// "12 of 500 trials match", of one experiment or of all. REQUIRES:
  /// is_filtered().
  std::string Text(std::optional<std::int64_t> experiment = {}) const;
  /// {"expression": …, "matching": 12, "trials": 500}, null without a filter.
  nlohmann::json ToJson(std::optional<std::int64_t> experiment = {}) const;
  /// Sentences for the user: how many trials of each experiment match, and
  /// which names were read as columns though metrics have them, too.
  const std::vector<std::string>& notes() const { return notes_; }

 private:
  struct Matching {
    std::vector<std::int64_t> numbers;  // in increasing order
    std::size_t trials = 0;             // of which they were selected
  };

  void RequireNamed(const std::vector<Target>& targets) const;

  std::string filter_;                         // empty: all trials are selected
  std::map<std::int64_t, Matching> matching_;  // by experiment
  std::vector<std::string> notes_;
};

}  // namespace dtrain
