#include "engine/train/early_stop.h"

#include <cmath>

#include "engine/base/json.h"
#include "engine/base/text.h"

namespace dtrain {

bool EarlyStop::Observe(double value) {
  const double gain = !best_                        ? INFINITY
                      : settings_.smaller_is_better ? *best_ - value
                                                    : value - *best_;
  // With min_delta 0 an equal value is no improvement either.
  if (!std::isnan(value) && gain > 0 && gain >= settings_.min_delta) {
    best_ = value;
    bad_ = 0;
    return false;
  }
  return ++bad_ >= settings_.patience;
}

std::string EarlyStop::Reason() const {
  return "'" + settings_.metric + "' did not improve " +
         (settings_.patience == 1
              ? "once"
              : std::to_string(settings_.patience) + " times in a row") +
         (settings_.min_delta > 0
              ? " by more than " + FormatNumber(settings_.min_delta)
              : "") +
         " (early_stopping)";
}

nlohmann::json EarlyStop::Save() const {
  nlohmann::json state = {{"bad", bad_}};
  if (best_) state["best"] = JsonNumber(*best_);
  return state;
}

void EarlyStop::Load(const nlohmann::json& state) {
  bad_ = state.at("bad").get<std::int64_t>();
  best_.reset();
  if (state.contains("best")) best_ = NumberFromJson(state["best"]);
}

}  // namespace dtrain
