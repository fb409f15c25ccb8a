#include "engine/app/disk_use.h"

#include <algorithm>
#include <charconv>
#include <set>
#include <system_error>
#include <vector>

#include "engine/base/rounding.h"
#include "engine/base/text.h"
#include "engine/store/file_tree.h"
#include "engine/store/store.h"

namespace dtrain {
namespace {

void Add(const DiskUse::Checkpoints& more, DiskUse::Checkpoints& sum) {
  sum.count += more.count;
  sum.bytes += more.bytes;
}

// "2 best 0.8 MB"; nothing for none.
void AddText(const DiskUse::Checkpoints& some, const std::string& name,
             std::vector<std::string>& parts) {
  if (some.count == 0) return;
  parts.push_back(std::to_string(some.count) + " " + name + " " +
                  FormatBytes(some.bytes));
}

nlohmann::json CountJson(const DiskUse::Checkpoints& some) {
  return {{"count", some.count}, {"bytes", some.bytes}};
}

std::int64_t LogBytes(const StoreLayout& layout, std::int64_t experiment) {
  std::int64_t bytes = TreeBytes(layout.RunnerLog(experiment));
  for (const std::string& name : NamesIn(layout.Trials(experiment))) {
    std::int64_t number = 0;
    const char* const end = name.data() + name.size();
    const auto [rest, error] = std::from_chars(name.data(), end, number);
    if (error != std::errc() || rest != end) continue;
    bytes += TreeBytes(layout.TrialLog({experiment, number}));
  }
  return bytes;
}

// Adds the checkpoints; returns the bytes of those in the store.
std::int64_t AddCheckpoints(const Store& store, std::int64_t experiment,
                            DiskUse& use) {
  const auto rows = store.Checkpoints(experiment);
  if (rows.empty()) return 0;
  std::set<std::string> best, latest;
  for (const TrialRow& trial : store.Trials(experiment, {.hparams = false})) {
    if (trial.best) best.insert(trial.best->checkpoint);
    latest.insert(trial.latest_checkpoint);
  }
  std::int64_t in_store = 0;
  for (const CheckpointRow& row : rows) {
    DiskUse::Checkpoints& kind = best.contains(row.uuid)     ? use.best
                                 : latest.contains(row.uuid) ? use.latest
                                                             : use.others;
    Add({.count = 1, .bytes = row.bytes}, kind);
    if (row.storage.empty()) in_store += row.bytes;
  }
  return in_store;
}

// "checkpoint_storage.save_trial_best (1), save_trial_latest (1)": the keys
// that keep checkpoints in this configuration; empty if there are none.
std::string PolicyKeys(const nlohmann::json& config) {
  std::vector<std::string> keys;
  const nlohmann::json policy =
      config.value("checkpoint_storage", nlohmann::json::object());
  for (const char* key :
       {"save_experiment_best", "save_trial_best", "save_trial_latest"}) {
    const auto found = policy.find(key);
    if (found == policy.end() || !found->is_number_integer()) continue;
    if (*found > 0)
      keys.push_back(std::string(key) + " (" + found->dump() + ")");
  }
  return keys.empty() ? "" : "checkpoint_storage." + Join(keys, ", ");
}

}  // namespace

DiskUse::Checkpoints DiskUse::checkpoints() const {
  Checkpoints all;
  for (const Checkpoints& some : {best, latest, others}) Add(some, all);
  return all;
}

std::int64_t DiskUse::bytes() const {
  return checkpoints().bytes + logs + context + other;
}

DiskUse& DiskUse::operator+=(const DiskUse& more) {
  Add(more.best, best);
  Add(more.latest, latest);
  Add(more.others, others);
  logs += more.logs;
  context += more.context;
  other += more.other;
  return *this;
}

std::string DiskUse::Text() const {
  std::vector<std::string> kinds;
  AddText(best, "best", kinds);
  AddText(latest, "latest", kinds);
  AddText(others, "other", kinds);
  const Checkpoints all = checkpoints();
  std::vector<std::string> parts;
  if (all.count > 0) {
    parts.push_back(CountText(all.count, "checkpoint") + " " +
                    FormatBytes(all.bytes) + " (" + Join(kinds, ", ") + ")");
  }
  const std::pair<std::int64_t, const char*> others_by_name[] = {
      {logs, "logs "}, {context, "context "}, {other, "other files "}};
  for (const auto& [size, name] : others_by_name) {
    if (size > 0) parts.push_back(name + FormatBytes(size));
  }
  return FormatBytes(bytes()) +
         (parts.empty() ? std::string() : ": " + Join(parts, ", "));
}

nlohmann::json DiskUse::Json() const {
  nlohmann::json all = CountJson(checkpoints());
  all["best"] = CountJson(best);
  all["latest"] = CountJson(latest);
  all["others"] = CountJson(others);
  return {{"bytes", bytes()},
          {"checkpoints", std::move(all)},
          {"logs", logs},
          {"context", context},
          {"other", other}};
}

DiskUse ReadDiskUse(const Store& store, std::int64_t experiment) {
  const StoreLayout& layout = store.layout();
  DiskUse use;
  const std::int64_t in_store = AddCheckpoints(store, experiment, use);
  use.logs = LogBytes(layout, experiment);
  use.context = TreeBytes(layout.Context(experiment));
  const std::int64_t known = in_store + use.logs + use.context;
  // Less if checkpoints are missing.
  use.other = std::max<std::int64_t>(
      TreeBytes(layout.Experiment(experiment)) - known, 0);
  return use;
}

std::int64_t DatabaseBytes(const Store& store) {
  const std::filesystem::path database = store.layout().Database();
  return TreeBytes(database) + TreeBytes(database.string() + "-wal");
}

std::string HowToKeepLess(const DiskUse& use, std::int64_t experiment,
                          const nlohmann::json& config) {
  if (use.checkpoints().count == 0) return "";
  const std::string id = std::to_string(experiment);
  const std::string one =
      "'dtrain checkpoint delete UUID' deletes one that "
      "'dtrain checkpoints " +
      id + "' lists";
  if (config.value("checkpoint_policy", "") == "all") {
    return "in the next search use checkpoint_policy: best; here " + one;
  }
  const std::string keys = PolicyKeys(config);
  return (keys.empty() ? "" : "in the next search lower " + keys + "; here ") +
         "'dtrain gc " + id +
         "' deletes those that the policy does not keep, " + one;
}

}  // namespace dtrain
