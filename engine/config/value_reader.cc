// Reads one value by its KeySpec and returns it in canonical form, which is
// what the effective configuration stores: an alias becomes its meaning, a
// plain integer length becomes {"batches": N}, a duration becomes seconds.
// Messages about a wrong type suggest the likely cause, such as quotes around a
// number.
//
// The canonical form is read back by the same functions: an experiment is
// stored with its effective configuration, and a later version of dtrain reads
// that as it would a file. A canonical form is therefore always a valid way to
// write the value.

#include "engine/config/value_reader.h"

#include <algorithm>
#include <array>
#include <cctype>
#include <charconv>
#include <cmath>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "engine/base/text.h"
#include "engine/config/experiment_config.h"
#include "engine/config/slurm_config.h"
#include "engine/config/yaml_text.h"

namespace dtrain {
namespace {

using MaybeJson = std::optional<nlohmann::json>;

MaybeJson ReadNumber(const KeySpec& key, const Node& node, Findings& findings) {
  const auto least = static_cast<double>(key.least);
  const auto most = static_cast<double>(key.most);
  const bool valid =
      node.IsNumber() && node.number <= most &&
      (key.above_least ? node.number > least : node.number >= least);
  if (valid) return ToJson(node);
  const std::string low =
      (key.above_least ? "above " : "of at least ") + std::to_string(key.least);
  const std::string high =
      key.most < kMaxCount ? ", at most " + std::to_string(key.most) : "";
  ReportType(node, std::string(key.path), "a number " + low + high, findings);
  return std::nullopt;
}

MaybeJson ReadText(const KeySpec& key, const Node& node,
                   const std::string& path, Findings& findings) {
  if (!node.is_string()) {
    ReportType(node, path, "a string", findings);
    return std::nullopt;
  }
  const auto size = static_cast<std::int64_t>(node.text.size());
  if (size < key.least) {
    findings.Error(node.mark, path, "is empty; write a non-empty string");
    return std::nullopt;
  }
  if (size > key.most) {
    findings.Error(node.mark, path,
                   "has " + std::to_string(size) + " bytes; use at most " +
                       std::to_string(key.most));
    return std::nullopt;
  }
  return node.text;
}

MaybeJson ReadWord(const KeySpec& key, const Node& node,
                   const std::string& path, Findings& findings) {
  std::vector<std::string> allowed;
  for (const std::string& word : AllowedWords(key)) {
    const std::size_t equals = word.find('=');
    allowed.push_back(word.substr(0, equals));
    if (!node.is_string() || node.text != allowed.back()) continue;
    return equals == word.npos ? word : word.substr(equals + 1);
  }
  std::string hint;
  for (const std::string& pair : Split(key.substitutes, ' ')) {
    const std::size_t equals = pair.find('=');
    if (!node.is_string() || equals == pair.npos) continue;
    if (pair.substr(0, equals) != node.text) continue;
    hint = "; use '" + pair.substr(equals + 1) + "' instead";
    break;
  }
  if (hint.empty() && node.is_string()) hint = DidYouMean(node.text, allowed);
  if (hint.empty() && !key.instead.empty()) {
    hint = "; " + std::string(key.instead);
  }
  findings.Error(node.mark, path,
                 "expected one of " + Join(allowed, ", ") + ", got " +
                     Describe(node) + hint);
  return std::nullopt;
}

// Reads a list with `read`, which gets each item with its path.
template <typename Read>
MaybeJson ReadList(const KeySpec& key, const Node& node,
                   const std::string& what, Findings& findings, Read read) {
  const std::string path(key.path);
  if (!node.is_list()) {
    ReportType(node, path, "a list of " + what, findings);
    return std::nullopt;
  }
  auto list = nlohmann::json::array();
  for (std::size_t i = 0; i < node.items.size(); ++i) {
    const MaybeJson item =
        read(node.items[i], path + '[' + std::to_string(i) + ']');
    if (!item) return std::nullopt;
    list.push_back(*item);
  }
  return list;
}

// Reads an ID, or `label:NAME`.
MaybeJson ReadExperiment(const Node& node, const std::string& path,
                         Findings& findings) {
  if (node.kind == Node::Kind::kInt && node.integer >= 1 &&
      node.integer <= kMaxCount) {
    return node.integer;
  }
  if (node.is_string() && node.text.starts_with(kLabelPrefix) &&
      node.text.size() > kLabelPrefix.size()) {
    return node.text;
  }
  const bool spaced = node.is_map() && node.entries.size() == 1 &&
                      node.entries.front().key == "label";
  findings.Error(node.mark, path,
                 "expected the ID of an experiment, such as 12, or label:NAME, "
                 "got " +
                     Describe(node) +
                     (spaced ? "; write label:NAME without a space" : ""));
  return std::nullopt;
}

constexpr std::int64_t kMaxSlots = 1024;

// Reports units that are unknown, and any number of units but one.
bool CheckUnits(const Node& node, const std::string& path, Findings& findings) {
  static const std::vector<std::string> units = {"batches", "records",
                                                 "epochs"};
  bool known = true;
  for (const Node::Entry& entry : node.entries) {
    if (std::find(units.begin(), units.end(), entry.key) != units.end()) {
      continue;
    }
    findings.UnknownKey(entry.mark, JoinPath(path, entry.key), entry.key,
                        units);
    known = false;
  }
  if (!known) return false;
  if (node.entries.size() == 1) return true;
  // A unit that --set has added to that of the file.
  const bool is_set = !node.entries.empty() &&
                      node.entries.back().value.mark.override_index >= 0;
  const Mark mark = is_set ? node.entries.back().value.mark : node.mark;
  findings.Error(mark, path,
                 "expected exactly one of batches, records and epochs");
  return false;
}

// Reads `{epochs: 10}`, or a plain integer, which counts batches.
MaybeJson ReadLength(const KeySpec& key, const Node& node, Findings& findings) {
  const std::string path(key.path);
  const std::int64_t least = key.type == KeyType::kPeriod ? 0 : 1;
  if (node.kind == Node::Kind::kInt) {
    const auto count = ReadInteger(node, path, least, kMaxCount, findings);
    if (!count) return std::nullopt;
    return nlohmann::json{{"batches", *count}};
  }
  if (!node.is_map()) {
    ReportType(node, path,
               "{batches: N}, {records: N}, {epochs: N} or an integer "
               "(batches)",
               findings);
    return std::nullopt;
  }
  if (!CheckUnits(node, path, findings)) return std::nullopt;
  const Node::Entry& entry = node.entries.front();
  const auto count = ReadInteger(entry.value, JoinPath(path, entry.key), least,
                                 kMaxCount, findings);
  if (!count) return std::nullopt;
  return nlohmann::json{{entry.key, *count}};
}

// 31 years: more is a typing error.
constexpr double kMaxSeconds = 1e9;

// Converts a number with ms, s, m, h, d or no suffix to seconds.
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

// Reads a length, or a duration. The canonical form of a duration is
// {"seconds": N}, since a number without a unit counts batches.
MaybeJson ReadBudget(const KeySpec& key, const Node& node, Findings& findings) {
  const bool counts_batches = node.kind == Node::Kind::kInt;
  static constexpr std::array kNames = {"seconds", "minutes", "hours", "days"};
  const bool of_time =  // a map such as {hours: 8}
      node.is_map() && node.entries.size() == 1 &&
      std::ranges::find(kNames, node.entries.front().key) != kNames.end();
  const bool canonical = of_time && node.entries.front().key == "seconds";
  if (counts_batches || (node.is_map() && !of_time)) {
    return ReadLength(key, node, findings);
  }
  const Node& duration = canonical ? node.entries.front().value : node;
  std::optional<double> seconds;
  if (canonical && duration.IsNumber()) seconds = duration.number;
  const bool has_unit = duration.is_string() && !duration.text.empty() &&
                        std::isalpha(duration.text.back()) != 0;
  if (!canonical && has_unit) seconds = Seconds(duration.text);
  if (seconds && *seconds > 0 && *seconds <= kMaxSeconds) {
    return nlohmann::json{{"seconds", *seconds}};
  }
  findings.Error(duration.mark, std::string(key.path),
                 "expected a length or a duration, got " + Describe(duration) +
                     "; write {batches: N}, {records: N}, {epochs: N}, or a "
                     "number with s, m, h or d, such as 8h");
  return std::nullopt;
}

// A port, or "HOST:PORT"; an IPv6 address is in brackets.
MaybeJson ReadListen(const KeySpec& key, const Node& node, Findings& findings) {
  constexpr std::int64_t kMaxPort = 65535;
  const std::string path(key.path);
  if (node.kind == Node::Kind::kInt) {
    return ReadInteger(node, path, 0, kMaxPort, findings);
  }
  if (node.is_string()) {
    const std::string_view text = node.text;
    const std::size_t colon = text.rfind(':');
    const std::string_view host = text.substr(0, colon);
    const bool bare = host.find(':') == host.npos ||
                      (host.starts_with('[') && host.ends_with(']'));
    std::int64_t port = -1;
    const char* const end = text.data() + text.size();
    if (colon != text.npos && colon > 0 && colon + 1 < text.size() && bare &&
        host.find_first_of(" \t") == host.npos &&
        std::from_chars(text.data() + colon + 1, end, port).ptr == end &&
        port >= 0 && port <= kMaxPort) {
      return std::string(text);
    }
  }
  findings.Error(node.mark, path,
                 "expected a port from 0 to 65535 (0: any free one) or "
                 "HOST:PORT, got " +
                     Describe(node));
  return std::nullopt;
}

MaybeJson ReadSlots(const KeySpec& key, const Node& node, Findings& findings) {
  const std::string path(key.path);
  if (node.is_list()) {
    auto gpus = nlohmann::json::array();
    for (const Node& item : node.items) {
      const std::string place = path + '[' + std::to_string(gpus.size()) + ']';
      const auto gpu = ReadInteger(item, place, 0, kMaxSlots, findings);
      if (!gpu) return std::nullopt;
      if (std::find(gpus.begin(), gpus.end(), *gpu) != gpus.end()) {
        findings.Error(item.mark, place,
                       "GPU " + item.text + " is listed twice; remove one");
        return std::nullopt;
      }
      gpus.push_back(*gpu);
    }
    if (!gpus.empty()) return gpus;
    findings.Error(node.mark, path, "is empty; name a GPU, or write none");
    return std::nullopt;
  }
  if (node.kind == Node::Kind::kInt) {
    const auto gpu = ReadInteger(node, path, 0, kMaxSlots, findings);
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
        count <= kMaxSlots) {
      return std::string(kind) + std::to_string(count);
    }
  }
  findings.Error(node.mark, path,
                 "expected auto, none, cpu, cpu:N or gpu:N (N from 1 to 1024), "
                 "most_free, a GPU's number or a list of them, got " +
                     Describe(node));
  return std::nullopt;
}

}  // namespace

std::optional<nlohmann::json> ReadValue(const KeySpec& key, const Node& node,
                                        Findings& findings) {
  const std::string path(key.path);
  switch (key.type) {
    case KeyType::kBool:
      if (node.kind == Node::Kind::kBool) return node.boolean;
      ReportType(node, path, "true or false", findings);
      return std::nullopt;
    case KeyType::kInt:
      return ReadInteger(node, path, key.least, key.most, findings);
    case KeyType::kNumber:
      return ReadNumber(key, node, findings);
    case KeyType::kText:
      return ReadText(key, node, path, findings);
    case KeyType::kWord:
      return ReadWord(key, node, std::string(key.path), findings);
    case KeyType::kSwitch:
      if (node.is_string() && node.text == "auto") return "auto";
      if (node.kind == Node::Kind::kBool) return node.boolean;
      ReportType(node, path, "auto, true or false", findings);
      return std::nullopt;
    case KeyType::kInts:
      return ReadList(
          key, node, "integers", findings,
          [&](const Node& item, const std::string& place) -> MaybeJson {
            return ReadInteger(item, place, key.least, key.most, findings);
          });
    case KeyType::kTexts:
      return ReadList(key, node, "strings", findings,
                      [&](const Node& item, const std::string& place) {
                        return key.words.empty()
                                   ? ReadText(key, item, place, findings)
                                   : ReadWord(key, item, place, findings);
                      });
    case KeyType::kMap:
      if (node.is_map()) return ReadFreeValue(node, path, findings);
      ReportType(node, path, "a map", findings);
      return std::nullopt;
    case KeyType::kLength:
    case KeyType::kPeriod:
      return ReadLength(key, node, findings);
    case KeyType::kBudget:
      return ReadBudget(key, node, findings);
    case KeyType::kDuration: {
      std::optional<double> seconds;
      if (node.IsNumber()) seconds = node.number;
      if (node.is_string()) seconds = Seconds(node.text);
      if (seconds && *seconds > 0 && *seconds <= kMaxSeconds) return *seconds;
      findings.Error(node.mark, path,
                     "expected a duration above 0, got " + Describe(node) +
                         "; write seconds or a number with ms, s, m, h or d, "
                         "such as 90 or 1.5h");
      return std::nullopt;
    }
    case KeyType::kExperiments:
      return ReadList(key, node, "experiments, such as [12, label:NAME]",
                      findings,
                      [&](const Node& item, const std::string& place) {
                        return ReadExperiment(item, place, findings);
                      });
    case KeyType::kListen:
      return ReadListen(key, node, findings);
    case KeyType::kLossScale:
      if (node.is_string() && node.text == "dynamic") return "dynamic";
      if (node.IsNumber() && node.number > 0) return ToJson(node);
      ReportType(node, path, "dynamic or a number above 0", findings);
      return std::nullopt;
    case KeyType::kSlots:
      return ReadSlots(key, node, findings);
    case KeyType::kSlotsPerTrial: {
      if (node.is_string() && node.text == "all") return "all";
      const double value = node.IsNumber() ? node.number : -1;
      // Shares of a GPU are quarters (decision 17).
      if (value == 0.25 || value == 0.5 || value == 0.75) return value;
      if (value >= 0 && value <= static_cast<double>(kMaxSlots) &&
          value == std::floor(value)) {
        return static_cast<std::int64_t>(value);
      }
      findings.Error(node.mark, path,
                     "expected an integer from 0 to 1024, 0.25, 0.5, 0.75 or "
                     "all, got " +
                         Describe(node));
      return std::nullopt;
    }
    case KeyType::kSlurmTime: {  // canonical: that of sbatch with hours
      const bool text = node.is_string() || node.kind == Node::Kind::kInt;
      const auto time = text ? ParseSlurmTime(node.text) : std::nullopt;
      if (time) return FormatSlurmTime(*time);
      findings.Error(node.mark, path,
                     "expected a time of Slurm, from a minute to a year: " +
                         std::string(kSlurmTimeFormats) + "; got " +
                         Describe(node));
      return std::nullopt;
    }
    case KeyType::kTrialId: {  // `3.10`, which looks like a number, by its text
      const std::size_t dot = node.text.find('.');
      const auto digits = [](std::string_view text) {
        return !text.empty() && text.size() <= 15 && text[0] != '0' &&
               text.find_first_not_of("0123456789") == text.npos;
      };
      if (node.IsScalar() && dot != node.text.npos &&
          digits(std::string_view(node.text).substr(0, dot)) &&
          digits(std::string_view(node.text).substr(dot + 1))) {
        return node.text;
      }
      findings.Error(node.mark, path,
                     "expected a trial such as 3.7, got " + Describe(node));
      return std::nullopt;
    }
    case KeyType::kUuid: {  // or its beginning, which may look like a number
      const std::size_t size = node.text.size();
      if (node.IsScalar() && size >= 4 && size <= 36 &&
          node.text.find_first_not_of("0123456789abcdef-") == node.text.npos) {
        return node.text;
      }
      findings.Error(node.mark, path,
                     "expected the UUID of a checkpoint or at least 4 "
                     "characters of it, got " +
                         Describe(node));
      return std::nullopt;
    }
    default:
      return std::nullopt;
  }
}

nlohmann::json ReadFreeValue(const Node& node, const std::string& path,
                             Findings& findings) {
  if (node.is_list()) {
    auto list = nlohmann::json::array();
    for (const Node& item : node.items) {
      list.push_back(ReadFreeValue(
          item, path + '[' + std::to_string(list.size()) + ']', findings));
    }
    return list;
  }
  if (node.is_map()) {
    auto map = nlohmann::json::object();
    for (const Node::Entry& entry : node.entries) {
      map[entry.key] =
          ReadFreeValue(entry.value, JoinPath(path, entry.key), findings);
    }
    return map;
  }
  const bool number =
      node.kind == Node::Kind::kDouble || node.kind == Node::Kind::kOverflow;
  if (!number || node.IsNumber()) return ToJson(node);
  findings.Error(node.mark, path,
                 "expected a finite number, got " + Describe(node) +
                     "; quote it if it is a string");
  return nullptr;
}

std::optional<std::int64_t> ReadInteger(const Node& node,
                                        const std::string& path,
                                        std::int64_t least, std::int64_t most,
                                        Findings& findings) {
  const bool valid = node.kind == Node::Kind::kInt && node.integer >= least &&
                     node.integer <= most;
  if (valid) return node.integer;
  const std::string low = std::to_string(least);
  const std::string bounds =
      most >= kMaxCount && least > -kMaxCount
          ? "of at least " + low
          : "from " + low + " to " + std::to_string(most);
  ReportType(node, path, "an integer " + bounds, findings);
  return std::nullopt;
}

void ReportType(const Node& node, const std::string& path,
                const std::string& what, Findings& findings) {
  std::string message = "expected " + what + ", got " + Describe(node);
  const bool wants_integer = what.find("integer") != what.npos;
  const bool wants_text = what.find("string") != what.npos;
  const bool wants_plain = wants_integer || what.find("number") != what.npos ||
                           what.find("true") != what.npos;
  if (node.is_string() && wants_plain) {
    const bool quoted = !PlainScalar(node.text).is_string();
    if (quoted && !node.text.empty()) message += "; remove the quotes";
  } else if (what.starts_with("a list") && node.IsScalar()) {
    message += "; put it in brackets";
  } else if (wants_text && node.IsScalar()) {
    message += "; quote it";
  } else if (wants_integer && node.IsNumber() &&
             node.kind == Node::Kind::kDouble &&
             node.number == std::floor(node.number) &&
             std::abs(node.number) < 1e15) {
    message +=
        "; write " + std::to_string(static_cast<std::int64_t>(node.number));
  }
  findings.Error(node.mark, path, message);
}

}  // namespace dtrain
