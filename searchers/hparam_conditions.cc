#include "searchers/hparam_conditions.h"

#include <algorithm>
#include <map>
#include <utility>

#include "engine/base/json.h"
#include "searchers/hparam_space.h"

namespace dtrain {
namespace {

bool Matches(const nlohmann::json& values, const nlohmann::json& value) {
  if (values.is_array()) {
    return std::ranges::find(values, value) != values.end();
  }
  return value.is_number() &&
         (!values.contains("minval") || value >= values.at("minval")) &&
         (!values.contains("maxval") || value <= values.at("maxval"));
}

// Removes or replaces the value at `path`, from its element `at` on.
void Leave(nlohmann::json& map, const std::vector<std::string>& path,
           std::size_t at, const std::optional<nlohmann::json>& otherwise) {
  nlohmann::json& value = map.at(path[at]);
  if (at + 1 < path.size()) {
    Leave(value, path, at + 1, otherwise);
    if (value.empty()) map.erase(path[at]);
  } else if (otherwise) {
    value = *otherwise;
  } else {
    map.erase(path[at]);
  }
}

}  // namespace

bool Holds(const nlohmann::json& when, const nlohmann::json& hparams) {
  if (when.is_array()) {
    return std::ranges::all_of(
        when, [&](const nlohmann::json& one) { return Holds(one, hparams); });
  }
  for (const auto& [name, values] : when.items()) {
    const nlohmann::json* value = FindMember(hparams, name);
    if (value == nullptr || !Matches(values, *value)) return false;
  }
  return true;
}

std::vector<std::string> NamesInCondition(const nlohmann::json& when) {
  std::vector<std::string> names;
  if (when.is_array()) {
    for (const nlohmann::json& one : when) {
      for (std::string& name : NamesInCondition(one)) {
        names.push_back(std::move(name));
      }
    }
    return names;
  }
  for (const auto& [name, values] : when.items()) names.push_back(name);
  return names;
}

HparamConditions::HparamConditions(const nlohmann::json& space) {
  std::map<std::string, Conditional> waiting;
  std::vector<std::string> path;
  const auto collect = [&](const auto& self,
                           const nlohmann::json& map) -> void {
    if (!map.is_object()) return;
    for (const auto& [name, value] : map.items()) {
      path.push_back(name);
      if (!HasType(value)) {
        self(self, value);
      } else if (const auto when = value.find("when"); when != value.end()) {
        Conditional one{.path = path, .when = *when, .otherwise = {}};
        if (value.contains("else")) one.otherwise = value.at("else");
        std::string full;
        for (const std::string& part : path) full += '.' + part;
        waiting.emplace(full.substr(1), std::move(one));
      }
      path.pop_back();
    }
  };
  collect(collect, space);
  // Depth first: those that the condition names, also by parts of their values.
  const auto add = [&](const auto& self, const std::string& name) -> void {
    const auto found = std::ranges::find_if(waiting, [&](const auto& one) {
      return one.first == name || name.starts_with(one.first + '.');
    });
    if (found == waiting.end()) return;
    Conditional one = std::move(found->second);
    waiting.erase(found);
    for (const std::string& before : NamesInCondition(one.when)) {
      self(self, before);
    }
    conditional_.push_back(std::move(one));
  };
  while (!waiting.empty()) add(add, std::string(waiting.begin()->first));
}

std::set<std::string> HparamConditions::Deciding() const {
  std::set<std::string> names;
  for (const Conditional& one : conditional_) {
    for (std::string& name : NamesInCondition(one.when)) {
      names.insert(std::move(name));
    }
  }
  return names;
}

void HparamConditions::Apply(nlohmann::json& hparams) const {
  for (const Conditional& one : conditional_) {
    if (!Holds(one.when, hparams)) Leave(hparams, one.path, 0, one.otherwise);
  }
}

}  // namespace dtrain
