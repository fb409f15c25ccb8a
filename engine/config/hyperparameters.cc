// Hyperparameters are read in three steps: each range by itself, then the
// requirements of the searcher (a grid needs counts, a single trial warns about
// ranges), then the points of `searcher.points`, which must be inside the
// ranges. A range that failed in the first step is not reported again.
//
// The checks work on the tree of the YAML, not on the JSON that they return,
// since only the tree has the places of values. So a few rules exist twice,
// here for messages and in searchers/hparam_space.cc for sampling.

#include "engine/config/hyperparameters.h"

#include <algorithm>
#include <cmath>
#include <limits>
#include <span>
#include <string>
#include <vector>

#include "engine/base/rounding.h"
#include "engine/base/text.h"
#include "engine/config/schema.h"
#include "engine/config/value_reader.h"

namespace dtrain {
namespace {

// Reads one hyperparameter that has a `type`: checks its keys and values.
class RangeReader {
 public:
  RangeReader(const Node& node, std::string path, Findings& findings)
      : node_(node), path_(std::move(path)), findings_(findings) {}

  nlohmann::json Read();

 private:
  void ReadConst();
  void ReadInt();
  void ReadDouble();
  void ReadLog();
  void ReadScale(const Node* low);
  void WarnOfValues(const Node& low, const Node& high);
  void ReadCategorical();
  void ReadCount();
  void RefuseOthers(std::vector<std::string> known);
  const Node* Need(const char* name);
  const Node* NeedNumber(const char* name);
  bool CheckOrder(const Node* low, const Node* high);
  std::string At(const char* name) const { return JoinPath(path_, name); }

  const Node& node_;
  std::string path_;
  Findings& findings_;
  nlohmann::json out_ = nlohmann::json::object();
};

nlohmann::json RangeReader::Read() {
  const Node& type = *node_.Find("type");
  out_["type"] = type.text;
  if (type.text == "const" && type.is_string()) {
    ReadConst();
  } else if (type.text == "int" && type.is_string()) {
    ReadInt();
  } else if (type.text == "double" && type.is_string()) {
    ReadDouble();
  } else if (type.text == "log" && type.is_string()) {
    ReadLog();
  } else if (type.text == "categorical" && type.is_string()) {
    ReadCategorical();
  } else {
    const std::vector<std::string> types = {"const", "int", "double", "log",
                                            "categorical"};
    const std::string hint =
        type.is_string() ? NearestName(type.text, types) : "";
    findings_.Error(
        type.mark, At("type"),
        "expected const, int, double, log or categorical, got " +
            Describe(type) +
            (hint.empty() ? "; a nested map cannot have a key 'type'"
                          : "; did you mean '" + hint + "'?"));
  }
  return out_;
}

void RangeReader::ReadConst() {
  RefuseOthers({"type", "val"});
  if (const Node* val = Need("val")) {
    out_["val"] = ReadFreeValue(*val, At("val"), findings_);
  }
}

void RangeReader::ReadInt() {
  RefuseOthers({"type", "minval", "maxval", "count"});
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
  if (valid) CheckOrder(low, high);
  ReadCount();
}

void RangeReader::ReadDouble() {
  RefuseOthers({"type", "minval", "maxval", "log", "count"});
  const Node* low = NeedNumber("minval");
  const Node* high = NeedNumber("maxval");
  if (CheckOrder(low, high) && !std::isfinite(high->number - low->number)) {
    findings_.Error(high->mark, At("maxval"),
                    "is too far from minval; use a smaller range");
  }
  ReadScale(low);
  ReadCount();
}

// `log: true`, as Optuna has it: minval and maxval are values.
void RangeReader::ReadScale(const Node* low) {
  const Node* log = node_.Find("log");
  if (log == nullptr || log->is_null()) return;
  if (log->kind != Node::Kind::kBool) {
    return ReportType(*log, At("log"), "true or false", findings_);
  }
  if (log->boolean) out_["log"] = true;
  if (!log->boolean || low == nullptr || low->number > 0) return;
  findings_.Error(low->mark, At("minval"),
                  "expected a number above 0 with log: true, got " + low->text);
}

void RangeReader::ReadLog() {
  RefuseOthers({"type", "base", "minval", "maxval", "count"});
  const Node* low = NeedNumber("minval");
  const Node* high = NeedNumber("maxval");
  const bool ordered = CheckOrder(low, high);
  const Node* base = node_.Find("base");
  ReadCount();
  out_["base"] = 10;
  if (base != nullptr && !base->is_null()) {
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
  if (findings_.errors() == before) WarnOfValues(*low, *high);
}

// Warns about bounds that look like values: 0.0001 to 0.1, or 16 to 256.
void RangeReader::WarnOfValues(const Node& low, const Node& high) {
  constexpr double kLargestLikely = 1e20;
  const double base = out_["base"].get<double>();
  const double from = std::pow(base, low.number);
  const double to = std::pow(base, high.number);
  const bool fractions = low.number > 0 && low.number < 1;
  if (!fractions && std::max(from, to) < kLargestLikely) return;
  findings_.Warning(
      low.mark, At("minval"),
      "minval and maxval are exponents of base " + out_["base"].dump() +
          ", so the values are from " + FormatRounded(std::min(from, to), 4) +
          " to " + FormatRounded(std::max(from, to), 4) + "; for values from " +
          low.text + " to " + high.text + " write {type: double, minval: " +
          low.text + ", maxval: " + high.text + ", log: true}");
}

void RangeReader::ReadCategorical() {
  RefuseOthers({"type", "vals"});
  const Node* vals = Need("vals");
  if (vals == nullptr) return;
  if (!vals->is_list()) {
    ReportType(*vals, At("vals"), "a list", findings_);
  } else if (vals->items.empty()) {
    findings_.Error(vals->mark, At("vals"), "is empty; add a value");
  } else {
    out_["vals"] = ReadFreeValue(*vals, At("vals"), findings_);
  }
}

void RangeReader::ReadCount() {
  const Node* count = node_.Find("count");
  if (count == nullptr || count->is_null()) return;
  const auto value = ReadInteger(*count, At("count"), 1, kMaxCount, findings_);
  if (value) out_["count"] = *value;
}

void RangeReader::RefuseOthers(std::vector<std::string> known) {
  for (const Node::Entry& entry : node_.entries) {
    if (std::find(known.begin(), known.end(), entry.key) != known.end()) {
      continue;
    }
    // Keys of other tools that have a meaning here in another form.
    const bool steps = entry.key == "step" || entry.key == "q";
    if (steps || entry.key == "log") {
      findings_.Error(entry.mark, JoinPath(path_, entry.key),
                      steps ? "unknown key; there are no steps, so list the "
                              "values: {type: categorical, "
                              "vals: [16, 32, 48]}"
                            : "unknown key; only type: double has log, so list "
                              "the values: {type: "
                              "categorical, vals: [16, 32, 64]}");
    } else {
      findings_.UnknownKey(entry.mark, JoinPath(path_, entry.key), entry.key,
                           known);
    }
  }
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

// A map without a type is a nested map of constants, which its author may have
// meant as a range.
void WarnOfMissingType(const Node& map, const std::string& path,
                       Findings& findings) {
  const bool range = map.Find("minval") && map.Find("maxval");
  if (!range && !map.Find("vals")) return;
  findings.Warning(map.mark, path,
                   std::string("has ") +
                       (range ? "minval and maxval" : "vals") +
                       ", but no type, and so is not searched; add type: " +
                       (range ? "int, double or log" : "categorical"));
}

nlohmann::json ReadMember(const Node& node, const std::string& path,
                          Findings& findings) {
  if (!node.is_map()) return ReadFreeValue(node, path, findings);
  if (node.Find("type") != nullptr) {
    return RangeReader(node, path, findings).Read();
  }
  WarnOfMissingType(node, path, findings);
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

}  // namespace

nlohmann::json ReadHyperparameters(const Node& node, Findings& findings) {
  const std::string path = "hyperparameters";
  if (!node.is_map()) {
    ReportType(node, path, "a map", findings);
    return nlohmann::json::object();
  }
  CheckBatchSize(node, path, findings);
  auto map = nlohmann::json::object();
  for (const Node::Entry& entry : node.entries) {
    map[entry.key] =
        ReadMember(entry.value, JoinPath(path, entry.key), findings);
  }
  return map;
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

// Returns a·b, or the largest number if that overflows.
std::int64_t Times(std::int64_t a, std::int64_t b) {
  std::int64_t product = 0;
  if (__builtin_mul_overflow(a, b, &product)) {
    return std::numeric_limits<std::int64_t>::max();
  }
  return product;
}

// Returns the number of values that a grid takes of the hyperparameter; 0 if it
// needs a count.
std::int64_t GridValues(const Hyperparameter& parameter) {
  const Node& node = parameter.node;
  if (parameter.type == "const") return 1;
  if (parameter.type == "categorical") {
    return static_cast<std::int64_t>(node.Find("vals")->items.size());
  }
  const Node* count = node.Find("count");
  const bool counted = count != nullptr && !count->is_null();
  if (parameter.type != "int") return counted ? count->integer : 0;
  const std::int64_t all =
      node.Find("maxval")->integer - node.Find("minval")->integer + 1;
  if (counted) return std::min(count->integer, all);
  return all <= kMaxGridPoints ? all : 0;
}

void CheckGrid(const Node& node, Findings& findings) {
  std::int64_t points = 1;
  VisitHyperparameters(
      node, "hyperparameters", [&](const Hyperparameter& parameter) {
        const std::int64_t values = GridValues(parameter);
        if (values == 0) {
          findings.Error(parameter.node.mark, parameter.path + ".count",
                         "required by the grid searcher; set the number of "
                         "values to try");
        } else {
          points = Times(points, values);
        }
      });
  if (points <= kMaxGridPoints) return;
  const bool huge = points == std::numeric_limits<std::int64_t>::max();
  findings.Error(node.mark, "hyperparameters",
                 "the grid has " + std::string(huge ? "more than " : "") +
                     std::to_string(points) + " points, at most " +
                     std::to_string(kMaxGridPoints) +
                     " are allowed; lower the counts, or use random");
}

void WarnOfRanges(const Node& node, Findings& findings) {
  VisitHyperparameters(
      node, "hyperparameters", [&](const Hyperparameter& parameter) {
        if (parameter.type == "const") return;
        findings.Warning(parameter.node.mark, parameter.path,
                         "the single searcher draws one value from this range; "
                         "write a value, or use another searcher");
      });
}

}  // namespace

void CheckSearched(const Node& node, std::string_view searcher,
                   Findings& findings) {
  if (searcher == "grid") CheckGrid(node, findings);
  if (searcher == "single") WarnOfRanges(node, findings);
}

namespace {

// Returns the value of a constant hyperparameter.
nlohmann::json ConstantValue(const Node& node) {
  return ToJson(node.is_map() ? *node.Find("val") : node);
}

std::string RangeText(const Node& low, const Node& high) {
  return "from " + low.text + " to " + high.text;
}

void CheckNumber(const Node& value, const std::string& path, const Node& range,
                 Findings& findings) {
  const Node& low = *range.Find("minval");
  const Node& high = *range.Find("maxval");
  const bool whole = range.Find("type")->text == "int";
  const bool valid =
      (whole ? value.kind == Node::Kind::kInt : value.IsNumber()) &&
      value.number >= low.number && value.number <= high.number;
  if (valid) return;
  ReportType(value, path,
             (whole ? "an integer " : "a number ") + RangeText(low, high),
             findings);
}

// Checks a value of a point against a range of exponents.
void CheckLog(const Node& value, const std::string& path, const Node& range,
              Findings& findings) {
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
             "a number from base^" + range.Find("minval")->text + " to base^" +
                 range.Find("maxval")->text,
             findings);
}

void CheckValue(const Node& value, const std::string& path, const Node& range,
                Findings& findings) {
  const Node* type = range.is_map() ? range.Find("type") : nullptr;
  if (type == nullptr || type->text == "const") {
    if (ToJson(value) == ConstantValue(range)) return;
    findings.Error(value.mark, path,
                   "differs from the constant hyperparameter; remove it");
  } else if (type->text == "log") {
    CheckLog(value, path, range, findings);
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

bool IsSearched(const Node& node) {
  return node.is_map() && node.Find("type") != nullptr &&
         node.Find("type")->text != "const";
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
    }
  }
  for (const Node::Entry& entry : space.entries) {
    const Node* value = point.Find(entry.key);
    const std::string place = JoinPath(path, entry.key);
    if (value == nullptr && IsSearched(entry.value)) {
      findings.Error(point.mark, place,
                     "required but missing; a point needs a value for every "
                     "searched hyperparameter");
    }
    if (!IsNested(entry.value)) continue;
    if (value == nullptr) {
      Node empty;
      empty.mark = point.mark;
      CheckPoint(empty, place, entry.value, findings);
    } else if (value->is_map()) {
      CheckPoint(*value, place, entry.value, findings);
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
  for (const Node& item : node.items) {
    const std::string place = path + '[' + std::to_string(points.size()) + ']';
    if (!item.is_map()) {
      ReportType(item, place, "a map", findings);
    } else {
      CheckPoint(item, place, hyperparameters ? *hyperparameters : nothing,
                 findings);
    }
    points.push_back(ToJson(item));
  }
  return points;
}

}  // namespace dtrain
