#include "engine/config/hyperparameters.h"

#include <algorithm>
#include <array>
#include <cmath>
#include <cstdio>
#include <span>
#include <vector>

#include "engine/base/text.h"
#include "engine/config/schema.h"
#include "engine/config/value_reader.h"

namespace dtrain {
namespace {

// Four digits, for people.
std::string Rounded(double value) {
  std::array<char, 32> text{};
  std::snprintf(text.data(), text.size(), "%.4g", value);
  return text.data();
}

// Reads one hyperparameter with a `type`: its keys, then what they say.
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
        ReadInteger(*bound, At(name), -kMostCount, kMostCount, findings_);
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
                    "is too far from minval for a number; bring them nearer");
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
    const double value = std::pow(out_["base"].get<double>(), exponent->number);
    if (std::isnormal(value)) return;
    findings_.Error(exponent->mark, At(name),
                    "base to the power of " + exponent->text +
                        " fits no number; these are exponents, so write -4 "
                        "for 0.0001 with base 10");
  };
  const int before = findings_.errors();
  power(low, "minval");
  power(high, "maxval");
  if (findings_.errors() == before) WarnOfValues(*low, *high);
}

// Bounds that read as if they were values: 0.0001 to 0.1, or 16 to 256.
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
          ", so the values are from " + Rounded(std::min(from, to)) + " to " +
          Rounded(std::max(from, to)) + "; for values from " + low.text +
          " to " + high.text + " write {type: double, minval: " + low.text +
          ", maxval: " + high.text + ", log: true}");
}

void RangeReader::ReadCategorical() {
  RefuseOthers({"type", "vals"});
  const Node* vals = Need("vals");
  if (vals == nullptr) return;
  if (!vals->is_list()) {
    ReportType(*vals, At("vals"), "a list", findings_);
  } else if (vals->items.empty()) {
    findings_.Error(vals->mark, At("vals"), "is empty; give it a value");
  } else {
    out_["vals"] = ReadFreeValue(*vals, At("vals"), findings_);
  }
}

void RangeReader::ReadCount() {
  const Node* count = node_.Find("count");
  if (count == nullptr || count->is_null()) return;
  const auto value = ReadInteger(*count, At("count"), 1, kMostCount, findings_);
  if (value) out_["count"] = *value;
}

void RangeReader::RefuseOthers(std::vector<std::string> known) {
  for (const Node::Entry& entry : node_.entries) {
    if (std::find(known.begin(), known.end(), entry.key) == known.end()) {
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
      "expected more than minval (" + low->text + "), got " + high->text);
  return false;
}

nlohmann::json ReadMember(const Node& node, const std::string& path,
                          Findings& findings) {
  if (!node.is_map()) return ReadFreeValue(node, path, findings);
  if (node.Find("type") != nullptr) {
    return RangeReader(node, path, findings).Read();
  }
  auto map = nlohmann::json::object();
  for (const Node::Entry& entry : node.entries) {
    map[entry.key] =
        ReadMember(entry.value, JoinPath(path, entry.key), findings);
  }
  return map;
}

// The batch size is asked for by every trial, so what can never work is told
// here.
void CheckBatchSize(const Node& node, const std::string& path,
                    Findings& findings) {
  const Node* size = node.Find("global_batch_size");
  if (size == nullptr || size->is_list() || size->is_null()) return;
  const std::string place = JoinPath(path, "global_batch_size");
  if (size->IsScalar()) {
    ReadInteger(*size, place, 1, kMostCount, findings);
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

}  // namespace dtrain
