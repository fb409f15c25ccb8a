#include "searchers/hparam_constraints.h"

#include <algorithm>
#include <limits>
#include <optional>
#include <utility>

#include "engine/base/error.h"
#include "engine/base/json.h"
#include "engine/base/text.h"
#include "searchers/hparam_space.h"

namespace dtrain {
namespace {

FieldValue ToFieldValue(const nlohmann::json& value) {
  if (value.is_boolean()) return value.get<bool>() ? "true" : "false";
  if (value.is_string()) return value.get<std::string>();
  constexpr std::uint64_t kMost = std::numeric_limits<std::int64_t>::max();
  const bool is_large =
      value.is_number_unsigned() && value.get<std::uint64_t>() > kMost;
  if (value.is_number_integer() && !is_large) return value.get<std::int64_t>();
  if (value.is_number()) return value.get<double>();
  return std::monostate();
}

// Returns the meaning of a hyperparameter in an expression. Throws Error for an
// unknown one, and for one with a value that is a list or a map.
ResolvedField ResolveHparam(const nlohmann::json& space,
                            const FieldName& field) {
  std::vector<std::string> names;
  for (HparamName& one : HparamNames(space)) {
    names.push_back(std::move(one.name));
  }
  const std::string name = field.Text();
  if (std::ranges::find(names, name) == names.end()) {
    const auto member = std::ranges::find_if(
        names, [&](const auto& one) { return one.starts_with(name + '.'); });
    throw Error(ErrorKind::kUsage,
                "there is no hyperparameter '" + name + "'" +
                    (member != names.end()
                         ? "; it is a map: name one of its hyperparameters, "
                           "such as " +
                               *member
                         : DidYouMean(name, names)));
  }
  const auto choices = HparamChoices(space, name);
  if (!choices || choices->is_null()) {
    // A range of numbers, whose `else` may be something else.
    const nlohmann::json& range = *FindMember(space, name);
    const bool may_differ =
        range.contains("else") && !range.at("else").is_number();
    return {.kind = may_differ ? FieldKind::kAny : FieldKind::kNumber};
  }
  ResolvedField resolved{.kind = FieldKind::kNumber};
  for (const nlohmann::json& value : *choices) {
    if (value.is_structured()) {
      throw Error(
          ErrorKind::kUsage,
          "'" + name + "' has a value that is a " +
              (value.is_array() ? "list" : "map") +
              ", which cannot be compared" +
              (value.is_array()
                   ? ""
                   : "; name a part of it, such as " + name + '.' +
                         (value.empty() ? "NAME" : value.begin().key())));
    }
    if (value.is_string() || value.is_boolean()) {
      resolved.words.push_back(FieldText(ToFieldValue(value)));
    }
  }
  if (resolved.words.empty()) return resolved;
  const bool has_number = std::ranges::any_of(
      *choices, [](const nlohmann::json& one) { return one.is_number(); });
  if (has_number) return {.kind = FieldKind::kAny};
  resolved.kind = FieldKind::kText;
  // A constant may have been set for a part of the search.
  if (choices->size() == 1) resolved.words.clear();
  return resolved;
}

}  // namespace

HparamConstraints::HparamConstraints(
    const nlohmann::json& space, const std::vector<std::string>& constraints) {
  const QueryContext context{
      .resolve =
          [&](const FieldName& field) { return ResolveHparam(space, field); },
      .compares_fields = true};
  for (const std::string& constraint : constraints) {
    try {
      constraints_.push_back(Filter::Parse(constraint, context));
    } catch (const Error& error) {
      // Without the name of an option, which errors begin with.
      throw Error(error.kind(), std::string(error.what()).substr(2));
    }
  }
}

std::string HparamConstraints::FindViolated(
    const nlohmann::json& hparams) const {
  for (const Filter& constraint : constraints_) {
    const auto holds = constraint.Decide([&](const Comparison& comparison) {
      bool lacks = false;
      const bool meets = comparison.HoldsIn([&](const FieldName& field) {
        const nlohmann::json* value = FindMember(hparams, field.name);
        lacks = lacks || value == nullptr || value->is_null();
        return value == nullptr ? FieldValue() : ToFieldValue(*value);
      });
      const bool tests_absence = comparison.op == CompareOp::kIsNull;
      return lacks && !tests_absence ? std::nullopt : std::optional(meets);
    });
    if (holds == false) return constraint.text();
  }
  return "";
}

bool HparamConstraints::Hold(const nlohmann::json& hparams) const {
  return empty() || FindViolated(hparams).empty();
}

bool HparamConstraints::MayHold(const nlohmann::json& hparams) const {
  return std::ranges::all_of(constraints_, [&](const Filter& constraint) {
    const auto holds = constraint.Decide(
        [&](const Comparison& comparison) -> std::optional<bool> {
          bool lacks = false;
          const bool meets = comparison.HoldsIn([&](const FieldName& field) {
            const nlohmann::json* value = FindMember(hparams, field.name);
            lacks = lacks || value == nullptr || value->is_null();
            return value == nullptr ? FieldValue() : ToFieldValue(*value);
          });
          if (lacks) return std::nullopt;
          return meets;
        });
    return holds != false;
  });
}

}  // namespace dtrain
