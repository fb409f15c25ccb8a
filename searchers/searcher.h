#pragma once

#include <cmath>
#include <cstdint>
#include <limits>
#include <memory>
#include <optional>
#include <string>
#include <variant>
#include <vector>

#include <nlohmann/json.hpp>

namespace dtrain {

/// Index of a trial in the order of creation, from 0. Searchers identify trials
/// by it; users see `EXP.N` with N = index + 1.
using TrialIndex = std::int64_t;

/// Create a trial with these hyperparameters.
struct Create {
  TrialIndex trial = 0;
  std::string request_id;  // UUID v4 from the experiment's random stream
  nlohmann::json hparams;  // object, all values constants
  std::uint32_t seed = 0;  // the trial's own seed, in [0, 2^31)

  friend bool operator==(const Create&, const Create&) = default;
};

/// Train the trial to `length` (total, in the unit of `max_length`), then
/// validate and report the metric. Length 0: until the program ends by itself.
struct ValidateAfter {
  TrialIndex trial = 0;
  std::int64_t length = 0;
  // Number of trials that precede it in the queue for slots although their
  // Create comes later.
  std::int64_t deferred = 0;

  friend bool operator==(const ValidateAfter&, const ValidateAfter&) = default;
};

/// End the trial after its operations.
struct Close {
  TrialIndex trial = 0;

  friend bool operator==(const Close&, const Close&) = default;
};

/// Take back the end of a trial: it may get operations again.
struct Reopen {
  TrialIndex trial = 0;

  friend bool operator==(const Reopen&, const Reopen&) = default;
};

/// End the search; `failed` if every trial failed.
struct Shutdown {
  bool failed = false;

  friend bool operator==(const Shutdown&, const Shutdown&) = default;
};

using Operation = std::variant<Create, ValidateAfter, Close, Reopen, Shutdown>;

/// The search starts; the first event, once.
struct Started {};

/// The trial of a Create operation was recorded.
struct Created {
  TrialIndex trial = 0;
};

/// A ValidateAfter operation was completed.
struct ValidationCompleted {
  TrialIndex trial = 0;
  std::int64_t length = 0;
  double metric = 0;  // as reported; the searcher knows the direction
  // Training and validation since the previous one, without starts and pauses;
  // 0: unknown.
  double seconds = 0;
};

/// The trial of a Close operation ended.
struct Closed {
  TrialIndex trial = 0;
};

enum class ExitReason { kErrored, kInvalidHp, kUserStop };

/// The trial ended before its operations were completed.
struct ExitedEarly {
  TrialIndex trial = 0;
  ExitReason reason = ExitReason::kErrored;
};

/// There are more slots than Searcher::CreatesAhead allows for.
struct PlacesAdded {
  std::int64_t ahead = 0;  // the new CreatesAhead, if it is greater
};

/// The plan of the search was enlarged (see ExtendPlan). May follow its end.
/// Only for methods with `max_trials`.
struct Extended {
  std::int64_t max_trials = 0;  // in all
  // Of all trials of a model-based search; see SearcherConfig.
  std::int64_t budget = 0;
  double budget_seconds = 0;
  // Trials that cannot be trained further, since their checkpoint was deleted.
  std::vector<TrialIndex> lost;
};

/// These trials, which exited with an error, run again. May follow the end of
/// the search. Their new results replace the worst result that their failure
/// was given, or the result of a point without its failed repeats.
struct Retried {
  struct Trial {
    TrialIndex trial = 0;
    std::int64_t length = 0;  // that it has completed
    // How it ended; nothing: closed. Not recorded: kErrored, but for points
    // of which some repeats failed.
    std::optional<ExitReason> exit = ExitReason::kErrored;
  };
  std::vector<Trial> trials;
  std::vector<TrialIndex> lost;  // see Extended
};

/// The search has ended before its plan, because its target or its time was
/// reached. Recorded only: the searcher receives nothing until the next
/// Extended or Retried, and then continues in its state.
struct Ended {
  std::string reason;
  double seconds = 0;          // of all runs of the experiment until then
  TrialIndex reached_by = -1;  // trial that has reached the target, if any
};

using Event = std::variant<Started, Created, ValidationCompleted, Closed,
                           ExitedEarly, PlacesAdded, Extended, Retried, Ended>;

/// Version of the rules that new experiments follow. A recorded experiment
/// keeps the rules that it began with, so that it resumes and replays
/// unchanged. They differ where docs/migrating.md says so; 3 is of 0.2.0.
inline constexpr std::int64_t kCurrentRules = 3;

/// The section `searcher` of an experiment, checked and with defaults. Lengths
/// are in the unit of `max_length`, which searchers do not need.
struct SearcherConfig {
  std::string name;  // of a SearcherEntry
  std::string metric;
  bool smaller_is_better = true;
  std::int64_t max_length = 0;              // 0: a program decides
  std::int64_t max_trials = 1;              // without repeats: points
  std::int64_t max_concurrent_trials = 16;  // 0: unlimited
  std::int64_t repeats = 1;  // trials of each point, with different seeds
  std::string repeat_metric = "mean";  // of a point: mean, median, min, max
  // See Searcher::CreatesAhead. Rules 1 have no limit.
  std::int64_t creates_ahead = 1024;
  std::int64_t num_rungs = 0;  // 0: as many as the length and trials allow
  double divisor = 4;
  bool stop_once = false;
  std::string mode = "standard";  // conservative, standard, aggressive
  std::int64_t max_rungs = 5;
  std::vector<std::int64_t> bracket_rungs;
  std::vector<nlohmann::json> points;  // hyperparameters to try first
  // Expressions that every trial meets; see HparamConstraints.
  std::vector<std::string> constraints;
  // Lengths before max_length at which `single` validates, ascending.
  std::vector<std::int64_t> stops;
  // What all trials of a model-based search may train: a length, or seconds.
  // Both 0: what successive halving would train with the same keys.
  std::int64_t budget = 0;
  double budget_seconds = 0;
  std::string cost;  // time, length; "": see CountsTime
  // A validation that reaches this ends the search.
  std::optional<double> target;
  std::optional<double> max_duration;  // seconds, after which the search ends
  std::int64_t rules = kCurrentRules;
};

/// True if a validation with this metric ends the search.
inline bool ReachesTarget(const SearcherConfig& config, double metric) {
  if (!config.target || !std::isfinite(metric)) return false;
  return config.smaller_is_better ? metric <= *config.target
                                  : metric >= *config.target;
}

/// Decides which trials run and for how long. A state machine without clock,
/// I/O and threads: the same events yield the same operations. Every event is
/// recorded with its operations; after a crash a search is restored by `Load`
/// of a snapshot and a replay of the later events.
class Searcher {
 public:
  virtual ~Searcher() = default;

  /// Handles one event and returns the operations that follow, in order.
  /// REQUIRES: the event's trial was created by this searcher.
  [[nodiscard]] virtual std::vector<Operation> Handle(const Event& event) = 0;

  /// Returns how many trials that have no result yet the search creates. More
  /// that may run at the same time are deferred, so that a search of a million
  /// trials is small until slots need them. A deferred trial gets the same
  /// hyperparameters, and the same place in the queue for slots, as if all had
  /// been created at once. The maximum of the type if none is deferred.
  virtual std::int64_t CreatesAhead() const {
    return std::numeric_limits<std::int64_t>::max();
  }

  /// Completed fraction of the search, from 0 to 1; decreases only when the
  /// search is extended or trials are retried.
  virtual double Progress() const = 0;

  /// What a model expects of a trial at the greatest length, in the unit of
  /// the metric.
  struct Expectation {
    TrialIndex trial = 0;
    double mean = 0;
    double deviation = 0;
  };
  /// Returns this for all trials with results; nothing without a model, and
  /// before it decides. The searcher must not be used for a search afterwards.
  virtual std::vector<Expectation> FindExpectations() { return {}; }

  /// Returns the whole state, including the random stream, for `Load`.
  virtual nlohmann::json Save() const = 0;

  /// Replaces the state by one that `Save` returned for the same configuration.
  /// Throws std::invalid_argument if it is invalid.
  virtual void Load(const nlohmann::json& state) = 0;
};

/// Convert events and operations to JSON for the database, and back; the latter
/// throw std::invalid_argument if the JSON is invalid.
nlohmann::json ToJson(const Event& event);
nlohmann::json ToJson(const Operation& operation);
nlohmann::json ToJson(const std::vector<Operation>& operations);
Event EventFromJson(const nlohmann::json& json);
Operation OperationFromJson(const nlohmann::json& json);

}  // namespace dtrain
