#include "engine/config/special_values.h"

#include <algorithm>
#include <charconv>
#include <string>
#include <string_view>
#include <vector>

#include "engine/base/text.h"
#include "engine/config/entrypoint.h"
#include "engine/config/environment.h"
#include "engine/config/value_reader.h"

namespace dtrain {
namespace {

using MaybeJson = std::optional<nlohmann::json>;

constexpr std::int64_t kMostSlots = 1024;

// `{epochs: 10}`, or a plain integer of batches.
MaybeJson ReadLength(const KeySpec& key, const Node& node, Findings& findings) {
  const std::string path(key.path);
  const std::int64_t least = key.type == KeyType::kPeriod ? 0 : 1;
  if (!node.is_map()) {
    if (node.kind != Node::Kind::kInt) {
      ReportType(node, path,
                 "{batches: N}, {records: N}, {epochs: N} or an integer "
                 "(batches)",
                 findings);
      return std::nullopt;
    }
    const auto count = ReadInteger(node, path, least, kMostCount, findings);
    if (!count) return std::nullopt;
    return nlohmann::json{{"batches", *count}};
  }
  const std::vector<std::string> units = {"batches", "records", "epochs"};
  bool known = true;
  for (const Node::Entry& entry : node.entries) {
    if (std::find(units.begin(), units.end(), entry.key) != units.end()) {
      continue;
    }
    findings.UnknownKey(entry.mark, JoinPath(path, entry.key), entry.key,
                        units);
    known = false;
  }
  if (!known) return std::nullopt;
  if (node.entries.size() != 1) {
    // One that --set has added to that of the file.
    const bool is_set = !node.entries.empty() &&
                        node.entries.back().value.mark.override_index >= 0;
    const Mark mark = is_set ? node.entries.back().value.mark : node.mark;
    findings.Error(mark, path,
                   "expected exactly one of batches, records and epochs");
    return std::nullopt;
  }
  const Node::Entry& entry = node.entries.front();
  const auto count = ReadInteger(entry.value, JoinPath(path, entry.key), least,
                                 kMostCount, findings);
  if (!count) return std::nullopt;
  return nlohmann::json{{entry.key, *count}};
}

// Seconds of `text`, or nothing: a number with ms, s, m, h, d or no suffix.
std::optional<double> Seconds(std::string_view text) {
  double number = 0;
  const char* end = text.data() + text.size();
  const auto [rest, error] = std::from_chars(text.data(), end, number);
  if (error != std::errc()) return std::nullopt;
  const std::string_view suffix(rest, static_cast<std::size_t>(end - rest));
  if (suffix.empty() || suffix == "s") return number;
  if (suffix == "ms") return number / 1000;
  if (suffix == "m") return number * 60;
  if (suffix == "h") return number * 3600;
  if (suffix == "d") return number * 86400;
  return std::nullopt;
}

MaybeJson ReadDuration(const KeySpec& key, const Node& node,
                       Findings& findings) {
  std::optional<double> seconds;
  if (node.IsNumber()) seconds = node.number;
  if (node.is_string()) seconds = Seconds(node.text);
  // 1e9 seconds are 31 years: more is a slip of the keyboard.
  if (seconds && *seconds > 0 && *seconds <= 1e9) return *seconds;
  findings.Error(node.mark, std::string(key.path),
                 "expected a duration above 0, got " + Describe(node) +
                     "; write seconds or a number with ms, s, m, h or d, such "
                     "as 90 or 1.5h");
  return std::nullopt;
}

MaybeJson ReadLossScale(const KeySpec& key, const Node& node,
                        Findings& findings) {
  if (node.is_string() && node.text == "dynamic") return "dynamic";
  if (node.IsNumber() && node.number > 0) return ToJson(node);
  ReportType(node, std::string(key.path), "dynamic or a number above 0",
             findings);
  return std::nullopt;
}

MaybeJson ReadGpus(const Node& node, const std::string& path,
                   Findings& findings) {
  auto gpus = nlohmann::json::array();
  for (const Node& item : node.items) {
    const std::string place = path + '[' + std::to_string(gpus.size()) + ']';
    const auto gpu = ReadInteger(item, place, 0, kMostSlots, findings);
    if (!gpu) return std::nullopt;
    if (std::find(gpus.begin(), gpus.end(), *gpu) != gpus.end()) {
      findings.Error(item.mark, place,
                     "GPU " + item.text + " is there twice; remove one");
      return std::nullopt;
    }
    gpus.push_back(*gpu);
  }
  if (!gpus.empty()) return gpus;
  findings.Error(node.mark, path, "is empty; name a GPU, or write none");
  return std::nullopt;
}

MaybeJson ReadSlots(const KeySpec& key, const Node& node, Findings& findings) {
  const std::string path(key.path);
  if (node.is_list()) return ReadGpus(node, path, findings);
  if (node.kind == Node::Kind::kInt) {
    const auto gpu = ReadInteger(node, path, 0, kMostSlots, findings);
    if (!gpu) return std::nullopt;
    return nlohmann::json::array({*gpu});
  }
  if (node.is_string()) {
    const std::string_view text = node.text;
    for (const auto* word : {"auto", "none", "cpu", "most_free"}) {
      if (text == word) return text;
    }
    std::int64_t count = 0;
    const char* end = text.data() + text.size();
    const std::string_view kind = text.substr(0, 4);
    if ((kind == "cpu:" || kind == "gpu:") &&
        std::from_chars(text.data() + 4, end, count).ptr == end && count >= 1 &&
        count <= kMostSlots) {
      return std::string(kind) + std::to_string(count);
    }
  }
  findings.Error(node.mark, path,
                 "expected auto, none, cpu, cpu:N or gpu:N (N from 1 to 1024), "
                 "most_free, a GPU's number or a list of them, got " +
                     Describe(node));
  return std::nullopt;
}

// Shares of a GPU are quarters: DESIGN 10.
MaybeJson ReadSlotsPerTrial(const KeySpec& key, const Node& node,
                            Findings& findings) {
  if (node.is_string() && node.text == "all") return "all";
  if (node.IsNumber()) {
    const double value = node.number;
    if (value == 0.25 || value == 0.5 || value == 0.75) return value;
    const auto whole = static_cast<double>(kMostSlots);
    if (value >= 0 && value <= whole &&
        value == static_cast<double>(static_cast<std::int64_t>(value))) {
      return static_cast<std::int64_t>(value);
    }
  }
  findings.Error(node.mark, std::string(key.path),
                 "expected an integer from 0 to 1024, 0.25, 0.5, 0.75 or all, "
                 "got " +
                     Describe(node));
  return std::nullopt;
}

// `3.10` looks like a number: the text as it is written counts.
MaybeJson ReadTrialId(const KeySpec& key, const Node& node,
                      Findings& findings) {
  const std::size_t dot = node.text.find('.');
  const auto digits = [](std::string_view text) {
    return !text.empty() && text.size() <= 15 && text[0] != '0' &&
           text.find_first_not_of("0123456789") == text.npos;
  };
  if (node.IsScalar() && dot != node.text.npos &&
      digits(node.text.substr(0, dot)) && digits(node.text.substr(dot + 1))) {
    return node.text;
  }
  findings.Error(node.mark, std::string(key.path),
                 "expected a trial such as 3.7, got " + Describe(node));
  return std::nullopt;
}

// The beginning of a UUID may look like a number too.
MaybeJson ReadUuid(const KeySpec& key, const Node& node, Findings& findings) {
  const std::size_t size = node.text.size();
  if (node.IsScalar() && size >= 4 && size <= 36 &&
      node.text.find_first_not_of("0123456789abcdef-") == node.text.npos) {
    return node.text;
  }
  findings.Error(node.mark, std::string(key.path),
                 "expected the UUID of a checkpoint or at least 4 characters "
                 "of it, got " +
                     Describe(node));
  return std::nullopt;
}

}  // namespace

std::optional<nlohmann::json> ReadSpecialValue(const KeySpec& key,
                                               const Node& node,
                                               Findings& findings) {
  switch (key.type) {
    case KeyType::kLength:
    case KeyType::kPeriod:
      return ReadLength(key, node, findings);
    case KeyType::kDuration:
      return ReadDuration(key, node, findings);
    case KeyType::kEntrypoint:
      return ReadEntrypoint(node, findings);
    case KeyType::kEnvironment:
      return ReadEnvironment(node, std::string(key.path), findings);
    case KeyType::kLossScale:
      return ReadLossScale(key, node, findings);
    case KeyType::kSlots:
      return ReadSlots(key, node, findings);
    case KeyType::kSlotsPerTrial:
      return ReadSlotsPerTrial(key, node, findings);
    case KeyType::kTrialId:
      return ReadTrialId(key, node, findings);
    case KeyType::kUuid:
      return ReadUuid(key, node, findings);
    default:
      return std::nullopt;
  }
}

}  // namespace dtrain
