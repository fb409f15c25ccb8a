#include "engine/app/system_use.h"

#include "engine/base/json.h"
#include "engine/store/store.h"

namespace dtrain {

UseContext FindUseContext(const Store& store, const ExperimentDetail& detail,
                          std::optional<std::int64_t> trial) {
  using nlohmann::json;
  UseContext context;
  // Records of early versions lack them.
  const auto find = [](const json& record, const char* name) {
    const json* found = FindMember(record, name);
    return found != nullptr && found->is_object() ? *found : json::object();
  };
  const json slots = find(detail.provenance, "slots");
  const json resources = find(detail.config, "resources");
  const bool has_workers = !resources.value("listen", json()).is_null() ||
                           !resources.value("local", true);
  if (slots.value("gpus", 0) == 0 && !has_workers &&
      slots.contains("threads")) {
    context.cores = slots.value("threads", 1.0) * slots.value("ranks", 1.0);
  }
  if (trial) {
    context.profile = store.Profile({detail.row.id, *trial});
    return context;
  }
  const double count = slots.value("count", 0.0);
  const double all = count * detail.row.seconds;
  if (has_workers || count <= 1 || all <= 0 || detail.row.trials <= 1) {
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
