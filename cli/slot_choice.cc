#include "cli/slot_choice.h"

#include "engine/base/error.h"

namespace dtrain {

std::vector<std::string> SlotOverrides(const std::string& slots) {
  if (slots.empty()) return {};
  if (slots.find_first_not_of("0123456789") == slots.npos) {
    throw Error(ErrorKind::kUsage, "--slots: '" + slots +
                                       "' may be a number of slots or a GPU; "
                                       "write gpu:" +
                                       slots + " for so many GPUs, [" + slots +
                                       "] for that GPU, or cpu:" + slots +
                                       " for so many CPU slots");
  }
  if (slots != "all") return {"resources.slots=" + slots};
  return {"resources.slots=auto", "resources.slots_per_trial=all"};
}

}  // namespace dtrain
