#include "engine/app/system_use.h"

#include <utility>

#include "engine/base/json.h"
#include "engine/store/store.h"

namespace dtrain {
namespace {

using nlohmann::json;

// Returns a section of a record, empty if it is of an early version.
json Section(const json& record, const char* name) {
  const json* found = FindMember(record, name);
  return found != nullptr && found->is_object() ? *found : json::object();
}

bool HasWorkers(const ExperimentDetail& detail) {
  const json resources = Section(detail.config, "resources");
  return !resources.value("listen", json()).is_null() ||
         !resources.value("local", true);
}

}  // namespace

UseContext TrialUseContext(const ExperimentDetail& detail,
                           std::optional<ProfileReport> profile) {
  UseContext context{.profile = std::move(profile)};
  const json slots = Section(detail.provenance, "slots");
  if (slots.value("gpus", 0) == 0 && slots.contains("threads") &&
      !HasWorkers(detail)) {
    context.cores = slots.value("threads", 1.0) * slots.value("ranks", 1.0);
  }
  return context;
}

UseContext FindUseContext(const Store& store, const ExperimentDetail& detail) {
  UseContext context = TrialUseContext(detail, /*profile=*/{});
  const double count = Section(detail.provenance, "slots").value("count", 0.0);
  const double all = count * detail.row.seconds;
  if (HasWorkers(detail) || count <= 1 || all <= 0 || detail.row.trials <= 1) {
    return context;
  }
  double used = 0;
  for (const TrialRow& row :
       store.Trials(detail.row.id, {.hparams = false, .checkpoints = false})) {
    used += row.seconds;
  }
  if (used <= all) context.slots = used / all;
  return context;
}

}  // namespace dtrain
