// Hyperparameters are read in three steps: each range by itself, then the
// requirements of the searcher (a grid needs counts, a single trial warns about
// ranges), then the points of `searcher.points`, which must be inside the
// ranges, and the constraints, of which the share of points that meet them is
// estimated. Conditions are checked when all ranges are known. A range that
// failed in the first step is not reported again.
//
// The checks work on the tree of the YAML, not on the JSON that they return,
// since only the tree has the places of values. So a few rules exist twice,
// here for messages and in searchers/hparam_space.cc for sampling.

#include "engine/config/hyperparameters.h"

#include <algorithm>
#include <cmath>
#include <limits>
#include <map>
#include <optional>
#include <set>
#include <span>
#include <string>
#include <tuple>
#include <vector>

#include "engine/base/error.h"
#include "engine/base/json.h"
#include "engine/base/rng.h"
#include "engine/base/rounding.h"
#include "engine/base/text.h"
#include "engine/config/schema.h"
#include "engine/config/value_reader.h"
#include "searchers/hparam_conditions.h"
#include "searchers/hparam_constraints.h"
#include "searchers/hparam_grid.h"
#include "searchers/hparam_space.h"
#include "searchers/number_range.h"

namespace dtrain {
namespace {

// Copies of the condition of a group, in values.
constexpr std::size_t kMaxGroupValues = 1'000'000;

std::size_t CountNodes(const Node& node) {
  std::size_t count = 1;
  for (const Node& item : node.items) count += CountNodes(item);
  for (const Node::Entry& entry : node.entries)
    count += CountNodes(entry.value);
  return count;
}

// Reads one hyperparameter that has a `type`: checks its keys and values.
class RangeReader {
 public:
  RangeReader(const Node& node, std::string path, Findings& findings)
      : node_(node), path_(std::move(path)), findings_(findings) {}

  nlohmann::json Read();

 private:
  void ReadGroup();
  void ReadInt();
  void ReadDouble();
  void ReadNormal();
  void ReadLog();
  bool ReadScale();
  std::optional<bool> ReadSwitch(const char* name);
  void CheckAboveZero(const Node* bound, const char* name);
  void ReadStep(const Node* low, const Node* high);
  void ReadCount();
  void RefuseOthers(std::vector<std::string> known);
  const Node* FindGiven(const char* name) const;
  const Node* Need(const char* name);
  const Node* NeedNumber(const char* name);
  bool CheckOrder(const Node* low, const Node* high);
  std::string At(const char* name) const { return JoinPath(path_, name); }

  const Node& node_;
  std::string path_;
  Findings& findings_;
  nlohmann::json out_ = nlohmann::json::object();
};

// Returns the values of one name in a condition: a list, or bounds.
nlohmann::json ReadConditionValues(const Node& node, const std::string& path,
                                   Findings& findings) {
  if (!node.is_map()) {
    if (node.is_list() && node.items.empty()) {
      findings.Error(node.mark, path, "is empty; add a value");
    }
    nlohmann::json value = ReadFreeValue(node, path, findings);
    return node.is_list() ? value : nlohmann::json::array({std::move(value)});
  }
  nlohmann::json bounds = nlohmann::json::object();
  for (const Node::Entry& entry : node.entries) {
    const std::string place = JoinPath(path, entry.key);
    if (entry.key != "minval" && entry.key != "maxval") {
      findings.UnknownKey(entry.mark, place, entry.key,
                          std::vector<std::string>{"minval", "maxval"});
    } else if (!entry.value.IsNumber()) {
      ReportType(entry.value, place, "a finite number", findings);
    } else {
      bounds[entry.key] = ToJson(entry.value);
    }
  }
  if (node.entries.empty()) {
    findings.Error(node.mark, path, "is empty; add minval, maxval or both");
  } else if (bounds.size() == 2 && bounds["minval"] > bounds["maxval"]) {
    findings.Error(node.mark, path,
                   "holds for no value: minval is above maxval");
  }
  return bounds;
}

nlohmann::json ReadWhen(const Node& node, const std::string& path,
                        Findings& findings) {
  if (node.is_list() && !node.items.empty()) {
    nlohmann::json all = nlohmann::json::array();
    for (const Node& one : node.items) {
      all.push_back(ReadWhen(one, path, findings));
    }
    return all;
  }
  nlohmann::json when = nlohmann::json::object();
  if (!node.is_map() || node.entries.empty()) {
    ReportType(node, path,
               "a map of hyperparameters and their values, such as "
               "{optimizer: sgd} or {layers: {minval: 3}}",
               findings);
    return when;
  }
  for (const Node::Entry& entry : node.entries) {
    when[entry.key] =
        ReadConditionValues(entry.value, JoinPath(path, entry.key), findings);
  }
  return when;
}

nlohmann::json RangeReader::Read() {
  const Node& type = *node_.Find("type");
  out_["type"] = type.text;
  if (type.text == "const" && type.is_string()) {
    RefuseOthers({"type", "val"});
    if (const Node* val = Need("val")) {
      out_["val"] = ReadFreeValue(*val, At("val"), findings_);
    }
  } else if (type.text == "int" && type.is_string()) {
    ReadInt();
  } else if (type.text == "double" && type.is_string()) {
    ReadDouble();
  } else if (type.text == "log" && type.is_string()) {
    ReadLog();
  } else if (type.text == "normal" && type.is_string()) {
    ReadNormal();
  } else if (type.text == "categorical" && type.is_string()) {
    RefuseOthers({"type", "vals", "ordered"});
    if (const auto ordered = ReadSwitch("ordered")) out_["ordered"] = *ordered;
    if (const Node* vals = Need("vals"); vals == nullptr) {
      // reported
    } else if (!vals->is_list()) {
      ReportType(*vals, At("vals"), "a list", findings_);
    } else if (vals->items.empty()) {
      findings_.Error(vals->mark, At("vals"), "is empty; add a value");
    } else {
      out_["vals"] = ReadFreeValue(*vals, At("vals"), findings_);
    }
  } else if (type.text == "map" && type.is_string()) {
    ReadGroup();
    return out_;
  } else {
    const std::vector<std::string> types = {"const", "int",    "double",
                                            "log",   "normal", "categorical"};
    const std::string hint =
        type.is_string() ? NearestName(type.text, types) : "";
    findings_.Error(
        type.mark, At("type"),
        "expected const, int, double, log, normal or categorical, got " +
            Describe(type) +
            (hint.empty() ? "; a nested map cannot have a key 'type'"
                          : "; did you mean '" + hint + "'?"));
    return out_;
  }
  const Node* when = FindGiven("when");
  if (when != nullptr) out_["when"] = ReadWhen(*when, At("when"), findings_);
  const Node* otherwise = node_.Find("else");
  if (otherwise != nullptr && when == nullptr) {
    findings_.Error(otherwise->mark, At("else"),
                    "is the value where the condition 'when' does not hold; "
                    "add when, or remove else");
  } else if (otherwise != nullptr) {
    out_["else"] = ReadFreeValue(*otherwise, At("else"), findings_);
  }
  return out_;
}

// Reports what is wrong with a group that ExpandGroups has left.
void RangeReader::ReadGroup() {
  const int before = findings_.errors();
  for (const Node::Entry& entry : node_.entries) {
    const std::string& key = entry.key;
    if (key == "type" || key == "when" || key == "of") continue;
    findings_.Error(entry.mark, At(key.c_str()),
                    key == "else" ? "a group has no else; write it for each "
                                    "hyperparameter in 'of'"
                                  : "unknown key; a group has when and of, and "
                                    "its hyperparameters are in 'of'");
  }
  if (const Node* when = FindGiven("when")) {
    ReadWhen(*when, At("when"), findings_);
  } else {
    findings_.Error(node_.mark, At("when"),
                    "required but missing; add it, or write a nested map "
                    "without type");
  }
  if (const Node* of = Need("of"); of != nullptr) {
    if (!of->is_map() || of->entries.empty()) {
      ReportType(*of, At("of"), "a map of hyperparameters", findings_);
    }
  }
  if (findings_.errors() == before) {
    findings_.Error(node_.mark, path_,
                    "has too many hyperparameters for so large a condition; "
                    "make several groups, or a shorter condition");
  }
}

void RangeReader::ReadInt() {
  RefuseOthers({"type", "minval", "maxval", "log", "step", "count"});
  const Node* low = Need("minval");
  const Node* high = Need("maxval");
  bool valid = low != nullptr && high != nullptr;
  const auto read = [&](const Node* bound, const char* name) {
    if (bound == nullptr) return;
    const auto value =
        ReadInteger(*bound, At(name), -kMaxCount, kMaxCount, findings_);
    valid = valid && value;
    if (value) out_[name] = *value;
  };
  read(low, "minval");
  read(high, "maxval");
  if (valid) valid = CheckOrder(low, high);
  if (ReadScale() && valid) CheckAboveZero(low, "minval");
  ReadStep(valid ? low : nullptr, high);
  ReadCount();
}

void RangeReader::ReadDouble() {
  RefuseOthers({"type", "minval", "maxval", "log", "step", "count"});
  const Node* low = NeedNumber("minval");
  const Node* high = NeedNumber("maxval");
  bool valid = CheckOrder(low, high);
  if (valid && !std::isfinite(high->number - low->number)) {
    findings_.Error(high->mark, At("maxval"),
                    "is too far from minval; use a smaller range");
    valid = false;
  }
  if (ReadScale()) CheckAboveZero(low, "minval");
  ReadStep(valid ? low : nullptr, high);
  ReadCount();
}

void RangeReader::ReadNormal() {
  RefuseOthers({"type", "mean", "std", "minval", "maxval", "log", "count"});
  const int before = findings_.errors();
  NeedNumber("mean");
  const Node* deviation = NeedNumber("std");
  if (deviation != nullptr && deviation->number <= 0) {
    findings_.Error(deviation->mark, At("std"),
                    "expected a number above 0, got " + deviation->text);
  }
  const bool log = ReadScale();
  const Node* low = FindGiven("minval");
  const Node* high = FindGiven("maxval");
  if (low != nullptr) low = NeedNumber("minval");
  if (high != nullptr) high = NeedNumber("maxval");
  if (log) CheckAboveZero(low, "minval");
  if (log) CheckAboveZero(high, "maxval");
  if (low != nullptr && high != nullptr) CheckOrder(low, high);
  ReadCount();
  if (findings_.errors() != before) return;
  const NormalRange range(out_);
  if (range.empty()) {
    const Node* bound = low != nullptr ? low : high;
    findings_.Error(bound->mark, At(low != nullptr ? "minval" : "maxval"),
                    "leaves no values: the distribution has none this far "
                    "from mean; move the bounds, or mean");
  } else if (!range.IsRepresentable()) {
    findings_.Error(deviation->mark, At("std"),
                    std::string("gives values that no number can represent; ") +
                        (log ? "mean and std are those of the natural "
                               "logarithm: write -4.6 for 0.01, or add bounds"
                             : "use a smaller one"));
  }
}

// `log: true`, as Optuna has it: minval and maxval are values. Returns whether
// it is true.
bool RangeReader::ReadScale() {
  const bool log = ReadSwitch("log").value_or(false);
  if (log) out_["log"] = true;
  return log;
}

// Returns true or false; nothing if the key is not given or is neither.
std::optional<bool> RangeReader::ReadSwitch(const char* name) {
  const Node* given = FindGiven(name);
  if (given == nullptr) return std::nullopt;
  if (given->kind == Node::Kind::kBool) return given->boolean;
  ReportType(*given, At(name), "true or false", findings_);
  return std::nullopt;
}

void RangeReader::CheckAboveZero(const Node* bound, const char* name) {
  if (bound == nullptr || bound->number > 0) return;
  findings_.Error(
      bound->mark, At(name),
      "expected a number above 0 with log: true, got " + bound->text);
}

// Reads `step`. `low`: null if the bounds are invalid.
void RangeReader::ReadStep(const Node* low, const Node* high) {
  const Node* step = FindGiven("step");
  if (step == nullptr) return;
  const std::string at = At("step");
  const bool whole = out_["type"] == "int";
  const bool valid = whole ? step->kind == Node::Kind::kInt : step->IsNumber();
  if (!valid || step->number <= 0) {
    return ReportType(*step, at,
                      whole ? "an integer of at least 1" : "a number above 0",
                      findings_);
  }
  if (out_.contains("log")) {
    findings_.Error(step->mark, at,
                    "cannot be combined with log: true; list the values: "
                    "{type: categorical, vals: [16, 32, 64]}");
    return;
  }
  if (const Node* count = FindGiven("count")) {
    findings_.Error(count->mark, At("count"),
                    "cannot be combined with step, which says how many values "
                    "there are; remove one of them");
    return;
  }
  if (low == nullptr) return;
  if (step->number > high->number - low->number) {
    findings_.Error(step->mark, at,
                    "is larger than the range from " + low->text + " to " +
                        high->text + "; use a smaller step");
    return;
  }
  constexpr double kMaxSteps = 1e15;
  if ((high->number - low->number) / step->number > kMaxSteps) {
    findings_.Error(step->mark, at,
                    "is too small for the range; use a larger step, or none");
    return;
  }
  out_["step"] = ToJson(*step);
  const SteppedRange range(out_);
  const nlohmann::json last = range.At(range.last());
  if (last.get<double>() >= high->number) return;
  findings_.Warning(high->mark, At("maxval"),
                    "is not a step of " + step->text + " from " + low->text +
                        "; the largest value is " +
                        FormatNumber(last.get<double>()));
}

void RangeReader::ReadLog() {
  RefuseOthers({"type", "base", "minval", "maxval", "count"});
  const Node* low = NeedNumber("minval");
  const Node* high = NeedNumber("maxval");
  const bool ordered = CheckOrder(low, high);
  const Node* base = FindGiven("base");
  ReadCount();
  out_["base"] = 10;
  if (base != nullptr) {
    if (!base->IsNumber() || base->number <= 0 || base->number == 1) {
      ReportType(*base, At("base"), "a number above 0 that is not 1",
                 findings_);
      return;
    }
    out_["base"] = ToJson(*base);
  }
  if (!ordered) return;
  const auto power = [&](const Node* exponent, const char* name) {
    // A subnormal result has lost digits and is refused like 0 and infinity.
    const double value = std::pow(out_["base"].get<double>(), exponent->number);
    if (std::isnormal(value)) return;
    findings_.Error(exponent->mark, At(name),
                    "base^" + exponent->text +
                        " is out of range; minval and maxval are exponents: "
                        "write -4 for 0.0001 with base 10");
  };
  const int before = findings_.errors();
  power(low, "minval");
  power(high, "maxval");
  if (findings_.errors() > before) return;
  // Bounds that look like values: 0.0001 to 0.1, or 16 to 256.
  constexpr double kLargestLikely = 1e20;
  const double from = std::pow(out_["base"].get<double>(), low->number);
  const double to = std::pow(out_["base"].get<double>(), high->number);
  const bool fractions = low->number > 0 && low->number < 1;
  if (!fractions && std::max(from, to) < kLargestLikely) return;
  findings_.Warning(
      low->mark, At("minval"),
      "minval and maxval are exponents of base " + out_["base"].dump() +
          ", so the values are from " + FormatRounded(std::min(from, to), 4) +
          " to " + FormatRounded(std::max(from, to), 4) + "; for values from " +
          low->text + " to " + high->text + " write {type: double, minval: " +
          low->text + ", maxval: " + high->text + ", log: true}");
}

void RangeReader::ReadCount() {
  const Node* count = FindGiven("count");
  if (count == nullptr) return;
  const auto value = ReadInteger(*count, At("count"), 1, kMaxCount, findings_);
  if (value) out_["count"] = *value;
}

void RangeReader::RefuseOthers(std::vector<std::string> known) {
  known.insert(known.end(), {"when", "else"});
  for (const Node::Entry& entry : node_.entries) {
    if (std::find(known.begin(), known.end(), entry.key) != known.end()) {
      continue;
    }
    // Names of other tools, and keys that only some types have.
    std::string hint;
    if (entry.key == "step" || entry.key == "log") {
      hint = entry.key == "step" ? "type: int and double have step"
                                 : "type: int, double and normal have log";
    } else if (entry.key == "ordered") {
      hint = "type: categorical has ordered";
    } else if (entry.key == "q") {
      hint = "write step";
    } else if (entry.key == "mu" || entry.key == "loc") {
      hint = "write mean";
    } else if (entry.key == "sigma" || entry.key == "sd" ||
               entry.key == "scale" || entry.key == "stddev") {
      hint = "write std";
    }
    if (hint.empty()) {
      findings_.UnknownKey(entry.mark, JoinPath(path_, entry.key), entry.key,
                           known);
    } else {
      findings_.Error(entry.mark, JoinPath(path_, entry.key),
                      "unknown key; " + hint);
    }
  }
}

// Returns the value of a key; null if there is none.
const Node* RangeReader::FindGiven(const char* name) const {
  const Node* found = node_.Find(name);
  return found == nullptr || found->is_null() ? nullptr : found;
}

const Node* RangeReader::Need(const char* name) {
  const Node* found = node_.Find(name);
  if (found == nullptr) {
    findings_.Error(node_.mark, At(name), "required but missing; add it");
  }
  return found;
}

const Node* RangeReader::NeedNumber(const char* name) {
  const Node* found = Need(name);
  if (found == nullptr) return nullptr;
  if (!found->IsNumber()) {
    ReportType(*found, At(name), "a finite number", findings_);
    return nullptr;
  }
  out_[name] = ToJson(*found);
  return found;
}

bool RangeReader::CheckOrder(const Node* low, const Node* high) {
  if (low == nullptr || high == nullptr) return false;
  if (low->number < high->number) return true;
  findings_.Error(
      high->mark, At("maxval"),
      "expected a value above minval (" + low->text + "), got " + high->text);
  return false;
}

nlohmann::json ReadMember(const Node& node, const std::string& path,
                          Findings& findings) {
  if (!node.is_map()) return ReadFreeValue(node, path, findings);
  if (node.Find("type") != nullptr) {
    return RangeReader(node, path, findings).Read();
  }
  // A map without a type is a nested map of constants, which its author may
  // have meant as a range.
  const bool range = node.Find("minval") && node.Find("maxval");
  if (range || node.Find("vals")) {
    findings.Warning(node.mark, path,
                     std::string("has ") +
                         (range ? "minval and maxval" : "vals") +
                         ", but no type, and so is not searched; add type: " +
                         (range ? "int, double or log" : "categorical"));
  }
  auto map = nlohmann::json::object();
  for (const Node::Entry& entry : node.entries) {
    map[entry.key] =
        ReadMember(entry.value, JoinPath(path, entry.key), findings);
  }
  return map;
}

// Checks the batch size, which every model reads.
void CheckBatchSize(const Node& node, const std::string& path,
                    Findings& findings) {
  const Node* size = node.Find("global_batch_size");
  if (size == nullptr || size->is_list() || size->is_null()) return;
  const std::string place = JoinPath(path, "global_batch_size");
  if (size->IsScalar()) {
    ReadInteger(*size, place, 1, kMaxCount, findings);
    return;
  }
  const Node* low = size->Find("minval");
  const Node* type = size->Find("type");
  if (low != nullptr && type != nullptr && type->text == "int" &&
      low->kind == Node::Kind::kInt && low->integer < 1) {
    findings.Error(low->mark, JoinPath(place, "minval"),
                   "expected an integer of at least 1, got " + low->text);
  }
}

// Returns a scalar of a map that has a type.
Node::Entry MakeEntry(std::string key, Node value) {
  return {.key = std::move(key), .mark = value.mark, .value = std::move(value)};
}

// Adds the condition of a group to each hyperparameter of the map.
void AddCondition(const Node& when, Node& map) {
  for (Node::Entry& entry : map.entries) {
    Node& value = entry.value;
    const bool is_map = value.is_map() && !value.entries.empty();
    if (is_map && value.Find("type") == nullptr) {
      AddCondition(when, value);
      continue;
    }
    if (!is_map) {
      Node type{
          .kind = Node::Kind::kString, .mark = value.mark, .text = "const"};
      Node constant{.kind = Node::Kind::kMap, .mark = value.mark};
      constant.entries.push_back(MakeEntry("type", std::move(type)));
      constant.entries.push_back(MakeEntry("val", std::move(value)));
      value = std::move(constant);
    }
    Node* own = value.Find("when");
    if (own == nullptr) {
      value.entries.push_back(MakeEntry("when", when));
    } else if (own->is_null()) {
      *own = when;
    } else {
      Node both{.kind = Node::Kind::kList, .mark = own->mark};
      for (const Node* one : {static_cast<const Node*>(own), &when}) {
        if (one->is_list()) {
          both.items.insert(both.items.end(), one->items.begin(),
                            one->items.end());
        } else {
          both.items.push_back(*one);
        }
      }
      *own = std::move(both);
    }
  }
}

bool IsGroup(const Node& node) {
  const Node* type = node.Find("type");
  const Node* when = node.Find("when");
  const Node* of = node.Find("of");
  return type != nullptr && type->is_string() && type->text == "map" &&
         when != nullptr && (!when->entries.empty() || !when->items.empty()) &&
         of != nullptr && of->is_map() && !of->entries.empty() &&
         node.entries.size() == 3 &&
         CountNodes(*when) * CountNodes(*of) <= kMaxGroupValues;
}

}  // namespace

void ExpandGroups(Node& hyperparameters) {
  for (Node::Entry& entry : hyperparameters.entries) {
    Node& value = entry.value;
    if (IsGroup(value)) {
      Node members = *value.Find("of");
      ExpandGroups(members);
      AddCondition(*value.Find("when"), members);
      value = std::move(members);
    } else if (value.is_map() && value.Find("type") == nullptr) {
      ExpandGroups(value);
    }
  }
}

namespace {

// One hyperparameter of the map, with its dotted path. `type` is "const" also
// for a plain value.
struct Hyperparameter {
  const Node& node;
  std::string path;
  std::string_view type;
};

// Calls `visit` for every hyperparameter, nested maps included.
void VisitHyperparameters(const Node& node, const std::string& path,
                          const auto& visit) {
  for (const Node::Entry& entry : node.entries) {
    const std::string place = JoinPath(path, entry.key);
    if (!entry.value.is_map()) {
      visit(Hyperparameter{entry.value, place, "const"});
    } else if (const Node* type = entry.value.Find("type")) {
      visit(Hyperparameter{entry.value, place, type->text});
    } else {
      VisitHyperparameters(entry.value, place, visit);
    }
  }
}

constexpr std::string_view kHparamsPath = "hyperparameters";
constexpr std::string_view kConstraintsPath = "searcher.constraints";

// Checks the conditions of all hyperparameters. `space`: the result of reading
// `node`.
class ConditionCheck {
 public:
  ConditionCheck(const Node& node, const nlohmann::json& space,
                 Findings& findings)
      : space_(space), findings_(findings) {
    const int before = findings.errors();
    for (HparamName& one : HparamNames(space)) {
      names_.push_back(std::move(one.name));
    }
    VisitHyperparameters(
        node, std::string(kHparamsPath),
        [&](const Hyperparameter& parameter) { CheckOne(parameter); });
    if (findings.errors() > before) return;
    for (const auto& [name, when] : conditions_) {
      std::vector<std::string> path;
      if (FindCycle(name, path)) break;
    }
  }

 private:
  void CheckOne(const Hyperparameter& parameter) {
    const Node* when =
        parameter.node.is_map() ? parameter.node.Find("when") : nullptr;
    if (when == nullptr || when->is_null()) return;
    const std::string name = parameter.path.substr(kHparamsPath.size() + 1);
    conditions_.emplace(name, when);
    const Node* otherwise = parameter.node.Find("else");
    for (const auto* reserved :
         {"checkpoint", "directory", "length", "seed", "trial"}) {
      if (name != reserved || otherwise != nullptr) continue;
      findings_.Error(when->mark, JoinPath(parameter.path, "when"),
                      "'" + name + "' must not be absent, since {" + name +
                          "} in a command has a meaning of its own; add else, "
                          "or rename it");
    }
    const std::span<const Node> all = when->is_list()
                                          ? std::span<const Node>(when->items)
                                          : std::span<const Node>(when, 1);
    for (const Node& map : all) {
      for (const Node::Entry& entry : map.entries) {
        CheckName(name, entry,
                  JoinPath(JoinPath(parameter.path, "when"), entry.key));
      }
    }
  }

  void CheckName(const std::string& name, const Node::Entry& entry,
                 const std::string& path) {
    // The condition of a group is that of each of its hyperparameters.
    const Mark& mark = entry.mark;
    const bool is_new =
        seen_.insert({mark.override_index, mark.line, mark.column}).second;
    if (!is_new && mark.line > 0) return;
    if (entry.key == name || entry.key.starts_with(name + '.')) {
      findings_.Error(entry.mark, path,
                      "a condition cannot name its own hyperparameter");
      return;
    }
    if (std::ranges::find(names_, entry.key) == names_.end()) {
      const std::string inside = entry.key + '.';
      const auto member = std::ranges::find_if(
          names_, [&](const auto& one) { return one.starts_with(inside); });
      findings_.Error(
          entry.mark, path,
          "there is no hyperparameter '" + entry.key + "'" +
              (member != names_.end() ? "; it is a map: name one of its "
                                        "hyperparameters, such as " +
                                            *member
                                      : DidYouMean(entry.key, names_)));
      return;
    }
    WarnOfOtherValues(entry, path);
  }

  // Warns of values that a category never has. A constant may have been set for
  // a part of the search.
  void WarnOfOtherValues(const Node::Entry& entry, const std::string& path) {
    const nlohmann::json* range = FindMember(space_, entry.key);
    if (range == nullptr || !HasType(*range) ||
        range->at("type") != "categorical" || entry.value.is_map()) {
      return;
    }
    const nlohmann::json values = *HparamChoices(space_, entry.key);
    const std::span<const Node> wanted =
        entry.value.is_list() ? std::span<const Node>(entry.value.items)
                              : std::span<const Node>(&entry.value, 1);
    for (const Node& one : wanted) {
      if (std::ranges::find(values, ToJson(one)) != values.end()) continue;
      std::vector<std::string> texts;
      for (const nlohmann::json& value : values) {
        if (value.is_string()) texts.push_back(value);
      }
      findings_.Warning(
          one.mark, path,
          "'" + entry.key + "' is never " + Describe(one) +
              (one.is_string() ? DidYouMean(one.text, texts) : ""));
    }
  }

  // Reports a condition that depends on itself. `path`: the names before.
  bool FindCycle(const std::string& name, std::vector<std::string>& path) {
    const auto found = std::ranges::find_if(conditions_, [&](const auto& one) {
      return one.first == name || name.starts_with(one.first + '.');
    });
    if (found == conditions_.end() || finished_.contains(found->first)) {
      return false;
    }
    path.push_back(found->first);
    const bool closed = std::ranges::count(path, found->first) > 1;
    if (closed) {
      findings_.Error(found->second->mark,
                      JoinPath(JoinPath(kHparamsPath, found->first), "when"),
                      "conditions depend on each other: " + Join(path, ", "));
      return true;
    }
    const nlohmann::json when = FindMember(space_, found->first)->at("when");
    for (const std::string& before : NamesInCondition(when)) {
      if (FindCycle(before, path)) return true;
    }
    path.pop_back();
    finished_.insert(found->first);
    return false;
  }

  const nlohmann::json& space_;
  Findings& findings_;
  std::vector<std::string> names_;
  std::map<std::string, const Node*> conditions_;
  std::set<std::string> finished_;
  std::set<std::tuple<int, int, int>> seen_;  // places of names
};

}  // namespace

nlohmann::json ReadHyperparameters(const Node& node, Findings& findings) {
  const std::string path(kHparamsPath);
  if (!node.is_map()) {
    ReportType(node, path, "a map", findings);
    return nlohmann::json::object();
  }
  const int before = findings.errors();
  CheckBatchSize(node, path, findings);
  auto map = nlohmann::json::object();
  for (const Node::Entry& entry : node.entries) {
    map[entry.key] =
        ReadMember(entry.value, JoinPath(path, entry.key), findings);
  }
  if (findings.errors() == before) ConditionCheck(node, map, findings);
  return map;
}

namespace {

// Returns a·b, or the largest number if that overflows.
std::int64_t Times(std::int64_t a, std::int64_t b) {
  std::int64_t product = 0;
  if (__builtin_mul_overflow(a, b, &product)) {
    return std::numeric_limits<std::int64_t>::max();
  }
  return product;
}

// Returns the range in the form of searchers. REQUIRES: it is valid.
nlohmann::json ReadRange(const Node& node) {
  Findings discarded = Findings::Discarding();
  return RangeReader(node, "", discarded).Read();
}

void CheckGrid(const Node& node, const std::vector<std::string>& constraints,
               Findings& findings) {
  const int before = findings.errors();
  std::int64_t points = 1;
  std::int64_t most = 1;  // values of one hyperparameter
  // Not all combinations are points.
  bool is_conditional = !constraints.empty();
  VisitHyperparameters(
      node, "hyperparameters", [&](const Hyperparameter& parameter) {
        is_conditional =
            is_conditional ||
            (parameter.node.is_map() && parameter.node.Find("when") != nullptr);
        if (parameter.type == "const") return;
        const nlohmann::json range = ReadRange(parameter.node);
        const std::int64_t values = CountGridValues(range);
        const bool may_count = !range.contains("vals") &&
                               !range.contains("step") &&
                               !range.contains("count");
        if (values == 0 || (may_count && values > kMaxGridPoints)) {
          findings.Error(parameter.node.mark, parameter.path + ".count",
                         "required by the grid searcher; set the number of "
                         "values to try");
        } else {
          points = Times(points, values);
          most = std::max(most, values);
        }
      });
  if (findings.errors() > before) return;
  // Absent hyperparameters are not multiplied, nor what violates constraints.
  is_conditional = is_conditional && most <= kMaxGridPoints;
  if (is_conditional) {
    Findings discarded = Findings::Discarding();
    points = HparamGrid(ReadHyperparameters(node, discarded), kMaxGridPoints,
                        constraints)
                 .size();
  }
  if (points <= kMaxGridPoints) return;
  const bool huge =
      is_conditional || points == std::numeric_limits<std::int64_t>::max();
  if (is_conditional) points = kMaxGridPoints;
  if (!constraints.empty()) {
    findings.Error(node.mark, "hyperparameters",
                   "the grid has too many combinations to find the points that "
                   "meet searcher.constraints; lower the counts, or use "
                   "random");
    return;
  }
  findings.Error(node.mark, "hyperparameters",
                 "the grid has " + std::string(huge ? "more than " : "") +
                     std::to_string(points) + " points, at most " +
                     std::to_string(kMaxGridPoints) +
                     " are allowed; lower the counts, or use random");
}

}  // namespace

void CheckSearched(const Node& node, std::string_view searcher,
                   const std::vector<std::string>& constraints,
                   Findings& findings) {
  if (searcher == "grid") CheckGrid(node, constraints, findings);
  if (searcher != "single") return;
  VisitHyperparameters(
      node, "hyperparameters", [&](const Hyperparameter& parameter) {
        if (parameter.type == "const") return;
        findings.Warning(parameter.node.mark, parameter.path,
                         "the single searcher draws one value from this range; "
                         "write a value, or use another searcher");
      });
}

namespace {

void CheckNumber(const Node& value, const std::string& path, const Node& range,
                 Findings& findings) {
  const bool whole = range.Find("type")->text == "int";
  const nlohmann::json read = ReadRange(range);
  const auto bound = [&](const char* name) {
    return read.contains(name) ? range.Find(name) : nullptr;
  };
  const Node* low = bound("minval");
  const Node* high = bound("maxval");
  bool valid = whole ? value.kind == Node::Kind::kInt : value.IsNumber();
  valid = valid && (low == nullptr || value.number >= low->number) &&
          (high == nullptr || value.number <= high->number) &&
          (!IsLog(read) || value.number > 0);
  if (!valid) {
    std::string expected = whole ? "an integer" : "a number";
    if (low != nullptr) {
      expected += " from " + low->text;
    } else if (IsLog(read)) {
      expected += " above 0";
    }
    if (high != nullptr) expected += " to " + high->text;
    ReportType(value, path, expected, findings);
  } else if (read.contains("step") && !SteppedRange(read).Find(ToJson(value))) {
    findings.Error(value.mark, path,
                   "expected a multiple of " + range.Find("step")->text +
                       " above " + low->text + ", got " + value.text);
  }
}

void CheckValue(const Node& value, const std::string& path, const Node& range,
                Findings& findings) {
  const Node* type = range.is_map() ? range.Find("type") : nullptr;
  if (type == nullptr || type->text == "const") {
    if (ToJson(value) == ToJson(type ? *range.Find("val") : range)) return;
    findings.Error(value.mark, path,
                   "differs from the constant hyperparameter; remove it");
  } else if (type->text == "log") {
    const Node* base_node = range.Find("base");
    const bool given = base_node != nullptr && !base_node->is_null();
    const double base = given ? base_node->number : 10;
    const double one = std::pow(base, range.Find("minval")->number);
    const double other = std::pow(base, range.Find("maxval")->number);
    // Allow for rounding at the ends.
    const double low = std::min(one, other) * (1 - 1e-12);
    const double high = std::max(one, other) * (1 + 1e-12);
    const bool valid =
        value.IsNumber() && value.number >= low && value.number <= high;
    if (valid) return;
    ReportType(value, path,
               "a number from base^" + range.Find("minval")->text +
                   " to base^" + range.Find("maxval")->text,
               findings);
  } else if (type->text == "categorical") {
    const nlohmann::json json = ToJson(value);
    const nlohmann::json vals = ToJson(*range.Find("vals"));
    if (std::find(vals.begin(), vals.end(), json) != vals.end()) return;
    findings.Error(value.mark, path,
                   "expected one of vals, got " + Describe(value));
  } else {
    CheckNumber(value, path, range, findings);
  }
}

bool IsNested(const Node& node) {
  return node.is_map() && node.Find("type") == nullptr;
}

void CheckPoint(const Node& point, const std::string& path, const Node& space,
                Findings& findings) {
  std::vector<std::string> names;
  for (const Node::Entry& entry : space.entries) names.push_back(entry.key);
  for (const Node::Entry& entry : point.entries) {
    const std::string place = JoinPath(path, entry.key);
    const Node* range = space.Find(entry.key);
    if (range == nullptr) {
      findings.UnknownKey(entry.mark, place, entry.key, names);
    } else if (!IsNested(*range)) {
      CheckValue(entry.value, place, *range, findings);
    } else if (!entry.value.is_map()) {
      ReportType(entry.value, place, "a map", findings);
    } else {
      CheckPoint(entry.value, place, *range, findings);
    }
  }
}

// Reports values of hyperparameters that are absent by other values of the same
// point, or by constants.
void CheckPresence(const Node& point, const std::string& path,
                   const nlohmann::json& space, Findings& findings) {
  nlohmann::json known = nlohmann::json::object();
  const auto add = [&](const auto& self, const nlohmann::json& map,
                       nlohmann::json& constants) -> void {
    for (const auto& [name, value] : map.items()) {
      if (HasType(value)) {
        const bool is_constant =
            value.at("type") == "const" && !value.contains("when");
        if (is_constant) constants[name] = value.at("val");
      } else if (value.is_object() && !value.empty()) {
        self(self, value, constants[name] = nlohmann::json::object());
      } else {
        constants[name] = value;
      }
    }
  };
  add(add, space, known);
  known.merge_patch(ToJson(point));
  const HparamConditions conditions(space);
  for (const auto& one : conditions.conditional()) {
    const Node* value = &point;
    for (const std::string& name : one.path) {
      value = value == nullptr ? nullptr : value->Find(name);
    }
    if (value == nullptr) continue;
    const nlohmann::json& all = one.when;
    for (const nlohmann::json& when :
         all.is_array() ? all : nlohmann::json::array({all})) {
      for (const auto& [name, values] : when.items()) {
        const nlohmann::json* decides = FindMember(known, name);
        nlohmann::json one_name = nlohmann::json::object();
        one_name[name] = values;
        if (decides == nullptr || Holds(one_name, known)) continue;
        findings.Error(value->mark, JoinPath(path, Join(one.path, ".")),
                       "is absent where " + name + " is " + decides->dump() +
                           "; remove it from this point");
        return;
      }
    }
  }
}

}  // namespace

nlohmann::json ReadPoints(const Node& node, const Node* hyperparameters,
                          Findings& findings) {
  const std::string path = "searcher.points";
  auto points = nlohmann::json::array();
  if (!node.is_list()) {
    ReportType(node, path, "a list of maps", findings);
    return points;
  }
  const Node nothing;
  Findings discarded = Findings::Discarding();
  const nlohmann::json space =
      hyperparameters == nullptr
          ? nlohmann::json::object()
          : ReadHyperparameters(*hyperparameters, discarded);
  for (const Node& item : node.items) {
    const std::string place = path + '[' + std::to_string(points.size()) + ']';
    if (!item.is_map()) {
      ReportType(item, place, "a map", findings);
    } else {
      const int before = findings.errors();
      CheckPoint(item, place, hyperparameters ? *hyperparameters : nothing,
                 findings);
      if (findings.errors() == before) {
        CheckPresence(item, place, space, findings);
      }
    }
    points.push_back(ToJson(item));
  }
  return points;
}

nlohmann::json ReadConstraints(const Node& node, const Node* hyperparameters,
                               Findings& findings) {
  const std::string path(kConstraintsPath);
  auto constraints = nlohmann::json::array();
  if (!node.is_list()) {
    ReportType(node, path, "a list of strings", findings);
    return constraints;
  }
  Findings discarded = Findings::Discarding();
  const nlohmann::json space =
      hyperparameters == nullptr
          ? nlohmann::json::object()
          : ReadHyperparameters(*hyperparameters, discarded);
  for (const Node& item : node.items) {
    const std::string place =
        path + '[' + std::to_string(constraints.size()) + ']';
    constraints.push_back(item.text);
    if (!item.is_string()) {
      ReportType(item, place, "a string such as 'width * layers <= 4096'",
                 findings);
      continue;
    }
    try {
      HparamConstraints(space, {item.text});
    } catch (const Error& error) {
      findings.Error(item.mark, place, error.what());
    }
  }
  return constraints;
}

namespace {

constexpr int kConstraintDraws = 10'000;
constexpr double kFewDraws = 0.01;  // of those

// Reports points that violate the constraints whatever is drawn for them.
void CheckPointsMeet(const Node& root, const nlohmann::json& space,
                     const SearcherConfig& config, Findings& findings) {
  const HparamConstraints constraints(space, config.constraints);
  const Node& points = *root.Find("searcher")->Find("points");
  for (std::size_t i = 0; i < config.points.size(); ++i) {
    Rng rng(0);
    std::string violated;
    for (int draw = 0; draw < kConstraintDraws; ++draw) {
      violated = constraints.FindViolated(
          HparamsOfPoint(space, config.points[i], rng));
      if (violated.empty()) break;
    }
    if (violated.empty()) continue;
    findings.Error(points.items[i].mark,
                   "searcher.points[" + std::to_string(i) + ']',
                   "violates the constraint '" + violated +
                       "'; change the point, or remove it");
  }
}

}  // namespace

void CheckConstraints(const Node& root, const nlohmann::json& space,
                      const SearcherConfig& config, Findings& findings) {
  if (config.constraints.empty()) return;
  const std::string path(kConstraintsPath);
  const Mark mark = FindMark(root, path);
  if (config.name == "grid") {
    if (HparamGrid(space, 0, config.constraints).size() == 0) {
      findings.Error(mark, path,
                     "leave no point of the grid; relax one of them, or add "
                     "values");
    }
    return;
  }
  if (!config.points.empty()) {
    CheckPointsMeet(root, space, config, findings);
  }
  const HparamConstraints constraints(space, config.constraints);
  std::map<std::string, int> violated;
  int holding = kConstraintDraws;
  Rng rng(0);
  for (int draw = 0; draw < kConstraintDraws; ++draw) {
    const std::string first =
        constraints.FindViolated(SampleHparams(space, rng));
    if (first.empty()) continue;
    ++violated[first];
    --holding;
  }
  if (holding >= kFewDraws * kConstraintDraws) return;
  const auto strictest = std::ranges::max_element(
      violated, {}, [](const auto& entry) { return entry.second; });
  const std::string remedy = "; relax '" + strictest->first +
                             "', which most of them violate first, or change "
                             "the ranges";
  if (holding == 0) {
    findings.Error(
        mark, path,
        "none of 10,000 drawn points meets the constraints" + remedy);
    return;
  }
  findings.Warning(mark, path,
                   "only " + std::to_string(holding) +
                       " of 10,000 drawn points meet" +
                       (holding == 1 ? "s" : "") +
                       " the constraints, so most draws are in vain" + remedy);
}

}  // namespace dtrain
