#include "engine/slots/slots.h"

#include <algorithm>
#include <limits>

#include "engine/base/error.h"
#include "engine/base/text.h"

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
    case SlotChoice::Kind::kMostFree:
      return GpuWithMostFreeMemory(gpus);
    case SlotChoice::Kind::kIds:
      return GpusById(choice.gpus, gpus);
  }
  return {};
}

SlotPlan PlanGpuSlots(std::vector<Gpu> gpus, std::int64_t cpus) {
  const auto count = static_cast<std::int64_t>(gpus.size());
  return {.count = count,
          .threads = std::max<std::int64_t>(cpus / count, 1),
          .gpus = std::move(gpus),
          .cpu_tokens_per_trial = 0,
          .cpu_tokens = cpus};
}

SlotPlan PlanCpuSlots(std::int64_t count, std::int64_t cpus) {
  const std::int64_t threads = std::max<std::int64_t>(cpus / count, 1);
  return {.count = count,
          .threads = threads,
          .cpu_tokens_per_trial = threads,
          .cpu_tokens = std::max(cpus, count)};
}

}  // namespace

SlotPlan PlanSlots(const ResourcesConfig& resources, std::vector<Gpu> gpus,
                   std::int64_t cpus, std::int64_t trials_at_once) {
  if (resources.all_slots || resources.slots_per_trial != 1) {
    Fail(
        "resources.slots_per_trial: a trial has exactly one slot as yet; set "
        "it to 1");
  }
  cpus = std::max<std::int64_t>(cpus, 1);
  const std::int64_t most =
      resources.max_slots.value_or(std::numeric_limits<std::int64_t>::max());
  gpus = ChosenGpus(resources.slots, std::move(gpus));
  SlotPlan plan;
  if (!gpus.empty()) {
    plan = PlanGpuSlots(std::move(gpus), cpus);
  } else if (resources.slots.cpu_slots > 0) {
    plan = PlanCpuSlots(resources.slots.cpu_slots, cpus);
  } else {
    // Fewer trials at once have more threads each.
    const std::int64_t wanted = trials_at_once > 0 ? trials_at_once : cpus;
    plan = PlanCpuSlots(
        std::max<std::int64_t>(std::min({cpus, wanted, most}), 1), cpus);
  }
  plan.count = std::max<std::int64_t>(std::min(plan.count, most), 1);
  return plan;
}

std::string SlotPlan::ToString() const {
  if (gpus.empty()) {
    return Counted(count, "CPU slot") + ", " + Counted(threads, "thread") +
           (count == 1 ? "" : " each");
  }
  std::vector<std::string> names;
  for (const Gpu& gpu : gpus) {
    if (std::find(names.begin(), names.end(), gpu.name) == names.end()) {
      names.push_back(gpu.name);
    }
  }
  return Counted(count, "GPU slot") + ": " + Join(names, ", ");
}

}  // namespace dtrain
