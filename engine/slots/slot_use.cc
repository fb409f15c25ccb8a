#include <algorithm>
#include <optional>
#include <set>
#include <string>
#include <utility>
#include <vector>

#include <poll.h>
#include <sys/file.h>

#include <nlohmann/json.hpp>

#include "engine/base/text.h"
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

// Looking at a lock takes it for a moment; under the queue's lock nobody is
// disturbed. If that is held for long, its holder is stopped.
std::optional<UniqueFd> LockForAWhile(const SlotQueue& queue) {
  std::optional<UniqueFd> lock;
  for (int tries = 0; !lock && tries < 20; ++tries) {
    if (tries > 0) ::poll(nullptr, 0, /*milliseconds=*/2);
    lock = queue.Lock();
  }
  return lock;
}

// What a ticket says, without the holders; none if it is of an earlier version.
std::optional<SlotWait> WaitOf(const std::vector<std::string>& ticket) {
  if (ticket.empty()) return std::nullopt;
  const json said = json::parse(ticket.back(), nullptr,
                                /*allow_exceptions=*/false);
  try {
    if (!said.is_object()) return std::nullopt;
    return SlotWait{.trials = said.at("trials"),
                    .store = said.at("store"),
                    .needed = said.at("needed"),
                    .slots = std::ssize(ticket) - 1,
                    .since = Timestamp(said.at("since").get<std::int64_t>())};
  } catch (const json::exception&) {
    return std::nullopt;
  }
}

void AddHolder(SlotHolder holder, SlotWait& wait) {
  const auto same = [&holder](const SlotHolder& other) {
    return IsSame(other, holder);
  };
  if (std::ranges::none_of(wait.holders, same)) {
    wait.holders.push_back(std::move(holder));
  }
}

// Who holds the file of a slot, or quarters of it.
void AddHolders(const SlotDirectory& directory, const std::string& file,
                SlotWait& wait) {
  for (int quarter = 0; quarter < kQuarters; ++quarter) {
    auto part = HolderOf(directory, file + "." + std::to_string(quarter));
    if (part) AddHolder(*std::move(part), wait);
  }
  // The file of a GPU that is shared says nothing.
  auto whole = HolderOf(directory, file);
  if (whole && (whole->pid != 0 || wait.holders.empty())) {
    AddHolder(*std::move(whole), wait);
  }
}

}  // namespace

std::vector<std::string> SlotWait::NamesOf(
    const std::vector<SlotHolder>& all) const {
  std::vector<std::string> names;
  for (const SlotHolder& holder : all) {
    std::string name = holder.trial;
    if (name.empty()) {
      name = holder.pid == 0 ? "another program"
                             : "process " + std::to_string(holder.pid);
    } else if (holder.store != store) {
      name += " of " + holder.store;
    }
    names.push_back(std::move(name));
  }
  return names;
}

std::string SlotWait::ToString() const {
  const auto list = [](std::vector<std::string> names) {
    constexpr std::size_t kMostNamed = 4;
    if (names.size() > kMostNamed) {
      const std::size_t more = names.size() - kMostNamed;
      names.resize(kMostNamed);
      names.back() += " and " + std::to_string(more) + " more";
    }
    return Join(names, ", ");
  };
  std::string text = "waiting for " + FormatNumber(needed) + " of " +
                     std::to_string(slots) + (slots == 1 ? " slot" : " slots");
  if (!holders.empty()) text += ", held by " + list(HeldBy());
  if (!ahead.empty()) {
    text +=
        ", after " + list(After()) +
        (ahead.size() == 1 ? ", which waits longer" : ", which wait longer");
  }
  return text;
}

std::vector<SlotWait> SlotWaits() {
  const std::optional<SlotDirectory> directory = SlotDirectory::OpenExisting();
  if (!directory) return {};
  const SlotQueue queue(*directory, Clock::System());
  const auto lock = LockForAWhile(queue);
  std::vector<SlotWait> waits;
  std::vector<std::set<std::string>> wanted;  // the slots of each
  for (const std::vector<std::string>& ticket : queue.Tickets()) {
    std::optional<SlotWait> wait = WaitOf(ticket);
    if (!wait) continue;
    const std::set<std::string> slots(ticket.begin(), ticket.end() - 1);
    for (std::size_t i = 0; i + 1 < ticket.size(); ++i) {
      AddHolders(*directory, ticket[i], *wait);
    }
    for (std::size_t i = 0; i < waits.size(); ++i) {
      const bool same_slots = std::ranges::any_of(
          slots, [&](const auto& slot) { return wanted[i].contains(slot); });
      if (!same_slots || waits[i].trials.empty()) continue;
      wait->ahead.push_back(
          {.trial = waits[i].trials.front(), .store = waits[i].store});
    }
    waits.push_back(*std::move(wait));
    wanted.push_back(slots);
  }
  return waits;
}

double SlotUse::free_share() const {
  double share = 1;
  for (const SlotHolder& holder : holders) share -= holder.share;
  return share;
}

std::vector<SlotUse> SlotsInUse(const std::vector<Gpu>& gpus,
                                std::int64_t cpus) {
  const std::optional<SlotDirectory> directory = SlotDirectory::OpenExisting();
  std::optional<SlotQueue> queue;
  std::optional<UniqueFd> lock;
  if (directory)
    lock = LockForAWhile(queue.emplace(*directory, Clock::System()));
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
