#include "engine/slots/slots.h"

#include <map>
#include <memory>

#include "cli/command_line.h"
#include "cli/commands.h"
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

nlohmann::json TextOrNull(const std::string& text) {
  return text.empty() ? nlohmann::json(nullptr) : nlohmann::json(text);
}

nlohmann::json HolderJson(const SlotHolder& holder) {
  using nlohmann::json;
  return {{"trial", TextOrNull(holder.trial)},
          {"pid", holder.pid == 0 ? json(nullptr) : json(holder.pid)},
          {"store", TextOrNull(holder.store)},
          {"user", TextOrNull(holder.user)}};
}

// The first holder of a slot is shown beside the slot.
nlohmann::json SlotJson(const SlotUse& use) {
  nlohmann::json slot =
      HolderJson(use.free() ? SlotHolder{} : use.holders.front());
  slot["slot"] = use.slot;
  slot["free"] = use.free();
  slot["free_share"] = use.free_share();
  slot["holders"] = nlohmann::json::array();
  for (const SlotHolder& holder : use.holders) {
    nlohmann::json object = HolderJson(holder);
    object["share"] = holder.share;
    slot["holders"].push_back(std::move(object));
  }
  return slot;
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

// Adds a row for each holder, and one for the free share.
void AddRows(const SlotUse& use, const std::string& device, Table& table) {
  for (const SlotHolder& holder : use.holders) {
    table.AddRow({use.slot, Cell("in use", "in use", Tone::kWarning),
                  FormatNumber(holder.share), holder.trial,
                  holder.pid == 0 ? "" : std::to_string(holder.pid),
                  holder.user.empty() ? holder.store : holder.user, device});
  }
  if (use.free_share() <= 0) return;
  table.AddRow({use.slot, Cell("free", "free", Tone::kGood),
                FormatNumber(use.free_share()), "", "", "", device});
}

Table SlotsTable(const std::vector<Gpu>& gpus,
                 const std::vector<SlotUse>& uses) {
  std::map<std::string, std::string> devices;
  for (const Gpu& gpu : gpus) {
    devices["gpu:" + std::to_string(gpu.index)] =
        gpu.name + ", " + FormatBytes(gpu.free_bytes) + " of " +
        FormatBytes(gpu.memory_bytes) + " free";
  }
  Table table({{.name = "slot"},
               {.name = "state"},
               {.name = "share", .right = true},
               {.name = "trial"},
               {.name = "pid", .right = true},
               {.name = "store", .elastic = true},
               {.name = "device", .elastic = true}});
  for (const SlotUse& use : uses) AddRows(use, devices[use.slot], table);
  return table;
}

int Slots(const SlotsOptions& options, const GlobalOptions& globals) {
  const GpuSearch search = FindGpus(kGpuSearchLimit);
  const std::vector<Gpu>& gpus = search.gpus;
  const std::int64_t cpus = UsableCpus();
  const std::vector<SlotUse> uses = SlotsInUse(gpus, cpus);
  if (!search.problem.empty()) PrintNotice(globals, search.problem);
  if (!search.model_problem.empty()) {
    PrintNotice(globals, "warning: " + search.model_problem +
                             "; programs can use the GPUs");
  }
  for (const std::string& warning : search.warnings) {
    if (warning != search.problem) PrintNotice(globals, "warning: " + warning);
  }
  if (options.json) {
    PrintSlotsJson(gpus, cpus, uses);
  } else {
    PrintTable(SlotsTable(gpus, uses), options.format(), globals);
  }
  return kExitDone;
}

}  // namespace

CommandRun SetUpSlots(CLI::App& app) {
  auto options = std::make_shared<SlotsOptions>();
  AddTableOptions(app, *options);
  SetHelp(app,
          {.exits = {{kExitDone}, {kExitUsage}},
           .examples = {{"Show which GPUs and CPUs are free", "dtrain slots"},
                        {"Print the free slots in a script",
                         "dtrain slots --json | jq -r '.slots[] | "
                         "select(.free) | .slot'"}}});
  return RunWith(Slots, options);
}

}  // namespace dtrain
