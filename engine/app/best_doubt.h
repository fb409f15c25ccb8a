#pragma once

#include <cstdint>
#include <optional>
#include <string>

#include <nlohmann/json.hpp>

namespace dtrain {

class Store;
struct ExperimentDetail;

/// How sure it is that the best trial of an experiment is the best.
struct BestDoubt {
  enum class Source { kModel, kRepeats };
  Source source = Source::kModel;
  std::string trial;        // the best one
  double mean = 0;          // that is expected of it, or of its repeats
  double deviation = 0;     // of that expectation, or among the repeats
  std::int64_t near = 0;    // others with a mean within one deviation of this
  bool are_points = false;  // they are points, not trials

  /// "the model of the search expects 0.0931 ± 0.0012 of 3.7 at the greatest
  /// length; 4 other trials are expected within that of it".
  std::string Text() const;
  nlohmann::json ToJson() const;
};

/// Returns the doubt: of a search with repeats by their deviation, of one with
/// a model by what the model expects at the greatest length, with the events
/// recorded so far; nothing for others, and before there is enough to tell.
std::optional<BestDoubt> ReadBestDoubt(const Store& store,
                                       const ExperimentDetail& experiment);

}  // namespace dtrain
