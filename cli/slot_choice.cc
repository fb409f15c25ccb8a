#include "cli/slot_choice.h"

#include <string_view>

#include "engine/base/error.h"

namespace dtrain {

std::vector<std::string> SlotOverrides(const std::string& slots) {
  if (slots.empty()) return {};
  const std::size_t first = slots.find_first_not_of(" \t");
  const std::size_t last = slots.find_last_not_of(" \t");
  const std::string word =
      first == slots.npos ? "" : slots.substr(first, last - first + 1);
  static constexpr std::string_view kDigits = "0123456789abcdefABCDEFxo_+-";
  const bool is_number = !word.empty() &&
                         word.find_first_not_of(kDigits) == word.npos &&
                         word.find_first_of("0123456789") <= 1;
  if (is_number) {
    const bool plain = word.find_first_not_of("0123456789") == word.npos &&
                       word.find_first_not_of('0') != word.npos;
    const std::string number = plain ? word : "N";
    throw Error(ErrorKind::kUsage,
                "--slots: '" + slots + "' is ambiguous; write gpu:" + number +
                    " for " + number + " GPUs, [" + number + "] for GPU " +
                    number + ", or cpu:" + number + " for " + number +
                    " CPU slots");
  }
  if (slots != "all") return {"resources.slots=" + slots};
  return {"resources.slots=auto", "resources.slots_per_trial=all"};
}

}  // namespace dtrain
