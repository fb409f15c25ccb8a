// The key `metrics`: where the metrics of a program are found. Its map holds
// settings and names of metrics side by side. IsSetting tells them apart; every
// other name is a metric of the user.
//
// The settings decide the kind of source (SourceKind), and the kind decides
// what the texts are: regular expressions for printed lines, names of columns
// for a file, tags for event files. Expressions are compiled here by RE2, the
// library that later searches with them: an expression that cannot be compiled
// must not fail the first trial, hours later in a queue.

#include "engine/config/metric_source.h"

#include <algorithm>
#include <array>
#include <filesystem>
#include <string>
#include <string_view>
#include <vector>

#include <re2/re2.h>

#include "engine/base/text.h"
#include "engine/config/entrypoint.h"
#include "engine/config/value_reader.h"

namespace dtrain {
namespace {

constexpr std::string_view kMetricsKey = "metrics";
constexpr std::size_t kMaxExpression = 1000;
constexpr std::size_t kMaxMetricName = 1000;
constexpr std::size_t kMaxMetrics = 100;

// A text with the name first_value is a metric in experiments that were
// recorded before that was a setting.
bool IsSetting(std::string_view name, bool is_text) {
  constexpr std::array<std::string_view, 5> kSettings = {
      "file", "tensorboard", "step", "step_end", "first_step"};
  if (name == "first_value") return !is_text;
  return std::ranges::find(kSettings, name) != kSettings.end();
}

// Source of the texts that the settings describe.
enum class SourceKind { kPrinted, kFile, kEvents };

bool IsGivenIn(const Node& node, std::string_view name) {
  const Node* value = node.Find(name);
  return value != nullptr && !value->is_null();
}

SourceKind FindSourceKind(const Node& node) {
  if (IsGivenIn(node, "file")) return SourceKind::kFile;
  return IsGivenIn(node, "tensorboard") ? SourceKind::kEvents
                                        : SourceKind::kPrinted;
}

// Returns what is wrong with a regular expression, or "".
std::string CheckExpression(const std::string& expression) {
  if (expression.size() > kMaxExpression) {
    return "has " + std::to_string(expression.size()) + " bytes; use at most " +
           std::to_string(kMaxExpression);
  }
  RE2::Options options;
  options.set_log_errors(false);
  const RE2 compiled(expression, options);
  if (!compiled.ok()) {
    return "'" + expression +
           "' is not a regular expression: " + compiled.error() +
           "; write it as RE2 does, in single quotes";
  }
  const int groups = compiled.NumberOfCapturingGroups();
  if (groups == 1) return "";
  if (groups == 0) {
    return "'" + expression +
           "' has no group; put parentheses around the number, such as "
           "'val_acc=(\\S+)'";
  }
  return "'" + expression + "' has " + std::to_string(groups) +
         " groups; write (?:...) for all but that of the number";
}

// Returns what is wrong with a path in the working directory of a trial, which
// no other trial has, or "".
std::string ProblemOfPath(const std::filesystem::path& path, bool is_file) {
  const bool inside =
      path.is_relative() &&
      std::ranges::none_of(path, [](const auto& part) { return part == ".."; });
  if (!inside) {
    return "'" + path.string() +
           "' is outside the working directory, so trials would share it; "
           "write a relative path, and let the program write it there or in "
           "{directory}";
  }
  const auto ending = path.extension();
  if (!is_file || ending == ".csv" || ending == ".jsonl" ||
      ending == ".ndjson" || ending == ".json") {
    return "";
  }
  return "'" + path.string() +
         "' has an unknown kind; name a file of JSON lines, .jsonl, or .csv";
}

// Returns the path without `{directory}/`, which is the working directory.
std::string RelativePath(const std::string& text) {
  constexpr std::string_view kWorkingDirectory = "{directory}/";
  return text.starts_with(kWorkingDirectory)
             ? text.substr(kWorkingDirectory.size())
             : text;
}

std::string ProblemOfEntry(const Node::Entry& entry, SourceKind kind) {
  const std::string& text = entry.value.text;
  if (text.empty()) return "is empty; write a non-empty string";
  if (entry.key == "file" || entry.key == "tensorboard") {
    return ProblemOfPath(RelativePath(text), entry.key == "file");
  }
  if (kind == SourceKind::kPrinted || text.size() > kMaxExpression) {
    return CheckExpression(text);
  }
  return "";
}

// Reads one entry; nothing, with a finding, if it is invalid.
std::optional<nlohmann::json> ReadMetricEntry(const Node::Entry& entry,
                                              SourceKind kind,
                                              Findings& findings) {
  const std::string path = JoinPath(kMetricsKey, entry.key);
  const Node& value = entry.value;
  if (entry.key.empty() || entry.key.size() > kMaxMetricName) {
    findings.Error(entry.mark, path,
                   "the name of a metric must have 1 to " +
                       std::to_string(kMaxMetricName) + " bytes");
    return std::nullopt;
  }
  if (entry.key == "first_step") {
    const auto step = ReadInteger(value, path, 0, 1, findings);
    if (!step) return std::nullopt;
    return *step;
  }
  if (entry.key == "first_value" &&
      !(value.is_string() && ProblemOfEntry(entry, kind).empty())) {
    if (value.kind == Node::Kind::kBool) return value.boolean;
    ReportType(value, path, "true or false", findings);
    return std::nullopt;
  }
  if (!value.is_string()) {
    ReportType(value, path,
               kind == SourceKind::kPrinted ? "a regular expression as a string"
                                            : "a string",
               findings);
    return std::nullopt;
  }
  const std::string problem = ProblemOfEntry(entry, kind);
  if (problem.empty()) return RelativePath(value.text);
  findings.Error(value.mark, path, problem);
  return std::nullopt;
}

// Reports keys that cannot be combined.
void CheckSettings(const Node& node, Findings& findings) {
  const SourceKind kind = FindSourceKind(node);
  const auto refuse = [&](const std::string& name, const std::string& why) {
    findings.Error(node.Find(name)->mark, JoinPath(kMetricsKey, name), why);
  };
  const bool has_step = IsGivenIn(node, "step");
  const bool has_end = IsGivenIn(node, "step_end");
  if (IsGivenIn(node, "file") && IsGivenIn(node, "tensorboard")) {
    refuse("tensorboard", "cannot be combined with metrics.file; keep one");
  }
  if (has_end && kind != SourceKind::kPrinted) {
    refuse("step_end", "only applies to metrics in the output; remove it");
  } else if (has_end && has_step) {
    refuse("step_end",
           "cannot be combined with metrics.step; write the one that matches "
           "lines before (step) or after (step_end) the values of a step");
  }
  if (has_step && kind == SourceKind::kEvents) {
    refuse("step",
           "does not apply to event files, which have steps; remove it");
  }
  if (kind == SourceKind::kPrinted && IsGivenIn(node, "first_step") &&
      !has_step && !has_end) {
    refuse("first_step",
           "only applies to metrics.step and metrics.step_end; add one of "
           "them");
  }
  const Node* first = node.Find("first_value");
  if (kind == SourceKind::kPrinted && first != nullptr && !first->is_string() &&
      !first->is_null() && !has_step) {
    refuse("first_value",
           has_end ? "only applies to metrics.step: metrics.step_end ends a "
                     "step at once; remove it"
                   : "only applies to metrics.step; add that, or remove it");
  }
}

// Reports a metric of the search that is not among those that are found.
void RequireMetric(const Node& root, const std::string& section,
                   const nlohmann::json& effective, Findings& findings) {
  const nlohmann::json& metric = effective.at(section).at("metric");
  if (!metric.is_string()) return;
  std::vector<std::string> names;
  for (const auto& [name, value] : effective.at(kMetricsKey).items()) {
    if (!IsSetting(name, value.is_string())) names.push_back(name);
  }
  const auto searcher_metric = metric.get<std::string>();
  // Without names, every column of the file is a metric.
  if (names.empty() || std::ranges::find(names, searcher_metric) != names.end())
    return;
  const Node* keys = root.Find(section);
  const Node* given = keys == nullptr ? nullptr : keys->Find("metric");
  const std::string hint = DidYouMean(searcher_metric, names);
  findings.Error(
      given != nullptr ? given->mark : root.Find(kMetricsKey)->mark,
      JoinPath(section, "metric"),
      "'" + searcher_metric + "' is not among the keys of metrics, " +
          Join(names, ", ") + (hint.empty() ? "; add it there" : hint));
}

}  // namespace

std::optional<nlohmann::json> ReadMetricSource(const Node& node,
                                               Findings& findings) {
  const std::string path(kMetricsKey);
  if (!node.is_map()) {
    ReportType(node, path,
               "a map such as {val_acc: 'val_acc=(\\S+)'} or {file: "
               "metrics.jsonl}",
               findings);
    return std::nullopt;
  }
  const SourceKind kind = FindSourceKind(node);
  auto source = nlohmann::json::object();
  std::size_t metrics = 0;
  bool valid = true;
  for (const Node::Entry& entry : node.entries) {
    if (entry.value.is_null()) continue;
    const auto value = ReadMetricEntry(entry, kind, findings);
    if (!IsSetting(entry.key, entry.value.is_string())) ++metrics;
    valid = valid && value;
    if (value) source[entry.key] = *value;
  }
  const bool needs_names = kind != SourceKind::kFile;
  if ((metrics == 0 && needs_names) || metrics > kMaxMetrics) {
    const std::string example =
        kind == SourceKind::kEvents ? "val/acc" : "'val_acc=(\\S+)'";
    findings.Error(node.mark, path,
                   metrics == 0
                       ? "names no metric; add one, such as val_acc: " + example
                       : "has " + std::to_string(metrics) +
                             " metrics; use at most " +
                             std::to_string(kMaxMetrics));
    valid = false;
  }
  CheckSettings(node, findings);
  if (!valid) return std::nullopt;
  return source;
}

void CheckMetricSource(const Node& root, const nlohmann::json& effective,
                       Findings& findings) {
  if (effective.at(kMetricsKey).is_null()) return;
  if (effective.at("entrypoint").is_string()) {
    findings.Error(root.Find(kMetricsKey)->mark, std::string(kMetricsKey),
                   "is for programs, and the entrypoint is a model, which "
                   "reports its metrics itself; remove it");
    return;
  }
  const nlohmann::json& metrics = effective.at(kMetricsKey);
  const auto first = metrics.find("first_value");
  if (first != metrics.end() && first->is_string() &&
      effective.at("rules") >= 2) {
    findings.Error(root.Find(kMetricsKey)->Find("first_value")->mark,
                   "metrics.first_value",
                   "expected true or false, got the string '" +
                       first->get<std::string>() +
                       "'; a metric cannot have the name of this setting");
  }
  RequireMetric(root, "searcher", effective, findings);
  if (!effective.at("early_stopping").is_null()) {
    RequireMetric(root, "early_stopping", effective, findings);
  }
}

void StoreMetrics(const nlohmann::json& json, ExperimentConfig& config) {
  if (json.is_null()) return;
  MetricSource& source = config.metrics.emplace();
  for (const auto& [name, value] : json.items()) {
    if (name == "first_step") {
      source.first_step = value.get<std::int64_t>();
    } else if (value.is_boolean()) {
      source.first_value = value.get<bool>();
    } else {
      std::string& text = name == "file"          ? source.file
                          : name == "tensorboard" ? source.tensorboard
                          : name == "step"        ? source.step
                          : name == "step_end"    ? source.step_end
                                                  : source.names[name];
      text = value.get<std::string>();
    }
  }
}

}  // namespace dtrain
