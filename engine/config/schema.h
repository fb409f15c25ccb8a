#pragma once

#include <cstdint>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include <nlohmann/json.hpp>

namespace dtrain {

/// Type of the values that a key takes.
enum class KeyType {
  kSection,          // a map with keys of its own, always there
  kOptionalSection,  // the same, unset unless given
  kBool,
  kInt,
  kNumber,
  kText,
  kWord,    // one of a few
  kSwitch,  // auto, true, false
  kInts,
  kTexts,
  kMap,  // a free one
  kLength,
  kPeriod,
  kDuration,
  kEntrypoint,
  kEnvironment,
  kHyperparameters,
  kLossScale,
  kPoints,
  kSlots,
  kSlotsPerTrial,
  kTrialId,
  kUuid,
  kAny,  // accepted and ignored
};

/// Above every count that makes sense, and exact as a double.
inline constexpr std::int64_t kMostCount = 1'000'000'000'000'000;

/// One key of the configuration. The table of them decides what is read, what
/// the defaults are, what this version can run, and what docs/yaml.md says.
struct KeySpec {
  std::string_view path;  // "searcher.max_length"
  KeyType type = KeyType::kAny;
  std::string_view fallback = "null";  // the default, as JSON
  std::string_view doc;
  std::int64_t least = 0;  // of numbers; of texts: bytes
  std::int64_t most = kMostCount;
  bool above_least = false;  // `least` itself is too little
  bool required = false;     // where its section is given
  // Of kWord: what is allowed, with spaces between; `a=b`: a stands for b.
  std::string_view words = {};
  std::string_view instead = {};  // what to do about another word
  // Of kWord: words of Determined's that are refused; `a=b`: b does its work.
  std::string_view substitutes = {};
  // The searchers that the key belongs to; empty: all.
  std::string_view searchers = {};
  // A JSON list of the values that this version can run; empty: all of them.
  // A feature that is done is a row that lost its `ready`.
  std::string_view ready = {};

  bool ignored() const { return type == KeyType::kAny; }
  std::string_view name() const;     // "max_length"
  std::string_view section() const;  // "searcher", or empty
  nlohmann::json Default() const;
};

/// Every key, in the order of the reference.
std::span<const KeySpec> Schema();

/// Returns the row of `path`, or null.
const KeySpec* FindKey(std::string_view path);

/// Returns the names of the keys in `section` (empty: the top level).
std::vector<std::string> KeyNames(std::string_view section);

/// True if this version can run an experiment with `value` there.
bool IsReady(const KeySpec& key, const nlohmann::json& value);

/// Returns the row of the key in docs/yaml.md.
std::string MarkdownRow(const KeySpec& key);

// The parts of the table, for Schema.
std::span<const KeySpec> ExperimentKeys();
std::span<const KeySpec> SearcherKeys();
std::span<const KeySpec> TrainingKeys();
std::span<const KeySpec> IgnoredKeys();

}  // namespace dtrain
