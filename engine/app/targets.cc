// Experiments and trials as arguments name them: "3", "3.7", "last", a name,
// "3-7" or, for a source of weights, the start of a checkpoint's UUID.
//
// Numbers are taken as they are, without a look into the store. A name that
// several experiments have, or that is also `last` or a range, is an error: the
// user must give the number.

#include <algorithm>
#include <charconv>
#include <string_view>

#include "engine/app/stores.h"
#include "engine/base/error.h"
#include "engine/base/text.h"
#include "engine/store/store.h"

namespace dtrain {
namespace {

constexpr std::string_view kLast = "last";

// Parses the whole of `text` as a positive integer.
std::optional<std::int64_t> Positive(std::string_view text) {
  std::int64_t value = 0;
  const char* end = text.data() + text.size();
  const auto [rest, error] = std::from_chars(text.data(), end, value);
  const bool whole = error == std::errc() && rest == end && value > 0;
  return whole ? std::optional(value) : std::nullopt;
}

std::optional<Target> Numbers(std::string_view text) {
  const std::size_t dot = text.find('.');
  const auto experiment = Positive(text.substr(0, dot));
  if (!experiment) return std::nullopt;
  if (dot == std::string_view::npos) return Target{.experiment = *experiment};
  const auto trial = Positive(text.substr(dot + 1));
  if (!trial) return std::nullopt;
  return Target{.experiment = *experiment, .trial = trial};
}

// The text before the last dot and the number of a trial after it.
std::optional<std::pair<std::string, std::int64_t>> SplitTrial(
    const std::string& text) {
  const std::size_t dot = text.rfind('.');
  if (dot == std::string::npos || dot == 0) return std::nullopt;
  const auto trial = Positive(std::string_view(text).substr(dot + 1));
  if (!trial) return std::nullopt;
  return std::pair(text.substr(0, dot), *trial);
}

[[noreturn]] void FailForm(const std::string& text) {
  throw Error(
      ErrorKind::kUsage,
      "'" + text +
          "' is not a valid ID; expected an experiment (3) or trial (3.7)");
}

// The experiments of a store by number and name. Read once, and only where an
// argument is not a number.
class ExperimentNames {
 public:
  explicit ExperimentNames(const Store& store)
      : store_(store), rows_(store.Experiments({.archived = true})) {}

  std::optional<std::int64_t> Last() const {
    if (rows_.empty()) return std::nullopt;
    return rows_.back().id;
  }

  std::vector<std::int64_t> Between(std::int64_t first,
                                    std::int64_t last) const {
    std::vector<std::int64_t> ids;
    for (const ExperimentRow& row : rows_) {
      if (row.id >= first && row.id <= last) ids.push_back(row.id);
    }
    return ids;
  }

  std::vector<std::int64_t> Named(const std::string& name) const {
    std::vector<std::int64_t> ids;
    for (const ExperimentRow& row : rows_) {
      if (row.name == name) ids.push_back(row.id);
    }
    return ids;
  }

  [[noreturn]] void FailUnknown(const std::string& text) const {
    constexpr std::size_t kMaxNames = 10;
    std::vector<std::string> names;
    for (const ExperimentRow& row : rows_) {
      if (std::ranges::count(names, row.name) == 0) names.push_back(row.name);
    }
    const std::string guess = DidYouMean(text, names);
    std::ranges::reverse(names);  // the newest first
    if (names.size() > kMaxNames) {
      names.resize(kMaxNames);
      names.emplace_back("...");
    }
    throw Error(ErrorKind::kNotFound,
                "no experiment is named '" + text + "' in " +
                    store_.layout().root().string() + guess +
                    (names.empty() ? "" : "; names: " + Join(names, ", ")) +
                    "; 'dtrain list -a' lists all");
  }

 private:
  const Store& store_;
  std::vector<ExperimentRow> rows_;
};

std::vector<std::string> Texts(const std::vector<std::int64_t>& ids) {
  std::vector<std::string> texts;
  for (const std::int64_t id : ids) texts.push_back(std::to_string(id));
  return texts;
}

// Refuses a word that another experiment has as its name.
void RequireNotName(const std::string& word,
                    const std::vector<std::int64_t>& meant,
                    const ExperimentNames& names) {
  for (const std::int64_t id : names.Named(word)) {
    if (std::ranges::count(meant, id) > 0) continue;
    throw Error(ErrorKind::kUsage, "'" + word + "' is experiment " +
                                       Join(Texts(meant), ", ") +
                                       " and also the name of experiment " +
                                       std::to_string(id) + "; give a number");
  }
}

// Returns the experiments of a range "3-7"; nothing for another text.
std::optional<std::vector<std::int64_t>> FindRange(
    const std::string& text, const ExperimentNames& names) {
  const std::size_t dash = text.find('-');
  if (dash == std::string::npos) return std::nullopt;
  const auto first = Positive(std::string_view(text).substr(0, dash));
  const auto last = Positive(std::string_view(text).substr(dash + 1));
  if (!first || !last) return std::nullopt;
  if (*first > *last) {
    throw Error(ErrorKind::kUsage, "'" + text +
                                       "' is not a range; write the smaller "
                                       "number first: " +
                                       std::to_string(*last) + "-" +
                                       std::to_string(*first));
  }
  auto ids = names.Between(*first, *last);
  if (ids.empty()) {
    throw Error(ErrorKind::kNotFound,
                "no experiment in the range " + text +
                    " exists; 'dtrain list -a' lists all");
  }
  RequireNotName(text, ids, names);
  return ids;
}

// Returns the experiment that `last` or a name means; nothing if no experiment
// has the name.
std::optional<std::int64_t> FindName(const std::string& text,
                                     const ExperimentNames& names) {
  if (text == kLast) {
    const auto last = names.Last();
    if (last) RequireNotName(text, {*last}, names);
    return last;
  }
  const auto ids = names.Named(text);
  if (ids.empty()) return std::nullopt;
  if (ids.size() == 1) return ids.front();
  throw Error(ErrorKind::kUsage, "several experiments are named '" + text +
                                     "': " + Join(Texts(ids), ", ") +
                                     "; give a number");
}

// Returns the experiment or trial of a word or name; nothing if there is none.
std::optional<Target> FindWord(const std::string& text,
                               const ExperimentNames& names) {
  if (const auto id = FindName(text, names)) return Target{.experiment = *id};
  const auto split = SplitTrial(text);
  if (!split) return std::nullopt;
  const auto id = FindName(split->first, names);
  if (!id) return std::nullopt;
  return Target{.experiment = *id, .trial = split->second};
}

std::vector<Target> Resolve(const Store& store, const std::string& text) {
  if (const auto numbers = Numbers(text)) return {*numbers};
  const ExperimentNames names(store);
  if (const auto range = FindRange(text, names)) {
    std::vector<Target> targets;
    for (const std::int64_t id : *range) targets.push_back({.experiment = id});
    return targets;
  }
  if (const auto target = FindWord(text, names)) return {*target};
  const bool is_number =
      text.empty() || std::string_view("0123456789-+.").find(text.front()) !=
                          std::string_view::npos;
  if (is_number) FailForm(text);
  names.FailUnknown(text);
}

[[noreturn]] void FailTrial(const std::string& text) {
  throw Error(
      ErrorKind::kUsage,
      "'" + text +
          "' is not a valid experiment ID; expected a number such as 3");
}

// True if `text` has only characters of a UUID.
bool MayStartUuid(const std::string& text) {
  return text.find_first_not_of("0123456789abcdefABCDEF-") == std::string::npos;
}

// True if a checkpoint's UUID starts with `text`.
bool StartsCheckpoint(const Store& store, const std::string& text) {
  if (!MayStartUuid(text) || text.size() < 4) return false;
  try {
    (void)store.CheckpointByPrefix(text);
    return true;
  } catch (const Error& error) {
    return error.kind() == ErrorKind::kUsage;  // several start with it
  }
}

}  // namespace

std::string ToString(const Target& target) {
  return std::to_string(target.experiment) +
         (target.trial ? "." + std::to_string(*target.trial) : "");
}

Target ParseTarget(const std::string& text) {
  const auto target = Numbers(text);
  if (!target) FailForm(text);
  return *target;
}

Target ResolveTarget(const Store& store, const std::string& text) {
  const auto targets = Resolve(store, text);
  if (targets.size() == 1) return targets.front();
  throw Error(ErrorKind::kUsage, "'" + text + "' names " +
                                     std::to_string(targets.size()) +
                                     " experiments; expected one");
}

std::int64_t ResolveExperiment(const Store& store, const std::string& text) {
  const Target target = ResolveTarget(store, text);
  if (target.trial) FailTrial(text);
  return target.experiment;
}

std::vector<Target> ResolveTargets(const Store& store,
                                   const std::vector<std::string>& words) {
  std::vector<Target> targets;
  for (const std::string& word : words) {
    for (const Target& target : Resolve(store, word)) targets.push_back(target);
  }
  return targets;
}

std::vector<std::int64_t> ResolveExperiments(
    const Store& store, const std::vector<std::string>& words) {
  std::vector<std::int64_t> ids;
  for (const std::string& word : words) {
    for (const Target& target : Resolve(store, word)) {
      if (target.trial) FailTrial(word);
      if (std::ranges::count(ids, target.experiment) == 0) {
        ids.push_back(target.experiment);
      }
    }
  }
  return ids;
}

std::optional<Target> ResolveSource(const Store& store,
                                    const std::string& text) {
  if (const auto numbers = Numbers(text)) {
    // At least 4 digits are the start of a UUID where there is no such
    // experiment.
    if (numbers->trial || text.size() < 4) return numbers;
    if (text.front() != '0' &&
        !store.Experiments({.archived = true, .id = numbers->experiment})
             .empty()) {
      return numbers;
    }
    return std::nullopt;
  }
  if (StartsCheckpoint(store, text)) return std::nullopt;
  const bool has_dot = text.find('.') != std::string::npos;
  if (has_dot) return ResolveTarget(store, text);
  const ExperimentNames names(store);
  const auto target = FindWord(text, names);
  if (!target && !MayStartUuid(text)) names.FailUnknown(text);
  return target;
}

}  // namespace dtrain
