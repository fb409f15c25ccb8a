#include <optional>

#include <poll.h>
#include <sys/file.h>

#include <nlohmann/json.hpp>

#include "engine/slots/slot_directory.h"
#include "engine/slots/slot_queue.h"
#include "engine/slots/slots.h"

namespace dtrain {
namespace {

using nlohmann::json;

SlotUse UseOf(const std::optional<SlotDirectory>& directory,
              const std::string& kind, std::int64_t index) {
  SlotUse use{.slot = kind + ":" + std::to_string(index)};
  if (!directory) return use;
  const UniqueFd file =
      directory->OpenToRead(kind + "-" + std::to_string(index));
  if (!file) return use;
  use.free = ::flock(file.get(), LOCK_SH | LOCK_NB) == 0;
  if (use.free) return use;
  const json holder = json::parse(ReadContent(file.get()), nullptr,
                                  /*allow_exceptions=*/false);
  if (!holder.is_object()) return use;
  const auto text = [&holder](const char* name) {
    const json value = holder.value(name, json());
    return value.is_string() ? value.get<std::string>() : std::string();
  };
  const json pid = holder.value("pid", json());
  use.pid = pid.is_number_integer() ? pid.get<std::int64_t>() : 0;
  use.trial = text("trial");
  use.store = text("store");
  return use;
}

}  // namespace

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
  for (const Gpu& gpu : gpus)
    uses.push_back(UseOf(directory, "gpu", gpu.index));
  for (std::int64_t cpu = 0; cpu < cpus; ++cpu) {
    uses.push_back(UseOf(directory, "cpu", cpu));
  }
  return uses;
}

}  // namespace dtrain
