#include <algorithm>
#include <array>
#include <string>
#include <string_view>
#include <vector>

#include "engine/config/config_builder.h"
#include "engine/config/config_check.h"
#include "searchers/search_plan.h"
#include "searchers/simulation.h"

namespace dtrain {
namespace {

using Json = nlohmann::json;

std::string LowerCase(std::string text) {
  std::transform(text.begin(), text.end(), text.begin(), [](char c) {
    return c >= 'A' && c <= 'Z' ? static_cast<char>(c - 'A' + 'a') : c;
  });
  return text;
}

// The first of `words` that `metric` has in it, or empty.
template <typename Words>
std::string_view WordIn(const std::string& metric, const Words& words) {
  const auto found = std::find_if(
      words.begin(), words.end(),
      [&](std::string_view word) { return metric.find(word) != metric.npos; });
  return found == words.end() ? std::string_view() : *found;
}

// A direction that the metric's name speaks against is obeyed, with a warning.
void CheckDirection(const Node& root, const Json& searcher,
                    Findings& findings) {
  static constexpr std::array<std::string_view, 3> kCosts = {"loss", "error",
                                                             "perplexity"};
  static constexpr std::array<std::string_view, 3> kGains = {"accuracy", "auc",
                                                             "f1"};
  if (!searcher.at("metric").is_string()) return;
  const auto name = searcher.at("metric").get<std::string>();
  const std::string metric = LowerCase(name);
  const bool smaller = searcher.at("smaller_is_better").get<bool>();
  const std::string_view cost = WordIn(metric, kCosts);
  const std::string_view gain = WordIn(metric, kGains);
  const std::string key = "searcher.smaller_is_better";
  if (!smaller && !cost.empty()) {
    findings.Warning(MarkOf(root, key), key,
                     "the largest '" + name + "' is taken as the best; for a " +
                         std::string(cost) + " write true");
  } else if (smaller && cost.empty() && !gain.empty()) {
    findings.Warning(MarkOf(root, key), key,
                     "the smallest '" + name +
                         "' is taken as the best; if a larger one is better, "
                         "write false");
  }
}

// Why a length is needed, or empty where a program may decide it.
std::string WhyLengthIsNeeded(const Json& effective) {
  const Json& method = effective.at("searcher").at("name");
  if (!effective.at("entrypoint").is_array()) {
    return "required but missing; add it, such as {epochs: 10}";
  }
  if (method != "async_halving" && method != "adaptive_asha") return "";
  return "required but missing: " + method.get<std::string>() +
         " compares trials at lengths; add it, such as {epochs: 10}";
}

void CheckLength(const Node& root, const Json& effective, Findings& findings) {
  const bool length = IsGiven(root, "searcher.max_length");
  const bool time = IsGiven(root, "searcher.max_time");
  const bool time_metric = IsGiven(root, "searcher.time_metric");
  if (length && time) {
    findings.Error(MarkOf(root, "searcher.max_time"), "searcher.max_time",
                   "stands for max_length; remove one of them");
  }
  const std::string why_needed = WhyLengthIsNeeded(effective);
  if (!length && !time && !why_needed.empty()) {
    findings.Error(MarkOf(root, "searcher"), "searcher.max_length", why_needed);
  }
  if (time && !time_metric) {
    findings.Error(MarkOf(root, "searcher"), "searcher.time_metric",
                   "required but missing; max_time and time_metric go "
                   "together");
  }
  if (time_metric && !time) {
    const std::string key = "searcher.time_metric";
    findings.Error(MarkOf(root, key), key,
                   length ? "is of use with max_time only; remove it"
                          : "says what max_time counts, which is missing; add "
                            "max_time");
  }
}

// Lengths of rungs are whole: a short search has no room for many of them.
// REQUIRES: nothing is wrong with the searcher.
void CheckRungs(const Node& root, const Json& searcher, Findings& findings) {
  const SearcherConfig config = BuildSearcher(searcher);
  std::string key = "searcher.num_rungs";
  std::int64_t asked = config.num_rungs;
  if (!config.bracket_rungs.empty()) {
    key = "searcher.bracket_rungs";
    asked = *std::ranges::max_element(config.bracket_rungs);
  }
  const std::vector<Bracket> brackets = PlanBrackets(config);
  if (brackets.empty() || asked == 0) return;
  const auto longest = std::ranges::max_element(
      brackets, {},
      [](const Bracket& bracket) { return bracket.rungs.size(); });
  const auto rungs = static_cast<std::int64_t>(longest->rungs.size());
  if (rungs >= asked) return;
  findings.Warning(
      MarkOf(root, key), key,
      "asks for " + std::to_string(asked) + " rungs, but a length of " +
          std::to_string(config.max_length) + " has room for " +
          std::to_string(rungs) + ": rungs of equal length are merged");
}

// By promotion, a rung of few trials may promote none: then no trial trains to
// max_length. REQUIRES: nothing is wrong with the searcher.
void CheckReach(const Node& root, const Json& searcher, Findings& findings) {
  const SearcherConfig config = BuildSearcher(searcher);
  if (config.stop_once) return;
  const std::vector<Bracket> brackets = PlanBrackets(config);
  std::int64_t enough = 0;
  for (const Bracket& bracket : brackets) {
    const std::int64_t needed = TrialsForTop(bracket, config.divisor);
    if (bracket.max_trials >= needed) return;
    enough = std::max(enough, needed);
  }
  if (brackets.empty()) return;
  const auto expected = ExpectSearch(config, Json::object());
  if (!expected) return;
  const ExpectedRange reached = expected->trials.at(config.max_length);
  if (reached.min > 0) return;
  const std::string key = "searcher.max_trials";
  findings.Warning(
      MarkOf(root, key), key,
      std::string(reached.max == 0 ? "no trial is expected"
                                   : "it may be that no trial is chosen") +
          " to train to max_length: " + std::to_string(config.max_trials) +
          " are few for " + std::to_string(brackets.front().rungs.size()) +
          " rungs; " +
          (brackets.size() == 1
               ? "use at least " + std::to_string(enough) + ", "
               : std::string("use more trials, ")) +
          "fewer rungs, or stop_once: true");
}

// REQUIRES: nothing is wrong with the searcher.
void CheckStops(const Node& root, const Json& searcher, Findings& findings) {
  const SearcherConfig config = BuildSearcher(searcher);
  if (config.stops.empty()) return;
  if (config.max_length == 0) {
    findings.Error(MarkOf(root, "searcher.stops"), "searcher.stops",
                   "are lengths before max_length, which is missing; add it");
    return;
  }
  std::vector<std::int64_t> lengths = config.stops;
  lengths.push_back(config.max_length);
  const auto wrong =
      std::ranges::adjacent_find(lengths, std::ranges::greater_equal());
  if (wrong == lengths.end()) return;
  const std::string key = "searcher.stops";
  findings.Error(MarkOf(root, key), key,
                 "expected lengths that grow and stay below max_length, got " +
                     std::to_string(*wrong) + " before " +
                     std::to_string(*std::next(wrong)) + "; put them in order");
}

}  // namespace

void CheckSearcher(const Node& root, const Json& effective,
                   Findings& findings) {
  const Json& searcher = effective.at("searcher");
  CheckDirection(root, searcher, findings);
  CheckLength(root, effective, findings);
  if (!searcher.at("source_trial_id").is_null() &&
      !searcher.at("source_checkpoint_uuid").is_null()) {
    const std::string key = "searcher.source_checkpoint_uuid";
    findings.Error(MarkOf(root, key), key,
                   "goes not with source_trial_id; remove one of them");
  }
  if (searcher.contains("points") && searcher.at("max_trials").is_number() &&
      searcher.at("max_trials").get<std::size_t>() <
          searcher.at("points").size()) {
    findings.Error(MarkOf(root, "searcher.points"), "searcher.points",
                   "has more points than max_trials; remove some");
  }
  if (findings.errors() == 0) CheckStops(root, searcher, findings);
  if (findings.errors() == 0) CheckRungs(root, searcher, findings);
  if (findings.errors() == 0) CheckReach(root, searcher, findings);
}

}  // namespace dtrain
