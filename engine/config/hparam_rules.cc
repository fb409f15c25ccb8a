// Checks hyperparameters against the rules of a built-in model: names, types,
// bounds, and which ones are required. Of a range, the bounds are checked as
// values that it may yield. A name that the model does not have is an error,
// with the one that was probably meant; one that it accepts without using it is
// a note, or a warning if it is searched.

#include <algorithm>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "engine/base/text.h"
#include "engine/config/hyperparameters.h"
#include "engine/config/value_reader.h"

namespace dtrain {
namespace {

constexpr std::string_view kHparams = "hyperparameters";
constexpr std::size_t kMaxListed = 80;  // characters of a list in a message

std::string_view Expected(std::string_view type) {
  if (type == "int") return "an integer";
  if (type == "float") return "a number";
  if (type == "bool") return "true or false";
  if (type == "list") return "a list";
  return "a string";
}

bool HasExpectedType(const Node& node, std::string_view type) {
  if (type == "int") return node.kind == Node::Kind::kInt;
  if (type == "float") {
    return node.kind == Node::Kind::kInt || node.kind == Node::Kind::kDouble ||
           node.kind == Node::Kind::kOverflow;
  }
  if (type == "bool") return node.kind == Node::Kind::kBool;
  if (type == "list") return node.is_list();
  return node.is_string();
}

// "learning_rate" → "lr".
std::string Initials(std::string_view name) {
  std::string initials;
  for (const std::string& word : Split(name, '_'))
    initials += word.substr(0, 1);
  return initials;
}

bool IsLongPart(std::string_view part, std::string_view name) {
  return part.size() >= 4 && name.find(part) != name.npos;
}

// Checks one map of hyperparameters. Ranges that are invalid in themselves are
// reported elsewhere.
class RuleChecker {
 public:
  RuleChecker(const std::string& entrypoint, std::span<const HparamRule> rules,
              Findings& findings)
      : entrypoint_(entrypoint), rules_(rules), findings_(findings) {
    for (const HparamRule& rule : rules) names_.emplace_back(rule.name);
  }

  void Check(const Node::Entry& entry);
  void CheckRequired(const Node* map);

 private:
  void CheckRange(const Node& range, const std::string& path,
                  const HparamRule& rule);
  void CheckBounds(const Node& range, const std::string& path,
                   const HparamRule& rule);
  void CheckValue(const Node& value, const std::string& path,
                  const HparamRule& rule);
  void ReportUnknown(const Node::Entry& entry);

  std::string entrypoint_;
  std::span<const HparamRule> rules_;
  Findings& findings_;
  std::vector<std::string> names_;
};

void RuleChecker::Check(const Node::Entry& entry) {
  // `--set hyperparameters.x=` removes x.
  if (entry.value.is_null() && entry.value.mark.override_index >= 0) return;
  const auto rule = std::ranges::find(rules_, entry.key, &HparamRule::name);
  if (rule == rules_.end()) return ReportUnknown(entry);
  const std::string path = JoinPath(kHparams, entry.key);
  // A scalar batch size is checked for every trial, see ReadHyperparameters.
  const bool checked =
      entry.key == "global_batch_size" && entry.value.IsScalar();
  if (entry.value.Find("type") != nullptr) {
    CheckRange(entry.value, path, *rule);
  } else if (!checked) {
    CheckValue(entry.value, path, *rule);
  }
  if (!rule->unused) return;
  const Node* type = entry.value.Find("type");
  if (type != nullptr && type->text != "const") {
    findings_.Warning(entry.mark, path,
                      "is searched, but has no effect on " + entrypoint_);
  } else {
    findings_.AddNote(
        entry.mark, path,
        "accepted for compatibility; no effect on " + entrypoint_);
  }
}

void RuleChecker::CheckRange(const Node& range, const std::string& path,
                             const HparamRule& rule) {
  const Node& type = *range.Find("type");
  if (const Node* otherwise = range.Find("else")) {
    CheckValue(*otherwise, JoinPath(path, "else"), rule);
  }
  if (type.text == "const") {
    if (const Node* val = range.Find("val")) {
      CheckValue(*val, JoinPath(path, "val"), rule);
    }
  } else if (type.text == "categorical") {
    const Node* vals = range.Find("vals");
    if (vals == nullptr) return;
    for (std::size_t i = 0; i < vals->items.size(); ++i) {
      CheckValue(vals->items[i], path + ".vals[" + std::to_string(i) + ']',
                 rule);
    }
  } else if (type.text == "int") {
    if (rule.type == "int" || rule.type == "float") {
      return CheckBounds(range, path, rule);
    }
    findings_.Error(type.mark, JoinPath(path, "type"),
                    entrypoint_ + " expects " +
                        std::string(Expected(rule.type)) +
                        ", but type: int yields integers; use type: "
                        "categorical");
  } else if (type.text == "double" || type.text == "log" ||
             type.text == "normal") {
    if (rule.type == "float") {
      // Those of `log` are exponents.
      if (type.text != "log") CheckBounds(range, path, rule);
      return;
    }
    const bool whole = rule.type == "int";
    findings_.Error(
        type.mark, JoinPath(path, "type"),
        entrypoint_ + " expects " + std::string(Expected(rule.type)) +
            ", but type: " + type.text + " yields fractions; use type: " +
            (whole ? "int or categorical" : "categorical"));
  }
}

// The bounds of a range are values that it may yield.
void RuleChecker::CheckBounds(const Node& range, const std::string& path,
                              const HparamRule& rule) {
  for (const char* name : {"minval", "maxval"}) {
    const Node* bound = range.Find(name);
    if (bound == nullptr || !HasExpectedType(*bound, "float")) continue;
    if (HasExpectedType(*bound, rule.type)) {
      CheckValue(*bound, JoinPath(path, name), rule);
    }
  }
}

void RuleChecker::CheckValue(const Node& value, const std::string& path,
                             const HparamRule& rule) {
  if (value.is_null() && !rule.required) return;
  if (HasExpectedType(value, rule.type)) {
    const std::string fault =
        rule.find_fault == nullptr ? "" : rule.find_fault(ToJson(value));
    if (!fault.empty()) findings_.Error(value.mark, path, fault);
    return;
  }
  if (!value.is_list()) {
    return ReportType(value, path, std::string(Expected(rule.type)), findings_);
  }
  const std::string vals = ToJson(value).dump();
  findings_.Error(value.mark, path,
                  "expected " + std::string(Expected(rule.type)) +
                      ", got a list; to search these values, write " +
                      "{type: categorical, vals: " +
                      (vals.size() > kMaxListed ? "[...]" : vals) + "}");
}

void RuleChecker::CheckRequired(const Node* map) {
  for (const HparamRule& rule : rules_) {
    if (!rule.required) continue;
    const std::string name(rule.name);
    const Node* value = map ? map->Find(name) : nullptr;
    const Node* when = value != nullptr ? value->Find("when") : nullptr;
    if (when != nullptr && !when->is_null() && value->Find("else") == nullptr) {
      findings_.Error(when->mark, JoinPath(JoinPath(kHparams, name), "when"),
                      "required by " + entrypoint_ +
                          ", but absent where this does not hold; add else");
    }
    // A value of another type is reported at its own place.
    if (value != nullptr && !value->is_null()) continue;
    const Mark mark = value ? value->mark : map ? map->mark : Mark{};
    findings_.Error(mark, JoinPath(kHparams, name),
                    "required by " + entrypoint_ +
                        " but missing; add it, such as " + name +
                        (name == "global_batch_size" ? ": 64" : ": VALUE"));
  }
}

void RuleChecker::ReportUnknown(const Node::Entry& entry) {
  std::string message = entrypoint_ + " has no hyperparameter '" +
                        Truncate(EscapeForTerminal(entry.key), 60) + "'";
  // The name that was probably intended: the nearest one, an abbreviation, or a
  // longer form such as global_batch_size for batch_size.
  std::string name = NearestName(entry.key, names_);
  if (name.empty()) {
    const auto found =
        std::ranges::find_if(names_, [&](const std::string& one) {
          return Initials(entry.key) == one || Initials(one) == entry.key ||
                 IsLongPart(entry.key, one) || IsLongPart(one, entry.key);
        });
    if (found != names_.end()) name = *found;
  }
  const auto inner =
      std::ranges::find_if(entry.value.entries, [&](const Node::Entry& nested) {
        return std::ranges::find(names_, nested.key) != names_.end();
      });
  if (inner != entry.value.entries.end()) {
    message += "; move '" + inner->key +
               "' out of the nested map, directly under hyperparameters";
  } else if (!name.empty()) {
    message += "; did you mean '" + name + "'?";
  } else {
    message += "; it has " + Join(names_, ", ") + " (see 'dtrain models')";
  }
  findings_.Error(entry.mark, JoinPath(kHparams, entry.key), message);
}

}  // namespace

void CheckHparamRules(const Node* hyperparameters,
                      const std::string& entrypoint,
                      std::span<const HparamRule> rules, Findings& findings) {
  if (hyperparameters != nullptr && !hyperparameters->is_null() &&
      !hyperparameters->is_map()) {
    return;  // reported elsewhere
  }
  RuleChecker checker(entrypoint, rules, findings);
  if (hyperparameters != nullptr) {
    for (const Node::Entry& entry : hyperparameters->entries) {
      checker.Check(entry);
    }
  }
  checker.CheckRequired(hyperparameters);
}

}  // namespace dtrain
