#pragma once

#include <cstdint>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include <nlohmann/json.hpp>

namespace dtrain {

struct ExperimentConfig;

/// Type of the values that a key takes.
enum class KeyType {
  kSection,          // a map with its own keys, always present
  kOptionalSection,  // a map with its own keys, null by default
  kBool,
  kInt,
  kNumber,
  kText,
  kWord,    // one of several words
  kSwitch,  // auto, true, false
  kInts,
  kTexts,
  kMap,  // with any keys
  kLength,
  kBudget,  // a length or a duration
  kConstraints,
  kPeriod,
  kDuration,
  kEntrypoint,
  kEnvironment,
  kExperiments,  // IDs or labels
  kHyperparameters,
  kListen,
  kLossScale,
  kMetrics,
  kPoints,
  kSlots,
  kSlotsPerTrial,
  kSlurmTime,
  kTrialId,
  kUuid,
  kAny,  // accepted and ignored
};

/// Maximum of counts; exact as a double.
inline constexpr std::int64_t kMaxCount = 1'000'000'000'000'000;

/// One key of the configuration. The table of these rows determines which keys
/// are read, their types, defaults and bounds, which values this version can
/// run, and the rows of docs/yaml.md.
struct KeySpec {
  std::string_view path;  // "searcher.max_length"
  KeyType type = KeyType::kAny;
  std::string_view fallback = "null";  // the default, as JSON
  std::string_view doc;
  std::int64_t least = 0;  // minimum; of strings: in bytes
  std::int64_t most = kMaxCount;
  bool above_least = false;  // `least` itself is excluded
  bool required = false;     // if its section is given
  // Allowed words of a kWord, or of the items of a kTexts, separated by spaces;
  // `a=b`: a means b.
  std::string_view words = {};
  std::string_view instead = {};  // remedy for another word
  // Refused words of a kWord, from Determined; `a=b`: b replaces a.
  std::string_view substitutes = {};
  // JSON list of the values that this version can run; empty: all values.
  std::string_view ready = {};
  // Copies a value of the effective configuration to its member. Null: the
  // value is only in `effective`, or is stored with its section.
  void (*store)(const nlohmann::json& value,
                ExperimentConfig& config) = nullptr;

  bool ignored() const { return type == KeyType::kAny; }
  std::string_view name() const;     // "max_length"
  std::string_view section() const;  // "searcher", or empty
  nlohmann::json Default() const;
};

/// Returns every key, in the order of the reference.
std::span<const KeySpec> Schema();

/// Returns the row of `path`, or null.
const KeySpec* FindKey(std::string_view path);

/// Returns the names of the keys in `section` (empty: the top level).
std::vector<std::string> KeyNames(std::string_view section);

/// True if this version can run an experiment with this value of `key`.
bool IsReady(const KeySpec& key, const nlohmann::json& value);

/// Returns the allowed words of a kWord; `a=b`: a means b.
std::vector<std::string> AllowedWords(const KeySpec& key);

/// Returns the search methods that have the key, if only some of them do;
/// otherwise nothing.
std::vector<std::string> SearchersWithKey(const KeySpec& key);

/// Returns the configuration of `effective`, without values of environment
/// variables. Keys that are missing have the defaults of ExperimentConfig.
/// REQUIRES: `effective` was checked.
ExperimentConfig BuildConfig(nlohmann::json effective);

/// Returns the row of the key in docs/yaml.md.
std::string MarkdownRow(const KeySpec& key);

/// Returns the part of `Schema` that is not ignored.
std::span<const KeySpec> UsedKeys();

}  // namespace dtrain
