#pragma once

#include <cstdint>
#include <memory>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include <nlohmann/json.hpp>

#include "searchers/searcher.h"

namespace dtrain {

/// Returns the point and the repeat of a trial. All numbers count from 1.
constexpr std::pair<std::int64_t, std::int64_t> FindRepeatPlace(
    std::int64_t number, std::int64_t repeats) {
  return {(number - 1) / repeats + 1, (number - 1) % repeats + 1};
}

/// Returns the seed of a repeat (from 1) of a point whose first repeat has the
/// seed `first`.
std::uint32_t RepeatSeed(std::uint32_t first, std::int64_t repeat);

/// Returns the value of a point from those of its repeats, by a word of
/// `repeat_metric`: mean, median, min, max. Nothing if there are none. Does not
/// depend on the order of the values.
std::optional<double> CombineRepeats(const std::string& repeat_metric,
                                     std::vector<double> values);

/// Returns the configuration of the search for points. `config.repeats` > 1.
SearcherConfig PointSearch(const SearcherConfig& config);

/// Creates a searcher that trains each trial of `points`, a point, as
/// `config.repeats` trials with different seeds, numbered in succession.
/// `points` learns the result of a point when the last repeat has ended: the
/// combined value of the repeats that have one, or the failure of all.
/// REQUIRES: `points` is the search of PointSearch(config), and no trial of it
/// is trained further after a validation.
std::unique_ptr<Searcher> MakeRepeatedSearcher(
    std::unique_ptr<Searcher> points, const SearcherConfig& config,
    const nlohmann::json& hyperparameters);

}  // namespace dtrain
