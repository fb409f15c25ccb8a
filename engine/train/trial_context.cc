#include "engine/train/trial_context.h"

#include <string>

#include "engine/base/error.h"
#include "engine/train/batch_length.h"

namespace dtrain {

const nlohmann::json* TrialContext::Find(const std::string& name) const {
  const nlohmann::json* map = &hparams();
  std::string rest = name;
  while (true) {
    // A name may hold dots itself.
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

std::int64_t TrialContext::batch_size() const {
  const std::int64_t global =
      GlobalBatchSize(hparams(), "the trial asks for its batch size");
  const std::int64_t size = global / world_size();
  if (size >= 1) return size;
  throw Error(ErrorKind::kFailed,
              "hyperparameter 'global_batch_size': " + std::to_string(global) +
                  " samples do not suffice for " +
                  std::to_string(world_size()) +
                  " ranks; use at least one for each");
}

}  // namespace dtrain
