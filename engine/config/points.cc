#include "engine/config/points.h"

#include <algorithm>
#include <cmath>
#include <string>
#include <vector>

#include "engine/config/value_reader.h"

namespace dtrain {
namespace {

// The value of a constant hyperparameter.
nlohmann::json ConstantOf(const Node& node) {
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

// A point has the value itself, the range is one of exponents.
void CheckLog(const Node& value, const std::string& path, const Node& range,
              Findings& findings) {
  const Node* base_node = range.Find("base");
  const bool given = base_node != nullptr && !base_node->is_null();
  const double base = given ? base_node->number : 10;
  const double one = std::pow(base, range.Find("minval")->number);
  const double other = std::pow(base, range.Find("maxval")->number);
  // The ends may be off by a rounding.
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
    if (ToJson(value) == ConstantOf(range)) return;
    findings.Error(value.mark, path,
                   "differs from the constant hyperparameter; remove it");
  } else if (type->text == "log") {
    CheckLog(value, path, range, findings);
  } else if (type->text == "categorical") {
    const nlohmann::json json = ToJson(value);
    const nlohmann::json vals = ToJson(*range.Find("vals"));
    if (std::find(vals.begin(), vals.end(), json) != vals.end()) return;
    findings.Error(value.mark, path,
                   "expected one of the vals, got " + Describe(value));
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
                     "required but missing; a point has a value for all that "
                     "is searched");
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
