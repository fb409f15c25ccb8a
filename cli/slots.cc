#include "engine/slots/slots.h"

#include <map>
#include <memory>

#include "cli/commands.h"
#include "cli/exit_code.h"
#include "cli/options.h"
#include "cli/output.h"
#include "engine/base/text.h"
#include "engine/report/format.h"

namespace dtrain {
namespace {

constexpr Duration kGpuSearchLimit = std::chrono::seconds(10);

struct SlotsOptions : TableOptions {};

nlohmann::json GpuJson(const Gpu& gpu) {
  return {{"index", gpu.index},
          {"uuid", gpu.uuid},
          {"name", gpu.name},
          {"memory_bytes", gpu.memory_bytes},
          {"free_bytes", gpu.free_bytes},
          {"driver", gpu.driver}};
}

nlohmann::json SlotJson(const SlotUse& use) {
  using nlohmann::json;
  return {{"slot", use.slot},
          {"free", use.free},
          {"trial", use.trial.empty() ? json(nullptr) : json(use.trial)},
          {"pid", use.pid == 0 ? json(nullptr) : json(use.pid)},
          {"store", use.store.empty() ? json(nullptr) : json(use.store)}};
}

void PrintSlotsJson(const std::vector<Gpu>& gpus, std::int64_t cpus,
                    const std::vector<SlotUse>& uses) {
  nlohmann::json gpu_array = nlohmann::json::array();
  for (const Gpu& gpu : gpus) gpu_array.push_back(GpuJson(gpu));
  nlohmann::json slots = nlohmann::json::array();
  for (const SlotUse& use : uses) slots.push_back(SlotJson(use));
  PrintJson({{"gpus", std::move(gpu_array)},
             {"cpus", cpus},
             {"slots", std::move(slots)}});
}

int Slots(const SlotsOptions& options, const GlobalOptions& globals) {
  std::string problem;
  const std::vector<Gpu> gpus = FindGpus(kGpuSearchLimit, &problem);
  const std::int64_t cpus = UsableCpus();
  const std::vector<SlotUse> uses = SlotsInUse(gpus, cpus);
  if (!problem.empty()) Say(globals, problem);
  if (options.json) {
    PrintSlotsJson(gpus, cpus, uses);
    return kExitDone;
  }
  std::map<std::string, std::string> devices;
  for (const Gpu& gpu : gpus) {
    devices["gpu:" + std::to_string(gpu.index)] =
        gpu.name + ", " + FormatBytes(gpu.free_bytes) + " of " +
        FormatBytes(gpu.memory_bytes) + " free";
  }
  Table table({{.name = "slot"},
               {.name = "state"},
               {.name = "trial"},
               {.name = "pid", .right = true},
               {.name = "store", .elastic = true},
               {.name = "device", .elastic = true}});
  for (const SlotUse& use : uses) {
    const auto device = devices.find(use.slot);
    const std::string state = use.free ? "free" : "in use";
    table.AddRow({use.slot,
                  Cell(state, state, use.free ? Tone::kGood : Tone::kWarning),
                  use.trial, use.pid == 0 ? "" : std::to_string(use.pid),
                  use.store, device == devices.end() ? "" : device->second});
  }
  PrintTable(table, options.format(), globals);
  return kExitDone;
}

}  // namespace

void SetUpSlots(CLI::App& app, Invocation& invocation) {
  auto options = std::make_shared<SlotsOptions>();
  AddTableOptions(app, *options);
  OnParsed(app, [options, &invocation] {
    invocation.run = [options, &invocation] {
      return Slots(*options, invocation.globals);
    };
  });
}

}  // namespace dtrain
