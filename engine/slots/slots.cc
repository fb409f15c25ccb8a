// A slot is a GPU, a share of one, or some CPUs. The plan depends on the
// machine and the configuration, never on the slots that other experiments use
// now: the number of threads per slot follows from it, and a result must not
// depend on the load. The second half of this file reads the slot directory,
// for `dtrain slots` and for the messages of waiting experiments.

#include "engine/slots/slots.h"

#include <algorithm>
#include <cmath>
#include <limits>
#include <memory>
#include <optional>
#include <set>
#include <string>
#include <thread>
#include <utility>
#include <vector>

#include <poll.h>
#include <sched.h>

#include <nlohmann/json.hpp>

#include "engine/base/error.h"
#include "engine/base/rounding.h"
#include "engine/base/text.h"
#include "engine/config/experiment_config.h"
#include "engine/os/file_lock.h"
#include "engine/slots/cgroup.h"
#include "engine/slots/shared_slots.h"
#include "engine/slots/slot_directory.h"

namespace dtrain {
namespace {

[[noreturn]] void Fail(const std::string& message) {
  throw Error(ErrorKind::kResources, message);
}

// "this machine has no GPU" or "... has GPU 0 (NVIDIA H200), ...".
std::string Inventory(const std::vector<Gpu>& gpus) {
  std::vector<std::string> names;
  names.reserve(gpus.size());
  for (const Gpu& gpu : gpus) {
    names.push_back("GPU " + std::to_string(gpu.index) + " (" + gpu.name + ")");
  }
  return "this machine has " + (names.empty() ? "no GPU" : Join(names, ", "));
}

std::vector<Gpu> GpusById(const std::vector<std::int64_t>& ids,
                          const std::vector<Gpu>& gpus) {
  std::vector<Gpu> chosen;
  for (const std::int64_t id : ids) {
    const auto has_id = [id](const Gpu& gpu) { return gpu.index == id; };
    const auto found = std::find_if(gpus.begin(), gpus.end(), has_id);
    if (found == gpus.end()) {
      Fail("resources.slots: there is no GPU " + std::to_string(id) + "; " +
           Inventory(gpus));
    }
    if (std::none_of(chosen.begin(), chosen.end(), has_id)) {
      chosen.push_back(*found);
    }
  }
  return chosen;
}

std::vector<Gpu> ChosenGpus(const SlotChoice& choice, std::vector<Gpu> gpus) {
  switch (choice.kind) {
    case SlotChoice::Kind::kAuto:
      return gpus;
    case SlotChoice::Kind::kNone:
    case SlotChoice::Kind::kCpu:
      return {};
    case SlotChoice::Kind::kGpu:
      if (std::ssize(gpus) >= choice.gpu_slots) return gpus;
      Fail("resources.slots: gpu:" + std::to_string(choice.gpu_slots) +
           " asks for " + CountText(choice.gpu_slots, "GPU") + " and " +
           Inventory(gpus) + "; use 'auto' or 'cpu'");
    case SlotChoice::Kind::kMaxFree:
      if (gpus.empty()) {
        Fail("resources.slots: most_free needs a GPU and " + Inventory(gpus) +
             "; use 'auto' or 'cpu'");
      }
      return {*std::ranges::max_element(gpus, {}, &Gpu::free_bytes)};
    case SlotChoice::Kind::kIds:
      return GpusById(choice.gpus, gpus);
  }
  return {};
}

// Returns the slots that a trial takes. `slots` are on this machine.
std::int64_t SlotsOfATrial(const ResourcesConfig& resources, std::int64_t slots,
                           bool in_parts) {
  if (resources.all_slots) return slots;
  const auto required = static_cast<std::int64_t>(resources.slots_per_trial);
  if (required <= slots || in_parts) return std::max<std::int64_t>(required, 1);
  Fail("resources.slots_per_trial: a trial takes " + std::to_string(required) +
       " slots, and there are " + std::to_string(slots) +
       "; lower it, or set resources.slots to cpu:" + std::to_string(required));
}

// Plans to use at most `most` of the GPUs at a time, whichever are free.
SlotPlan PlanGpuSlots(const ResourcesConfig& resources, std::vector<Gpu> gpus,
                      std::int64_t most, std::int64_t cpus, bool in_parts) {
  const auto slots = static_cast<std::int64_t>(gpus.size());
  const std::int64_t usable = std::max<std::int64_t>(std::min(slots, most), 1);
  if (!resources.all_slots && resources.slots_per_trial < 1) {
    // As many trials as fit on each of the GPUs.
    const double share = resources.slots_per_trial;
    const std::int64_t each = kQuarters / ToQuarters(share);
    // Threads are divided among all shares, used or not, since the number of
    // those used may change.
    return {.count = usable * each,
            .slots_per_trial = 1,
            .threads = std::max<std::int64_t>(cpus / (each * slots), 1),
            .gpus = std::move(gpus),
            .cpu_tokens_per_trial = 0,
            .cpu_tokens = cpus,
            .gpu_share = share};
  }
  const std::int64_t per_trial = SlotsOfATrial(resources, usable, in_parts);
  return {.count = usable / per_trial,
          .slots_per_trial = per_trial,
          .part_slots = usable < per_trial ? usable : 0,
          .threads = std::max<std::int64_t>(cpus / slots, 1),
          .gpus = std::move(gpus),
          .cpu_tokens_per_trial = 0,
          .cpu_tokens = cpus};
}

// NCCL connects GPUs, not MIG instances.
void RequireWholeGpus(const SlotPlan& plan) {
  const bool has_instance = std::ranges::any_of(
      plan.gpus, [](const Gpu& gpu) { return gpu.parent >= 0; });
  if (plan.slots_per_trial == 1 || !has_instance) return;
  Fail("resources.slots_per_trial: a trial takes " +
       std::to_string(plan.slots_per_trial) +
       " slots, and MIG instances cannot train one trial together; set it to "
       "1, or name whole GPUs in resources.slots");
}

// Returns the useful number of CPU slots: fewer slots mean more threads for
// each, so there are no more than the trials can fill.
std::int64_t UsefulCpuSlots(const ResourcesConfig& resources,
                            std::int64_t slots, std::int64_t trials_at_once) {
  if (resources.all_slots) return slots;
  const double per_trial = std::max(resources.slots_per_trial, 1.0);
  if (trials_at_once > 0) {
    const double required = static_cast<double>(trials_at_once) * per_trial;
    if (required < static_cast<double>(slots)) {
      slots = static_cast<std::int64_t>(required);
    }
  }
  const auto whole = static_cast<std::int64_t>(per_trial);
  // A rest that no trial fits into would only take threads from the others.
  return slots > whole ? slots - slots % whole : slots;
}

// Returns " of a quarter" and the like for a share of a GPU.
std::string ShareText(double share) {
  switch (ToQuarters(share)) {
    case 1:
      return " of a quarter";
    case 2:
      return " of a half";
    case 3:
      return " of three quarters";
    default:
      return "";
  }
}

}  // namespace

std::int64_t ToQuarters(double gpu_share) {
  return std::clamp<std::int64_t>(std::llround(gpu_share * kQuarters), 1,
                                  kQuarters);
}

SlotPlan PlanSlots(const ResourcesConfig& resources, std::vector<Gpu> gpus,
                   std::int64_t cpus, std::int64_t trials_at_once,
                   bool in_parts) {
  cpus = std::max<std::int64_t>(cpus, 1);
  std::int64_t most =
      resources.max_slots.value_or(std::numeric_limits<std::int64_t>::max());
  if (resources.slots.kind == SlotChoice::Kind::kGpu) {
    most = std::min(most, resources.slots.gpu_slots);
  }
  gpus = ChosenGpus(resources.slots, std::move(gpus));
  if (!gpus.empty()) {
    SlotPlan plan =
        PlanGpuSlots(resources, std::move(gpus), most, cpus, in_parts);
    RequireWholeGpus(plan);
    return plan;
  }
  std::int64_t slots = resources.slots.cpu_slots;
  if (slots == 0) {
    slots = UsefulCpuSlots(resources, std::min(cpus, most), trials_at_once);
  }
  // CPU slots, each with its share of the cores.
  const std::int64_t usable = std::max<std::int64_t>(std::min(slots, most), 1);
  const std::int64_t per_trial = SlotsOfATrial(resources, usable, in_parts);
  const std::int64_t share = std::max<std::int64_t>(cpus / slots, 1);
  return {.count = usable / per_trial,
          .slots_per_trial = per_trial,
          .part_slots = usable < per_trial ? usable : 0,
          .threads = share,
          .cpu_tokens_per_trial = share * per_trial,
          .cpu_tokens = std::max(cpus, slots)};
}

std::string SlotPlan::ToString() const {
  if (slots() == 0) return "the slots of workers";
  const std::string each = std::to_string(slots_per_trial);
  std::string share;
  if (part_slots > 0) {
    share = " for parts of trials of " + each + " slots";
  } else if (slots_per_trial > 1) {
    share = ", " + each + " a trial";
  }
  if (gpus.empty()) {
    return CountText(slots(), "CPU slot") + share + ", " +
           CountText(threads, "thread") + (slots() == 1 ? "" : " each");
  }
  std::vector<std::string> names;
  for (const Gpu& gpu : gpus) {
    if (std::find(names.begin(), names.end(), gpu.name) == names.end()) {
      names.push_back(gpu.name);
    }
  }
  return CountText(slots(), "GPU slot") + ShareText(gpu_share) + share + ": " +
         Join(names, ", ");
}

namespace {

// Machines with more than 1,024 CPUs need a larger set than cpu_set_t.
// The kernel refuses a set that is smaller than its own, so the size doubles
// until it fits.
std::int64_t CpusOfAffinityMask() {
  for (int cpus = 1024; cpus <= 1 << 20; cpus *= 2) {
    const std::unique_ptr<cpu_set_t, void (*)(cpu_set_t*)> set(
        CPU_ALLOC(cpus), [](cpu_set_t* memory) { CPU_FREE(memory); });
    const std::size_t size = CPU_ALLOC_SIZE(cpus);
    if (::sched_getaffinity(0, size, set.get()) == 0) {
      return CPU_COUNT_S(size, set.get());
    }
  }
  return std::thread::hardware_concurrency();
}

}  // namespace

std::int64_t UsableCpus() {
  std::int64_t cpus = CpusOfAffinityMask();
  for (const auto& cgroup : CgroupDirectories("cpu")) {
    cpus = std::min(cpus, CpuLimit(cgroup).value_or(cpus));
  }
  return std::max<std::int64_t>(cpus, 1);
}

namespace {

using nlohmann::json;

// Returns the holder of the lock on a slot's file, as written in it.
std::optional<SlotHolder> ReadHolder(const SlotDirectory& directory,
                                     const std::string& name) {
  FileLock file(directory.OpenToRead(name));
  // A slot is in use if its file is locked. What is written in the file says by
  // whom, and stays there when the holder has died.
  if (!file || file.TryLock(FileLock::Mode::kShared)) return std::nullopt;
  SlotHolder holder;
  const json said = json::parse(ReadContent(file.fd()), nullptr,
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
         left.store == right.store && left.user == right.user;
}

// Returns the holders of a GPU's quarters; a trial may hold several.
std::vector<SlotHolder> HoldersOfShares(const SlotDirectory& directory,
                                        std::int64_t gpu) {
  constexpr double kQuarter = 1.0 / kQuarters;
  std::vector<SlotHolder> holders;
  for (int quarter = 0; quarter < kQuarters; ++quarter) {
    auto holder = ReadHolder(directory, QuarterFile(gpu, quarter));
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

SlotUse ReadSlotUse(const std::optional<SlotDirectory>& directory,
                    const SharedSlots& users, const std::string& slot,
                    const std::string& file) {
  SlotUse use{.slot = slot};
  if (const auto user = users.FindHolder(file)) {
    use.holders.push_back({.user = UserText(*user)});
    return use;
  }
  if (!directory) return use;
  if (auto holder = ReadHolder(*directory, file)) {
    use.holders.push_back(*std::move(holder));
  }
  return use;
}

SlotUse UseOfGpu(const std::optional<SlotDirectory>& directory,
                 const SharedSlots& users, std::int64_t index) {
  SlotUse use = ReadSlotUse(directory, users, "gpu:" + std::to_string(index),
                            GpuFile(index));
  if (directory && use.free()) use.holders = HoldersOfShares(*directory, index);
  return use;
}

// Probing a lock takes it for a moment; under the queue's lock this disturbs no
// runner. If the queue stays locked, its holder is stopped.
std::optional<FileLock> LockForAWhile(const SlotQueue& queue) {
  std::optional<FileLock> lock;
  for (int tries = 0; !lock && tries < 20; ++tries) {
    if (tries > 0) ::poll(nullptr, 0, /*milliseconds=*/2);
    lock = queue.Lock();
  }
  return lock;
}

// Parses a ticket, without the holders; none for one of an earlier version.
std::optional<SlotWait> ParseTicket(const std::vector<std::string>& ticket) {
  if (ticket.empty()) return std::nullopt;
  const json said = json::parse(ticket.back(), nullptr,
                                /*allow_exceptions=*/false);
  try {
    if (!said.is_object()) return std::nullopt;
    return SlotWait{
        .trials = said.at("trials"),
        .store = said.at("store"),
        .needed = said.at("needed"),
        .slots = std::ssize(ticket) - 1,
        .are_cores = std::ranges::all_of(ticket.begin(), ticket.end() - 1,
                                         [](const std::string& file) {
                                           return file.starts_with(kCpuFiles);
                                         }),
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

}  // namespace

std::vector<std::string> SlotWait::HolderNames(
    const std::vector<SlotHolder>& all) const {
  std::vector<std::string> names;
  for (const SlotHolder& holder : all) {
    std::string name = holder.trial.empty() ? holder.user : holder.trial;
    if (name.empty()) {
      name = holder.pid == 0 ? "another program"
                             : "process " + std::to_string(holder.pid);
    } else if (holder.user.empty() && holder.store != store) {
      name += " of " + holder.store;
    }
    names.push_back(std::move(name));
  }
  return names;
}

std::string SlotWait::ToString() const {
  const auto list = [](std::vector<std::string> names) {
    constexpr std::size_t kMaxNamed = 4;
    if (names.size() > kMaxNamed) {
      const std::size_t more = names.size() - kMaxNamed;
      names.resize(kMaxNamed);
      names.back() += " and " + std::to_string(more) + " more";
    }
    return Join(names, ", ");
  };
  std::string text = "waiting for " + FormatNumber(needed) + " of " +
                     CountText(slots, are_cores ? "core" : "slot");
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
  const SharedSlots users = SharedSlots::Open();
  std::vector<SlotWait> waits;
  std::vector<std::set<std::string>> required;  // the slots of each
  for (const std::vector<std::string>& ticket : queue.Tickets()) {
    std::optional<SlotWait> wait = ParseTicket(ticket);
    if (!wait) continue;
    const std::set<std::string> slots(ticket.begin(), ticket.end() - 1);
    for (std::size_t i = 0; i + 1 < ticket.size(); ++i) {
      const std::string& file = ticket[i];
      if (const auto user = users.FindHolder(file)) {
        AddHolder({.user = UserText(*user)}, *wait);
        continue;
      }
      for (int quarter = 0; quarter < kQuarters; ++quarter) {
        auto part =
            ReadHolder(*directory, file + "." + std::to_string(quarter));
        if (part) AddHolder(*std::move(part), *wait);
      }
      // The file of a shared GPU has no holder written in it.
      auto whole = ReadHolder(*directory, file);
      if (whole && (whole->pid != 0 || wait->holders.empty())) {
        AddHolder(*std::move(whole), *wait);
      }
    }
    // Tickets are in the order of their turns, so who stands before this one
    // and waits for one of its slots is served first.
    for (std::size_t i = 0; i < waits.size(); ++i) {
      const bool same_slots = std::ranges::any_of(
          slots, [&](const auto& slot) { return required[i].contains(slot); });
      if (!same_slots || waits[i].trials.empty()) continue;
      wait->ahead.push_back(
          {.trial = waits[i].trials.front(), .store = waits[i].store});
    }
    waits.push_back(*std::move(wait));
    required.push_back(slots);
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
  std::optional<FileLock> lock;
  if (directory)
    lock = LockForAWhile(queue.emplace(*directory, Clock::System()));
  std::vector<SlotUse> uses;
  uses.reserve(gpus.size() + static_cast<std::size_t>(cpus));
  const SharedSlots users = SharedSlots::Open();
  for (const Gpu& gpu : gpus) {
    uses.push_back(UseOfGpu(directory, users, gpu.index));
  }
  for (std::int64_t cpu = 0; cpu < cpus; ++cpu) {
    uses.push_back(ReadSlotUse(directory, users, "cpu:" + std::to_string(cpu),
                               CpuFile(cpu)));
  }
  return uses;
}

}  // namespace dtrain
