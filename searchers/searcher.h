#pragma once

#include <cstdint>
#include <memory>
#include <string>
#include <variant>
#include <vector>

#include <nlohmann/json.hpp>

namespace dtrain {

/// Position of a trial in the order of creation, from 0. The searcher names
/// trials by it; users see `EXP.N` with N = index + 1.
using TrialIndex = std::int64_t;

/// Create a trial with these hyperparameters.
struct Create {
  TrialIndex trial = 0;
  std::string request_id;  // UUID v4 from the experiment's random stream
  nlohmann::json hparams;  // object, all values constants
  std::uint32_t seed = 0;  // the trial's own seed, in [0, 2^31)

  friend bool operator==(const Create&, const Create&) = default;
};

/// Train the trial until it has trained `length` in all (absolute, in the unit
/// of `max_length`), then validate and report the metric. Length 0: until the
/// program itself is done.
struct ValidateAfter {
  TrialIndex trial = 0;
  std::int64_t length = 0;

  friend bool operator==(const ValidateAfter&, const ValidateAfter&) = default;
};

/// No more work for the trial once its operations are done: it ends.
struct Close {
  TrialIndex trial = 0;

  friend bool operator==(const Close&, const Close&) = default;
};

/// The search is over; `failed` if every trial errored.
struct Shutdown {
  bool failed = false;

  friend bool operator==(const Shutdown&, const Shutdown&) = default;
};

using Operation = std::variant<Create, ValidateAfter, Close, Shutdown>;

/// The experiment begins; comes once, first.
struct Started {};

/// The trial of a Create operation was recorded.
struct Created {
  TrialIndex trial = 0;
};

/// A ValidateAfter operation was carried out.
struct ValidationCompleted {
  TrialIndex trial = 0;
  std::int64_t length = 0;
  double metric = 0;  // as reported; the searcher knows what is better
};

/// The trial of a Close operation ended.
struct Closed {
  TrialIndex trial = 0;
};

enum class ExitReason { kErrored, kInvalidHp, kUserStop };

/// The trial ended before its operations were done.
struct ExitedEarly {
  TrialIndex trial = 0;
  ExitReason reason = ExitReason::kErrored;
};

using Event =
    std::variant<Started, Created, ValidationCompleted, Closed, ExitedEarly>;

/// Decides which trials run and how long. A pure state machine: no clock, no
/// input or output, no threads; the same events give the same operations. Every
/// event is recorded with the operations it gave, and a search goes on after a
/// crash by `Load` of a snapshot and a replay of the events behind it.
class Searcher {
 public:
  virtual ~Searcher() = default;

  /// Takes in one event and gives what is to be done now, in order. Events of
  /// a trial that the searcher does not know are a bug of the caller.
  [[nodiscard]] virtual std::vector<Operation> Handle(const Event& event) = 0;

  /// How much of the search is done, from 0 to 1; never decreases.
  virtual double Progress() const = 0;

  /// The whole state, random stream included, as JSON that `Load` takes.
  virtual nlohmann::json Save() const = 0;

  /// Replaces the state by one that `Save` gave for the same configuration.
  /// Throws std::invalid_argument if it is none.
  virtual void Load(const nlohmann::json& state) = 0;
};

/// Events and operations as JSON, for the record; the reverse throws
/// std::invalid_argument for what is not one.
nlohmann::json ToJson(const Event& event);
nlohmann::json ToJson(const Operation& operation);
nlohmann::json ToJson(const std::vector<Operation>& operations);
Event EventFromJson(const nlohmann::json& json);
Operation OperationFromJson(const nlohmann::json& json);

}  // namespace dtrain
