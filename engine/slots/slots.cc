#include "engine/slots/slots.h"

#include <algorithm>
#include <cmath>
#include <limits>
#include <utility>

#include "engine/base/error.h"
#include "engine/base/text.h"
#include "engine/slots/slot_names.h"

namespace dtrain {
namespace {

[[noreturn]] void Fail(const std::string& message) {
  throw Error(ErrorKind::kResources, message);
}

std::string Counted(std::int64_t count, const std::string& noun) {
  return std::to_string(count) + " " + noun + (count == 1 ? "" : "s");
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

std::vector<Gpu> RequireGpus(std::int64_t count, std::vector<Gpu> gpus) {
  if (static_cast<std::int64_t>(gpus.size()) >= count) return gpus;
  Fail("resources.slots: gpu:" + std::to_string(count) + " asks for " +
       Counted(count, "GPU") + " and " + Inventory(gpus) +
       "; use 'auto' or 'cpu'");
}

std::vector<Gpu> GpuWithMostFreeMemory(const std::vector<Gpu>& gpus) {
  if (gpus.empty()) {
    Fail("resources.slots: most_free needs a GPU and " + Inventory(gpus) +
         "; use 'auto' or 'cpu'");
  }
  return {*std::max_element(gpus.begin(), gpus.end(),
                            [](const Gpu& left, const Gpu& right) {
                              return left.free_bytes < right.free_bytes;
                            })};
}

std::vector<Gpu> ChosenGpus(const SlotChoice& choice, std::vector<Gpu> gpus) {
  switch (choice.kind) {
    case SlotChoice::Kind::kAuto:
      return gpus;
    case SlotChoice::Kind::kNone:
    case SlotChoice::Kind::kCpu:
      return {};
    case SlotChoice::Kind::kGpu:
      return RequireGpus(choice.gpu_slots, std::move(gpus));
    case SlotChoice::Kind::kMostFree:
      return GpuWithMostFreeMemory(gpus);
    case SlotChoice::Kind::kIds:
      return GpusById(choice.gpus, gpus);
  }
  return {};
}

// How many of `slots` a trial takes.
std::int64_t SlotsOfATrial(const ResourcesConfig& resources,
                           std::int64_t slots) {
  if (resources.all_slots) return slots;
  const auto wanted = static_cast<std::int64_t>(resources.slots_per_trial);
  if (wanted <= slots) return std::max<std::int64_t>(wanted, 1);
  Fail("resources.slots_per_trial: a trial takes " + std::to_string(wanted) +
       " slots, and there are " + std::to_string(slots) +
       "; lower it, or set resources.slots to cpu:" + std::to_string(wanted));
}

// As many trials as have room on each of `usable` of the GPUs.
SlotPlan PlanGpuShares(double share, std::vector<Gpu> gpus, std::int64_t usable,
                       std::int64_t cpus) {
  const std::int64_t each = kQuarters / QuartersOf(share);
  const std::int64_t all = each * static_cast<std::int64_t>(gpus.size());
  return {.count = usable * each,
          .slots_per_trial = 1,
          .threads = std::max<std::int64_t>(cpus / all, 1),
          .gpus = std::move(gpus),
          .cpu_tokens_per_trial = 0,
          .cpu_tokens = cpus,
          .gpu_share = share};
}

// At most `most` of the GPUs are used at a time, whichever are free.
SlotPlan PlanGpuSlots(const ResourcesConfig& resources, std::vector<Gpu> gpus,
                      std::int64_t most, std::int64_t cpus) {
  const auto slots = static_cast<std::int64_t>(gpus.size());
  const std::int64_t usable = std::max<std::int64_t>(std::min(slots, most), 1);
  if (!resources.all_slots && resources.slots_per_trial < 1) {
    return PlanGpuShares(resources.slots_per_trial, std::move(gpus), usable,
                         cpus);
  }
  const std::int64_t per_trial = SlotsOfATrial(resources, usable);
  return {.count = usable / per_trial,
          .slots_per_trial = per_trial,
          .threads = std::max<std::int64_t>(cpus / slots, 1),
          .gpus = std::move(gpus),
          .cpu_tokens_per_trial = 0,
          .cpu_tokens = cpus};
}

// How many CPU slots are of use: fewer trials at once have more threads each,
// and so have trials that leave no slot over.
std::int64_t UsefulCpuSlots(const ResourcesConfig& resources,
                            std::int64_t slots, std::int64_t trials_at_once) {
  if (resources.all_slots) return slots;
  const double per_trial = std::max(resources.slots_per_trial, 1.0);
  if (trials_at_once > 0) {
    const double wanted = static_cast<double>(trials_at_once) * per_trial;
    if (wanted < static_cast<double>(slots)) {
      slots = static_cast<std::int64_t>(wanted);
    }
  }
  const auto whole = static_cast<std::int64_t>(per_trial);
  return slots > whole ? slots - slots % whole : slots;
}

// A CPU slot has its share of the cores; `most` of them are used.
SlotPlan PlanCpuSlots(const ResourcesConfig& resources, std::int64_t slots,
                      std::int64_t most, std::int64_t cpus) {
  const std::int64_t usable = std::max<std::int64_t>(std::min(slots, most), 1);
  const std::int64_t per_trial = SlotsOfATrial(resources, usable);
  const std::int64_t share = std::max<std::int64_t>(cpus / slots, 1);
  return {.count = usable / per_trial,
          .slots_per_trial = per_trial,
          .threads = share,
          .cpu_tokens_per_trial = share * per_trial,
          .cpu_tokens = std::max(cpus, slots)};
}

// " of a quarter", for a slot that is no whole GPU.
std::string ShareText(double share) {
  switch (QuartersOf(share)) {
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

std::int64_t QuartersOf(double gpu_share) {
  return std::clamp<std::int64_t>(std::llround(gpu_share * kQuarters), 1,
                                  kQuarters);
}

SlotPlan PlanSlots(const ResourcesConfig& resources, std::vector<Gpu> gpus,
                   std::int64_t cpus, std::int64_t trials_at_once) {
  cpus = std::max<std::int64_t>(cpus, 1);
  std::int64_t most =
      resources.max_slots.value_or(std::numeric_limits<std::int64_t>::max());
  if (resources.slots.kind == SlotChoice::Kind::kGpu) {
    most = std::min(most, resources.slots.gpu_slots);
  }
  gpus = ChosenGpus(resources.slots, std::move(gpus));
  if (!gpus.empty()) {
    return PlanGpuSlots(resources, std::move(gpus), most, cpus);
  }
  std::int64_t slots = resources.slots.cpu_slots;
  if (slots == 0) {
    slots = UsefulCpuSlots(resources, std::min(cpus, most), trials_at_once);
  }
  return PlanCpuSlots(resources, slots, most, cpus);
}

std::string SlotPlan::ToString() const {
  const std::int64_t slots = count * slots_per_trial;
  const std::string share =
      slots_per_trial == 1
          ? ""
          : ", " + std::to_string(slots_per_trial) + " a trial";
  if (gpus.empty()) {
    return Counted(slots, "CPU slot") + share + ", " +
           Counted(threads, "thread") + (slots == 1 ? "" : " each");
  }
  std::vector<std::string> names;
  for (const Gpu& gpu : gpus) {
    if (std::find(names.begin(), names.end(), gpu.name) == names.end()) {
      names.push_back(gpu.name);
    }
  }
  return Counted(slots, "GPU slot") + ShareText(gpu_share) + share + ": " +
         Join(names, ", ");
}

}  // namespace dtrain
