#include <algorithm>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include <poll.h>
#include <sys/file.h>

#include <nlohmann/json.hpp>

#include "engine/slots/slot_directory.h"
#include "engine/slots/slot_names.h"
#include "engine/slots/slot_queue.h"
#include "engine/slots/slots.h"

namespace dtrain {
namespace {

using nlohmann::json;

// Who holds the lock on that file, with what it says of itself.
std::optional<SlotHolder> HolderOf(const SlotDirectory& directory,
                                   const std::string& name) {
  const UniqueFd file = directory.OpenToRead(name);
  if (!file || ::flock(file.get(), LOCK_SH | LOCK_NB) == 0) return std::nullopt;
  SlotHolder holder;
  const json said = json::parse(ReadContent(file.get()), nullptr,
                                /*allow_exceptions=*/false);
  if (!said.is_object()) return holder;
  const auto text = [&said](const char* field) {
    const json value = said.value(field, json());
    return value.is_string() ? value.get<std::string>() : std::string();
  };
  const json pid = said.value("pid", json());
  holder.pid = pid.is_number_integer() ? pid.get<std::int64_t>() : 0;
  holder.trial = text("trial");
  holder.store = text("store");
  return holder;
}

bool IsSame(const SlotHolder& left, const SlotHolder& right) {
  return left.pid == right.pid && left.trial == right.trial &&
         left.store == right.store;
}

// The holders of its quarters, of which a trial may have several.
std::vector<SlotHolder> HoldersOfShares(const SlotDirectory& directory,
                                        std::int64_t gpu) {
  constexpr double kQuarter = 1.0 / kQuarters;
  std::vector<SlotHolder> holders;
  for (int quarter = 0; quarter < kQuarters; ++quarter) {
    auto holder = HolderOf(directory, QuarterFile(gpu, quarter));
    if (!holder) continue;
    const auto known = std::ranges::find_if(
        holders,
        [&holder](const SlotHolder& other) { return IsSame(other, *holder); });
    if (known == holders.end()) {
      holder->share = kQuarter;
      holders.push_back(*std::move(holder));
    } else {
      known->share += kQuarter;
    }
  }
  return holders;
}

SlotUse UseOf(const std::optional<SlotDirectory>& directory,
              const std::string& slot, const std::string& file) {
  SlotUse use{.slot = slot};
  if (!directory) return use;
  if (auto holder = HolderOf(*directory, file)) {
    use.holders.push_back(*std::move(holder));
  }
  return use;
}

SlotUse UseOfGpu(const std::optional<SlotDirectory>& directory,
                 std::int64_t index) {
  SlotUse use =
      UseOf(directory, "gpu:" + std::to_string(index), GpuFile(index));
  if (directory && use.free()) use.holders = HoldersOfShares(*directory, index);
  return use;
}

}  // namespace

double SlotUse::free_share() const {
  double share = 1;
  for (const SlotHolder& holder : holders) share -= holder.share;
  return share;
}

std::vector<SlotUse> SlotsInUse(const std::vector<Gpu>& gpus,
                                std::int64_t cpus) {
  const std::optional<SlotDirectory> directory = SlotDirectory::OpenExisting();
  // Looking at a lock takes it for a moment; under the queue's lock nobody is
  // disturbed. If that is held for long, its holder is stopped.
  std::optional<SlotQueue> queue;
  std::optional<UniqueFd> lock;
  if (directory) queue.emplace(*directory, Clock::System());
  for (int tries = 0; queue && !lock && tries < 20; ++tries) {
    if (tries > 0) ::poll(nullptr, 0, /*milliseconds=*/2);
    lock = queue->Lock();
  }
  std::vector<SlotUse> uses;
  uses.reserve(gpus.size() + static_cast<std::size_t>(cpus));
  for (const Gpu& gpu : gpus) uses.push_back(UseOfGpu(directory, gpu.index));
  for (std::int64_t cpu = 0; cpu < cpus; ++cpu) {
    uses.push_back(
        UseOf(directory, "cpu:" + std::to_string(cpu), CpuFile(cpu)));
  }
  return uses;
}

}  // namespace dtrain
