#include "cli/slot_choice.h"

namespace dtrain {

std::vector<std::string> SlotOverrides(const std::string& slots) {
  if (slots.empty()) return {};
  if (slots != "all") return {"resources.slots=" + slots};
  return {"resources.slots=auto", "resources.slots_per_trial=all"};
}

}  // namespace dtrain
