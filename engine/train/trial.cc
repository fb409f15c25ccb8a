#include "engine/train/trial.h"

#include <algorithm>
#include <string>

#include "engine/base/error.h"
#include "engine/image/transforms.h"

namespace dtrain {

torch::Tensor Trial::Predict(const Batch&) { return {}; }

torch::Tensor Trial::Features(const Batch&) { return {}; }

std::optional<ImageSteps> Trial::ImagePreparation() { return std::nullopt; }

void Trial::Load(const std::map<std::string, torch::Tensor>& state) {
  if (state.empty()) return;
  throw Error(ErrorKind::kFailed,
              "the checkpoint has state of the trial's own, and the trial has "
              "no Load for it");
}

namespace {

// Appends the names of all values that are not maps, each with `prefix`.
void AppendNames(const nlohmann::json& map, const std::string& prefix,
                 std::vector<std::string>& names) {
  for (const auto& [name, value] : map.items()) {
    if (value.is_object()) {
      AppendNames(value, prefix + name + '.', names);
    } else {
      names.push_back(prefix + name);
    }
  }
}

}  // namespace

// A trial that takes the whole map is assumed to read everything in it.
const nlohmann::json& TrialContext::hparams() const {
  const nlohmann::json& all = AllHparams();
  for (const auto& [name, value] : all.items()) RecordRead(name);
  return all;
}

std::vector<std::string> TrialContext::UnreadHparams() const {
  std::vector<std::string> names;
  AppendNames(AllHparams(), "", names);
  // Reading a map reads everything in it.
  std::erase_if(names, [&](const std::string& name) {
    return std::ranges::any_of(read_, [&](const std::string& read) {
      return name == read || name.starts_with(read + '.');
    });
  });
  return names;
}

const nlohmann::json* TrialContext::Find(const std::string& name) const {
  RecordRead(name);
  const nlohmann::json* map = &AllHparams();
  std::string rest = name;
  while (true) {
    // A name may contain dots itself.
    if (const auto whole = map->find(rest); whole != map->end()) {
      return &*whole;
    }
    const auto dot = rest.find('.');
    if (dot == std::string::npos) return nullptr;
    const auto nested = map->find(rest.substr(0, dot));
    if (nested == map->end() || !nested->is_object()) return nullptr;
    map = &*nested;
    rest.erase(0, dot + 1);
  }
}

std::int64_t internal::GlobalBatchSize(const nlohmann::json& hparams,
                                       const char* why) {
  const auto found = hparams.find("global_batch_size");
  if (found == hparams.end()) {
    throw Error(ErrorKind::kFailed,
                "hyperparameter 'global_batch_size' is missing; " +
                    std::string(why) + ": add it under 'hyperparameters'");
  }
  if (!found->is_number_integer() || !IsInRange<std::int64_t>(*found) ||
      found->get<std::int64_t>() < 1) {
    throw Error(ErrorKind::kFailed,
                "hyperparameter 'global_batch_size': expected an integer of "
                "at least 1, got " +
                    found->dump());
  }
  return found->get<std::int64_t>();
}

std::int64_t TrialContext::batch_size() const {
  RecordRead("global_batch_size");
  const std::int64_t global = internal::GlobalBatchSize(
      AllHparams(), "the trial asks for its batch size");
  const std::int64_t size = global / world_size();
  if (size >= 1) return size;
  throw Error(ErrorKind::kFailed,
              "hyperparameter 'global_batch_size': " + std::to_string(global) +
                  " samples do not suffice for " +
                  std::to_string(world_size()) +
                  " ranks; use at least one for each");
}

}  // namespace dtrain
